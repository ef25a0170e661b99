//! Tests for the status of a work as read by the hub. Types, reasons and messages are OCM's.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{object, served, work};
use crate::work::{
    ApplyRefusal, Attempt, Live, ManifestResult, Pods, Served, Wanted, is_complete, read, was_applied,
    work_status,
};
use api::Condition;
use api::condition::find_condition;
use api::work::v1::{ManifestWork, ManifestWorkStatus};
use object::Object;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})
}

/// Returns a work of generation 2 with these ConfigMaps; `config` applies to all of them.
fn maps(names: &[&str], config: Value) -> ManifestWork {
    let manifests: Vec<_> = names.iter().map(|name| manifest(name)).collect();
    let mut config = config;
    config["resourceIdentifier"] =
        json!({"group": "", "resource": "configmaps", "namespace": "*", "name": "*"});
    work(json!({"workload": {"manifests": manifests}, "manifestConfigs": [config]}))
}

fn manifests(work: &ManifestWork) -> Vec<Wanted> {
    read(work, |_| served("configmaps"))
}

fn live(data: Value) -> Object {
    let mut live = manifest("a");
    live["data"] = data;
    object(live)
}

/// Sets the status of a work after a reconciliation at the given second.
fn report(work: &mut ManifestWork, seen: &[ManifestResult<'_>], second: i64) {
    work.status = Some(work_status(work, &manifests(work), seen, at(second)));
}

fn seen(live: Live<'_>, attempt: Attempt) -> ManifestResult<'_> {
    ManifestResult { live, attempt, pods: Pods::Unread }
}

fn shown(conditions: &[Condition]) -> Vec<String> {
    let show = |c: &Condition| format!("{}={} {}: {}", c.type_, c.status.as_str(), c.reason, c.message);
    conditions.iter().map(show).collect()
}

fn of_manifest(status: &ManifestWorkStatus, at: usize) -> &[Condition] {
    &status.resource_status.manifests[at].conditions
}

fn failed(reason: &str) -> Attempt {
    Attempt::Failed(ApplyRefusal::Failed(reason.into()))
}

const APPLIED: &str = "Applied=True AppliedManifestComplete: Apply manifest complete";
const AVAILABLE: &str = "Available=True ResourceAvailable: Resource is available";
const NOT_AVAILABLE: &str = "Available=False ResourceNotAvailable: Resource is not available";
const NO_FEEDBACK: &str = "StatusFeedbackSynced=True NoStatusFeedbackSynced: ";

#[test]
fn the_outcome_and_the_live_object_of_a_manifest_are_its_conditions() {
    let check = |live: Live<'_>, attempt: Attempt, want: &[&str]| {
        let mut work = maps(&["a"], json!({}));
        report(&mut work, &[seen(live, attempt)], 1);
        assert_eq!(shown(of_manifest(work.status.as_ref().unwrap(), 0)), want);
    };
    let map = live(json!({}));
    check(Live::Read(Some(&map)), Attempt::Done, &[APPLIED, AVAILABLE, NO_FEEDBACK]);
    check(Live::Read(None), Attempt::Done, &[APPLIED, NOT_AVAILABLE]);
    check(Live::Unread, Attempt::Done, &[APPLIED]);
    check(Live::Unread, Attempt::None, &[]);
    let refused = "Available=Unknown FetchingResourceFailed: Failed to fetch resource: not allowed";
    check(Live::Refused("not allowed".into()), Attempt::None, &[refused]);
    let failure = "Applied=False AppliedManifestFailed: Failed to apply manifest: too large";
    check(Live::Read(None), failed("too large"), &[failure, NOT_AVAILABLE]);
    let rejected = "Applied=False AppliedManifestRejected: Failed to apply manifest: no port";
    check(Live::Unread, Attempt::Failed(ApplyRefusal::Rejected("no port".into())), &[rejected]);
    check(
        Live::Unread,
        Attempt::Failed(ApplyRefusal::IgnoredFields("no pointer".into())),
        &["Applied=False AppliedManifestSSAIgnoreFieldError: Failed to process ignoreFields: no pointer"],
    );
}

#[test]
fn a_manifest_that_names_no_resource_has_an_incomplete_meta() {
    let incomplete = "Available=Unknown IncompleteResourceMeta: Resource meta is incomplete";
    let check = |name: &str, how: Served, want: &[&str]| {
        let work = maps(&[name], json!({}));
        let wanted = read(&work, |_| how.clone());
        let status = work_status(&work, &wanted, &[seen(Live::Unread, Attempt::None)], at(1));
        assert_eq!(shown(of_manifest(&status, 0)), want, "{name:?} {how:?}");
    };
    check("a", Served::Not, &[incomplete]);
    check("", served("configmaps"), &[incomplete]);
    check("a", Served::Unread, &[]);
}

#[test]
fn a_work_counts_its_manifests() {
    let map = live(json!({}));
    let here = || seen(Live::Read(Some(&map)), Attempt::Done);
    let gone = || seen(Live::Read(None), Attempt::Done);
    let unread = || seen(Live::Unread, Attempt::Done);
    let check = |results: &[ManifestResult<'_>], want: &[&str]| {
        let names = &["a", "b", "c"][..results.len()];
        let mut work = maps(names, json!({}));
        report(&mut work, results, 1);
        let status = work.status.unwrap();
        assert_eq!(shown(&status.conditions), want);
        assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(2)));
        let ordinals = status.resource_status.manifests.iter().map(|m| m.resource_meta.ordinal);
        assert!(ordinals.eq(0..i32::try_from(results.len()).unwrap()));
    };
    let complete = "Applied=True AppliedManifestWorkComplete: Apply manifest work complete";
    check(&[here(), here()], &[complete, "Available=True ResourcesAvailable: All resources are available"]);
    check(
        &[here(), gone(), unread()],
        &[complete, "Available=False ResourcesNotAvailable: 1 of 3 resources are not available"],
    );
    check(
        &[here(), unread(), unread()],
        &[complete, "Available=Unknown ResourcesStatusUnknown: 2 of 3 resources have unknown status"],
    );
    let none = "Available=Unknown ResourcesStatusUnknown: cannot get any available resource ";
    check(&[], &[complete, none]);
    let incomplete = "Applied=False AppliedManifestWorkFailed: Failed to apply manifest work";
    check(
        &[here(), seen(Live::Read(None), failed("no"))],
        &[incomplete, "Available=False ResourcesNotAvailable: 1 of 2 resources are not available"],
    );
    check(&[here(), seen(Live::Read(None), Attempt::None)], &[]);
    check(&[seen(Live::Read(None), Attempt::None), seen(Live::Unread, failed("no"))], &[incomplete]);
}

#[test]
fn a_new_generation_says_nothing_until_all_of_its_manifests_are_applied() {
    let map = live(json!({}));
    let here = |attempt| seen(Live::Read(Some(&map)), attempt);
    let mut work = maps(&["a", "b"], json!({}));
    report(&mut work, &[here(Attempt::Done), here(Attempt::Done)], 1);
    let before = work.status.clone().unwrap();
    work.metadata.generation = Some(3);
    let gone = || seen(Live::Read(None), Attempt::None);
    report(&mut work, &[here(Attempt::Done), gone()], 2);
    let status = work.status.clone().unwrap();
    assert_eq!(status.conditions, before.conditions, "neither applied nor available is known");
    report(&mut work, &[here(Attempt::Done), here(Attempt::Done)], 3);
    let status = work.status.unwrap();
    let times = |conditions: &[Condition]| -> Vec<(i64, Option<i64>)> {
        let times = conditions.iter().filter(|c| c.type_ == "Applied");
        times.map(|c| (c.last_transition_time.0.as_second(), c.observed_generation)).collect()
    };
    assert_eq!(times(&status.conditions), [(1, Some(3))], "that of the work is a transition");
    assert_eq!(times(of_manifest(&status, 0)), [(2, Some(3))], "that of a manifest begins again");
    assert_eq!(times(of_manifest(&status, 1)), [(3, Some(3))]);
}

/// Returns a work of generation 2 with a stored condition for its manifest `a`.
fn stored(type_: &str, status: &str, generation: i64) -> ManifestWork {
    let mut work = maps(&["a"], json!({}));
    let condition = json!({"type": type_, "status": status, "reason": "R", "message": "",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let meta = json!(manifests(&work)[0].meta);
    let manifests = json!([{"resourceMeta": meta, "conditions": [condition]}]);
    let status = json!({"resourceStatus": {"manifests": manifests}});
    work.status = Some(serde_json::from_value(status).unwrap());
    work
}

#[test]
fn a_manifest_is_applied_or_complete_if_its_condition_is_true_for_this_generation() {
    let check = |type_: &str, status: &str, generation: i64, want: [bool; 2]| {
        let work = stored(type_, status, generation);
        let meta = &manifests(&work)[0].meta;
        assert_eq!([was_applied(&work, meta), is_complete(&work, meta)], want, "{type_} {status}");
    };
    check("Applied", "True", 2, [true, false]);
    check("Applied", "True", 1, [false, false]);
    check("Applied", "False", 2, [false, false]);
    check("Complete", "True", 2, [false, true]);
    check("Complete", "True", 1, [false, false]);
    check("Complete", "Unknown", 2, [false, false]);
    assert!(!was_applied(&maps(&["a"], json!({})), &manifests(&stored("Applied", "True", 2))[0].meta));
}

#[test]
fn the_status_of_a_manifest_is_found_by_its_names_and_by_its_place_among_equal_ones() {
    let work = stored("Applied", "True", 2);
    let found = |edit: fn(&mut Wanted)| {
        let mut wanted = manifests(&work).remove(0);
        edit(&mut wanted);
        was_applied(&work, &wanted.meta)
    };
    assert!(found(|_| {}) && found(|wanted| wanted.meta.ordinal = 7), "it moved in the work");
    assert!(found(|wanted| wanted.meta.version = "v2".into()), "the version names no object");
    assert!(!found(|wanted| wanted.meta.group = "x.io".into()));
    assert!(!found(|wanted| wanted.meta.kind = "Secret".into()));
    assert!(!found(|wanted| wanted.meta.namespace = "m".into()));
    assert!(!found(|wanted| wanted.meta.name = "b".into()));

    let mut twice = maps(&["a", "a"], json!({}));
    let results = [seen(Live::Unread, Attempt::Done), seen(Live::Unread, failed("no"))];
    report(&mut twice, &results, 1);
    let wanted = manifests(&twice);
    let applied: Vec<_> = wanted.iter().map(|wanted| was_applied(&twice, &wanted.meta)).collect();
    assert_eq!(applied, [true, false]);
}

#[test]
fn a_rule_judges_the_writes_of_this_generation() {
    let rule = json!({"type": "CEL", "condition": "Fine", "celExpressions": ["object.data.ok == 'yes'"]});
    let mut work = maps(&["a"], json!({"conditionRules": [rule]}));
    let (good, bad) = (live(json!({"ok": "yes"})), live(json!({"ok": "no"})));
    let fine = |status: &ManifestWorkStatus| {
        let of = |conditions: &[Condition]| {
            let fine = find_condition(conditions, "Fine")?;
            let time = fine.last_transition_time.0.as_second();
            Some((fine.status.as_str().to_owned(), fine.observed_generation.unwrap(), time))
        };
        (of(of_manifest(status, 0)), of(&status.conditions))
    };
    let judged = |is: &str, generation: i64, time: i64| Some((is.to_owned(), generation, time));
    report(&mut work, &[seen(Live::Read(Some(&good)), Attempt::Done)], 1);
    let status = work.status.clone().unwrap();
    assert_eq!(fine(&status), (judged("True", 2, 1), judged("True", 2, 1)));
    let of_work = find_condition(&status.conditions, "Fine").unwrap();
    assert_eq!((&*of_work.reason, &*of_work.message), ("ConditionRulesAggregated", "Manifest is Fine"));
    report(&mut work, &[seen(Live::Read(Some(&bad)), failed("no"))], 2);
    assert_eq!(fine(work.status.as_ref().unwrap()).0, judged("True", 2, 1), "nothing was written");
    work.metadata.generation = Some(3);
    report(&mut work, &[seen(Live::Read(Some(&good)), Attempt::None)], 3);
    assert_eq!(fine(work.status.as_ref().unwrap()), (None, None), "those of generation 2 are gone");
    report(&mut work, &[seen(Live::Read(Some(&good)), Attempt::Done)], 4);
    assert_eq!(fine(work.status.as_ref().unwrap()), (judged("True", 3, 4), judged("True", 3, 4)));
}

#[test]
fn only_conditions_of_rules_end_with_their_generation() {
    let mut work = stored("Other", "True", 1);
    let mut status = work.status.clone().unwrap();
    status.conditions = status.resource_status.manifests[0].conditions.clone();
    work.status = Some(status);
    report(&mut work, &[seen(Live::Unread, Attempt::None)], 1);
    let status = work.status.as_ref().unwrap();
    for conditions in [of_manifest(status, 0), &status.conditions] {
        assert_eq!(shown(conditions), ["Other=True R: "]);
    }
}

#[test]
fn feedback_is_reported_with_its_errors_and_the_time_of_its_last_change() {
    let path = |name: &str, path: &str| json!({"name": name, "path": path});
    let paths = json!([path("size", ".data.size"), path("bad", ".data.["), path("worse", ".["),]);
    let check = |paths: Value, first: &Object, second: &Object, want: &str, time: i64| {
        let rules = json!([{"type": "JSONPaths", "jsonPaths": paths}]);
        let mut work = maps(&["a"], json!({"feedbackRules": rules}));
        report(&mut work, &[seen(Live::Read(Some(first)), Attempt::Done)], 1);
        report(&mut work, &[seen(Live::Read(Some(second)), Attempt::Done)], 2);
        let status = work.status.unwrap();
        let synced = find_condition(of_manifest(&status, 0), "StatusFeedbackSynced").unwrap();
        let found = shown(std::slice::from_ref(synced)).remove(0);
        assert!(found.starts_with(want), "{found}");
        assert_eq!(synced.last_transition_time.0.as_second(), time);
        let values = &status.resource_status.manifests[0].status_feedback.values;
        assert_eq!(values[0].field_value.integer, second.at(&["data", "size"]).and_then(Value::as_i64));
        found
    };
    let (one, two) = (live(json!({"size": 1})), live(json!({"size": 2})));
    let synced = "StatusFeedbackSynced=True StatusFeedbackSynced: ";
    let size = json!([path("size", ".data.size")]);
    check(size.clone(), &one, &one, synced, 1);
    check(size, &one, &two, synced, 2);
    let failed =
        "StatusFeedbackSynced=False StatusFeedbackSyncFailed: Sync status feedback failed with error ";
    let found = check(paths, &one, &one, failed, 1);
    assert_eq!(found.matches("; ").count(), 1, "{found}");
}

#[test]
fn values_of_a_deleted_object_stay_unchanged() {
    let rules = json!([{"type": "JSONPaths", "jsonPaths": [{"name": "size", "path": ".data.size"}]}]);
    let mut work = maps(&["a"], json!({"feedbackRules": rules}));
    let one = live(json!({"size": 1}));
    report(&mut work, &[seen(Live::Read(Some(&one)), Attempt::Done)], 1);
    report(&mut work, &[seen(Live::Read(None), Attempt::Done)], 2);
    assert_eq!(work.status.unwrap().resource_status.manifests[0].status_feedback.values.len(), 1);
}
