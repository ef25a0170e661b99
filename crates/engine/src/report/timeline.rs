//! The time line of a rollout as a picture: how many clusters were done, and when clusters failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Cluster, Workload};
use crate::svg::{escaped, marks};
use object::duration;
use object::text::plain;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 190.0;
const HEIGHT: f64 = 220.0;
const DONE: &str = "#1a7f37";
const FAILED: &str = "#cf222e";

/// Returns the clusters that were done or failed, and when.
fn ends(workload: &Workload) -> impl Iterator<Item = (Timestamp, &Cluster)> {
    workload.clusters.iter().filter_map(|cluster| Some((cluster.ended?, cluster.as_ref())))
}

/// Returns the picture as an SVG document; `None` if no time is known. It has at most a mark for each pixel
/// of its width, whatever the number of clusters.
pub(super) fn svg(workload: &Workload) -> Option<String> {
    let start = ends(workload).map(|(at, _)| at).min()?;
    let end = ends(workload).map(|(at, _)| at).max()?;
    let seconds = end.duration_since(start).as_secs_f64().max(1.0);
    let x = |at: Timestamp| {
        (LEFT + (WIDTH - LEFT - 20.0) * at.duration_since(start).as_secs_f64() / seconds).round()
    };
    let total = workload.clusters.len();
    let y = |clusters: usize| BOTTOM - (BOTTOM - TOP) * ratio(clusters, total);
    let mut at_pixel: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    for (at, cluster) in ends(workload) {
        #[expect(clippy::cast_possible_truncation, reason = "a pixel of the width")]
        let (done, failed) = at_pixel.entry(x(at) as i64).or_default();
        *(if cluster.has_failed() { failed } else { done }) += 1;
    }
    let all_done: usize = at_pixel.values().map(|(done, _)| done).sum();
    let all_failed: usize = at_pixel.values().map(|(_, failed)| failed).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\" role=\"img\">\n<title>{}: {all_done} of {total} clusters done, {all_failed} failed</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <rect x=\"{LEFT}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{DONE}\"/><text x=\"{}\" y=\"17\">done</text>\n\
         <rect x=\"{}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{FAILED}\"/><text x=\"{}\" y=\"17\">failed</text>\n\
         <text x=\"{}\" y=\"17\" text-anchor=\"end\">from {start}</text>\n",
        escaped(&plain(&workload.name, 160)),
        LEFT + 14.0,
        LEFT + 60.0,
        LEFT + 74.0,
        WIDTH - 20.0
    );
    for clusters in [0, total] {
        let at = y(clusters);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.0}H{}\" stroke=\"#d0d7de\"/><text x=\"{}\" y=\"{:.0}\" text-anchor=\"end\">{clusters}</text>",
            WIDTH - 20.0,
            LEFT - 6.0,
            at + 4.0
        );
    }
    for mark in marks(start, end) {
        let (at, when) = (x(mark), duration::format(mark.duration_since(start)));
        let _ = writeln!(
            svg,
            "<path d=\"M{at} {TOP}V{BOTTOM}\" stroke=\"#d0d7de\"/><text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{when}</text>",
            BOTTOM + 16.0
        );
    }
    let (mut line, mut done) = (format!("M{LEFT} {BOTTOM:.0}"), 0);
    let mut failures = String::new();
    for (pixel, (more, failed)) in &at_pixel {
        done += more;
        let at = y(done);
        let _ = write!(line, "H{pixel}V{at:.1}");
        if *failed > 0 {
            let _ = writeln!(
                failures,
                "<circle cx=\"{pixel}\" cy=\"{at:.1}\" r=\"4\" fill=\"{FAILED}\"><title>{failed} failed</title></circle>"
            );
        }
    }
    let _ = writeln!(svg, "<path d=\"{line}\" fill=\"none\" stroke=\"{DONE}\" stroke-width=\"2\"/>");
    Some(svg + &failures + "</svg>\n")
}

#[expect(clippy::cast_precision_loss, reason = "a fleet has less than 2^52 clusters")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::SignedDuration;

    use super::*;
    use crate::rollout::ClusterState;

    fn workload(name: &str, clusters: usize, failed: usize) -> Workload {
        let cluster = |number: usize| {
            let state =
                if number < failed { ClusterState::Failed { deadline: None } } else { ClusterState::Done };
            let second = i64::try_from(number).unwrap() * 60;
            let ended = Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_secs(second)).unwrap();
            let (available, ended) = (true, Some(ended));
            let (name, message, runs) = (format!("c{number}"), String::new(), String::new());
            Arc::new(Cluster { state, available, name, message, runs, ended })
        };
        Workload { name: name.into(), clusters: (0..clusters).map(cluster).collect(), ..Workload::default() }
    }

    #[test]
    fn the_line_rises_with_each_cluster_and_a_failure_is_a_mark() {
        let svg = svg(&workload("<msa>", 4, 1)).unwrap();
        assert!(svg.contains("<title>&lt;msa&gt;: 3 of 4 clusters done, 1 failed</title>"), "{svg}");
        assert!(svg.contains("\"M40 190H40V190.0H340V150.0H640V110.0H940V70.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(svg.contains(">0s</text>") && svg.contains(">3m</text>"), "{svg}");
    }

    #[test]
    fn a_large_fleet_makes_a_small_picture_and_one_without_times_none() {
        assert!(svg(&workload("msa", 10_000, 5_000)).unwrap().len() < 100_000);
        let mut none = workload("msa", 1, 0);
        Arc::make_mut(&mut none.clusters[0]).ended = None;
        assert_eq!(svg(&none), None);
        assert!(svg(&workload("msa", 1, 0)).is_some(), "one moment");
    }
}
