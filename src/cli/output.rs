//! The output of all commands.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use serde::Serialize;

/// The terminal or file that a command prints to.
pub struct Ui {
    out: Box<dyn Write + Send>,
    terminal: bool,
    /// The file of the log lines; without one they go to standard error.
    pub log_file: Option<PathBuf>,
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

/// The width and the colours of a text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether it has colours.
    pub colour: bool,
    /// Characters of a line.
    pub columns: usize,
}

impl Style {
    /// Text for a file: no colours, and lines of a usual width.
    pub const PLAIN: Self = Self { colour: false, columns: 100 };

    /// Formats text in a colour, which is an ANSI code.
    pub fn colour(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Formats text in bold.
    pub fn bold(self, text: &str) -> String {
        self.colour("1", text)
    }
}

impl Ui {
    /// Prints to standard output.
    pub fn stdio() -> Self {
        let terminal =
            io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { out: Box::new(io::stdout()), terminal, log_file: None }
    }

    /// Returns whether the output is a terminal, which shows colours and can be overwritten.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the style for this output: with colours on a terminal unless `NO_COLOR` is set, and as wide as
    /// the terminal is now.
    pub fn style(&self) -> Style {
        if !self.terminal {
            return Style::PLAIN;
        }
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let columns =
            terminal_size::terminal_size().map_or(Style::PLAIN.columns, |(width, _)| width.0.into());
        Style { colour, columns }
    }

    /// Replaces the content of a terminal by a page. Another output gets the page after the one before it.
    ///
    /// # Errors
    /// Fails when the output is closed.
    pub fn redraw(&mut self, page: &str) -> io::Result<()> {
        let clear = if self.terminal { "\u{1b}[H\u{1b}[2J" } else { "" };
        self.text(format!("{clear}{page}"))
    }

    /// Prints text as it is.
    ///
    /// # Errors
    /// Fails when the output is closed.
    pub fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.out.write_all(text.as_ref().as_bytes())?;
        self.out.flush()
    }

    /// Prints a line.
    ///
    /// # Errors
    /// Fails when the output is closed.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", line.as_ref())
    }

    /// Prints a line to standard error, for people.
    ///
    /// # Errors
    /// Fails when standard error is closed.
    pub fn error(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        self.out.flush()?;
        writeln!(io::stderr(), "{}", line.as_ref())
    }

    /// Prints a value as indented JSON.
    ///
    /// # Errors
    /// Fails when the output is closed.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)
    }
}
