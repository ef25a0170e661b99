//! Watches a hub for the commands that show live state.

use kube::Client;

use crate::shell::{Shell, ShellOptions};
use api::names::GITOPS_GROUP;
use controllers::hub::overview::OverviewController;
use controllers::hub::placement::PlacementExplanationController;
use reconcile::{Register as _, Scope};

/// Returns a shell that caches the objects of an overview and writes nothing.
pub(super) fn follow(hub: Client) -> Shell {
    Shell::new(options(hub), |register| register.add::<OverviewController>())
}

/// Returns a shell like [`follow`] that also caches the objects that decide placements.
pub(super) fn follow_with_placements(hub: Client) -> Shell {
    Shell::new(options(hub), |register| {
        register.add::<OverviewController>();
        register.add::<PlacementExplanationController>();
    })
}

fn options(hub: Client) -> ShellOptions {
    ShellOptions {
        scope: Scope::Rollouts,
        // A hub with only OCM's components is supported too.
        optional_group: Some(GITOPS_GROUP),
        ..ShellOptions::new(hub)
    }
}
