//! One file a command, and the dispatch to them.

mod agent;
mod completion;
mod crds;
mod demo;
mod explain;
mod hub;
mod operator;
mod render;
mod simulate;

use super::{CommandResult, output::Ui};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Operator(operator::Args),
    Agent(agent::Args),
    Hub(hub::Args),
    Render(render::Args),
    Explain(explain::Args),
    Simulate(simulate::Args),
    Crds(crds::Args),
    Completion(completion::Args),
}

/// Runs a command to its end.
pub(crate) fn run(command: Command, ui: &mut Ui) -> CommandResult {
    match command {
        Command::Demo(args) => demo::run(&args, ui),
        Command::Operator(args) => operator::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Hub(args) => hub::run(&args, ui),
        Command::Render(args) => render::run(&args, ui),
        Command::Explain(args) => explain::run(&args, ui),
        Command::Simulate(args) => simulate::run(args, ui),
        Command::Crds(args) => crds::run(&args, ui),
        Command::Completion(args) => completion::run(&args, ui),
    }
}

/// Runs an asynchronous command; only such commands pay for a runtime.
fn block_on<T>(
    future: impl Future<Output = Result<T, super::CommandError>>,
) -> Result<T, super::CommandError> {
    // The TLS provider is chosen once, before the first connection (rustls panics where it has two to choose from).
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
