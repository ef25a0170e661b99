//! A world to try things in: what clusters would do, without clusters.

pub mod workload;
