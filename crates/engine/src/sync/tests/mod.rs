//! Tests of whole commits on a hub.

mod desired;
mod hub;
mod ownership;
mod plan;
mod properties;
