//! `addon.open-cluster-management.io`: add-ons and their configurations.
//!
//! API servers store v1alpha1; OCM's controllers read and write v1beta1.

pub mod conversion;
pub mod token;
pub mod v1alpha1;
pub mod v1beta1;
