//! Compares previews with what then happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixtures::{config_repo, put, repo, seconds};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1beta1::PlacementDecision;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{APPLIED_DIGEST_ANNOTATION, APPROVE_PLAN_ANNOTATION, CONFIG_REPO_ANNOTATION, GITOPS_GROUP};
use api::work::v1::ManifestWork;
use object::tree::{Checkout, Collision, FileTree};
use object::{Key, Metadata as _, Random};
use sim::history::Content;
use sim::preview::{ChangeType, HubSnapshot, Preview, ProposedCommit, Verdict, preview};
use sim::{World, workload};

/// Number of histories in a run, with [`COMMITS`] commits each. `WHEELWRIGHT_PREVIEWS=250` plays 1,000
/// commits.
const HISTORIES: u64 = 8;
const COMMITS: u64 = 4;

/// Returns a hub with a ConfigRepo that may delete two objects at once, and clusters whose add-ons become
/// ready after three seconds.
pub(crate) fn fleet(seed: u64, clusters: u64) -> World {
    let mut world = World::new(seed, Timestamp::from_second(1_800_000_000).unwrap());
    let spec = json!({"url": "https://git.example/fleet", "deletionBudget": {"objects": 2}});
    config_repo(&mut world, &repo(), spec);
    for number in 0..clusters {
        let images = (0..8).map(|version| format!("app:{version}")).collect();
        let workloads = workload::Environment { images, ready_after: seconds(3), nodes: 1 };
        let labels = [
            ("canary", if number == 0 { "true" } else { "false" }),
            ("prod", if number % 3 == 0 { "false" } else { "true" }),
        ];
        world.join(&format!("c{number}"), &labels, workloads).unwrap();
    }
    world.run_for(seconds(60)).unwrap();
    world
}

pub(crate) fn commit(number: u64, tree: FileTree) -> ProposedCommit {
    let head = Arc::new(Checkout { revision: format!("{number:040x}"), tree });
    ProposedCommit { repo: repo(), base: BTreeMap::new(), head, succeeds_after: seconds(4) }
}

pub(crate) fn previewed(world: &World, commit: &ProposedCommit) -> Preview {
    preview(&HubSnapshot::of(&world.hub), commit, world.now).unwrap()
}

/// Commits and lets the fleet come to rest.
pub(crate) fn apply(world: &mut World, commit: &ProposedCommit) {
    world.commit(&commit.repo, &commit.head.revision, commit.head.tree.clone());
    world.run_for(SignedDuration::from_mins(4)).unwrap();
}

/// The state of a hub, as far as a preview describes it.
pub(crate) struct Look {
    /// The digests of the objects of the repository.
    objects: BTreeMap<String, String>,
    placements: BTreeMap<String, BTreeSet<String>>,
    add_ons: BTreeSet<(String, String)>,
    works: BTreeMap<(String, String), Value>,
    applied: String,
    approval: String,
}

pub(crate) fn look(world: &World) -> Look {
    let owner = repo().to_string();
    let objects = HubSnapshot::of(&world.hub).objects.into_iter().filter(|object| {
        object.annotations().get(CONFIG_REPO_ANNOTATION) == Some(&owner.as_str()) && !object.is_terminating()
    });
    let mut placements: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for decision in world.list::<PlacementDecision>() {
        let placement = decision.label(api::names::PLACEMENT_LABEL).unwrap();
        let clusters = placements.entry(format!("{}/{placement}", decision.namespace())).or_default();
        clusters.extend(decision.status.into_iter().flat_map(|it| it.decisions).map(|it| it.cluster_name));
    }
    let works = world.list::<ManifestWork>().into_iter().filter(|work| !work.is_terminating());
    let add_ons = world.list::<ManagedClusterAddOn>().into_iter().filter(|add_on| !add_on.is_terminating());
    let status = world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap_or_default();
    Look {
        objects: objects
            .map(|object| {
                (object.reference().to_string(), object.annotations()[APPLIED_DIGEST_ANNOTATION].to_owned())
            })
            .collect(),
        placements,
        add_ons: add_ons.map(|it| (it.name().to_owned(), it.namespace().to_owned())).collect(),
        works: works
            .map(|it| {
                ((it.namespace().to_owned(), it.name().to_owned()), serde_json::to_value(it.spec).unwrap())
            })
            .collect(),
        applied: status.applied.map(|applied| applied.commit).unwrap_or_default(),
        approval: status.held_deletions.map(|held| held.approval).unwrap_or_default(),
    }
}

fn strings<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    names.cloned().collect()
}

/// Compares a preview with the hub before and after the commit.
pub(crate) fn compare(preview: &Preview, before: &Look, after: &Look) -> Result<(), String> {
    let equal = |what: &str, preview: String, found: String| {
        if preview == found { Ok(()) } else { Err(format!("{what}: preview {preview}, found {found}")) }
    };
    let keys = strings(before.objects.keys().chain(after.objects.keys()));
    let changed =
        keys.into_iter().filter_map(|key| match (before.objects.get(&key), after.objects.get(&key)) {
            (None, Some(_)) => Some((key, ChangeType::Created)),
            (Some(_), None) => Some((key, ChangeType::Deleted)),
            (Some(old), Some(new)) if old != new => Some((key, ChangeType::Changed)),
            _ => None,
        });
    let found: BTreeMap<String, ChangeType> = changed.collect();
    let objects: BTreeMap<String, ChangeType> =
        preview.objects.iter().map(|it| (it.object.clone(), it.change)).collect();
    equal("objects", format!("{objects:?}"), format!("{found:?}"))?;
    let is_refused = after.applied != preview.commit;
    equal("refused", format!("{}", preview.verdict == Verdict::Refused), format!("{is_refused}"))?;
    let approval = preview.held.as_ref().map(|held| held.approval.clone()).unwrap_or_default();
    let held = if is_refused { String::new() } else { after.approval.clone() };
    equal("held", approval, held)?;

    let none = BTreeSet::new();
    for placement in strings(before.placements.keys().chain(after.placements.keys())) {
        let of = |look: &Look| look.placements.get(&placement).unwrap_or(&none).clone();
        let (old, new) = (of(before), of(after));
        let preview = preview.placements.iter().find(|it| it.placement == placement);
        let moves = |list: fn(&sim::preview::PlacementPreview) -> &Vec<String>| {
            strings(preview.into_iter().flat_map(list))
        };
        let found = (&new - &old, &old - &new);
        equal(
            &placement,
            format!("{:?}", (moves(|it| &it.enter), moves(|it| &it.leave))),
            format!("{found:?}"),
        )?;
    }
    let add_ons = |list: fn(&sim::preview::WorkloadPreview) -> &Vec<String>| -> BTreeSet<(String, String)> {
        preview.add_ons.iter().flat_map(|it| list(it).iter().map(|c| (it.name.clone(), c.clone()))).collect()
    };
    let found = (&after.add_ons - &before.add_ons, &before.add_ons - &after.add_ons);
    equal(
        "add-ons",
        format!("{:?}", (add_ons(|it| &it.enter), add_ons(|it| &it.leave))),
        format!("{found:?}"),
    )?;
    let works: BTreeSet<(String, String)> = preview
        .works
        .iter()
        .flat_map(|it| it.clusters.iter().map(|c| (c.clone(), it.work.clone())))
        .collect();
    let all: BTreeSet<_> = before.works.keys().chain(after.works.keys()).collect();
    let found = all.into_iter().filter(|key| before.works.get(key) != after.works.get(key));
    equal("works", format!("{works:?}"), format!("{:?}", found.cloned().collect::<BTreeSet<_>>()))
}

/// Plays the commits of a seed; returns how many changed something.
fn play(seed: u64) -> Result<usize, String> {
    let mut random = Random::new(seed ^ 0x7072_6576);
    let mut world = fleet(seed, 2 + random.below(4));
    let mut content = Content::first(&mut random);
    let mut changes = 0;
    for number in 1..=COMMITS {
        let commit = commit(number, content.files());
        let preview = previewed(&world, &commit);
        let before = look(&world);
        apply(&mut world, &commit);
        let failed = |why| {
            format!(
                "seed {seed}, commit {number}: {why}\n{}",
                serde_json::to_string_pretty(&preview).unwrap()
            )
        };
        compare(&preview, &before, &look(&world)).map_err(failed)?;
        if preview.verdict != Verdict::Refused {
            let again = previewed(&world, &commit);
            let has_effect = |preview: &Preview| {
                let Preview { objects, placements, add_ons, works, approvals, .. } = preview;
                let parts = [objects.len(), placements.len(), add_ons.len(), works.len(), approvals.len()];
                parts.iter().sum::<usize>() > 0
            };
            // Deletions above the budget are held again.
            let held = again.held.is_some();
            let verdict = if held { Verdict::NeedsApproval } else { Verdict::NoChange };
            if has_effect(&again) || again.verdict != verdict {
                return Err(failed(format!("the same commit does something again: {again:?}")));
            }
        }
        changes += usize::from(!preview.objects.is_empty());
        content.change(&mut random);
    }
    Ok(changes)
}

#[test]
fn a_preview_tells_what_a_commit_then_does() {
    let histories = std::env::var("WHEELWRIGHT_PREVIEWS").map_or(HISTORIES, |count| count.parse().unwrap());
    let mut changes = 0;
    let mut failures = Vec::new();
    for seed in 0..histories {
        match play(seed) {
            Ok(changed) => changes += changed,
            Err(failure) => failures.push(failure),
        }
    }
    assert!(failures.is_empty(), "{} of {histories}:\n{}", failures.len(), failures.join("\n"));
    assert!(changes > 12, "{changes} commits changed something");
}

/// Returns the hash of the plan that the operator holds.
fn held_plan(world: &World) -> String {
    world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap_or_default().held_plan
}

#[test]
fn a_plan_tells_the_approval_that_the_operator_then_asks_for() {
    let mut world = fleet(3, 3);
    let mut random = Random::new(3);
    let mut content = Content::first(&mut random);
    let spec = |annotations: Value| {
        json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "ConfigRepo",
            "metadata": {"namespace": "config", "name": "fleet", "annotations": annotations},
            "spec": {"url": "https://git.example/fleet", "planApproval": "Required", "deletionBudget": {"objects": 50}}})
    };
    put(&mut world, spec(json!({})));
    for number in 1..=3 {
        let commit = commit(number, content.files());
        let told = previewed(&world, &commit);
        assert_eq!((told.plan_approval.len(), told.verdict), (32, Verdict::NeedsApproval), "{told:?}");
        let before = look(&world);
        apply(&mut world, &commit);
        assert_eq!(
            (held_plan(&world), look(&world).objects == before.objects),
            (told.plan_approval.clone(), true)
        );

        let again = previewed(&world, &commit);
        assert_eq!(
            (&again.plan_approval, again.hash()),
            (&told.plan_approval, told.hash()),
            "it is held now"
        );

        put(&mut world, spec(json!({APPROVE_PLAN_ANNOTATION: told.plan_approval})));
        world.run_for(SignedDuration::from_mins(4)).unwrap();
        compare(&told, &before, &look(&world)).unwrap();
        let last = content.files();
        while content.files() == last || content.files().file("broken.yaml").is_some() {
            content.change(&mut random);
        }
    }
}

#[test]
fn a_plan_in_a_freeze_says_until_when_and_what_then_happens() {
    let mut world = fleet(3, 3);
    let commit = commit(1, Content::first(&mut Random::new(3)).files());
    let open = previewed(&world, &commit);
    assert_eq!(open.frozen, None);
    let window = json!({"name": "day", "schedule": "0 0 * * *", "duration": "23h"});
    let spec = json!({"url": "https://git.example/fleet", "freezeWindows": [window], "deletionBudget": {"objects": 2}});
    config_repo(&mut world, &repo(), spec);
    let frozen = previewed(&world, &commit);
    let until = frozen.frozen.as_ref().map(|frozen| (frozen.window.as_str(), frozen.until > world.now));
    assert_eq!(until, Some(("day", true)));
    assert_eq!((frozen.verdict, frozen.hash()), (open.verdict, open.hash()));
}

#[test]
fn a_plan_before_an_apply_window_says_when_it_opens_and_what_then_happens() {
    let mut world = fleet(3, 3);
    let commit = commit(1, Content::first(&mut Random::new(3)).files());
    let at_once = previewed(&world, &commit);
    // It is 8 o'clock.
    let window = json!({"name": "morning", "schedule": "30 8 * * *", "duration": "1h"});
    let spec = json!({"url": "https://git.example/fleet", "applyWindows": [window], "deletionBudget": {"objects": 2}});
    config_repo(&mut world, &repo(), spec);
    let told = previewed(&world, &commit);
    let opens = told.opens.as_ref().map(|opens| (opens.window.as_str(), opens.until.to_string()));
    assert_eq!(opens, Some(("morning", "2027-01-15T08:30:00Z".to_owned())));
    assert_eq!((told.verdict, told.hash()), (at_once.verdict, at_once.hash()));
    let before = look(&world);
    apply(&mut world, &commit);
    assert!(compare(&told, &before, &look(&world)).is_err(), "nothing is applied before it opens");
    world.run_for(SignedDuration::from_mins(30)).unwrap();
    compare(&told, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_warns_of_paths_that_collide_and_is_the_same_otherwise() {
    let world = fleet(1, 2);
    let mut files = Content::first(&mut Random::new(1)).files();
    let without = previewed(&world, &commit(1, files.clone()));
    files.insert_collision(Collision { first: "A".into(), second: "a".into() });
    let told = previewed(&world, &commit(1, files));
    assert!(told.warnings[0].starts_with("A and a differ only in case"), "{:?}", told.warnings);
    assert_eq!(without.warnings, Vec::<String>::new());
    assert_eq!((told.verdict, told.hash()), (without.verdict, without.hash()));
}

#[test]
fn a_config_repo_of_a_file_may_lack_the_defaults_of_its_definition() {
    let (world, commit) = (fleet(1, 1), commit(1, Content::first(&mut Random::new(1)).files()));
    let mut snapshot = HubSnapshot::of(&world.hub);
    for object in snapshot.objects.iter_mut().filter(|object| object.kind() == "ConfigRepo") {
        Arc::make_mut(object).field_mut("spec").retain(|field, _| field == "url");
    }
    assert_eq!(preview(&snapshot, &commit, world.now).unwrap().verdict, Verdict::Change);
}

#[test]
fn the_hash_of_a_plan_is_that_of_its_effects() {
    let world = fleet(1, 2);
    let mut random = Random::new(1);
    let mut content = Content::first(&mut random);
    let preview = |number: u64, content: &Content| previewed(&world, &commit(number, content.files()));
    let first = preview(1, &content);
    assert_eq!(first.hash(), preview(2, &content).hash(), "a merge has another name and the same effects");
    content.change(&mut random);
    assert_ne!(preview(1, &content).hash(), first.hash());
}

/// Returns a hub whose second ConfigRepo follows the same branch, in another directory.
fn of_two() -> (World, Key) {
    let mut world = fleet(3, 1);
    let apps = Key::namespaced("config", "apps");
    for (repo, path) in [(repo(), "infra"), (apps.clone(), "apps")] {
        let spec =
            json!({"url": "https://git.example/fleet", "path": path, "deletionBudget": {"objects": 2}});
        config_repo(&mut world, &repo, spec);
    }
    (world, apps)
}

pub(crate) fn maps(files: &[(&str, std::ops::Range<usize>)]) -> FileTree {
    let map = |i| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{i}, namespace: config}}\n");
    let content =
        |numbers: &std::ops::Range<usize>| numbers.clone().map(map).collect::<Vec<_>>().join("---\n");
    files.iter().map(|(path, numbers)| (*path, content(numbers).into_bytes())).collect()
}

#[test]
fn a_plan_of_a_commit_that_moves_objects_shows_the_moves() {
    let (mut world, apps) = of_two();
    let first = commit(1, maps(&[("infra/a.yaml", 0..8), ("apps/b.yaml", 8..9)]));
    for repo in [&repo(), &apps] {
        world.commit(repo, &first.head.revision, first.head.tree.clone());
    }
    world.run_for(seconds(60)).unwrap();
    let second = commit(2, maps(&[("infra/a.yaml", 0..1), ("apps/b.yaml", 1..9)]));
    for (planned, moved_to) in [(repo(), "config/apps"), (apps.clone(), "")] {
        let told = previewed(&world, &ProposedCommit { repo: planned, ..second.clone() });
        assert_eq!((told.verdict, &told.held), (Verdict::Change, &None), "{told:?}");
        let moves = told.objects.iter().map(|it| (it.change, it.moved_from.as_str(), it.repo.as_str()));
        assert_eq!(moves.collect::<Vec<_>>(), [(ChangeType::Changed, "config/fleet", moved_to); 7]);
        assert!(told.others.len() == 1 && told.others[0].refused.is_none(), "{:?}", told.others);
    }
    let mut refused = maps(&[("infra/a.yaml", 0..8), ("apps/b.yaml", 8..9)]);
    refused.insert("apps/c.yaml", b"kind: [".to_vec());
    let told = previewed(&world, &commit(3, refused));
    assert_eq!((told.verdict, told.refused.is_none()), (Verdict::Refused, true));
    let [other] = told.others.as_slice() else { panic!("{:?}", told.others) };
    assert!(
        other.repo == "config/apps" && other.refused.as_ref().is_some_and(|why| why.contains("apps/c.yaml"))
    );
}

#[test]
fn a_plan_tells_deletions_that_wait_for_the_window() {
    let mut world = fleet(3, 1);
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet"}));
    apply(&mut world, &commit(1, maps(&[("a.yaml", 0..30)])));
    apply(&mut world, &commit(2, maps(&[("a.yaml", 4..30)])));
    let third = commit(3, maps(&[("a.yaml", 8..30)]));
    let told = previewed(&world, &third);
    let held = told.held.as_ref().unwrap();
    assert_eq!((told.verdict, held.total, told.objects.len()), (Verdict::NeedsApproval, 4, 0), "{told:?}");
    assert!(
        held.why.contains("4 deletions, after 4 others within 1h, are over the budget of 5"),
        "{}",
        held.why
    );
    let before = look(&world);
    apply(&mut world, &third);
    compare(&told, &before, &look(&world)).unwrap();
}
