//! Follows a hub by watches, for the commands that show it live.

use kube::Client;

use crate::shell::{Selection, Shell, ShellOptions};
use controllers::hub::overview::OverviewController;
use reconcile::{Register as _, Scope};

/// Returns a shell that keeps the objects of an overview, and writes nothing.
pub(super) fn follow(hub: Client) -> Shell {
    let options = ShellOptions {
        hub,
        spoke: None,
        scope: Scope::Everything,
        controllers: Selection::default(),
        push: None,
        commit_status: None,
        leadership: None,
        attempts: None,
    };
    Shell::new(options, |register| register.add::<OverviewController>())
}
