//! One pure controller per file; [`hub`] and [`agent`] register them.
//!
//! A controller is thin: it reads the [`View`](reconcile::View) into the input of an engine and turns the engine's
//! answer into a [`Plan`](reconcile::Plan).

pub mod addon_config;
mod addon_deploy;
mod addon_install;
mod addon_lease;
mod addons;
pub mod agents;
mod bootstrap;
mod cluster;
mod cluster_lease;
mod cluster_status;
pub mod clusterset;
mod clusterset_binding;
pub mod config_repo;
mod csr;
mod lease;
pub mod placement;
mod report;
mod work;

use reconcile::Register;

/// Registers the controllers of the hub, in the order data flows through them.
pub fn hub(register: &mut impl Register) {
    register.add::<config_repo::ConfigRepoController>();
    register.add::<bootstrap::Bootstrap>();
    register.add::<csr::Csr>();
    register.add::<cluster::Cluster>();
    register.add::<cluster_lease::ClusterLease>();
    register.add::<clusterset::ClusterSetController>();
    register.add::<clusterset_binding::ClusterSetBinding>();
    register.add::<placement::PlacementController>();
    register.add::<addon_install::AddonInstall>();
    register.add::<addon_config::AddonConfig>();
    register.add::<addon_deploy::AddonDeploy>();
    register.add::<report::ReportController>();
}

/// Registers the controllers of the spoke agent.
pub fn agent(register: &mut impl Register) {
    register.add::<lease::Lease>();
    register.add::<cluster_status::ClusterStatus>();
    register.add::<addon_lease::AddonLease>();
    register.add::<work::Work>();
}
