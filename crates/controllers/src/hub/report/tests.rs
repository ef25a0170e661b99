use serde_json::{Value, json};

use super::*;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::{ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Object;
use object::tree::FileTree;
use reconcile::{Answer, Caches, Delta, Outcome, ReportTakeover, Site};
use sim::World;

mod foreign;

const BRANCH: &str = "wheelwright/status";

fn key() -> Key {
    Key::namespaced("config", "fleet")
}

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

/// Returns a hub whose repository has one add-on that is not installed anywhere.
fn world(report: Value) -> World {
    let mut world = World::new(7, "2026-01-02T03:04:05Z".parse().unwrap());
    world
        .apply(object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"}}})))
        .unwrap();
    let spec = json!({"url": "https://git.example/fleet", "report": report});
    let metadata = json!({"namespace": "config", "name": "fleet"});
    world
        .apply(object(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec})))
        .unwrap();
    world
}

fn commit(world: &mut World, revision: char, add_on: &str) {
    let file = format!(
        "apiVersion: addon.open-cluster-management.io/v1alpha1\nkind: ClusterManagementAddOn\nmetadata:\n  name: {add_on}\nspec: {{}}\n"
    );
    let tree: FileTree = [("addon.yaml", file.as_bytes())].into_iter().collect();
    world.commit(&key(), &revision.to_string().repeat(40), tree);
}

fn run(world: &mut World, seconds: i64) {
    world.run_for(SignedDuration::from_secs(seconds)).unwrap();
}

fn reported(world: &World) -> (String, String) {
    let status = world.get::<ConfigRepo>(&key()).unwrap().status.unwrap();
    find_condition(&status.conditions, REPORTED)
        .map(|c| (c.status.to_string(), c.reason.clone()))
        .unwrap_or_default()
}

#[test]
fn one_change_gives_one_report_and_a_report_gives_none() {
    let mut world = world(json!({}));
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    let pushes = &world.branches[BRANCH];
    assert_eq!(pushes.len(), 1, "{:?}", pushes.iter().map(|push| &push.message).collect::<Vec<_>>());
    assert_eq!(pushes[0].files.keys().collect::<Vec<_>>(), ["README.md", "addons/msa.md", "summary.json"]);
    assert!(pushes[0].message.contains(&format!("Wheelwright-Source: {}", "1".repeat(40))));
    assert_eq!(reported(&world), ("True".into(), "Pushed".into()));
    world.run_for(SignedDuration::from_hours(24)).unwrap();
    world.restart_operator();
    run(&mut world, 600);
    assert_eq!(world.branches[BRANCH].len(), 1);
}

#[test]
fn the_status_names_the_last_ten_reports_at_their_destination() {
    let mut world = world(json!({}));
    for revision in "123456789abc".chars() {
        commit(&mut world, revision, "msa");
        run(&mut world, 60);
    }
    let report = |world: &World| world.get::<ConfigRepo>(&key()).unwrap().status.unwrap().report.unwrap();
    let last = report(&world);
    let reported: Vec<_> = last.history.iter().map(|pushed| format!("report: {}", pushed.summary)).collect();
    let pushed = world.branches[BRANCH].iter().rev().take(10);
    let pushed: Vec<_> = pushed.map(|push| push.message.lines().next().unwrap().to_owned()).collect();
    assert!(world.branches[BRANCH].len() > 10 && reported.len() == 10, "{reported:?}");
    assert_eq!(reported, pushed);
    assert_eq!((&last.history[0].commit, &last.history[0].time), (&last.commit, &last.time));
    let commits: std::collections::BTreeSet<_> = last.history.iter().map(|pushed| &pushed.commit).collect();
    assert_eq!(commits.len(), 10);

    let mut repo = world.get::<ConfigRepo>(&key()).unwrap();
    repo.spec.report.as_mut().unwrap().branch = "elsewhere".into();
    world
        .apply(object(json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"namespace": "config", "name": "fleet"}, "spec": repo.spec,
        })))
        .unwrap();
    run(&mut world, 60);
    commit(&mut world, 'd', "msa");
    run(&mut world, 60);
    let (there, pushes) = (report(&world), world.branches["elsewhere"].len());
    assert!((1..=pushes).contains(&there.history.len()) && pushes < 10, "{pushes}: {there:?}");
    assert_eq!((there.branch.as_str(), &there.history[0].commit), ("elsewhere", &there.commit));
}

#[test]
fn a_report_has_its_author_and_one_that_would_break_a_commit_is_refused() {
    let mut world = world(json!({"author": {"name": "Fleet Reports", "email": "fleet@example.com"}}));
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    let author = world.branches[BRANCH][0].author.clone().unwrap();
    assert_eq!((author.name.as_str(), author.email.as_str()), ("Fleet Reports", "fleet@example.com"));
    for (name, email) in
        [("A\ntree 1", "a@b"), ("A <b>", "a@b"), (" ", "a@b"), ("A", "a b"), ("A", "a>\n"), ("", "")]
    {
        let spec =
            json!({"url": "https://git.example/fleet", "report": {"author": {"name": name, "email": email}}});
        let metadata = json!({"namespace": "config", "name": "other"});
        let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec});
        assert!(world.apply(object(repo)).is_err(), "{name:?} {email:?}");
    }
}

#[test]
fn a_confined_repository_does_not_report_the_fleet() {
    let summary = |account: &str| {
        let mut world = world(json!({}));
        let spec = json!({
            "url": "https://git.example/fleet", "report": {}, "mode": "Observe", "serviceAccountName": account,
        });
        let metadata = json!({"namespace": "config", "name": "fleet"});
        let repo = |namespace: &str| {
            let metadata = json!({"namespace": namespace, "name": "other"});
            json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": {"url": "https://git.example/other"}})
        };
        let others = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}),
            repo("tenant"),
            repo("config"),
            json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}),
            json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "theirs"}, "spec": {}}),
            json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "c1"}, "spec": {}}),
        ];
        for other in others {
            world.apply(object(other)).unwrap();
        }
        let tree: FileTree = [("README.md", b"no objects".as_slice())].into_iter().collect();
        world.commit(&key(), &"1".repeat(40), tree);
        run(&mut world, 60);
        world.branches[BRANCH][0].files["summary.json"].clone()
    };
    let fleet = |text: &str| {
        let summary: Value = serde_json::from_str(text).unwrap();
        let repos: Vec<String> = summary["otherConfigRepos"].as_object().unwrap().keys().cloned().collect();
        (summary["clusters"].clone(), text.contains("theirs"), repos)
    };
    assert!(fleet(&summary("")).1);
    assert!(!fleet(&summary("deployer")).1);
    assert_ne!(fleet(&summary("")).0, fleet(&summary("deployer")).0);
    assert_eq!(fleet(&summary("")).2, ["config/other", "tenant/other"]);
    assert_eq!(fleet(&summary("deployer")).2, ["config/other"]);
}

#[test]
fn changes_that_keep_coming_are_reported_once_an_interval() {
    let mut world = world(json!({}));
    for round in 0..120 {
        commit(&mut world, if round % 2 == 0 { '1' } else { '2' }, "msa");
        run(&mut world, 5);
    }
    let pushes = world.branches[BRANCH].len();
    assert!((8..=20).contains(&pushes), "{pushes} in ten minutes");
}

/// Returns the repository after a push with this outcome, and the plan a while later.
fn after(outcome: Outcome, later: SignedDuration) -> (ConfigRepo, Plan) {
    let (caches, repo, now) = concluded(outcome);
    (repo, ReportController::plan(&key(), &caches, now + later).unwrap())
}

/// Returns the caches and the repository after a push with this outcome, and the time.
fn concluded(outcome: Outcome) -> (Caches, ConfigRepo, Timestamp) {
    let mut world = world(json!({}));
    commit(&mut world, '1', "msa");
    run(&mut world, 2);
    let now = world.now + SignedDuration::from_mins(2);
    let mut caches = Caches::default();
    let mut repo = world.get::<ConfigRepo>(&key()).unwrap();
    caches.replace(Site::Hub, vec![repo.clone()], "1");
    caches.replace(Site::Hub, world.list::<ClusterManagementAddOn>(), "1");
    caches.replace(Site::Hub, world.list::<ManagedCluster>(), "1");
    caches.replace(Site::Hub, Vec::<ManagedClusterAddOn>::new(), "1");
    caches.replace(Site::Hub, Vec::<RolloutPolicy>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWorkReplicaSet>::new(), "1");
    caches.replace(Site::Hub, Vec::<ConfigRepoInventory>::new(), "1");
    caches.replace(Site::Hub, Vec::<ManifestWork>::new(), "1");
    caches.replace(Site::Hub, Vec::<Placement>::new(), "1");
    caches.replace(Site::Hub, world.list::<Namespace>(), "1");
    let plan = ReportController::plan(&key(), &caches, now).unwrap();
    assert_eq!(plan.steps.len(), 1);
    let done = Executed { plan, outcomes: vec![vec![outcome]] };
    let write = ReportController::conclude(&key(), &caches, &done, now).unwrap().unwrap();
    let mut value = Object::from_typed(&repo).into_value();
    json_patch::merge(&mut value, &Value::Object(write.patch));
    repo = serde_json::from_value(value).unwrap();
    repo.metadata.resource_version = Some("1000000".into());
    caches.apply(Site::Hub, Delta::Seen(repo.clone()));
    (caches, repo, now)
}

#[test]
fn a_refused_push_is_a_condition_and_is_retried_after_ten_minutes() {
    let refusal = || {
        Err(Failure {
            kind: FailureKind::Forbidden,
            message: "https://git.example refuses the push: protected".into(),
        })
    };
    let (repo, soon) = after(refusal(), SignedDuration::from_mins(5));
    let status = repo.status.unwrap();
    let condition = find_condition(&status.conditions, REPORTED).unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("StatusPushRejected", "https://git.example refuses the push: protected")
    );
    let ready = find_condition(&status.conditions, "Ready").unwrap();
    assert_eq!(ready.status.as_str(), "True", "a report that fails holds nothing up");
    assert!(soon.steps.is_empty() && soon.wake_at.is_some());
    assert_eq!(after(refusal(), SignedDuration::from_mins(11)).1.steps.len(), 1);

    // A person asks for a fetch, because the credentials are correct now.
    let (mut caches, mut repo, now) = concluded(refusal());
    let asked = (now + SignedDuration::from_secs(5)).to_string();
    repo.metadata.annotations.get_or_insert_default().insert(RECONCILE_AT_ANNOTATION.into(), asked);
    repo.metadata.resource_version = Some("1000001".into());
    caches.apply(Site::Hub, Delta::Seen(repo));
    let pushes = |seconds: i64| {
        ReportController::plan(&key(), &caches, now + SignedDuration::from_secs(seconds)).unwrap().steps.len()
    };
    assert_eq!([pushes(20), pushes(31)], [0, 1], "after the interval");
}

#[test]
fn a_contended_branch_is_reported_and_pushed_to_after_the_interval() {
    let (repo, soon) = after(
        Err(Failure { kind: FailureKind::Conflict, message: "others push".into() }),
        SignedDuration::from_secs(10),
    );
    let status = repo.status.unwrap();
    assert_eq!(find_condition(&status.conditions, REPORTED).unwrap().reason, "StatusPushContended");
    assert!(soon.steps.is_empty() && soon.wake_at.is_some());
}

#[test]
fn an_unreachable_remote_gets_the_newest_state_when_it_is_back() {
    let failure = || Err(Failure { kind: FailureKind::Unavailable, message: "down".into() });
    let (repo, soon) = after(failure(), SignedDuration::from_secs(10));
    assert_eq!(repo.status.unwrap().report.unwrap().error, "down");
    assert!(soon.steps.is_empty());
    let again = after(failure(), SignedDuration::from_secs(31)).1;
    let reasons: Vec<&str> = again.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!((again.steps.len(), reasons), (1, vec!["Pushed"]), "the event follows if the push succeeds");
    assert!(
        after(Ok(Answer::Nothing), SignedDuration::from_secs(31)).1.is_empty(),
        "and nothing more once it is there"
    );
}

#[test]
fn a_process_that_ends_pushes_what_waits_and_nothing_that_was_refused() {
    let failed = |kind| Err(Failure { kind, message: "no".into() });
    let last =
        |caches: &Caches, now: Timestamp| last_reports(caches, now + SignedDuration::from_secs(1)).len();
    let (caches, _, now) = concluded(failed(FailureKind::Unavailable));
    assert!(
        ReportController::plan(&key(), &caches, now).unwrap().steps.is_empty(),
        "the interval holds it back"
    );
    assert_eq!(last(&caches, now), 1);
    let (caches, _, now) = concluded(Ok(Answer::Nothing));
    assert_eq!(last(&caches, now), 0, "nothing is new");
    for refusal in [FailureKind::Forbidden, FailureKind::FieldConflict, FailureKind::NotFound] {
        let (mut caches, mut repo, now) = concluded(failed(refusal));
        assert_eq!(last(&caches, now), 0, "{refusal:?}");
        repo.metadata.generation = repo.metadata.generation.map(|generation| generation + 1);
        repo.metadata.resource_version = Some("1000001".into());
        caches.apply(Site::Hub, Delta::Seen(repo));
        assert_eq!(last(&caches, now), 1, "{refusal:?}");
    }
}

#[test]
fn hubs_with_one_branch_report_to_separate_directories() {
    for (path, expected) in [("", None), ("/", Some("")), ("/reports/europe/", Some("reports/europe"))] {
        let mut world = world(json!({"path": path}));
        commit(&mut world, '1', "msa");
        run(&mut world, 60);
        let hub = world.get::<Namespace>(&Key::cluster("kube-system")).unwrap();
        let own = format!("hubs/{}", &hub.uid()[..8]);
        let status = world.get::<ConfigRepo>(&key()).unwrap().status.unwrap().report.unwrap();
        assert_eq!(status.path, expected.unwrap_or(&own));
        assert_eq!(world.branches[BRANCH].len(), 1, "its own status makes no second report");
        assert_eq!(world.branches[BRANCH][0].directory, status.path);
    }
    let uids = ["1a2b3c4d-0000-4000-8000-000000000000", "9f8e7d6c-0000-4000-8000-000000000000"];
    let directories = uids.map(|uid| directory(&ConfigRepoReport::default(), uid));
    assert_eq!(directories, ["hubs/1a2b3c4d", "hubs/9f8e7d6c"]);
}

#[test]
fn a_report_follows_the_last_one_and_the_next_one_may_move() {
    let mut world = world(json!({}));
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    commit(&mut world, '2', "other");
    run(&mut world, 60);
    let last = |world: &World, branch: &str| -> Vec<String> {
        world.branches[branch].iter().map(|push| push.last.clone()).collect()
    };
    let first = format!("{:040x}", 1);
    assert_eq!(last(&world, BRANCH), [String::new(), first]);
    let moves = [
        (json!({"path": "hub"}), BRANCH, format!("{:040x}", 2)),
        (json!({"branch": "other"}), "other", String::new()),
        (json!({"branch": "other", "url": "https://git.example/reports"}), "other", String::new()),
    ];
    for (report, branch, expected) in moves {
        let before = world.branches.get(branch).map_or(0, Vec::len);
        let spec = json!({"url": "https://git.example/fleet", "report": report});
        let metadata = json!({"namespace": "config", "name": "fleet"});
        world.apply(object(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": metadata, "spec": spec}))).unwrap();
        run(&mut world, 60);
        assert_eq!(last(&world, branch)[before..], [expected], "{report}");
    }
}

#[test]
fn a_branch_deleted_by_a_person_stops_the_report_until_the_spec_changes() {
    let gone = || Err(Failure { kind: FailureKind::NotFound, message: "main was deleted".into() });
    let (repo, soon) = after(gone(), SignedDuration::from_mins(5));
    let status = repo.status.clone().unwrap();
    let condition = find_condition(&status.conditions, REPORTED).unwrap();
    assert_eq!(
        (condition.reason.as_str(), condition.message.as_str()),
        ("StatusPushStopped", "main was deleted")
    );
    assert_eq!(status.report.unwrap().branch, "", "no report is there");
    assert!(soon.steps.is_empty() && soon.wake_at.is_some(), "it looks again after ten minutes");
    assert_eq!(after(gone(), SignedDuration::from_mins(11)).1.steps.len(), 1);
    let mut edited = repo;
    edited.metadata.generation = edited.metadata.generation.map(|generation| generation + 1);
    let due = not_before(&edited, edited.status.clone().unwrap().report.unwrap().time.unwrap().0);
    assert_eq!(due, None, "an edit of the spec is answered at once");
}

#[test]
fn a_hub_stops_reporting_if_another_hub_with_its_identity_reports() {
    let fenced = || Err(Failure { kind: FailureKind::FieldConflict, message: "writer 2".into() });
    let (repo, soon) = after(fenced(), SignedDuration::from_mins(5));
    let status = repo.status.clone().unwrap();
    assert_eq!(find_condition(&status.conditions, REPORTED).unwrap().reason, "StatusPushFenced");
    assert!(soon.steps.is_empty(), "{soon:?}");
    let takes_over = |plan: &Plan| match &plan.steps[0][0] {
        Action::Push(push) => push.takes_over,
        other => panic!("{other:?}"),
    };
    let (_, later) = after(fenced(), SignedDuration::from_mins(11));
    assert_eq!(takes_over(&later), ReportTakeover::Never, "it asks again and takes nothing over");
    let refused = Err(Failure { kind: FailureKind::Forbidden, message: "protected".into() });
    let (_, later) = after(refused, SignedDuration::from_mins(11));
    assert_eq!(takes_over(&later), ReportTakeover::Continued);
    let (mut caches, mut edited, now) = concluded(fenced());
    edited.metadata.generation = edited.metadata.generation.map(|generation| generation + 1);
    edited.metadata.resource_version = Some("1000001".into());
    caches.apply(Site::Hub, Delta::Seen(edited));
    let plan = ReportController::plan(&key(), &caches, now).unwrap();
    assert_eq!(takes_over(&plan), ReportTakeover::Always, "a person made it the writer");
}

#[test]
fn a_report_without_the_snapshot_of_a_large_fleet_says_so() {
    let mut world = world(json!({"snapshot": true}));
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        world.apply(object(json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"namespace": "config", "name": name}, "revision": 1, "data": "x".repeat(1 << 20)}))).unwrap();
    }
    commit(&mut world, '1', "msa");
    run(&mut world, 60);
    let status = world.get::<ConfigRepo>(&key()).unwrap().status.unwrap();
    let condition = find_condition(&status.conditions, REPORTED).unwrap();
    assert!(condition.is_true() && condition.message.starts_with("without a snapshot: "), "{condition:?}");
}
