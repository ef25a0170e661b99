//! Formats a plan for a terminal.

use std::fmt::Write as _;

use jiff::SignedDuration;
use serde_json::Value;

use api::names::APPROVE_PLAN_ANNOTATION;
use engine::plural::counted;
use object::duration;
use object::text::{plain, short_commit};
use sim::preview::{
    Change, FieldChange, HeldRemoval, ObjectChange, PlacementPreview, Preview, Verdict, WorkChange,
    WorkloadPreview,
};

/// Most clusters that are named in one place.
const CLUSTERS: usize = 12;
/// Most objects that are listed in one place.
const OBJECTS: usize = 200;
/// Most fields that are listed of an object.
const FIELDS: usize = 20;
/// Most characters of a value that are shown.
const VALUE: usize = 80;
/// Most characters of a name or a message that are shown.
const MESSAGE: usize = 600;

/// Returns the plan as a page.
pub(in crate::cli::commands) fn page(preview: &Preview) -> String {
    let mut page = format!("{}\n{}\nHash: {}\n", title(preview), verdict(preview), preview.hash());
    for (heading, lines) in sections(preview) {
        let _ = writeln!(page, "\n{heading}");
        for line in lines {
            let _ = writeln!(page, "  {line}");
        }
    }
    page
}

/// Returns the heading of the plan.
pub(super) fn title(preview: &Preview) -> String {
    let short = |commit: &str| match commit {
        "" => "nothing".to_owned(),
        commit => short_commit(commit).to_owned(),
    };
    format!("ConfigRepo {}: {} to {}", preview.repo, short(&preview.applied), short(&preview.commit))
}

/// Returns the verdict, with its counts.
pub(super) fn verdict(preview: &Preview) -> String {
    let count = |change| preview.objects.iter().filter(|object| object.change == change).count();
    let objects = format!(
        "{} created, {} changed, {} deleted",
        counted(count(Change::Created), "object"),
        count(Change::Changed),
        count(Change::Deleted)
    );
    match preview.verdict {
        Verdict::NoChange => "Nothing changes.".into(),
        Verdict::Change => format!("Change: {objects}."),
        Verdict::NeedsApproval => format!("Needs approval: {objects}."),
        Verdict::Refused => {
            format!("Refused: {}", plain(preview.refused.as_deref().unwrap_or_default(), MESSAGE))
        }
    }
}

/// Returns the sections that are not empty: headings and lines.
pub(super) fn sections(preview: &Preview) -> Vec<(String, Vec<String>)> {
    let mut sections = Vec::new();
    let mut add = |heading: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            sections.push((heading.to_owned(), lines));
        }
    };
    add("Objects of the hub", objects(&preview.objects));
    add("Deletions that wait for approval", held(preview));
    let frozen = preview.frozen.as_ref().map(|frozen| {
        let window = plain(&frozen.window, VALUE);
        format!(
            "the freeze window {window} is open: the commit is applied at {}, and times count from there",
            frozen.until
        )
    });
    add("Freeze", frozen.into_iter().collect());
    add("Placements", preview.placements.iter().map(placement).collect());
    add("Add-ons", preview.add_ons.iter().flat_map(rollout).collect());
    add("ManifestWorkReplicaSets", preview.replica_sets.iter().flat_map(rollout).collect());
    add("Works on clusters", preview.works.iter().flat_map(work).collect());
    let plan = Some(&preview.plan_approval).filter(|hash| !hash.is_empty());
    let plan = plan.map(|hash| {
        let repo = plain(&preview.repo, MESSAGE);
        format!("first: the commit waits until ConfigRepo {repo} has the annotation {APPROVE_PLAN_ANNOTATION}={hash}")
    });
    let approvals = preview.approvals.iter().map(|approval| {
        let (policy, token) = (plain(&approval.policy, VALUE), plain(&approval.token, MESSAGE));
        let workload = workload(&approval.add_on, &approval.replica_set);
        format!(
            "at {}: {workload} waits until spec.approved of RolloutPolicy {policy} has {token}",
            time(approval.after)
        )
    });
    let removals = preview.removals.iter().map(|removal| {
        let HeldRemoval { policy, add_on, clusters, approval } = removal;
        let clusters = counted(usize::try_from(*clusters).unwrap_or_default(), "cluster");
        let (policy, token) = (plain(policy, VALUE), plain(approval, MESSAGE));
        format!("in the end: {add_on} stays on {clusters} until spec.approved of RolloutPolicy {policy} has {token}")
    });
    add("Approvals", plan.into_iter().chain(approvals).chain(removals).collect());
    let open = preview.outcomes.iter().map(|open| {
        let workload = workload(&open.add_on, &open.replica_set);
        let placement = if open.placement.is_empty() { "" } else { &format!(" in {}", open.placement) };
        format!("{workload}{placement}: {}", plain(&open.message, MESSAGE))
    });
    add("Rollouts that do not complete", open.collect());
    let assumed = preview.assumed_kinds.iter().map(|kind| {
        let kind = plain(kind, VALUE);
        format!("{kind} is taken for a kind with namespaces: neither the hub nor a work on its clusters defines it")
    });
    add("Assumptions", assumed.collect());
    if preview.ends_after > 0 {
        let end = format!(
            "after {}, if every cluster succeeds and approvals are granted at once",
            time(preview.ends_after)
        );
        add("Nothing more happens", vec![end]);
    }
    sections
}

/// Returns the name that is not empty.
fn workload<'n>(add_on: &'n str, replica_set: &'n str) -> &'n str {
    if add_on.is_empty() { replica_set } else { add_on }
}

fn time(seconds: i64) -> String {
    duration::format(SignedDuration::from_secs(seconds))
}

fn mark(change: Change) -> char {
    match change {
        Change::Created => '+',
        Change::Changed => '~',
        Change::Deleted => '-',
    }
}

fn objects(objects: &[ObjectChange]) -> Vec<String> {
    let mut lines = Vec::new();
    for object in objects.iter().take(OBJECTS) {
        lines.push(format!("{} {}", mark(object.change), plain(&object.object, MESSAGE)));
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

fn held(preview: &Preview) -> Vec<String> {
    let Some(held) = &preview.held else { return Vec::new() };
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

fn rollout(WorkloadPreview { name, enter, leave, batches }: &WorkloadPreview) -> Vec<String> {
    let mut lines = vec![match moves(enter, leave) {
        moves if moves.is_empty() => name.clone(),
        moves => format!("{name}: {moves}"),
    }];
    for (number, batch) in batches.iter().enumerate() {
        let groups =
            if batch.groups.is_empty() { String::new() } else { format!(" ({})", batch.groups.join(", ")) };
        let end = match batch.arrived_after {
            Some(end) => format!("done at {}", time(end)),
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
    let objects = objects(changed).into_iter().map(|line| format!("    {line}"));
    std::iter::once(on).chain(objects).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sim::preview::{Approval, Batch, HeldObjects, Outcome};

    #[expect(clippy::too_many_lines, reason = "one value with all its fields")]
    pub(in crate::cli::commands::plan) fn example() -> Preview {
        let changed = ObjectChange {
            object: "ConfigMap config/a".into(),
            change: Change::Changed,
            fields: vec![FieldChange {
                path: "data.k".into(),
                before: Some("1".into()),
                after: Some("2".into()),
            }],
        };
        let created =
            ObjectChange { object: "ConfigMap config/b".into(), change: Change::Created, fields: Vec::new() };
        Preview {
            repo: "config/fleet".into(),
            applied: "1".repeat(40),
            commit: "2".repeat(40),
            verdict: Verdict::NeedsApproval,
            refused: None,
            plan_approval: "c0de".into(),
            frozen: None,
            objects: vec![changed.clone(), created],
            held: Some(HeldObjects {
                why: "3 deletions are over the budget of 2".into(),
                approval: "abc".into(),
                total: 3,
                objects: vec!["ConfigMap config/c".into()],
            }),
            placements: vec![PlacementPreview {
                placement: "config/fleet".into(),
                clusters: 2,
                enter: vec!["c2".into()],
                leave: vec!["c3".into()],
            }],
            replica_sets: Vec::new(),
            add_ons: vec![WorkloadPreview {
                name: "app".into(),
                enter: vec!["c2".into()],
                leave: Vec::new(),
                batches: vec![
                    Batch {
                        after: 0,
                        groups: vec!["canary".into()],
                        clusters: vec!["c1".into()],
                        arrived_after: Some(35),
                    },
                    Batch { after: 95, groups: Vec::new(), clusters: vec!["c2".into()], arrived_after: None },
                ],
            }],
            works: vec![WorkChange {
                work: "addon-app-deploy-0".into(),
                change: Change::Changed,
                objects: vec![changed],
                clusters: vec!["c1".into(), "c2".into()],
            }],
            approvals: vec![Approval {
                after: 60,
                policy: "p".into(),
                add_on: "app".into(),
                replica_set: String::new(),
                token: "v2/prod".into(),
            }],
            removals: vec![HeldRemoval {
                policy: "p".into(),
                add_on: "app".into(),
                clusters: 1,
                approval: "removal/app".into(),
            }],
            outcomes: vec![Outcome {
                add_on: "app".into(),
                replica_set: String::new(),
                placement: "config/fleet".into(),
                message: "1/2 progressing...".into(),
            }],
            assumed_kinds: vec!["Proxy.example.com".into()],
            ends_after: 130,
        }
    }

    #[test]
    fn a_page_tells_everything_in_the_order_in_which_it_happens() {
        let expected = "\
ConfigRepo config/fleet: 111111111111 to 222222222222
Needs approval: 1 object created, 1 changed, 0 deleted.
Hash: HASH

Objects of the hub
  ~ ConfigMap config/a
      data.k: \"1\" to \"2\"
  + ConfigMap config/b

Deletions that wait for approval
  3 deletions are over the budget of 2
  - ConfigMap config/c
  and 2 more objects

Placements
  config/fleet: 2 clusters; 1 enter: c2; 1 leave: c3

Add-ons
  app: 1 enter: c2
    batch 1 at 0s (canary): c1; done at 35s
    batch 2 at 1m35s: c2; does not complete

Works on clusters
  ~ addon-app-deploy-0 on 2 clusters: c1, c2
      ~ ConfigMap config/a
          data.k: \"1\" to \"2\"

Approvals
  first: the commit waits until ConfigRepo config/fleet has the annotation gitops.wheelwright.dev/approve-plan=c0de
  at 1m: app waits until spec.approved of RolloutPolicy p has v2/prod
  in the end: app stays on 1 cluster until spec.approved of RolloutPolicy p has removal/app

Rollouts that do not complete
  app in config/fleet: 1/2 progressing...

Assumptions
  Proxy.example.com is taken for a kind with namespaces: neither the hub nor a work on its clusters defines it

Nothing more happens
  after 2m10s, if every cluster succeeds and approvals are granted at once
";
        let preview = example();
        assert_eq!(page(&preview), expected.replace("HASH", &preview.hash()));
    }
}
