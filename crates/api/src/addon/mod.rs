//! `addon.open-cluster-management.io`: what runs on clusters beside their agent, and how it gets there.
//!
//! API servers store v1alpha1; OCM's controllers read and write v1beta1.

pub mod conversion;
pub mod token;
pub mod v1alpha1;
pub mod v1beta1;
