//! Formats a plan for a terminal.

use std::fmt::Write as _;

use jiff::SignedDuration;
use serde_json::Value;

use api::names::APPROVE_PLAN_ANNOTATION;
use engine::changes::FieldChange;
use engine::plural::counted;
use object::duration;
use object::text::{plain, short_commit};
use preview::{
    ChangeType, EarlierRollout, HeldObjects, HeldRemoval, IncompleteRollout, ObjectChange, PlacementPreview,
    Preview, RepoPreview, RolloutChanges, RolloutWait, Verdict, WorkChange, WorkloadPreview,
};

/// The maximum number of clusters per list.
const CLUSTERS: usize = 12;
/// The maximum number of objects per list.
const OBJECTS: usize = 200;
/// The maximum number of fields per object.
const FIELDS: usize = 20;
/// The maximum length of a value, in characters.
const VALUE: usize = 80;
/// The maximum length of a name or a message, in characters.
const MESSAGE: usize = 600;

/// The checks that a plan does not make, because only the API server can.
const UNCHECKED: &str = "the plan assumes that the ConfigRepos have permission to write these objects and that admission accepts them";

/// Formats a plan; `report` describes the report that the plan is based on.
pub(in crate::cli::commands) fn page(preview: &Preview, report: Option<&str>) -> String {
    let mut page = format!("{}\n{}\nHash: {}\n", title(preview), verdict(preview), preview.hash());
    if let Some(report) = report {
        let _ = writeln!(page, "Report: {report}");
    }
    for (heading, lines) in sections(preview) {
        let _ = writeln!(page, "\n{heading}");
        for line in lines {
            let _ = writeln!(page, "  {line}");
        }
    }
    page
}

pub(super) fn title(preview: &Preview) -> String {
    let (repo, commit) = (&preview.repo, short_commit(&preview.commit));
    match preview.applied.as_str() {
        "" => format!("ConfigRepo {repo}: first commit {commit}"),
        applied => format!("ConfigRepo {repo}: {} to {commit}", short_commit(applied)),
    }
}

/// Returns the verdict, with the number of changes.
pub(super) fn verdict(preview: &Preview) -> String {
    let count = |change| preview.objects.iter().filter(|object| object.change == change).count();
    let objects = format!(
        "{} created, {} changed, {} deleted",
        counted(count(ChangeType::Created), "object"),
        count(ChangeType::Changed),
        count(ChangeType::Deleted)
    );
    match preview.verdict {
        Verdict::NoChange => "Nothing changes.".into(),
        Verdict::Change => format!("Change: {objects}."),
        Verdict::NeedsApproval => format!("Needs approval: {objects}."),
        Verdict::Refused => {
            let by_other = || preview.others.iter().find_map(|other| other.refused.as_deref());
            let reason = preview.refused.as_deref().or_else(by_other);
            format!("Refused: {}", plain(reason.unwrap_or_default(), MESSAGE))
        }
    }
}

/// Returns the approval token. A plan from a report may not know the token of a removal.
fn token(token: &str) -> String {
    match token {
        "" => "the value that `wheelwright rollout status` shows once the commit is applied".to_owned(),
        token => plain(token, MESSAGE),
    }
}

/// Returns the headings and lines of the sections that are not empty.
pub(super) fn sections(preview: &Preview) -> Vec<(String, Vec<String>)> {
    let mut sections = Vec::new();
    let mut add = |heading: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            sections.push((heading.to_owned(), lines));
        }
    };
    add("Other ConfigRepos of the branch", preview.others.iter().map(other).collect());
    add("Objects of the hub", objects(&preview.objects, &preview.repo));
    let of_others = preview.others.iter().filter_map(|other| other.held.as_ref());
    add("Deletions that wait for approval", preview.held.iter().chain(of_others).flat_map(held).collect());
    let frozen = preview.frozen.as_ref().map(|freeze| {
        let (window, until) = (plain(&freeze.window, VALUE), freeze.until);
        format!("the freeze {window} ends at {until}: the commit is applied then, and times count from there")
    });
    add("Freeze", frozen.into_iter().collect());
    let opens = preview.opens.as_ref().map(|opens| {
        let (window, until) = (plain(&opens.window, VALUE), opens.until);
        format!("the apply window {window} opens at {until}: the commit is applied then, and times count from there")
    });
    add("Apply window", opens.into_iter().collect());
    add("Rollouts under way before the commit", preview.earlier.iter().map(earlier).collect());
    add("Placements", preview.placements.iter().map(placement).collect());
    let rollouts = |workloads: &[WorkloadPreview]| {
        workloads.iter().flat_map(|workload| rollout(workload, &preview.earlier)).collect()
    };
    add("Add-ons", rollouts(&preview.add_ons));
    add("ManifestWorkReplicaSets", rollouts(&preview.replica_sets));
    add("Works on clusters", preview.works.iter().flat_map(work).collect());
    add("Waits", preview.waits.iter().map(wait).collect());
    let plans = preview.others.iter().map(|other| (&other.repo, &other.plan_approval));
    let plans = std::iter::once((&preview.repo, &preview.plan_approval)).chain(plans);
    let plans = plans.filter(|(_, hash)| !hash.is_empty()).map(|(repo, hash)| {
        let repo = plain(repo, MESSAGE);
        format!("first: the commit waits until ConfigRepo {repo} has the annotation {APPROVE_PLAN_ANNOTATION}={hash}")
    });
    let approvals = preview.approvals.iter().map(|approval| {
        let (policy, token) = (plain(&approval.policy, VALUE), token(&approval.token));
        let workload = workload(&approval.add_on, &approval.replica_set);
        format!(
            "at {}: {workload} waits until spec.approved of RolloutPolicy {policy} has {token}",
            time(approval.after)
        )
    });
    let removals = preview.removals.iter().map(|removal| {
        let HeldRemoval { policy, add_on, clusters, approval } = removal;
        let clusters = counted(usize::try_from(*clusters).unwrap_or_default(), "cluster");
        let (policy, token) = (plain(policy, VALUE), token(approval));
        format!("in the end: {add_on} stays on {clusters} until spec.approved of RolloutPolicy {policy} has {token}")
    });
    add("Approvals", plans.chain(approvals).chain(removals).collect());
    add("Rollouts that do not complete", preview.outcomes.iter().map(incomplete).collect());
    add("Warnings", preview.warnings.iter().map(|warning| plain(warning, MESSAGE)).collect());
    let assumed = preview.assumed_kinds.iter().map(|kind| {
        let kind = plain(kind, VALUE);
        format!("{kind} is assumed to be namespaced: neither the hub nor a work on its clusters defines it")
    });
    let assumptions = preview.assumptions.iter().map(|assumption| plain(assumption, MESSAGE));
    let unchecked = (!preview.objects.is_empty()).then(|| UNCHECKED.to_owned());
    add("Assumptions", assumptions.chain(assumed).chain(unchecked).collect());
    if preview.ends_after > 0 {
        let end = format!(
            "after {}, if every cluster succeeds and approvals are granted at once",
            time(preview.ends_after)
        );
        add("Finished", vec![end]);
    }
    sections
}

/// Describes the progress of a rollout before the commit, and the effect of the commit on it.
fn earlier(EarlierRollout { rollout, changes }: &EarlierRollout) -> String {
    let what = match changes {
        RolloutChanges::Nothing => "the commit does not change it",
        RolloutChanges::Strategy => "the commit changes its strategy and keeps its revision",
        RolloutChanges::Revision => "the commit replaces its revision",
        RolloutChanges::End => "the commit ends it",
    };
    format!("{}; {what}", incomplete(rollout).trim_end_matches('.'))
}

/// Returns true if a rollout was in progress before the commit and keeps its revision.
fn goes_on(name: &str, earlier: &[EarlierRollout]) -> bool {
    let is_of = |one: &&EarlierRollout| workload(&one.rollout.add_on, &one.rollout.replica_set) == name;
    let mut changes = earlier.iter().filter(is_of).map(|one| one.changes).peekable();
    changes.peek().is_some()
        && changes.all(|it| matches!(it, RolloutChanges::Nothing | RolloutChanges::Strategy))
}

fn incomplete(IncompleteRollout { add_on, replica_set, placement, message }: &IncompleteRollout) -> String {
    let workload = workload(add_on, replica_set);
    let placement = if placement.is_empty() { "" } else { &format!(" in {placement}") };
    format!("{workload}{placement}: {}", plain(message, MESSAGE))
}

/// Returns the name that is not empty.
fn workload<'n>(add_on: &'n str, replica_set: &'n str) -> &'n str {
    if add_on.is_empty() { replica_set } else { add_on }
}

fn time(seconds: i64) -> String {
    duration::format(SignedDuration::from_secs(seconds))
}

fn mark(change: ChangeType) -> char {
    match change {
        ChangeType::Created => '+',
        ChangeType::Changed => '~',
        ChangeType::Deleted => '-',
    }
}

/// Names the ConfigRepos of an object if they differ from the planned one.
fn owner(object: &ObjectChange, planned: &str) -> String {
    let to = if object.repo.is_empty() { planned } else { &object.repo };
    match (object.moved_from.as_str(), object.repo.as_str()) {
        ("", "") => String::new(),
        ("", other) => format!(" of ConfigRepo {}", plain(other, MESSAGE)),
        (from, _) => format!(" moves from ConfigRepo {} to {}", plain(from, MESSAGE), plain(to, MESSAGE)),
    }
}

fn objects(objects: &[ObjectChange], planned: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for object in objects.iter().take(OBJECTS) {
        let (name, owner) = (plain(&object.object, MESSAGE), owner(object, planned));
        lines.push(format!("{} {name}{owner}", mark(object.change)));
        lines.extend(object.fields.iter().take(FIELDS).map(|change| format!("    {}", field(change))));
        lines.extend(more(object.fields.len(), FIELDS, "fields").map(|line| format!("    {line}")));
    }
    lines.extend(more(objects.len(), OBJECTS, "objects"));
    lines
}

fn more(total: usize, shown: usize, what: &str) -> Option<String> {
    (total > shown).then(|| format!("and {} more {what}", total - shown))
}

fn field(FieldChange { path, before, after }: &FieldChange) -> String {
    let shown = |value: &Value| plain(&value.to_string(), VALUE);
    let path = plain(path, 2 * VALUE);
    match (before, after) {
        (Some(before), Some(after)) => format!("{path}: {} to {}", shown(before), shown(after)),
        (None, Some(after)) => format!("{path}: {} is added", shown(after)),
        (Some(before), None) => format!("{path}: {} is removed", shown(before)),
        (None, None) => path,
    }
}

/// Describes what another ConfigRepo does with the commit.
fn other(RepoPreview { repo, refused, plan_approval: _, held: _ }: &RepoPreview) -> String {
    let repo = plain(repo, MESSAGE);
    match refused {
        Some(reason) => format!("{repo} refuses the commit: {}", plain(reason, MESSAGE)),
        None => format!("{repo} applies the commit too"),
    }
}

fn wait(RolloutWait { after, add_on, replica_set, placement, why }: &RolloutWait) -> String {
    let (workload, after, why) = (workload(add_on, replica_set), time(*after), plain(why, MESSAGE));
    format!("from {after}: {workload} in {placement} {why}")
}

fn held(held: &HeldObjects) -> Vec<String> {
    let mut lines = vec![plain(&held.why, MESSAGE)];
    lines.extend(held.objects.iter().map(|object| format!("- {}", plain(object, MESSAGE))));
    lines.extend(more(held.total, held.objects.len(), "objects"));
    lines
}

fn clusters(names: &[String]) -> String {
    let shown = names.iter().take(CLUSTERS).map(|name| plain(name, VALUE)).collect::<Vec<_>>().join(", ");
    match more(names.len(), CLUSTERS, "") {
        Some(more) => format!("{shown} {}", more.trim_end()),
        None => shown,
    }
}

fn moves(enter: &[String], leave: &[String]) -> String {
    let part = |verb: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{} {verb}: {}", names.len(), clusters(names)))
    };
    [part("enter", enter), part("leave", leave)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn placement(PlacementPreview { placement, clusters, enter, leave }: &PlacementPreview) -> String {
    format!("{placement}: {}; {}", counted(clusters, "cluster"), moves(enter, leave))
}

fn rollout(workload: &WorkloadPreview, earlier: &[EarlierRollout]) -> Vec<String> {
    let WorkloadPreview { name, enter, leave, batches } = workload;
    let name = if goes_on(name, earlier) { &format!("{name} (under way before the commit)") } else { name };
    let mut lines = vec![match moves(enter, leave) {
        moves if moves.is_empty() => name.clone(),
        moves => format!("{name}: {moves}"),
    }];
    for (number, batch) in batches.iter().enumerate() {
        let groups =
            if batch.groups.is_empty() { String::new() } else { format!(" ({})", batch.groups.join(", ")) };
        let end = match batch.arrived_after {
            Some(end) => format!("healthy at {}", time(end)),
            None => "does not complete".into(),
        };
        let (number, start, names) = (number + 1, time(batch.after), clusters(&batch.clusters));
        lines.push(format!("  batch {number} at {start}{groups}: {names}; {end}"));
    }
    lines
}

fn work(WorkChange { work, change, objects: changed, clusters: names }: &WorkChange) -> Vec<String> {
    let on = format!(
        "{} {} on {}: {}",
        mark(*change),
        plain(work, VALUE),
        counted(names.len(), "cluster"),
        clusters(names)
    );
    let is_record = *change == ChangeType::Changed && changed.is_empty();
    let record = is_record.then(|| "    only the hash of its configuration".to_owned());
    let objects = objects(changed, "").into_iter().map(|line| format!("    {line}"));
    std::iter::once(on).chain(record).chain(objects).collect()
}

#[cfg(test)]
#[path = "tests/text.rs"]
pub(super) mod tests;
