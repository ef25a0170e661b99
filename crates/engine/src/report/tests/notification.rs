use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::report::{Rollout, WorkloadCluster};
use crate::rollout::state::Wait;
use api::gitops::v1alpha1::RolloutCounts;

const FAILED: ClusterState = ClusterState::Failed { deadline: None };

fn repo(status: Value) -> ConfigRepo {
    let repo = json!({"metadata": {"name": "fleet", "namespace": "config"}, "spec": {"url": "https://git.example/a/b"}, "status": status});
    serde_json::from_value(repo).unwrap()
}

/// Returns a repository whose condition `type_` is true and whose condition Ready is false.
fn waiting(type_: &str, reason: &str, rest: Value) -> ConfigRepo {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": reason, "message": "c: not <right>", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut status = json!({"seen": {"commit": "2".repeat(40)}, "applied": {"commit": "1".repeat(40)},
        "conditions": [condition("Ready", "False"), condition(type_, "True")]});
    status.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    repo(status)
}

fn cluster(name: &str, state: ClusterState) -> Arc<WorkloadCluster> {
    let (name, message, runs) = (name.into(), format!("pod of {name} crashes"), String::new());
    let (available, reports_error) = (true, false);
    Arc::new(WorkloadCluster {
        state,
        available,
        reports_error,
        name,
        message,
        runs,
        started: None,
        ended: None,
    })
}

fn workload(name: &str, desired: &str, clusters: Vec<Arc<WorkloadCluster>>) -> Workload {
    let rollout = Rollout { desired: desired.into(), ..Rollout::default() };
    Workload { name: name.into(), rollouts: vec![rollout], clusters, ..Workload::default() }
}

fn fleet(add_ons: Vec<Workload>) -> FleetReport {
    let applied = "1".repeat(40);
    FleetReport {
        repo: "config/fleet".into(),
        ready: true,
        seen: applied.clone(),
        applied,
        add_ons,
        ..FleetReport::default()
    }
}

fn problem_of(repo: &ConfigRepo, is_unreachable: bool) -> Option<Situation> {
    problem(repo, &FleetReport::read(repo, &[]), is_unreachable)
}

#[test]
fn a_repository_that_waits_for_a_person_or_for_long_is_a_problem() {
    let none = || json!({});
    let cases = [
        ("Stalled", "InvalidObject", false, Some(NotifiedState::Stalled), "wheelwright status"),
        (
            "Stalled",
            "PlanNotApproved",
            false,
            Some(NotifiedState::ApprovalNeeded),
            "wheelwright repo approve config/fleet",
        ),
        (
            "Reconciling",
            "DeletionsHeld",
            false,
            Some(NotifiedState::ApprovalNeeded),
            "wheelwright repo approve config/fleet",
        ),
        ("Reconciling", "SourceUnreachable", true, Some(NotifiedState::Unreachable), "wheelwright doctor"),
        ("Reconciling", "SourceUnreachable", false, None, ""),
        ("Reconciling", "Rendering", false, None, ""),
        ("Reconciling", "Frozen", false, None, ""),
    ];
    for (type_, reason, is_unreachable, state, command) in cases {
        let found = problem_of(&waiting(type_, reason, none()), is_unreachable);
        assert_eq!(found.as_ref().map(|found| found.state.clone()), state, "{reason}");
        if let Some(found) = found {
            assert_eq!(found.cause, format!("{reason}: c: not <right>"));
            assert_eq!((found.commit, found.command), ("2".repeat(40), command.to_owned()));
        }
    }
}

#[test]
fn a_failed_rollout_comes_before_the_health_of_its_set_but_not_before_a_rejected_commit() {
    for (reason, state) in [
        ("HealthCheckFailed", NotifiedState::RolloutFailed),
        ("HealthTimeout", NotifiedState::RolloutFailed),
        ("InvalidObject", NotifiedState::Stalled),
    ] {
        let repo = waiting("Stalled", reason, json!({}));
        let add_ons = vec![workload("logging", "a", vec![cluster("c1", FAILED)])];
        let fleet = FleetReport { add_ons, ..FleetReport::read(&repo, &[]) };
        assert_eq!(problem(&repo, &fleet, false).unwrap().state, state, "{reason}");
        let waits = Workload { approvals: vec!["a".into()], ..Workload::default() };
        let fleet = FleetReport { add_ons: vec![waits], ..FleetReport::read(&repo, &[]) };
        assert_eq!(problem(&repo, &fleet, false).unwrap().state, NotifiedState::Stalled, "{reason}");
    }
}

#[test]
fn a_situation_differs_by_reason_commit_and_what_waits_but_not_by_its_message() {
    let digest =
        |reason: &str, rest: Value| problem_of(&waiting("Stalled", reason, rest), false).unwrap().digest;
    let first = digest("InvalidObject", json!({}));
    assert_eq!(first, digest("InvalidObject", json!({"healthy": {"commit": "1"}})));
    let mut other = waiting("Stalled", "InvalidObject", json!({}));
    for condition in &mut other.status.as_mut().unwrap().conditions {
        condition.message = "in other words".into();
    }
    assert_eq!(first, problem_of(&other, false).unwrap().digest);
    assert_ne!(first, digest("NotFound", json!({})));
    let unreachable =
        |reason: &str| problem_of(&waiting("Reconciling", reason, json!({})), true).unwrap().digest;
    assert_eq!(unreachable("SourceUnreachable"), unreachable("SourceTimeout"));
    assert_ne!(first, digest("InvalidObject", json!({"seen": {"commit": "3"}})));
    let plan = |hash: &str| digest("PlanNotApproved", json!({"heldPlan": hash}));
    assert_ne!(plan("a"), plan("b"));
    let deletions = |approval: &str| {
        digest("DeletionsHeld", json!({"heldDeletions": {"approval": approval, "total": 1}}))
    };
    assert_ne!(deletions("a"), deletions("b"));
}

#[test]
fn failures_of_rollouts_are_problems_by_revision_and_whatever_their_number() {
    let ready = repo(json!({}));
    let of = |add_ons: Vec<Workload>| problem(&ready, &fleet(add_ons), false);
    let done = || cluster("c9", ClusterState::Done);
    let one = of(vec![workload("msa", "msa@1", vec![cluster("c1", FAILED), done()])]).unwrap();
    assert_eq!(one.state, NotifiedState::RolloutFailed);
    assert_eq!(one.cause, "msa failed on 1 of 2 clusters; c1: pod of c1 crashes");
    assert_eq!(
        (one.commit.as_str(), one.command.as_str()),
        ("1".repeat(40).as_str(), "wheelwright rollout status msa")
    );
    let more =
        of(vec![workload("msa", "msa@1", vec![cluster("c1", FAILED), cluster("c2", FAILED)])]).unwrap();
    assert_eq!(more.digest, one.digest);
    let again = of(vec![workload("msa", "msa@2", vec![cluster("c1", FAILED), done()])]).unwrap();
    assert_ne!(again.digest, one.digest);

    let mut returned = workload("msa", "msa-0.4.9@1", vec![cluster("c1", ClusterState::Quarantined)]);
    returned.rollouts[0].quarantined = Some(RolloutCounts::default());
    returned.holds = vec!["msa@1 is quarantined on n/p".into()];
    let returned = of(vec![returned]).unwrap();
    assert_eq!(
        (returned.state, returned.cause.as_str()),
        (NotifiedState::RolledBack, "msa: 0.4.9 is quarantined; msa@1 is quarantined on n/p")
    );

    let waits = ClusterState::Waiting(Wait::Approval { token: "t0".into() });
    let held =
        Workload { approvals: vec!["t0".into()], ..workload("msa", "msa@1", vec![cluster("c1", waits)]) };
    let held = of(vec![held]).unwrap();
    assert_eq!(
        (held.state, held.cause.as_str()),
        (NotifiedState::ApprovalNeeded, "msa is done on 0 of 1 cluster; msa waits for the approval t0")
    );
    assert_eq!(of(vec![workload("msa", "msa@1", vec![done()])]), None);
}

#[test]
fn a_rollout_has_recovered_when_all_clusters_that_respond_have_ended() {
    let unreachable = || cluster("c2", ClusterState::Unreachable { moved: true });
    let all = |clusters| fleet(vec![workload("msa", "msa@2", clusters)]);
    let ended = all(vec![cluster("c1", ClusterState::Done), unreachable()]);
    let starting = all(vec![cluster("c1", ClusterState::Starting), unreachable()]);
    let responds = repo(json!({}));
    let recovered = recovery(&responds, &ended, &NotifiedState::RolloutFailed).unwrap();
    assert_eq!((recovered.state, recovered.digest.as_str()), (NotifiedState::Recovered, ""));
    assert_eq!(recovered.cause, "111111111111 is applied; msa is done on 1 of 2 clusters");
    assert_eq!(recovery(&responds, &starting, &NotifiedState::RolledBack), None);
    assert!(recovery(&responds, &starting, &NotifiedState::Stalled).is_some());
    assert_eq!(recovery(&responds, &ended, &NotifiedState::Recovered), None);
    assert_eq!(recovery(&responds, &FleetReport { ready: false, ..ended }, &NotifiedState::Stalled), None);
}

#[test]
fn a_git_server_has_recovered_when_it_responds_although_the_commit_waits() {
    let recovery_with = |rest: Value| {
        let repo = waiting("Reconciling", "Frozen", rest);
        recovery(&repo, &FleetReport::read(&repo, &[]), &NotifiedState::Unreachable)
    };
    let recovered = recovery_with(json!({})).unwrap();
    assert_eq!(
        (recovered.state, recovered.cause.as_str()),
        (NotifiedState::Recovered, "the git server responds; Frozen: c: not <right>")
    );
    assert_eq!(recovery_with(json!({"unreachableSince": "2026-01-01T00:00:00Z"})), None);
}

fn message(situation: &Situation, url: &str, format: &NotificationType) -> Value {
    let time = "2026-03-25T10:00:00Z".parse().unwrap();
    let message = Message { id: "0123456789abcdef", hub: "u", repo: "config/fleet", url, time, situation };
    serde_json::from_str(&message.body(format)).unwrap()
}

fn situation(commit: &str) -> Situation {
    Situation {
        state: NotifiedState::Stalled,
        digest: "d".into(),
        commit: commit.into(),
        cause: "InvalidObject: <!channel> a & b".into(),
        command: "wheelwright status".into(),
    }
}

#[test]
fn a_cloud_event_has_the_required_attributes_and_leaves_out_what_is_unknown() {
    let event = message(&situation("abc"), "https://git.example/a/b.git", &NotificationType::CloudEvents);
    let data = json!({"repository": "config/fleet", "url": "https://git.example/a/b.git", "state": "Stalled",
        "cause": "InvalidObject: <!channel> a & b", "commit": "abc", "link": "https://git.example/a/b/commit/abc",
        "command": "wheelwright status"});
    let expected = json!({"specversion": "1.0", "id": "0123456789abcdef", "type": "dev.wheelwright.configrepo.Stalled",
        "source": "/hubs/u/configrepos/config/fleet", "subject": "abc", "time": "2026-03-25T10:00:00Z",
        "datacontenttype": "application/json", "data": data});
    assert_eq!(event, expected);
    let unknown = message(&situation(""), "/srv/fleet.git", &NotificationType::CloudEvents);
    assert_eq!(
        (unknown.get("subject"), unknown["data"].get("link"), unknown["data"].get("commit")),
        (None, None, None)
    );
}

#[test]
fn no_text_mentions_people_or_hides_a_link_in_slack() {
    let slack = |commit: &str, url: &str| message(&situation(commit), url, &NotificationType::Slack);
    let head = "*config/fleet* :red_circle: is stalled: InvalidObject: &lt;!channel&gt; a &amp; b\n";
    let linked = "<https://git.example/a/b/commit/0123456789abcdef|0123456789ab> `wheelwright status`";
    assert_eq!(
        slack("0123456789abcdef", "ssh://git@git.example:22/a/b.git"),
        json!({"text": format!("{head}{linked}")})
    );
    assert_eq!(slack("abc", "/srv/b.git"), json!({"text": format!("{head}`abc` `wheelwright status`")}));
    assert_eq!(slack("", "/srv/b.git"), json!({"text": format!("{head}`wheelwright status`")}));
}

#[test]
fn a_url_that_may_contain_credentials_is_not_sent() {
    for url in [
        "https://user:s3cret@git.example/a/b",
        "https://s3cret@git.example/a/b",
        "https://user:s3/cret@git.example/a/b",
        "HTTPS://user:s3cret@git.example/a/b",
        "ssh://git:s3cret@git.example/a/b",
        "https://git.example/a/b?token=s3cret",
        "oci://user:s3cret@registry.example/a/b",
        "user:s3cret@git.example/a/b",
        "s3cret@git.example/a/b",
    ] {
        let event = message(&situation("abc"), url, &NotificationType::CloudEvents);
        assert_eq!((event["data"].get("url"), event["data"].get("link")), (None, None), "{url}");
        let slack = message(&situation("abc"), url, &NotificationType::Slack);
        for sent in [event, slack] {
            assert!(!sent.to_string().contains("s3"), "{url}: {sent}");
        }
    }
    for url in [
        "https://git.example:8443/a/b",
        "ssh://git@git.example:22/a/b",
        "git@git.example:a/b",
        "oci://registry.example/a/b",
        "/srv/fleet.git",
    ] {
        let event = message(&situation("abc"), url, &NotificationType::CloudEvents);
        assert_eq!(event["data"]["url"], url);
    }
}
