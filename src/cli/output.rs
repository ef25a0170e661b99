//! The output of all commands.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

/// The terminal or file that a command prints to.
pub struct Ui {
    out: Box<dyn Write + Send>,
    terminal: bool,
    /// The last text drawn by [`Ui::draw`].
    drawn: String,
    /// The log file; if `None`, logs go to standard error.
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

/// The colors and the size of the output.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// True if the output has colors.
    pub colour: bool,
    /// The number of characters per line.
    pub columns: usize,
    /// The number of lines on the screen.
    pub rows: usize,
}

impl Style {
    /// The style for a file: no colors, and lines of a usual width.
    pub const PLAIN: Self = Self { colour: false, columns: 100, rows: usize::MAX };

    /// Formats text in a colour, given as an ANSI code.
    pub fn colour(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Formats text in bold.
    pub fn bold(self, text: &str) -> String {
        self.colour("1", text)
    }

    /// Returns the number of screen rows that a text needs.
    fn height(self, text: &str) -> usize {
        text.lines().map(|line| self.rows_of(line)).sum()
    }

    /// Returns the number of screen rows that a line needs; a long line wraps.
    fn rows_of(self, line: &str) -> usize {
        shown_width(line).div_ceil(self.columns.max(1)).max(1)
    }

    /// Wraps the lines of a text at the width of the screen, so that each is one row. When the screen becomes
    /// wider, some terminals unwrap rows that they wrapped themselves, and others do not.
    fn fold(self, text: &str) -> String {
        let mut folded = String::new();
        for line in text.lines() {
            let mut column = 0;
            for (character, is_shown) in characters(line) {
                if is_shown && column == self.columns.max(1) {
                    folded.push('\n');
                    column = 0;
                }
                column += usize::from(is_shown);
                folded.push(character);
            }
            folded.push('\n');
        }
        folded
    }

    /// Truncates a text to the height of the screen, because rows that have scrolled off cannot be overwritten.
    /// The last row is for the cursor.
    fn fit(self, text: &str) -> String {
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
        let lines: Vec<&str> = text.lines().take_while(fits).collect();
        let note = format!("and {} more lines", text.lines().count() - lines.len());
        let note = format!("{note:.0$}\n", self.columns);
        lines.into_iter().map(|line| format!("{line}\n")).chain([note]).collect()
    }
}

/// Returns the number of visible characters in a line.
fn shown_width(line: &str) -> usize {
    characters(line).filter(|(_, is_shown)| *is_shown).count()
}

/// Returns the characters of a line, each with true if it is visible. The escape sequences of colors, which end
/// with an `m`, are not.
fn characters(line: &str) -> impl Iterator<Item = (char, bool)> {
    let mut hidden = false;
    line.chars().map(move |character| {
        let is_shown = !hidden && character != '\u{1b}';
        hidden = character == '\u{1b}' || (hidden && character != 'm');
        (character, is_shown)
    })
}

/// Aligns rows in columns, as kubectl does. The last cell of a row may have any length.
pub fn table<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.collect();
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| shown_width(cell)).max();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let padding = width(at).unwrap_or_default() + 3 - shown_width(cell);
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', padding));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the time since `time` in its largest unit, such as `5m`.
pub fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

impl Ui {
    /// Prints to standard output.
    pub fn stdio() -> Self {
        let terminal =
            io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { out: Box::new(io::stdout()), terminal, drawn: String::new(), log_file: None }
    }

    /// Returns true if the output is a terminal, which shows colors and can be overwritten.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the style for this output: colors on a terminal unless `NO_COLOR` is set, and the current size of
    /// the terminal.
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

    /// On a terminal, replaces the text of the previous call; otherwise appends the text. Does nothing if the text
    /// is unchanged.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn draw(&mut self, text: &str) -> io::Result<()> {
        let style = self.style();
        let text = if self.terminal { style.fit(&style.fold(text)) } else { text.to_owned() };
        if text == self.drawn {
            return Ok(());
        }
        self.erase()?;
        self.text(&text)?;
        self.drawn = text;
        Ok(())
    }

    /// Erases the drawn text on a terminal. If the terminal has become narrower, a line may occupy several rows.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn erase(&mut self) -> io::Result<()> {
        let rows = self.style().height(&std::mem::take(&mut self.drawn));
        if self.terminal && rows > 0 { self.text(format!("\u{1b}[{rows}A\u{1b}[J")) } else { Ok(()) }
    }

    /// Prints text unchanged.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn text(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.out.write_all(text.as_ref().as_bytes())?;
        self.out.flush()
    }

    /// Prints a line.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn line(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", line.as_ref())
    }

    /// Prints a line to standard error.
    ///
    /// # Errors
    /// Standard error is closed.
    pub fn error(&mut self, line: impl AsRef<str>) -> io::Result<()> {
        self.out.flush()?;
        writeln!(io::stderr(), "{}", line.as_ref())
    }

    /// Prints a value as indented JSON.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value)?;
        writeln!(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows =
            [["NAME", "READY", "MESSAGE"], ["a/fleet", "True", ""], ["b", "\u{1b}[31mFalse\u{1b}[0m", "no"]];
        let text = table(rows.map(|row| row.map(str::to_owned)).into_iter());
        assert_eq!(
            text,
            "NAME      READY   MESSAGE\na/fleet   True\nb         \u{1b}[31mFalse\u{1b}[0m   no\n"
        );
    }

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
    }

    #[test]
    fn a_line_that_is_wider_than_the_screen_is_broken_into_rows() {
        let line = "\u{1b}[32m✓\u{1b}[0m cluster-1\n\nv1\n";
        for (columns, folded) in [
            (11, line),
            (10, "\u{1b}[32m✓\u{1b}[0m cluster-\n1\n\nv1\n"),
            (4, "\u{1b}[32m✓\u{1b}[0m cl\nuste\nr-1\n\nv1\n"),
        ] {
            let style = Style { colour: true, columns, rows: 24 };
            assert_eq!(style.fold(line), folded);
            assert_eq!(style.height(folded), folded.lines().count(), "each is one row");
        }
        assert_eq!(Style { columns: 0, ..Style::PLAIN }.fold("ab\n"), "a\nb\n");
    }
}
