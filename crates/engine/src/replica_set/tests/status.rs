use jiff::Timestamp;
use serde_json::{Value, json};

use crate::replica_set::{PlacementProgress, ReportedErrors, WorkCounts, status};
use crate::rollout::cluster::Hash;
use crate::rollout::decision::Counts;
use crate::rollout::state::{Breach, Wait};
use crate::rollout::strategy::Mandatory;
use crate::rollout::{Refused, RolloutDecision};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::{ManifestWorkReplicaSet, ManifestWorkReplicaSetStatus};

fn set() -> ManifestWorkReplicaSet {
    let metadata = json!({"name": "s", "namespace": "n", "generation": 3});
    let spec = json!({"placementRefs": [], "manifestWorkTemplate": {"workload": {}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn work(conditions: &[&str]) -> ManifestWork {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|type_| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:01Z"})
        })
        .collect();
    let metadata = json!({"name": "w", "namespace": "c"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}))
        .unwrap()
}

/// Counts works, each with its conditions, and true if it has the newest template.
fn counts(works: &[(&[&str], bool)]) -> WorkCounts {
    let mut counts = WorkCounts::default();
    for (conditions, is_updated) in works {
        counts.count(&work(conditions), *is_updated, true);
    }
    counts
}

fn placement(works: WorkCounts, selected: usize, decision: &RolloutDecision) -> PlacementProgress<'_> {
    PlacementProgress {
        name: "p",
        exists: true,
        settled: true,
        groups: 2,
        selected,
        works,
        decision: Some(decision),
        errors: ReportedErrors::default(),
    }
}

fn of(placements: &[PlacementProgress<'_>]) -> ManifestWorkReplicaSetStatus {
    status(&set(), placements, Timestamp::UNIX_EPOCH)
}

/// Returns a condition as `status reason message`.
fn condition_text(status: &ManifestWorkReplicaSetStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    assert_eq!(found.observed_generation, Some(3));
    format!("{} {} {}", found.status, found.reason, found.message).trim_end().to_owned()
}

/// Returns a decision with numbers of done, skipped and total clusters.
fn decision(done: usize, skipped: usize, total: usize) -> RolloutDecision {
    RolloutDecision { counts: Counts { done, skipped, total, ..Counts::default() }, ..Default::default() }
}

const HEALTHY: &[&str] = &["Applied", "Available"];
const BUSY: &[&str] = &["Applied", "Progressing"];
const FAILED: &[&str] = &["Applied", "Available", "Progressing", "Degraded"];

#[test]
fn a_summary_counts_the_conditions_of_works_with_the_newest_template() {
    let works = counts(&[(HEALTHY, true), (BUSY, true), (FAILED, true), (FAILED, false)]);
    let rolling = decision(1, 0, 4);
    let status = of(&[placement(works, 5, &rolling), placement(counts(&[(HEALTHY, true)]), 1, &rolling)]);
    let summary = &status.placement_summary[0];
    assert_eq!(summary.name, "p");
    assert_eq!(summary.available_decision_groups, "2 (4 / 5 clusters applied)");
    let found = |of: &api::work::v1alpha1::ManifestWorkReplicaSetSummary| {
        [
            of.total,
            of.updated.unwrap(),
            of.applied,
            of.available,
            of.progressing,
            of.degraded,
            of.desired_total.unwrap(),
        ]
    };
    assert_eq!(found(&summary.summary), [4, 3, 3, 2, 2, 1, 5]);
    assert_eq!(found(&status.summary), [5, 4, 4, 3, 2, 1, 6], "the sum of the placements");
}

#[test]
fn the_old_state_of_a_changed_work_is_subtracted_from_the_counts() {
    let mut counts = counts(&[(HEALTHY, true), (BUSY, false)]);
    counts.count(&work(BUSY), false, false);
    counts.count(&work(FAILED), true, true);
    assert_eq!(counts, self::counts(&[(HEALTHY, true), (FAILED, true)]));
}

#[test]
fn placements_are_verified_unless_one_is_missing_refused_or_empty() {
    let (complete, works) = (decision(1, 0, 1), counts(&[(HEALTHY, true)]));
    let verified =
        |placements: &[PlacementProgress<'_>]| condition_text(&of(placements), "PlacementVerified");
    assert_eq!(verified(&[placement(works, 1, &complete)]), "True AsExpected");
    let missing = PlacementProgress { exists: false, ..placement(works, 1, &complete) };
    let gone = "False PlacementDecisionNotFound no such placement: p; its works are kept";
    assert_eq!(verified(&[placement(works, 1, &complete), missing]), gone);
    let mut refused = decision(1, 0, 1);
    refused.refused = vec![Refused::new("rolloutStrategy.type", "X", "no such value", "write one of All")];
    refused.absent = vec![Mandatory::Name("canary".into())];
    let condition = verified(&[placement(works, 1, &refused)]);
    assert!(
        condition.starts_with("False NotAsExpected rolloutStrategy.type: \"X\" is refused"),
        "{condition}"
    );
    assert!(condition.contains("; mandatory group canary"), "{condition}");
    let none = WorkCounts::default();
    assert_eq!(verified(&[placement(none, 0, &complete)]), "False PlacementDecisionEmpty");
    assert_eq!(verified(&[placement(none, 1, &complete)]), "True AsExpected", "a work is to come");
    assert_eq!(verified(&[placement(works, 0, &complete)]), "True AsExpected", "a work is to go");
}

#[test]
fn a_rollout_is_complete_when_every_selected_cluster_is_done_and_no_other_has_a_work() {
    let works = counts(&[(HEALTHY, true)]);
    let rolled_out =
        |placement: PlacementProgress<'_>| condition_text(&of(&[placement]), "PlacementRolledOut");
    assert_eq!(rolled_out(placement(works, 3, &decision(2, 1, 3))), "True Complete");
    let complete = decision(2, 1, 3);
    let all = || placement(works, 3, &complete);
    let undecided = "False Progressing placement p: the decisions of a placement are not complete yet";
    for (open, message) in [
        (PlacementProgress { exists: false, ..all() }, "False Progressing placement p: it does not exist"),
        (PlacementProgress { settled: false, ..all() }, undecided),
        (PlacementProgress { decision: None, ..all() }, undecided),
    ] {
        assert_eq!(rolled_out(open), message);
    }
    let some = "False Progressing placement p: 2 of 3 clusters done";
    assert_eq!(rolled_out(placement(works, 3, &decision(2, 0, 3))), some);
    let removed = RolloutDecision { removed: vec!["c".into()], ..decision(2, 1, 3) };
    assert_eq!(
        rolled_out(placement(works, 3, &removed)),
        "False Progressing placement p: 3 of 3 clusters done"
    );
    let mut held = RolloutDecision {
        kept: vec!["c".into()],
        hold: Some(Wait::Paused { policies: Vec::new() }),
        ..decision(2, 1, 3)
    };
    held.approvals.insert("abc".into());
    assert_eq!(
        rolled_out(placement(works, 3, &held)),
        "False Progressing placement p: waits for the pause to end; \
         1 of 4 works are kept on clusters that are no longer selected; \
         waits for an approval; to approve, add abc to spec.approved of a RolloutPolicy"
    );
}

#[test]
fn works_are_applied_when_all_are_available_and_none_progresses_or_is_degraded() {
    let rolling = decision(0, 0, 2);
    let applied = |works: &[(&[&str], bool)]| {
        let text =
            condition_text(&of(&[placement(counts(works), works.len(), &rolling)]), "ManifestworkApplied");
        assert!(text.starts_with("True") || text.contains(" works are applied, "), "{text}");
        text.split(' ').take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(applied(&[(HEALTHY, true), (HEALTHY, true)]), "True AsExpected");
    assert_eq!(
        applied(&[(HEALTHY, true), (HEALTHY, false)]),
        "False Processing",
        "one waits for its turn with the old template"
    );
    assert_eq!(applied(&[(HEALTHY, true), (&["Applied"], true)]), "False Processing");
    assert_eq!(applied(&[(HEALTHY, true), (BUSY, true)]), "False Processing");
    let both: &[&str] = &["Applied", "Available", "Progressing"];
    assert_eq!(applied(&[(HEALTHY, true), (both, true)]), "False Processing");
    let degraded: &[&str] = &["Applied", "Available", "Degraded"];
    assert_eq!(applied(&[(HEALTHY, true), (degraded, true)]), "False NotAsExpected");
    assert_eq!(applied(&[(BUSY, true), (FAILED, true)]), "False NotAsExpected");
    let none = |exists: bool, selected: usize| {
        let placement = PlacementProgress { exists, ..placement(WorkCounts::default(), selected, &rolling) };
        let text = condition_text(&of(&[placement]), "ManifestworkApplied");
        text.split(' ').take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(none(true, 0), "False PlacementDecisionEmpty");
    assert_eq!(none(true, 1), "False Processing");
    assert_eq!(none(false, 0), "False NotAsExpected");
}

/// OCM's controller does not distinguish a failed rollout from one in progress.
#[test]
fn a_failed_rollout_is_stalled_and_one_under_way_is_reconciling() {
    let works = counts(&[(HEALTHY, true), (HEALTHY, false)]);
    let check = |decision: &RolloutDecision, expected: [&str; 3]| {
        let status = of(&[placement(works, 3, decision)]);
        let found = ["Reconciling", "Stalled", "ManifestworkApplied"].map(|type_| {
            let text = condition_text(&status, type_);
            text.split([',', ';']).next().unwrap().to_owned()
        });
        assert_eq!(found, expected, "{decision:?}");
    };
    let some = "True Progressing placement p: 1 of 3 clusters done";
    let moving = Counts { done: 1, progressing: 1, failed: 1, total: 3, ..Counts::default() };
    let not_all = "1 of 2 works are applied";
    let (processing, unexpected) =
        (format!("False Processing {not_all}"), format!("False NotAsExpected {not_all}"));
    check(&decision(1, 0, 3), [some, "False Progressing", &processing]);
    let tolerated = RolloutDecision { counts: moving, ..Default::default() };
    check(&tolerated, [some, "False Progressing", &processing]);
    let over = Counts { progressing: 0, timed_out: 1, ..moving };
    let ended = RolloutDecision { counts: over, ..Default::default() };
    check(&ended, ["False Failed", "True Failed placement p: 1 of 3 clusters done", &unexpected]);
    let status = of(&[placement(works, 3, &ended)]);
    assert!(condition_text(&status, "Stalled").ends_with(" done, 2 failed"), "{status:?}");
    let breach =
        Breach { stage: "all".into(), failures: 1, allowed: 0, first: "c".into(), reports_until: None };
    let breached = RolloutDecision { breach: Some(breach), counts: moving, ..Default::default() };
    let condition = "True Failed placement p: too many clusters failed in all: 1 (0 allowed)";
    check(&breached, ["False Failed", condition, &unexpected]);
    let revision = Hash("abc".into());
    let hold = Some(Wait::Quarantine { revision: revision.clone() });
    let returned = RolloutDecision { quarantine: Some(revision), hold, counts: moving, ..Default::default() };
    let condition = "True RolledBack placement p: waits for a new revision";
    check(&returned, ["False RolledBack", condition, &unexpected]);
    let status = of(&[placement(works, 3, &decision(3, 0, 3))]);
    assert_eq!(["Reconciling", "Stalled"].map(|it| condition_text(&status, it)), ["False Complete"; 2]);
    // A completed rollout is ignored, whatever the policy has recorded.
    let nobody = RolloutDecision { counts: Counts::default(), ..returned };
    let (none, open) = (WorkCounts::default(), decision(1, 0, 3));
    let status = of(&[placement(none, 0, &nobody), placement(works, 3, &open)]);
    assert!(condition_text(&status, "Reconciling").starts_with("True Progressing"), "{status:?}");
}

#[test]
fn the_first_cluster_that_reports_an_error_is_named_in_both_conditions() {
    let rolling = decision(0, 0, 3);
    let errors = |count: usize| {
        let all = [("c1", "no such image"), ("c2", "rejected")];
        ReportedErrors::of(all.into_iter().take(count))
    };
    for (count, words) in [
        (1, "placement p: 1 cluster reports an error: c1: no such image"),
        (2, "placement p: 2 clusters report an error, first c1: no such image"),
    ] {
        let status = of(&[PlacementProgress {
            errors: errors(count),
            ..placement(counts(&[(BUSY, true)]), 3, &rolling)
        }]);
        assert_eq!(condition_text(&status, "PlacementRolledOut"), format!("False Progressing {words}"));
        assert_eq!(condition_text(&status, "ManifestworkApplied"), format!("False Processing {words}"));
        assert_eq!(ReportedErrors::in_message(words), count);
    }
    assert_eq!(
        (errors(0).words(), ReportedErrors::in_message("placement p: 2 of 3 clusters done")),
        (None, 0)
    );
}
