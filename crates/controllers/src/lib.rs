//! The controllers of the hub and the spoke agent. [`hub`](hub()) and [`agent`](agent()) register them.
//!
//! A controller is one file or folder in `hub/` or `agent/`, and one line below. It is thin: it reads the
//! [`View`](reconcile::View) into the input of an engine and turns the engine's answer into a
//! [`Plan`](reconcile::Plan). Several controllers share the files next to these folders.

mod addon_creation;
mod addon_deletion;
mod addon_reads;
pub mod addon_removal;
pub mod agent;
pub mod agent_identity;
pub mod decryption;
mod fleets;
mod followed;
pub mod hub;
mod multimap;
mod placement_reads;
pub mod placement_rollout;
pub mod policy_change;
pub mod random_values;
pub mod registration_operator;
mod rollout_driver;
mod rollout_events;
mod rollout_policy;
pub mod sealing;
pub mod undo;
mod unreadable;

use reconcile::Register;

/// Maximum length of a message for people. None of our messages reaches it, and it limits the size of an overview
/// with 10,000 clusters to 40 MB, whatever the agents report.
pub const MESSAGE: usize = 4_096;

/// Registers the controllers of the hub, in the order in which data flows through them.
pub fn hub(register: &mut impl Register) {
    register.add::<hub::config_repo::ConfigRepoController>();
    register.add::<hub::bootstrap::BootstrapController>();
    register.add::<hub::csr::CsrController>();
    register.add::<hub::cluster::ClusterController>();
    register.add::<hub::cluster_lease::ClusterLeaseController>();
    register.add::<hub::cluster_defaults::ClusterDefaultsController>();
    register.add::<hub::clusterset::ClusterSetController>();
    register.add::<hub::clusterset_binding::ClusterSetBindingController>();
    register.add::<hub::managed_namespaces::ManagedNamespacesController>();
    register.add::<hub::placement::PlacementController>();
    register.add::<hub::cluster_decision::ClusterDecisionController>();
    register.add::<hub::addon_install::AddOnInstallController>();
    register.add::<hub::addon_annotation::AddOnAnnotationController>();
    register.add::<hub::addon_config::AddOnConfigController>();
    register.add::<hub::addon_deploy::AddOnDeployController>();
    register.add::<hub::addon_deploy::AddOnTakeoverController>();
    register.add::<hub::addon_health::AddOnHealthController>();
    register.add::<hub::addon_feature::AddOnFeatureController>();
    register.add::<hub::addon_token::AddOnTokenController>();
    register.add::<hub::replica_set::ReplicaSetController>();
    register.add::<hub::policy_status::PolicyStatusController>();
    register.add::<hub::work_ttl::WorkTtlController>();
    register.add::<hub::report::ReportController>();
    register.add::<hub::commit_status::CommitStatusController>();
    register.add::<hub::notification::NotificationController>();
}

/// Registers the controller that publishes clusters as ClusterProfiles, a kind that not every hub defines.
pub fn cluster_profiles(register: &mut impl Register) {
    register.add::<hub::cluster_profile::ClusterProfileController>();
}

/// Registers the controllers that need permissions in Argo CD's namespace.
pub fn argo_cd(register: &mut impl Register) {
    register.add::<hub::cluster_secret::ClusterSecretController>();
}

/// Registers the controller that wraps Applications of Argo CD in works. Anyone who can write Applications can
/// then reach clusters.
pub fn argo_cd_pull_model(register: &mut impl Register) {
    register.add::<hub::argo_pull::ArgoPullController>();
}

/// Registers the controllers of the spoke agent.
pub fn agent(register: &mut impl Register) {
    register.add::<agent::lease::LeaseController>();
    register.add::<agent::cluster_status::ClusterStatusController>();
    register.add::<agent::managed_namespace::ManagedNamespaceController>();
    register.add::<agent::addon_lease::AddOnLeaseController>();
    register.add::<agent::work::WorkController>();
    register.add::<agent::orphan::OrphanController>();
}

/// Registers the controllers of a registration operator on a managed cluster.
pub fn klusterlet(register: &mut impl Register) {
    register.add::<registration_operator::klusterlet::KlusterletController>();
}

/// Registers the controllers of a registration operator on a hub.
pub fn cluster_manager(register: &mut impl Register) {
    register.add::<registration_operator::cluster_manager::ClusterManagerController>();
}
