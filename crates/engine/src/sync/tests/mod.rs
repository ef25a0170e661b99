//! Tests of whole commits on a hub.

mod argo;
mod deletions;
mod desired;
mod fields;
mod hub;
mod inventory;
mod ownership;
mod plan;
mod properties;
mod stages;
