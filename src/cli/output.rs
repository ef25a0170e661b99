//! Everything a command prints.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

/// Where a command prints to.
pub struct Ui {
    out: Box<dyn Write + Send>,
    terminal: bool,
}

/// `--output` of commands that print one result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl Ui {
    /// Prints to standard output.
    pub fn stdio() -> Self {
        let terminal =
            io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { out: Box::new(io::stdout()), terminal }
    }

    /// Whether the output is a terminal, which can show colours and be drawn over.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints text as it is.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.out.write_all(text.as_ref().as_bytes())?;
        self.out.flush()
    }

    /// Prints a line.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", line.as_ref())
    }

    /// Prints a line to standard error, for people.
    ///
    /// # Errors
    /// When standard error is closed.
    pub fn error(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        self.out.flush()?;
        writeln!(io::stderr(), "{}", line.as_ref())
    }

    /// Prints a value as indented JSON.
    ///
    /// # Errors
    /// When the output is closed.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)
    }
}
