//! The trace as a picture, with a row for each cluster, a color for each state, and time from left to right.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::trace::{GroupName, LEGEND, Trace};
use crate::svg::{escaped, marks};
use object::duration;

const WIDTH: f64 = 960.0;
const LINE: f64 = 16.0;
const TOP: f64 = 40.0;
/// The typical width of a letter.
const LETTER: f64 = 6.2;

impl Trace {
    /// Returns the trace as an SVG document.
    pub fn svg(&self) -> String {
        let end = self.cut.or_else(|| self.rows.last().map(|row| row.at)).unwrap_or(self.start);
        let mut lines = BTreeMap::<(&GroupName, &str), Vec<(Timestamp, char)>>::new();
        for row in &self.rows {
            for (group, clusters) in &row.clusters {
                for (name, letter) in clusters {
                    lines.entry((group, name)).or_default().push((row.at, *letter));
                }
            }
        }
        let labels: Vec<String> =
            lines.keys().map(|(group, name)| format!("{} {name}", group.name())).collect();
        let left = labels.iter().map(|label| wide(label) + 12.0).fold(60.0, f64::max);
        let seconds = end.duration_since(self.start).as_secs_f64().max(1.0);
        let after_start = |at: Timestamp| at.duration_since(self.start);
        let x = |at: Timestamp| left + (WIDTH - left - 20.0) * after_start(at).as_secs_f64() / seconds;
        #[expect(clippy::cast_precision_loss, reason = "a picture of 2^52 clusters is not drawn")]
        let y = |at: usize| TOP + LINE * at as f64;
        let (bottom, height) = (y(lines.len()), y(lines.len()) + 30.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        );
        let mut at = 4.0;
        for (_, word, color) in LEGEND {
            let _ =
                writeln!(svg, "<rect x=\"{at:.1}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{color}\"/>");
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"17\">{word}</text>", at + 14.0);
            at += 14.0 + wide(word) + 14.0;
        }
        for mark in marks(self.start, end) {
            let (at, when) = (x(mark), duration::format(after_start(mark)));
            let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{bottom:.1}\" stroke=\"#d0d7de\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{when}</text>",
                bottom + 16.0
            );
        }
        for (at, (label, states)) in labels.iter().zip(lines.values()).enumerate() {
            let label = escaped(label);
            let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">{label}</text>", y(at) + 11.0);
            for (begin, until, letter) in intervals(states, end) {
                let Some((_, word, color)) = LEGEND.iter().find(|(known, _, _)| *known == letter) else {
                    continue;
                };
                let (from, wide) = (x(begin), (x(until) - x(begin)).max(1.0));
                let (top, high, since) = (y(at), LINE - 3.0, duration::format(after_start(begin)));
                let _ = write!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high}\" fill=\"{color}\">"
                );
                let _ = writeln!(svg, "<title>{label}: {word} from {since}</title></rect>");
            }
        }
        svg + "</svg>\n"
    }
}

/// Returns the approximate width of a text.
#[expect(clippy::cast_precision_loss, reason = "no name has 2^52 letters")]
fn wide(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Returns the intervals during which each state lasted.
fn intervals(states: &[(Timestamp, char)], end: Timestamp) -> Vec<(Timestamp, Timestamp, char)> {
    let mut intervals: Vec<(Timestamp, Timestamp, char)> = Vec::new();
    for (at, letter) in states {
        if let Some(last) = intervals.last_mut() {
            last.1 = *at;
        }
        if intervals.last().is_none_or(|last| last.2 != *letter) {
            intervals.push((*at, *at, *letter));
        }
    }
    if let Some(last) = intervals.last_mut() {
        last.1 = end;
    }
    intervals
}
