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

/// The size and the colours of a text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether it has colours.
    pub colour: bool,
    /// Characters of a line.
    pub columns: usize,
    /// Lines that a screen shows.
    pub rows: usize,
}

impl Style {
    /// Text for a file: no colours, and lines of a usual width.
    pub const PLAIN: Self = Self { colour: false, columns: 100, rows: usize::MAX };

    /// Formats text in a colour, which is an ANSI code.
    pub fn colour(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Formats text in bold.
    pub fn bold(self, text: &str) -> String {
        self.colour("1", text)
    }

    /// Returns the number of rows that a text takes.
    pub fn height(self, text: &str) -> usize {
        text.lines().map(|line| self.rows_of(line)).sum()
    }

    /// Returns the number of rows of a line: a long one takes several.
    fn rows_of(self, line: &str) -> usize {
        shown_width(line).div_ceil(self.columns.max(1)).max(1)
    }

    /// Cuts the lines of a text to the width of the screen, so that each is one row of it. When the screen
    /// becomes wider, some terminals join the rows of a line, and others do not.
    pub fn cut(self, text: &str) -> String {
        let cut = |line| {
            let mut left = self.columns;
            let shown = characters(line).filter(move |(_, is_shown)| {
                let fits = !is_shown || left > 0;
                left = left.saturating_sub(usize::from(*is_shown));
                fits
            });
            shown.map(|(character, _)| character).chain(['\n']).collect::<String>()
        };
        text.lines().map(cut).collect()
    }

    /// Cuts a text that is overwritten later to the screen, because nothing above it can be overwritten. The
    /// last row is for the cursor.
    pub fn fit(self, text: &str) -> String {
        if self.height(text) < self.rows {
            return text.to_owned();
        }
        // Another row is for the note.
        let mut left = self.rows.saturating_sub(2);
        let fits = |line: &&str| {
            let rest = left.checked_sub(self.rows_of(line));
            left = rest.unwrap_or_default();
            rest.is_some()
        };
        let kept: Vec<&str> = text.lines().take_while(fits).collect();
        let note = format!("and {} more lines", text.lines().count() - kept.len());
        let note = format!("{note:.0$}\n", self.columns);
        kept.into_iter().map(|line| format!("{line}\n")).chain([note]).collect()
    }
}

/// Returns the number of characters that a terminal shows of a line.
fn shown_width(line: &str) -> usize {
    characters(line).filter(|(_, is_shown)| *is_shown).count()
}

/// Returns the characters of a line, and whether a terminal shows them: all but the escape sequences of
/// colours, which end with an `m`.
fn characters(line: &str) -> impl Iterator<Item = (char, bool)> {
    let mut hidden = false;
    line.chars().map(move |character| {
        let is_shown = !hidden && character != '\u{1b}';
        hidden = character == '\u{1b}' || (hidden && character != 'm');
        (character, is_shown)
    })
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

    /// Returns the style for this output: with colours on a terminal unless `NO_COLOR` is set, and as large
    /// as the terminal is now.
    pub fn style(&self) -> Style {
        if !self.terminal {
            return Style::PLAIN;
        }
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let size = terminal_size::terminal_size();
        let (columns, rows) = size.map_or((Style::PLAIN.columns, Style::PLAIN.rows), |(width, height)| {
            (width.0.into(), height.0.into())
        });
        Style { colour, columns, rows }
    }

    /// Replaces the content of a terminal by a page. Another output gets the page after the one before it.
    ///
    /// # Errors
    /// Fails when the output is closed.
    pub fn redraw(&mut self, page: &str) -> io::Result<()> {
        let clear = if self.terminal { "\u{1b}[H\u{1b}[2J" } else { "" };
        self.text(format!("{clear}{}", self.style().fit(page)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_overwritten_is_cut_to_the_screen() {
        let line = "\u{1b}[32m✓\u{1b}[0m cluster-1 v1";
        let text = format!("{line}\n").repeat(40);
        for (columns, rows, height, shown) in
            [(80, 41, 40, 40), (80, 40, 39, 38), (80, 10, 9, 8), (7, 10, 9, 4), (80, 1, 1, 0), (0, 0, 1, 0)]
        {
            let style = Style { colour: true, columns, rows };
            let fitted = style.fit(&text);
            let copies = fitted.matches("cluster-1").count();
            assert_eq!((style.height(&fitted), copies), (height, shown), "{columns} x {rows}: {fitted}");
        }
        let style = Style { colour: true, columns: 80, rows: 3 };
        assert_eq!(style.fit(&text), format!("{line}\nand 39 more lines\n"));
        assert_eq!(Style::PLAIN.fit(&text), text);
        let style = Style { colour: true, columns: 3, rows: 3 };
        assert_eq!(style.cut(&format!("{line}\n")), "\u{1b}[32m✓\u{1b}[0m c\n");
    }
}
