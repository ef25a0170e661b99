//! The HTML of rollouts: add-ons and ManifestWorkReplicaSets, by group and cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::html::{button, cluster_link, escape, list};
use controllers::hub::overview::{ClusterSummary, GroupSummary, Mark, StageSummary, WorkloadSummary};
use object::text::clip;

/// Limit of the clusters of a page that are shown one by one, over all groups. Clusters with problems come
/// first, and the rest is counted: 200 of them take about 50 kB.
const SHOWN: usize = 200;

/// Limit of the characters of a message. All 200 take 200 kB at most.
const MESSAGE: usize = 1_000;

/// Limit of the stages of a rollout that are shown.
const STAGES: usize = 20;

/// Writes the rollouts of a page.
pub(super) struct Rollouts {
    has_buttons: bool,
    /// How many more clusters with this mark are shown.
    left: BTreeMap<Mark, usize>,
}

impl Rollouts {
    /// Returns a writer for these workloads.
    pub(super) fn new<'w>(workloads: impl Iterator<Item = &'w WorkloadSummary>, has_buttons: bool) -> Self {
        let mut left: BTreeMap<Mark, usize> = BTreeMap::new();
        for cluster in workloads.flat_map(|workload| &workload.groups).flat_map(|group| &group.clusters) {
            *left.entry(cluster.mark()).or_default() += 1;
        }
        let mut room = SHOWN;
        for count in left.values_mut() {
            *count = room.min(*count);
            room -= *count;
        }
        Self { has_buttons, left }
    }

    /// Writes a workload, with its number on the page.
    pub(super) fn write(&mut self, html: &mut String, number: usize, workload: &WorkloadSummary) {
        let WorkloadSummary {
            name,
            settled,
            returned,
            total,
            holds,
            corrections,
            paused_by,
            approvals,
            stages,
            groups,
            ..
        } = workload;
        let _ = write!(
            html,
            "<section aria-labelledby=\"rollout-{number}\"><h2 id=\"rollout-{number}\">{}</h2>\
             <p>{}</p>\
             <progress max=\"{total}\" value=\"{}\" aria-labelledby=\"rollout-{number}\"></progress>",
            escape(name),
            workload.progress(),
            settled + returned
        );
        for line in holds.iter().chain(corrections) {
            let _ = write!(html, "<p class=\"hold\">{}</p>", escape(line));
        }
        if self.has_buttons {
            for (token, about) in approvals {
                button(html, "approve", &format!("Approve {about}"), name, token);
            }
            match paused_by.is_empty() {
                true => button(html, "pause", &format!("Pause {name}"), name, ""),
                false => button(html, "resume", &format!("Resume {name}"), name, ""),
            }
        }
        self::stages(html, stages);
        let more: usize = groups.iter().map(|group| self.group(html, name, group)).sum();
        if more > 0 {
            let _ = write!(
                html,
                "<p>and {more} more; <code>wheelwright explain rollout {}</code> names them</p>",
                escape(name)
            );
        }
        *html += "</section>";
    }

    /// Writes a group, and returns how many of its clusters are not shown.
    fn group(&mut self, html: &mut String, workload: &str, group: &GroupSummary) -> usize {
        let title = match group.placement.as_str() {
            "" => "No placement".to_owned(),
            placement => format!("{placement} {}", group.name),
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for cluster in &group.clusters {
            *counts.entry(cluster.label()).or_default() += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(label, count)| format!("{count} {label}")).collect();
        let (title, counts) = (escape(title.trim()), escape(&counts.join(", ")));
        let _ = write!(html, "<h3>{title} <small>{counts}</small></h3>");
        let shown: Vec<_> = group.clusters.iter().filter(|cluster| self.takes(cluster.mark())).collect();
        if !shown.is_empty() {
            *html += "<ul class=\"clusters\">";
            for cluster in &shown {
                self::cluster(html, workload, cluster);
            }
            *html += "</ul>";
        }
        group.clusters.len() - shown.len()
    }

    /// Returns whether one more cluster with this mark is shown, which takes a place.
    fn takes(&mut self, mark: Mark) -> bool {
        match self.left.get_mut(&mark) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// Writes a line for each stage. If there are too many, the finished ones at the start are left out first.
fn stages(html: &mut String, stages: &[StageSummary]) {
    let more = stages.len().saturating_sub(STAGES);
    let finished = stages.iter().take_while(|one| one.stage.unfinished == 0).count();
    let shown = stages.iter().skip(finished.min(more)).take(STAGES);
    let lines: Vec<String> =
        shown.map(|StageSummary { placement, stage }| format!("{placement} {stage}")).collect();
    list(html, &lines, more);
}

fn cluster(html: &mut String, workload: &str, cluster: &ClusterSummary) {
    let (class, mark) = (class(cluster.mark()), cluster.mark().sign());
    let version = cluster.version(workload);
    let _ = write!(
        html,
        "<li class=\"{class}\"><b><span aria-hidden=\"true\">{mark}</span> {}</b> <span>{}</span> <span>{}</span>",
        cluster_link(workload, &cluster.name),
        escape(if version.is_empty() { "-" } else { version }),
        escape(&cluster.label())
    );
    if !cluster.message.is_empty() {
        let _ = write!(html, "<small>{}</small>", escape(&clip(&cluster.message, MESSAGE)));
    }
    *html += "</li>";
}

/// Returns the class of a mark.
pub(super) fn class(mark: Mark) -> &'static str {
    match mark {
        Mark::Bad | Mark::Warned => "bad",
        Mark::Returned | Mark::Busy => "busy",
        Mark::Waiting => "waits",
        Mark::Good => "good",
    }
}
