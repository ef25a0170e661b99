use super::super::hook::WaitReport;
use super::*;
use api::cluster::v1::ManagedCluster;
use serde_json::{Value, json};

/// Returns the add-on `a` on the cluster `c1` with these finalizers.
fn addon(finalizers: &[&str], host: Option<&str>) -> Arc<ManagedClusterAddOn> {
    let annotations = host.map(|host| json!({api::names::HOSTING_CLUSTER_ANNOTATION: host}));
    let metadata = json!({"name": "a", "namespace": "c1", "uid": "u", "finalizers": finalizers,
        "annotations": annotations, "deletionTimestamp": "2026-01-01T00:00:00Z"});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap())
}

fn valid() -> Host {
    let cluster = json!({"metadata": {"name": "h"}, "spec": {"hubAcceptsClient": true}});
    Host::Valid(Arc::new(serde_json::from_value::<ManagedCluster>(cluster).unwrap()))
}

fn object(kind: &str, name: &str, location: &str) -> Object {
    let mut annotations = json!({api::names::HOSTED_MANIFEST_LOCATION: location});
    if kind == "Job" {
        annotations[ADDON_PRE_DELETE] = "".into();
    }
    let metadata = json!({"name": name, "namespace": "ns", "annotations": annotations});
    let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
    Object::from_value(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})).unwrap()
}

/// Returns the objects and the jobs of both parts.
fn manifests() -> Vec<Object> {
    let both = |kind, name: &str| ["", "hosting"].map(|at| object(kind, &format!("{name}{at}"), at));
    both("ConfigMap", "m").into_iter().chain(both("Job", "j")).collect()
}

fn parts(live: &LiveAddOn, manifests: Vec<Object>) -> Vec<AddOnPart> {
    live.parts(manifests, &[], &ManifestWorkSpec::default()).unwrap()
}

/// Returns the add-on with the works of these parts.
fn with(live: &LiveAddOn, parts: &[AddOnPart]) -> LiveAddOn {
    let works = parts.iter().flat_map(|part| part.works.iter().chain(&part.hook)).cloned().map(Arc::new);
    let (here, elsewhere) = works.partition(|work| work.namespace() == "c1");
    LiveAddOn::new(Arc::clone(&live.addon), live.host.clone(), here, elsewhere)
}

fn names<'a>(works: impl IntoIterator<Item = &'a ManifestWork>) -> Vec<String> {
    works.into_iter().map(|work| Key::of(work).to_string()).collect()
}

fn written(writes: &DeployWrites<'_>) -> Vec<String> {
    names(writes.steps.iter().flatten().map(|write| write.wanted))
}

const HERE: &str = "c1/addon-a-deploy-0";
const THERE: &str = "h/addon-a-deploy-hosting-c1-0";

#[test]
fn existing_works_are_not_written_and_works_of_no_part_are_deleted() {
    let hosted = LiveAddOn::new(addon(&[], Some("h")), valid(), Vec::new(), Vec::new());
    let wanted = parts(&hosted, manifests());
    assert_eq!(written(&hosted.writes(&wanted).unwrap()), [THERE, HERE]);
    let there = with(&hosted, &wanted);
    assert_eq!(written(&there.writes(&wanted).unwrap()), [""; 0]);
    let less = parts(&there, vec![object("ConfigMap", "m", "")]);
    let writes = there.writes(&less).unwrap();
    let jobs = "h/addon-a-pre-delete-hosting-c1";
    assert_eq!((written(&writes), names(writes.surplus)), (vec![], vec![THERE.to_owned(), jobs.to_owned()]));
    let own = addon(&[HOSTING_CLEANUP_FINALIZER], None);
    let own = with(&LiveAddOn { addon: own, host: Host::None, ..hosted.clone() }, &wanted);
    assert_eq!(names(own.works_at(Place::Hosting)), [""; 0], "the host of before counts for no part");
    assert_eq!(names(own.writes(&[]).unwrap().surplus).len(), 3, "all but the jobs on its cluster");
    let invalid = LiveAddOn { host: Host::Invalid("gone".into()), ..there };
    assert_eq!((invalid.writes(&wanted), invalid.finalizers(&wanted)), (None, None));
}

#[test]
fn an_addon_is_held_for_its_jobs_and_for_works_on_another_cluster() {
    let live = LiveAddOn::new(addon(&[], Some("h")), valid(), Vec::new(), Vec::new());
    let needed = |live: &LiveAddOn, manifests| live.finalizers(&parts(live, manifests)).unwrap().needed;
    let all = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER, HOSTING_CLEANUP_FINALIZER];
    assert_eq!(needed(&live, manifests()), all);
    assert_eq!(needed(&live, vec![object("ConfigMap", "m", "hosting")]), [HOSTING_CLEANUP_FINALIZER]);
    assert_eq!(live.finalizers(&[]).unwrap().unneeded, all);
    let there = with(&live, &parts(&live, manifests()));
    assert_eq!(needed(&there, Vec::new()), [HOSTING_CLEANUP_FINALIZER], "until its works there are gone");
}

#[test]
fn jobs_are_written_if_a_finalizer_holds_the_addon_and_the_cluster_is_accepted() {
    let jobs = |finalizers: &[&str], is_accepted| {
        let live = LiveAddOn::new(addon(finalizers, Some("h")), valid(), Vec::new(), Vec::new());
        let parts = parts(&live, manifests());
        let Jobs { writes, wait } = live.jobs(Ok(&parts), is_accepted);
        assert_eq!(wait.is_some(), !writes.is_empty());
        names(writes.iter().map(|write| write.wanted))
    };
    let (here, there) = ("c1/addon-a-pre-delete", "h/addon-a-pre-delete-hosting-c1");
    assert_eq!(jobs(&JOB_FINALIZERS, true), [there, here]);
    assert_eq!(jobs(&JOB_FINALIZERS, false), [there]);
    assert_eq!(jobs(&[ADDON_PRE_DELETE], true), [here]);
    assert_eq!(jobs(&[HOSTING_CLEANUP_FINALIZER], true), [""; 0]);
}

#[test]
fn unknown_jobs_hold_the_addon_of_an_accepted_cluster_and_a_failed_job_is_reported_first() {
    let live = LiveAddOn::new(addon(&JOB_FINALIZERS, Some("h")), valid(), Vec::new(), Vec::new());
    assert!(live.jobs(Err("no template"), true).wait.is_some());
    assert!(live.jobs(Err("no template"), false).wait.is_none());
    let mut wanted = parts(&live, manifests());
    let meta = json!({"ordinal": 0, "group": "batch", "resource": "jobs", "name": "j", "namespace": "ns"});
    let value = json!({"name": "JobFailed", "fieldValue": {"type": "String", "string": "no disk"}});
    let available = json!({"type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status: Value = json!({"conditions": [available],
        "resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}]}});
    wanted[1].hook.as_mut().unwrap().status = Some(serde_json::from_value(status).unwrap());
    let there = with(&live, &wanted);
    let Jobs { writes, wait } = there.jobs(Ok(&wanted), true);
    let wait = wait.unwrap();
    assert!(writes.is_empty() && wait.has_failed, "the job on the host is open, and comes first");
    let report = |wait: &HookWait, now: &str| wait.report(&live.addon, now.parse().unwrap());
    let warning = |wait: &HookWait, now| report(wait, now).warning.map(|(reason, _)| reason);
    assert_eq!(warning(&wait, "2026-01-01T00:00:01Z"), Some("HookFailed"));
    let open = live.jobs(Err("no template"), true).wait.unwrap();
    let WaitReport { warning: early, wake, .. } = report(&open, "2026-01-01T00:09:59Z");
    assert_eq!((early, wake), (None, Some("2026-01-01T00:10:00Z".parse().unwrap())));
    assert_eq!(warning(&open, "2026-01-01T00:10:00Z"), Some("HookNotCompleted"));
}

#[test]
fn a_deletion_waits_ten_minutes_for_works_that_an_agent_can_still_remove() {
    let live = LiveAddOn::new(addon(&[], Some("h")), valid(), Vec::new(), Vec::new());
    let live = with(&live, &parts(&live, manifests()));
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let WorksEnd { delete, until } = live.end_hosted(true, now);
    assert_eq!((names(delete).len(), until), (2, Some("2026-01-01T00:10:00Z".parse().unwrap())));
    assert_eq!(live.end_hosted(false, now).until, None);
    let mut ending = ManifestWork::clone(&live.hosted[0]);
    ending.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    let ending = [Arc::new(ending)];
    let after = |minutes| end_works(&ending, true, now + jiff::SignedDuration::from_mins(minutes));
    assert!(after(9).delete.is_empty() && after(9).until.is_some() && after(10).until.is_none());
}

#[test]
fn a_deleted_addon_leaves_the_works_that_it_controls_and_those_on_its_host() {
    let live = LiveAddOn::new(addon(&[], Some("h")), valid(), Vec::new(), Vec::new());
    let live = with(&live, &parts(&live, manifests()));
    let mut foreign = ManifestWork::clone(&live.managed[0]);
    foreign.metadata.owner_references = None;
    let here = live.managed.iter().cloned().chain([Arc::new(foreign)]).collect();
    let left = leftovers(&Key::namespaced("c1", "a"), here, live.hosted.clone());
    assert_eq!((live.managed.len(), live.hosted.len(), left.len()), (2, 2, 4));
}
