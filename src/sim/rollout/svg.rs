//! The trace as a picture: a line a cluster, a colour a state, time from left to right.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::trace::{GroupName, LEGEND, Trace};
use crate::engine::rollout::duration;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 160.0;
const LINE: f64 = 16.0;
const TOP: f64 = 40.0;

impl Trace {
    /// The trace as an SVG document.
    pub fn svg(&self) -> String {
        let end = self.cut.or_else(|| self.rows.last().map(|row| row.at)).unwrap_or(self.start);
        let span = end.duration_since(self.start).as_secs_f64().max(1.0) * 1.02;
        let x = |at: Timestamp| LEFT + (WIDTH - LEFT) * at.duration_since(self.start).as_secs_f64() / span;
        let mut lines = BTreeMap::<(&GroupName, &str), Vec<(Timestamp, char)>>::new();
        for row in &self.rows {
            for (group, clusters) in &row.clusters {
                for (name, letter) in clusters {
                    lines.entry((group, name)).or_default().push((row.at, *letter));
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a picture of 2^52 clusters is not drawn")]
        let y = |at: usize| TOP + LINE * at as f64;
        let height = y(lines.len()) + 30.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        );
        let mut left = LEFT;
        for (_, word, colour) in LEGEND {
            let _ = writeln!(svg, "<rect x=\"{left}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{colour}\"/>");
            let _ = writeln!(svg, "<text x=\"{}\" y=\"17\">{word}</text>", left + 14.0);
            left += 80.0;
        }
        for (at, ((group, name), states)) in lines.iter().enumerate() {
            let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">{}</text>", y(at) + 11.0, escaped(&format!("{} {name}", group.name())));
            for (begin, until, letter) in spells(states, end) {
                let colour = LEGEND.iter().find(|(known, _, _)| *known == letter).map_or("#000", |(_, _, colour)| colour);
                let (from, to) = (x(begin), x(until));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                    y(at),
                    (to - from).max(1.0),
                    LINE - 3.0
                );
            }
        }
        let below = y(lines.len()) + 16.0;
        let last = duration::format(end.duration_since(self.start));
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{below:.1}\">0s</text>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{last}</text>\n</svg>", WIDTH - 4.0);
        svg
    }
}

/// The times a state lasted.
fn spells(states: &[(Timestamp, char)], end: Timestamp) -> Vec<(Timestamp, Timestamp, char)> {
    let mut spells: Vec<(Timestamp, Timestamp, char)> = Vec::new();
    for (at, letter) in states {
        if let Some(last) = spells.last_mut() {
            last.1 = *at;
        }
        if spells.last().is_none_or(|last| last.2 != *letter) {
            spells.push((*at, *at, *letter));
        }
    }
    if let Some(last) = spells.last_mut() {
        last.1 = end;
    }
    spells
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
