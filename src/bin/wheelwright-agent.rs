//! The program of agents.

use std::process::ExitCode;

fn main() -> ExitCode {
    wheelwright::cli::agent_main()
}
