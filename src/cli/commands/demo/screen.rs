//! The output of the demo: scrolling lines and, on a terminal, a table of the fleet below them that is redrawn.

use std::io;

use tokio::time::Instant;

use super::progress::FleetProgress;
use crate::cli::output::{Style, Ui};

pub(super) struct Screen<'a> {
    ui: &'a mut Ui,
    start: Instant,
}

impl<'a> Screen<'a> {
    pub(super) fn new(ui: &'a mut Ui) -> Self {
        Self { ui, start: Instant::now() }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.ui.is_terminal()
    }

    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        let heading = self.ui.style().bold(&format!("== {text}"));
        self.print(&heading)
    }

    pub(super) fn log_file(&mut self) -> io::Result<()> {
        match self.ui.log_file.clone() {
            Some(path) => self.heading(&format!("log of all parts in {}", path.display())),
            None => Ok(()),
        }
    }

    /// Prints a line with the elapsed time.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.print(&format!("{:>6.1}s  {text}", self.start.elapsed().as_secs_f32()))
    }

    /// Prints an indented line, for example of a document.
    pub(super) fn plain(&mut self, text: &str) -> io::Result<()> {
        self.print(&format!("   {text}"))
    }

    /// Draws the table on a terminal.
    pub(super) fn table(&mut self, fleet: &FleetProgress, addon: &str) -> io::Result<()> {
        if self.is_terminal() { self.ui.draw(&fleet.table(addon, self.style())) } else { Ok(()) }
    }

    pub(super) fn erase(&mut self) -> io::Result<()> {
        self.ui.erase()
    }

    pub(super) fn style(&self) -> Style {
        self.ui.style()
    }

    fn print(&mut self, line: &str) -> io::Result<()> {
        self.erase()?;
        self.ui.line(line)
    }
}
