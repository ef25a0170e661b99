//! Compares plans from reports with plans from the hubs that reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::fixtures::{config_repo, repo, seconds};
use super::previews::{apply, commit, fleet, maps, previewed};
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use engine::report::{SnapshotReader, snapshot};
use object::tree::{Checkout, FileTree};
use object::{Key, Object, Random};
use preview::{
    HubSnapshot, LeftOut, Preview, PreviewError, PreviewScope, ProposedCommit, ReportedHub, Verdict,
    of_report, preview, same_as_applied,
};
use sim::World;
use sim::history::Content;
use store::{Patch, ResourcePath, WriteOptions};

/// Returns the snapshot files of the newest report.
fn files(world: &World) -> impl Iterator<Item = &str> {
    let report = world.branches["wheelwright/status"].last().unwrap();
    let files = report.files.iter().filter(|(path, _)| path.starts_with("snapshot/"));
    files.map(|(_, text)| text.as_str())
}

/// Returns the objects of the newest report.
pub(crate) fn reported(world: &World) -> Vec<Object> {
    let mut reader = SnapshotReader::default();
    files(world).flat_map(|file| reader.read(file).unwrap()).collect()
}

/// Returns the preview from only the newest report and the repository. Reads nothing that the plan does not ask
/// for.
fn from_report(world: &World, trees: &BTreeMap<String, FileTree>, commit: &ProposedCommit) -> Preview {
    let mut left_out = LeftOut::but(PreviewScope::default());
    loop {
        let mut reader = SnapshotReader::default();
        let read = files(world).flat_map(|file| left_out.read_reported(&mut reader, file).unwrap());
        let reported = of_report(read.collect(), &commit.repo, world.now);
        assert!(reported.warnings.is_empty(), "{:?}", reported.warnings);
        let ReportedHub { snapshot, applied, warnings: _ } = reported;
        let checkout = |revision: String| Arc::new(Checkout { tree: trees[&revision].clone(), revision });
        let base = applied.into_iter().map(|(repo, revision)| (repo, checkout(revision))).collect();
        let snapshot = HubSnapshot { left_out, ..snapshot };
        match preview(&snapshot, &ProposedCommit { base, ..commit.clone() }, world.now) {
            Err(PreviewError::LeftOut(scope)) => left_out = LeftOut::but(scope),
            planned => return planned.unwrap(),
        }
    }
}

/// Compares a commit's plan from a report with its plan from the hub; returns the latter.
fn check(world: &World, trees: &BTreeMap<String, FileTree>, commit: &ProposedCommit) -> Preview {
    let (of_hub, of_report) = (previewed(world, commit), from_report(world, trees, commit));
    let shown = |preview: &Preview| serde_json::to_string_pretty(preview).unwrap();
    let (hub, report) = (shown(&of_hub), shown(&of_report));
    assert_eq!(of_hub.hash(), of_report.hash(), "{}:\n{hub}\n{report}", commit.head.revision);
    of_hub
}

/// Returns a ConfigRepo that reports with a snapshot.
fn reporting(path: &str) -> Value {
    let report = json!({"snapshot": true, "interval": "1s"});
    json!({"url": "https://git.example/fleet", "path": path, "deletionBudget": {"objects": 2}, "report": report})
}

#[test]
fn a_plan_from_a_report_is_the_plan_from_the_hub() {
    for seed in 0..4 {
        let mut random = Random::new(seed ^ 0x7265_706f);
        let mut world = fleet(seed, 2 + random.below(4));
        config_repo(&mut world, &repo(), reporting(""));
        let mut content = Content::first(&mut random);
        let mut trees = BTreeMap::new();
        for number in 1..=4 {
            let commit = commit(number, content.files());
            trees.insert(commit.head.revision.clone(), commit.head.tree.clone());
            if number > 1 {
                check(&world, &trees, &commit);
            }
            apply(&mut world, &commit);
            content.change(&mut random);
        }
    }
}

/// Writes to an object as another client; returns true if the object exists.
fn write(world: &mut World, target: &ResourcePath, patch: &Patch, manager: &str) -> bool {
    world.hub.patch(target, patch, &WriteOptions::manager(manager).forced(), world.now).is_ok()
}

/// Writes to the repository's objects as people and other controllers do; returns true if the object exists.
fn meddle(world: &mut World, random: &mut Random) -> bool {
    let add_on = ResourcePath::of::<ClusterManagementAddOn>(&Key::cluster("app"));
    let placement = ResourcePath::of::<Placement>(&Key::namespaced("config", "fleet"));
    let policy = ResourcePath::of::<RolloutPolicy>(&Key::cluster("app"));
    let name = format!("m{}", random.below(8));
    let map = ResourcePath::of::<ConfigMap>(&Key::namespaced("config", &name));
    let note = Patch::Merge(json!({"metadata": {"annotations": {"note": "by hand"}, "labels": {"a": "b"}}}));
    let data = |data: Value| {
        let metadata = json!({"namespace": "config", "name": name});
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
    };
    match random.below(7) {
        0 => write(world, &add_on, &note, "kubectl-annotate"),
        1 => write(world, &placement, &note, "kubectl-edit"),
        2 => write(world, &policy, &Patch::Merge(json!({"spec": {"approved": ["x"]}})), "kubectl-patch"),
        // Gives the value a second owner.
        3 => match world.get::<ConfigMap>(&Key::namespaced("config", &name)) {
            Some(live) => write(world, &map, &data(json!(live.data)), "controller"),
            None => false,
        },
        4 => write(world, &map, &data(json!({"x": "own"})), "controller"),
        // The next apply takes over what kubectl applied, and removes it.
        5 => write(world, &map, &note, "kubectl-client-side-apply"),
        _ => write(world, &add_on, &note, "kubectl-client-side-apply"),
    }
}

#[test]
fn a_plan_from_a_report_leaves_the_fields_of_others_alone() {
    let (mut writes, mut changes) = (0, 0);
    for seed in 0..6 {
        let mut random = Random::new(seed ^ 0x6f77_6e65);
        let mut world = fleet(seed, 2);
        config_repo(&mut world, &repo(), reporting(""));
        let mut content = Content::first(&mut random);
        let mut trees = BTreeMap::new();
        for number in 1..=4 {
            let mut files = content.files();
            let spec =
                json!({"addOns": ["app"], "onBreach": if number % 2 == 0 { "Rollback" } else { "Pause" }});
            let policy = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
                "metadata": {"name": "app"}, "spec": spec});
            files.insert("policy.yaml", policy.to_string().into_bytes());
            let commit = commit(number, files);
            trees.insert(commit.head.revision.clone(), commit.head.tree.clone());
            if number > 1 {
                changes += check(&world, &trees, &commit).objects.len();
            }
            apply(&mut world, &commit);
            for _ in 0..3 {
                writes += usize::from(meddle(&mut world, &mut random));
            }
            world.run_for(seconds(30)).unwrap();
            content.change(&mut random);
        }
    }
    assert!(writes > 20 && changes > 20, "{writes} writes of others, {changes} changes");
}

#[test]
fn the_owners_of_fields_grow_a_snapshot_with_the_repository_and_not_with_the_fleet() {
    let grown = |clusters: u64| {
        let mut world = fleet(3, clusters);
        config_repo(&mut world, &repo(), reporting(""));
        apply(&mut world, &commit(1, Content { version: Some(1), ..Content::default() }.files()));
        let size = |objects: Vec<Object>| -> usize {
            snapshot(objects, world.now).unwrap().values().map(String::len).sum()
        };
        let with_owners = reported(&world);
        let is_owned = |object: &&Object| object.at(&["metadata", "managedFields"]).is_some();
        let owned = with_owners.iter().filter(is_owned).count();
        let mut without = with_owners.clone();
        without.iter_mut().for_each(|object| drop(object.metadata_mut().remove("managedFields")));
        let (before, after) = (size(without), size(with_owners));
        println!(
            "{clusters} clusters: {owned} objects with owners, {before} bytes without and {after} with them"
        );
        (owned, after - before)
    };
    let (small, large) = (grown(2), grown(20));
    assert_eq!(small, large);
    assert!(small.0 == 4 && small.1 < 4 * 1_000, "{small:?}");
}

#[test]
fn a_plan_from_a_report_of_an_earlier_version_says_that_it_knows_no_owners() {
    let mut world = fleet(3, 2);
    config_repo(&mut world, &repo(), reporting(""));
    apply(&mut world, &commit(1, Content { version: Some(1), ..Content::default() }.files()));
    let mut objects = reported(&world);
    objects.iter_mut().for_each(|object| drop(object.metadata_mut().remove("managedFields")));
    let warnings = of_report(objects, &repo(), world.now).warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.contains("does not record the field owners of 4 objects"), "{warning}");
}

/// Returns a hub with a ConfigRepo for each of two paths in a repository, the first of which reports; also returns
/// the other ConfigRepo.
fn of_two_paths() -> (World, Key) {
    let mut world = fleet(3, 1);
    let apps = Key::namespaced("config", "apps");
    config_repo(&mut world, &repo(), reporting("infra"));
    config_repo(&mut world, &apps, json!({"url": "https://git.example/fleet", "path": "apps"}));
    (world, apps)
}

#[test]
fn a_plan_from_a_report_begins_at_the_commit_that_each_config_repo_had_applied() {
    let (mut world, apps) = of_two_paths();
    let mut broken = maps(&[("infra/a.yaml", 0..3), ("apps/b.yaml", 8..11)]);
    broken.insert("apps/c.yaml", b"kind: [".to_vec());
    let mut trees = BTreeMap::new();
    for (number, tree) in [(1, maps(&[("infra/a.yaml", 0..2), ("apps/b.yaml", 8..10)])), (2, broken)] {
        let Checkout { revision, tree } = Arc::unwrap_or_clone(commit(number, tree).head);
        for repo in [&repo(), &apps] {
            world.commit(repo, &revision, tree.clone());
        }
        world.run_for(seconds(60)).unwrap();
        trees.insert(revision, tree);
    }
    let applied = [repo(), apps.clone()].map(|repo| {
        let status = world.get::<ConfigRepo>(&repo).unwrap().status.unwrap();
        status.applied.unwrap().commit
    });
    assert_eq!(applied, [2, 1].map(|number| format!("{number:040x}")), "one of them refuses the second");
    let third = commit(3, maps(&[("infra/a.yaml", 0..4), ("apps/b.yaml", 8..12)]));
    for repo in [repo(), apps] {
        let preview = check(&world, &trees, &ProposedCommit { repo, ..third.clone() });
        // One of the ConfigRepos has not yet applied what the second commit adds.
        assert_eq!((preview.verdict, preview.objects.len()), (Verdict::Change, 3), "{preview:#?}");
    }
}

/// Returns a hub on which two ConfigRepos have applied a commit, the trees of the commits, and the next commit.
fn of_two_paths_after_a_commit() -> (World, Key, BTreeMap<String, FileTree>, ProposedCommit) {
    let (mut world, apps) = of_two_paths();
    let Checkout { revision, tree } =
        Arc::unwrap_or_clone(commit(1, maps(&[("infra/a.yaml", 0..1), ("apps/b.yaml", 8..9)])).head);
    for repo in [&repo(), &apps] {
        world.commit(repo, &revision, tree.clone());
    }
    world.run_for(seconds(60)).unwrap();
    let next = commit(2, maps(&[("infra/a.yaml", 0..2), ("apps/b.yaml", 8..10)]));
    (world, apps, BTreeMap::from([(revision, tree)]), next)
}

#[test]
fn a_config_repo_that_refuses_the_commit_says_why_and_changes_nothing() {
    let (world, apps, trees, next) = of_two_paths_after_a_commit();
    assert_eq!(check(&world, &trees, &next).objects.len(), 2);
    let refused = BTreeMap::from([(apps.clone(), "it is a rewind".to_owned())]);
    let preview = check(&world, &trees, &ProposedCommit { refused: refused.clone(), ..next.clone() });
    let objects: Vec<_> = preview.objects.iter().map(|object| object.object.as_str()).collect();
    assert_eq!((preview.verdict, objects), (Verdict::Refused, vec!["ConfigMap config/m1"]), "{preview:#?}");
    let [other] = preview.others.as_slice() else { panic!("{preview:#?}") };
    assert_eq!((&other.repo, other.refused.as_deref()), (&apps.to_string(), Some("it is a rewind")));
    let preview = check(&world, &trees, &ProposedCommit { repo: apps, refused, ..next });
    assert_eq!(
        (preview.refused.as_deref(), preview.objects.len()),
        (Some("it is a rewind"), 0),
        "{preview:#?}"
    );
}

#[test]
fn a_config_repo_whose_objects_the_hub_refuses_now_refuses_the_same_objects_again() {
    let (world, apps, _, next) = of_two_paths_after_a_commit();
    let digest = previewed(&world, &next).digests[&apps].clone();
    let mut snapshot = HubSnapshot::new(&world.hub);
    let mut tell = |digest: &str| {
        let is_apps = |object: &&mut Arc<Object>| object.kind() == "ConfigRepo" && object.key() == apps;
        let status = &mut Arc::make_mut(snapshot.objects.iter_mut().find(is_apps).unwrap()).0["status"];
        status["seen"]["digest"] = digest.into();
        let stalled = json!({"type": "Stalled", "status": "True", "reason": "InvalidObject",
            "message": "m9 is not welcome", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = status["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != "Stalled");
        conditions.push(stalled);
        preview(&snapshot, &next, world.now).unwrap()
    };
    let preview = tell(&digest);
    let reason = "the hub currently rejects these objects: m9 is not welcome";
    assert_eq!(
        (preview.objects.len(), preview.others[0].refused.as_deref()),
        (1, Some(reason)),
        "{preview:#?}"
    );
    let preview = tell("another");
    assert_eq!((preview.verdict, preview.objects.len()), (Verdict::Change, 2), "{preview:#?}");
}

#[test]
fn a_commit_with_equal_objects_replaces_the_applied_commit_of_another_config_repo() {
    let (mut world, apps) = of_two_paths();
    let of = |number, a, b| commit(number, maps(&[("infra/a.yaml", 0..a), ("apps/b.yaml", 8..b)]));
    let (first, second) = (of(1, 2, 10), of(2, 3, 10));
    for (repo, commit) in [(&repo(), &first), (&apps, &first), (&repo(), &second)] {
        world.commit(repo, &commit.head.revision, commit.head.tree.clone());
        world.run_for(seconds(60)).unwrap();
    }
    let ReportedHub { snapshot, applied, warnings: _ } = of_report(reported(&world), &repo(), world.now);
    let [one, two] = [first, second.clone()].map(|commit| commit.head.revision.clone());
    assert_eq!(applied, BTreeMap::from([(apps.clone(), one.clone()), (repo(), two.clone())]));
    let same = |commit: &ProposedCommit| {
        let commits = [repo(), apps.clone()].map(|repo| (repo, Arc::clone(&commit.head)));
        same_as_applied(&snapshot, &BTreeMap::from(commits), world.now).unwrap()
    };
    assert_eq!(same(&second), BTreeSet::from([repo(), apps.clone()]));
    for end in [9, 11] {
        assert_eq!(same(&of(3, 3, end)), BTreeSet::from([repo()]), "{end}");
    }

    let trees = [one, two].map(|commit| (commit, second.head.tree.clone()));
    let preview = check(&world, &BTreeMap::from(trees), &of(4, 4, 12));
    assert_eq!((preview.verdict, preview.objects.len()), (Verdict::Change, 3), "{preview:#?}");
}

/// Returns a hub with two ConfigRepos of different repositories, each at its first commit; also returns the second
/// ConfigRepo and the commits of the first, which reports.
fn of_two_repositories(first: FileTree, other: FileTree) -> (World, Key, BTreeMap<String, FileTree>) {
    let mut world = fleet(5, 4);
    let platform = Key::namespaced("config", "platform");
    config_repo(&mut world, &repo(), reporting(""));
    config_repo(&mut world, &platform, json!({"url": "https://git.example/platform"}));
    world.commit(&platform, &"a".repeat(40), other);
    let commit = commit(1, first);
    apply(&mut world, &commit);
    (world, platform, BTreeMap::from([(commit.head.revision.clone(), commit.head.tree.clone())]))
}

#[test]
fn a_plan_from_a_report_has_the_add_on_of_another_repository() {
    let files = |prod: bool, names: [&str; 2]| -> FileTree {
        let all = Content { version: Some(1), strategy: 2, prod, ..Content::default() }.files();
        names.iter().map(|name| (*name, all.file(name).unwrap().to_vec())).collect()
    };
    let placement = ["binding.yaml", "placement.yaml"];
    let (world, _, trees) =
        of_two_repositories(files(true, placement), files(true, ["addon.yaml", "template.yaml"]));
    let preview = check(&world, &trees, &commit(2, files(false, placement)));
    let [add_on] = preview.add_ons.as_slice() else { panic!("{preview:#?}") };
    assert_eq!(add_on.enter, ["c0", "c3"]);
    assert!(preview.works.iter().any(|work| work.clusters == add_on.enter), "{preview:#?}");
}

#[test]
fn a_plan_from_a_report_knows_what_another_repository_has_applied_since() {
    let (mut world, platform, trees) =
        of_two_repositories(maps(&[("a.yaml", 0..1)]), maps(&[("a.yaml", 8..9)]));
    world.commit(&platform, &"b".repeat(40), maps(&[("a.yaml", 8..10)]));
    world.run_for(seconds(60)).unwrap();
    let both = commit(2, maps(&[("a.yaml", 0..1), ("b.yaml", 9..10)]));
    let preview = check(&world, &trees, &both);
    assert_eq!(preview.verdict, Verdict::Refused, "{preview:#?}");
    let pushes = world.branches["wheelwright/status"].len();
    world.run_for(seconds(600)).unwrap();
    assert_eq!(world.branches["wheelwright/status"].len(), pushes, "a report makes no other one");
}
