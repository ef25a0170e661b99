//! The commands, one per file. A new command needs a file, a `mod` line and a line in the list.

mod accept;
mod addon;
pub(super) mod agent;
pub(super) mod agent_flags;
mod clusterset;
mod completion;
mod crds;
mod create;
mod dashboard;
mod demo;
mod doctor;
mod events;
mod explain;
mod get;
mod hub;
mod install;
mod join;
mod join_stage;
mod logs;
mod mcp;
mod migrate;
mod operator;
mod plan;
mod policies;
mod registration_operator;
mod render;
mod repo;
mod rollout;
mod simulate;
mod status;
mod switch_hub;
mod taint;
mod top;
mod uninstall;
mod unjoin;
mod upgrade;
mod version;
mod work;

// `wheelwright pause` is short for `wheelwright rollout pause`, to stop a fleet quickly.
use self::rollout::{pause, resume};
use super::{CommandResult, output::Ui};

/// Declares the subcommands: each has `Args` and `run` in its module.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident => $module:ident,)*) => {
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name($module::Args),)*
        }

        pub(crate) fn run(command: &Command, ui: &mut Ui) -> CommandResult {
            match command {
                $(Command::$name(args) => $module::run(args, ui),)*
            }
        }
    };
}

commands! {
    Demo => demo,
    Operator => operator,
    Agent => agent,
    RegistrationOperator => registration_operator,
    Hub => hub,
    #[command(visible_alias = "init")]
    Install => install,
    Upgrade => upgrade,
    Uninstall => uninstall,
    Get => get,
    Create => create,
    Join => join,
    Accept => accept,
    Unjoin => unjoin,
    SwitchHub => switch_hub,
    Clusterset => clusterset,
    Addon => addon,
    Work => work,
    Taint => taint,
    Migrate => migrate,
    Render => render,
    Plan => plan,
    Status => status,
    Top => top,
    Dashboard => dashboard,
    Rollout => rollout,
    Pause => pause,
    Resume => resume,
    Repo => repo,
    Explain => explain,
    Events => events,
    Logs => logs,
    Doctor => doctor,
    Mcp => mcp,
    Simulate => simulate,
    Crds => crds,
    Policies => policies,
    Completion => completion,
    Version => version,
}
