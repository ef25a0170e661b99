//! The error of a command, with a hint for the user.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use crate::shell;

/// The error of a command.
#[derive(Debug)]
pub struct CommandError {
    /// The failed attempt and its causes, outermost first.
    pub(super) error: anyhow::Error,
    /// The hint for the user.
    pub(super) hint: Option<String>,
}

impl CommandError {
    /// Returns a user error with a hint.
    pub fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), hint: Some(hint.into()) }
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { error: error.into(), hint: None }
    }
}

/// The result of a command: an exit code or an error.
pub type CommandResult = Result<ExitCode, CommandError>;

/// Returns the exit code of a process after printing an error with its hint.
pub(super) fn exit_code(result: CommandResult) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(CommandError { error, .. }) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(CommandError { error, hint }) => {
            let mut stderr = std::io::stderr().lock();
            // If standard error is closed, there is nowhere to report that.
            let _ = writeln!(stderr, "error: {}", shell::with_causes(error.as_ref()));
            if let Some(hint) = hint.as_deref().or(hint_about_file(&error)) {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns a hint for a file that cannot be read or written.
fn hint_about_file(error: &anyhow::Error) -> Option<&'static str> {
    match io_kinds(error).next()? {
        ErrorKind::NotFound => {
            Some("check the path; a path without a leading / starts in the current directory")
        }
        ErrorKind::PermissionDenied => Some("check who may read and write the file and its directory"),
        _ => None,
    }
}

/// Returns true if the reader of the output has closed it: `wheelwright … | head` is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    io_kinds(error).any(|kind| kind == ErrorKind::BrokenPipe)
}

/// Returns the kinds of the I/O errors among the causes of an error, outermost first.
fn io_kinds(error: &anyhow::Error) -> impl Iterator<Item = ErrorKind> {
    error.chain().filter_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()))
}
