//! Follows a hub by watches, for the commands that show it live.

use kube::Client;

use crate::shell::{Shell, ShellOptions};
use controllers::hub::overview::OverviewController;
use reconcile::{Register as _, Scope};

/// Returns a shell that keeps the objects of an overview, and writes nothing.
pub(super) fn follow(hub: Client) -> Shell {
    let options = ShellOptions { scope: Scope::Rollouts, ..ShellOptions::new(hub) };
    Shell::new(options, |register| register.add::<OverviewController>())
}
