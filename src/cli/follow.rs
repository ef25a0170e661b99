//! Follows a hub by watches, for the commands that show it live.

use kube::Client;

use crate::shell::{Shell, ShellOptions};
use api::names::GITOPS_GROUP;
use controllers::hub::overview::OverviewController;
use controllers::hub::placement::PlacementExplanationController;
use reconcile::{Register as _, Scope};

/// Returns a shell that keeps the objects of an overview, and writes nothing.
pub(super) fn follow(hub: Client) -> Shell {
    Shell::new(options(hub), |register| register.add::<OverviewController>())
}

/// Returns a shell as [`follow`] does, which keeps what decides placements too.
pub(super) fn follow_with_placements(hub: Client) -> Shell {
    Shell::new(options(hub), |register| {
        register.add::<OverviewController>();
        register.add::<PlacementExplanationController>();
    })
}

fn options(hub: Client) -> ShellOptions {
    ShellOptions {
        scope: Scope::Rollouts,
        // A hub with the programs of OCM alone is shown as well.
        optional_group: Some(GITOPS_GROUP),
        ..ShellOptions::new(hub)
    }
}
