//! Parses the command line and dispatches.

use std::process::ExitCode;

fn main() -> ExitCode {
    wheelwright::cli::main()
}
