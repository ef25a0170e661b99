//! The output of the demo: lines that scroll and, on a terminal, a table of the fleet below them that is
//! drawn over.

use std::io;

use tokio::time::Instant;

use super::progress::Fleet;
use crate::cli::output::Ui;

pub(super) struct Screen<'a> {
    ui: &'a mut Ui,
    start: Instant,
    /// Lines of the table that is on the screen.
    drawn: usize,
    shown: Fleet,
}

impl<'a> Screen<'a> {
    pub(super) fn new(ui: &'a mut Ui) -> Self {
        Self { ui, start: Instant::now(), drawn: 0, shown: Fleet::default() }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.ui.is_terminal()
    }

    /// Prints a heading of the story.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        let bold = if self.is_terminal() { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        self.print(&format!("{}== {text}{}", bold.0, bold.1))
    }

    /// Prints a line with its time.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.print(&format!("{:>6.1}s  {text}", self.start.elapsed().as_secs_f32()))
    }

    /// Prints a line of a document.
    pub(super) fn plain(&mut self, text: &str) -> io::Result<()> {
        self.print(&format!("   {text}"))
    }

    /// Draws the table on a terminal when it has changed.
    pub(super) fn table(&mut self, fleet: &Fleet) -> io::Result<()> {
        if !self.is_terminal() || (self.drawn > 0 && self.shown == *fleet) {
            return Ok(());
        }
        self.shown = fleet.clone();
        self.erase()?;
        let table = fleet.table(true);
        self.drawn = table.lines().count();
        self.ui.text(table)
    }

    /// Removes the table.
    pub(super) fn erase(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.drawn);
        if lines > 0 { self.ui.text(format!("\u{1b}[{lines}A\u{1b}[J")) } else { Ok(()) }
    }

    fn print(&mut self, line: &str) -> io::Result<()> {
        self.erase()?;
        self.ui.line(line)
    }
}
