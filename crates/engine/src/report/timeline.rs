//! The timeline of a rollout as a picture: how many clusters were assigned and done, and when some failed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Workload, WorkloadCluster};
use crate::svg::{escaped, marks};
use object::duration;
use object::text::plain;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 40.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 190.0;
const HEIGHT: f64 = 220.0;
const ASSIGNED: &str = "#6e7781";
const DONE: &str = "#1a7f37";
const FAILED: &str = "#cf222e";

/// The number of clusters at one horizontal pixel.
#[derive(Default)]
struct Moment {
    assigned: usize,
    done: usize,
    failed: usize,
}

/// Returns the picture as an SVG document; `None` if no time is known. It has at most one mark for each
/// horizontal pixel, regardless of the number of clusters.
pub(super) fn svg(workload: &Workload) -> Option<String> {
    let times = || workload.clusters.iter().flat_map(|cluster| [cluster.started, cluster.ended]).flatten();
    let (start, end) = (times().min()?, times().max()?);
    let seconds = end.duration_since(start).as_secs_f64().max(1.0);
    let x = |at: Timestamp| {
        (LEFT + (WIDTH - LEFT - 20.0) * at.duration_since(start).as_secs_f64() / seconds).round()
    };
    let total = workload.clusters.len();
    let y = |clusters: usize| BOTTOM - (BOTTOM - TOP) * ratio(clusters, total);
    let moments = moments(workload, x, end);
    let all = |of: fn(&Moment) -> usize| moments.values().map(of).sum::<usize>();
    let (all_done, all_failed) = (all(|moment| moment.done), all(|moment| moment.failed));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\" role=\"img\">\n<title>{}: {all_done} of {total} clusters done, {all_failed} failed</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{}\" y=\"17\" text-anchor=\"end\">from {start}</text>\n",
        escaped(&plain(&workload.name, 160)),
        WIDTH - 20.0
    );
    let legend = [(DONE, "done"), (FAILED, "failed"), (ASSIGNED, "assigned")];
    // With missing start times, the line of assigned clusters would drop below the line of done clusters.
    let is_known = |cluster: &WorkloadCluster| cluster.ended.is_none() || cluster.started.is_some();
    let has_starts =
        all(|moment| moment.assigned) > 0 && workload.clusters.iter().all(|cluster| is_known(cluster));
    let legend = legend.into_iter().filter(|(color, _)| has_starts || *color != ASSIGNED);
    for ((color, word), at) in legend.zip([LEFT, LEFT + 60.0, LEFT + 120.0]) {
        let _ = writeln!(
            svg,
            "<rect x=\"{at}\" y=\"8\" width=\"10\" height=\"10\" fill=\"{color}\"/><text x=\"{}\" y=\"17\">{word}</text>",
            at + 14.0
        );
    }
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
    if has_starts {
        svg += &line(&moments, |moment| moment.assigned, y, ASSIGNED);
    }
    svg += &line(&moments, |moment| moment.done, y, DONE);
    let mut done = 0;
    for (pixel, moment) in &moments {
        done += moment.done;
        if moment.failed > 0 {
            let _ = writeln!(
                svg,
                "<circle cx=\"{pixel}\" cy=\"{:.1}\" r=\"4\" fill=\"{FAILED}\"><title>{} failed</title></circle>",
                y(done),
                moment.failed
            );
        }
    }
    Some(svg + "</svg>\n")
}

/// Counts the clusters at each horizontal pixel. A cluster that failed at an unknown time, for example by
/// missing its deadline, counts at `end`.
fn moments(workload: &Workload, x: impl Fn(Timestamp) -> f64, end: Timestamp) -> BTreeMap<i64, Moment> {
    #[expect(clippy::cast_possible_truncation, reason = "a pixel of the width")]
    let pixel = |at: Timestamp| x(at) as i64;
    let mut moments: BTreeMap<i64, Moment> = BTreeMap::new();
    for cluster in &workload.clusters {
        if let Some(at) = cluster.started {
            moments.entry(pixel(at)).or_default().assigned += 1;
        }
        if let Some(at) = cluster.ended.or(cluster.has_failed().then_some(end)) {
            let Moment { done, failed, .. } = moments.entry(pixel(at)).or_default();
            *(if cluster.has_failed() { failed } else { done }) += 1;
        }
    }
    moments
}

/// Returns a line that rises with each counted cluster.
fn line(
    moments: &BTreeMap<i64, Moment>,
    count: fn(&Moment) -> usize,
    y: impl Fn(usize) -> f64,
    color: &str,
) -> String {
    let (mut line, mut counted) = (format!("M{LEFT} {BOTTOM:.0}"), 0);
    for (pixel, moment) in moments.iter().filter(|(_, moment)| count(moment) > 0) {
        counted += count(moment);
        let _ = write!(line, "H{pixel}V{:.1}", y(counted));
    }
    format!("<path d=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\n")
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
            let (name, message, runs) = (format!("c{number}"), String::new(), String::new());
            let (available, started, ended) = (true, None, Some(ended));
            Arc::new(WorkloadCluster {
                state,
                available,
                reports_error: false,
                name,
                message,
                runs,
                started,
                ended,
            })
        };
        Workload { name: name.into(), clusters: (0..clusters).map(cluster).collect(), ..Workload::default() }
    }

    #[test]
    fn the_line_rises_with_each_cluster_and_a_failure_is_a_mark() {
        let svg = svg(&workload("<msa>", 4, 1)).unwrap();
        assert!(svg.contains("<title>&lt;msa&gt;: 3 of 4 clusters done, 1 failed</title>"), "{svg}");
        assert!(svg.contains("\"M40 190H340V150.0H640V110.0H940V70.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(svg.contains(">0s</text>") && svg.contains(">3m</text>"), "{svg}");
    }

    #[test]
    fn known_assignments_have_their_own_line() {
        let mut workload = workload("ns/set", 2, 0);
        assert!(!svg(&workload).unwrap().contains("assigned"));
        for cluster in &mut workload.clusters {
            Arc::make_mut(cluster).started = Some(Timestamp::UNIX_EPOCH);
        }
        let svg = svg(&workload).unwrap();
        assert!(svg.contains(">assigned</text>") && svg.contains("\"M40 190H40V30.0\""), "{svg}");
        assert!(svg.contains("\"M40 190H40V110.0H940V30.0\""), "{svg}");
    }

    #[test]
    fn a_cluster_that_missed_its_deadline_is_a_failure_at_the_end() {
        let mut workload = workload("msa", 3, 0);
        let late = Arc::make_mut(&mut workload.clusters[1]);
        (late.state, late.started, late.ended) = (ClusterState::TimedOut, late.ended, None);
        let svg = svg(&workload).unwrap();
        assert!(svg.contains("<title>msa: 2 of 3 clusters done, 1 failed</title>"), "{svg}");
        assert!(svg.contains("<circle cx=\"940\""), "{svg}");
        assert!(!svg.contains("assigned"), "the assignments of the others are unknown: {svg}");
    }

    #[test]
    fn a_large_fleet_has_a_small_picture_and_one_without_times_has_none() {
        assert!(svg(&workload("msa", 10_000, 5_000)).unwrap().len() < 100_000);
        let mut none = workload("msa", 1, 0);
        Arc::make_mut(&mut none.clusters[0]).ended = None;
        assert_eq!(svg(&none), None);
        assert!(svg(&workload("msa", 1, 0)).is_some(), "one moment");
    }
}
