//! The agent as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    wheelwright::cli::agent_main()
}
