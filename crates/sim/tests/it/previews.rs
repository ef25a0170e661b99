//! Compares previews with what happens after the commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::fixtures::{config_repo, put, repo, seconds};
use super::preview_content::FleetContent;
use super::preview_looks::{compare, look};
use super::preview_rollouts::{compare_rollouts, roll_out};
use api::condition::{Conditions as _, find_condition};
use api::gitops::v1alpha1::ConfigRepo;
use api::names::gitops_conditions::READY;
use api::names::{APPROVE_PLAN_ANNOTATION, GITOPS_GROUP};
use controllers::random_values;
use object::tree::{Checkout, Collision, FileTree};
use object::{Key, Random};
use preview::{ChangeType, HubSnapshot, Preview, ProposedCommit, RolloutChanges, Verdict, preview};
use sim::history::Content;
use sim::{World, workload};

/// Number of histories in a run, with [`COMMITS`] commits each. `WHEELWRIGHT_PREVIEWS=250`, as in `make chaos`,
/// plays 1,000 commits.
const HISTORIES: u64 = 8;
const COMMITS: u64 = 4;

/// Returns a hub with a ConfigRepo that may delete two objects at once, and clusters whose add-ons become ready
/// after three seconds.
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
    ProposedCommit {
        repo: repo(),
        base: BTreeMap::new(),
        head,
        refused: BTreeMap::new(),
        seeds: BTreeMap::new(),
        keys: BTreeMap::new(),
        succeeds_after: seconds(4),
        meets_deadlines: true,
    }
}

pub(crate) fn previewed(world: &World, commit: &ProposedCommit) -> Preview {
    preview(&HubSnapshot::new(&world.hub), commit, world.now).unwrap()
}

/// Commits and lets the fleet come to rest.
pub(crate) fn apply(world: &mut World, commit: &ProposedCommit) {
    world.commit(&commit.repo, &commit.head.revision, commit.head.tree.clone());
    world.run_for(SignedDuration::from_mins(4)).unwrap();
}

/// Plays the commits of a seed; returns how many changed something, and how many add-ons and sets were rolled out
/// in several batches.
fn play(seed: u64) -> Result<(usize, usize), String> {
    let mut random = Random::new(seed ^ 0x7072_6576);
    let mut world = fleet(seed, 2 + random.below(4));
    let mut content = FleetContent::first(&mut random);
    let (mut changes, mut in_batches) = (0, 0);
    for number in 1..=COMMITS {
        let commit = commit(number, content.files());
        let preview = previewed(&world, &commit);
        let before = look(&world);
        let rollout = roll_out(&mut world, &commit);
        let failed = |reason| {
            format!(
                "seed {seed}, commit {number}: {reason}\n{}",
                serde_json::to_string_pretty(&preview).unwrap()
            )
        };
        compare(&preview, &before, &look(&world)).map_err(failed)?;
        compare_rollouts(&preview, &rollout).map_err(failed)?;
        if preview.verdict != Verdict::Refused {
            let again = previewed(&world, &commit);
            let has_effect = |preview: &Preview| {
                let Preview { objects, placements, add_ons, replica_sets, works, approvals, .. } = preview;
                let workloads = add_ons.len() + replica_sets.len();
                objects.len() + placements.len() + workloads + works.len() + approvals.len() > 0
            };
            // Deletions above the budget are held again.
            let held = again.held.is_some();
            let verdict = if held { Verdict::NeedsApproval } else { Verdict::NoChange };
            if has_effect(&again) || again.verdict != verdict {
                return Err(failed(format!("the same commit does something again: {again:?}")));
            }
        }
        changes += usize::from(!preview.objects.is_empty());
        let workloads = preview.add_ons.iter().chain(&preview.replica_sets);
        in_batches += workloads.filter(|workload| workload.batches.len() > 1).count();
        content.change(&mut random);
    }
    Ok((changes, in_batches))
}

#[test]
fn a_preview_shows_what_a_commit_then_does() {
    let histories = std::env::var("WHEELWRIGHT_PREVIEWS").map_or(HISTORIES, |count| count.parse().unwrap());
    let (mut changes, mut in_batches) = (0, 0);
    let mut failures = Vec::new();
    for seed in 0..histories {
        match play(seed) {
            Ok((changed, batched)) => {
                changes += changed;
                in_batches += batched;
            }
            Err(failure) => failures.push(failure),
        }
    }
    assert!(failures.is_empty(), "{} of {histories}:\n{}", failures.len(), failures.join("\n"));
    assert!(changes > 12 && in_batches > 0, "{changes} commits changed something, {in_batches} in batches");
}

/// Returns the hash of the plan that the operator holds.
fn held_plan(world: &World) -> String {
    world.get::<ConfigRepo>(&repo()).unwrap().status.unwrap_or_default().held_plan
}

#[test]
fn a_plan_shows_the_approval_that_the_operator_then_requests() {
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
        let preview = previewed(&world, &commit);
        assert_eq!(
            (preview.plan_approval.len(), preview.verdict),
            (32, Verdict::NeedsApproval),
            "{preview:?}"
        );
        let before = look(&world);
        apply(&mut world, &commit);
        assert_eq!(
            (held_plan(&world), look(&world).objects == before.objects),
            (preview.plan_approval.clone(), true)
        );

        let again = previewed(&world, &commit);
        assert_eq!(
            (&again.plan_approval, again.hash()),
            (&preview.plan_approval, preview.hash()),
            "it is held now"
        );

        put(&mut world, spec(json!({APPROVE_PLAN_ANNOTATION: preview.plan_approval})));
        world.run_for(SignedDuration::from_mins(4)).unwrap();
        compare(&preview, &before, &look(&world)).unwrap();
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
    let preview = previewed(&world, &commit);
    let opens = preview.opens.as_ref().map(|opens| (opens.window.as_str(), opens.until.to_string()));
    assert_eq!(opens, Some(("morning", "2027-01-15T08:30:00Z".to_owned())));
    assert_eq!((preview.verdict, preview.hash()), (at_once.verdict, at_once.hash()));
    let before = look(&world);
    apply(&mut world, &commit);
    assert!(compare(&preview, &before, &look(&world)).is_err(), "nothing is applied before it opens");
    world.run_for(SignedDuration::from_mins(30)).unwrap();
    compare(&preview, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_warns_of_paths_that_collide_and_is_the_same_otherwise() {
    let world = fleet(1, 2);
    let mut files = Content::first(&mut Random::new(1)).files();
    let without = previewed(&world, &commit(1, files.clone()));
    files.insert_collision(Collision { first: "A".into(), second: "a".into() });
    let preview = previewed(&world, &commit(1, files));
    assert!(preview.warnings[0].starts_with("A and a differ only in case"), "{:?}", preview.warnings);
    assert_eq!(without.warnings, Vec::<String>::new());
    assert_eq!((preview.verdict, preview.hash()), (without.verdict, without.hash()));
}

#[test]
fn a_config_repo_of_a_file_may_lack_the_defaults_of_its_definition() {
    let (world, commit) = (fleet(1, 1), commit(1, Content::first(&mut Random::new(1)).files()));
    let mut snapshot = HubSnapshot::new(&world.hub);
    for object in snapshot.objects.iter_mut().filter(|object| object.kind() == "ConfigRepo") {
        Arc::make_mut(object).field_mut("spec").retain(|field, _| field == "url");
    }
    assert_eq!(preview(&snapshot, &commit, world.now).unwrap().verdict, Verdict::Change);
}

#[test]
fn the_hash_of_a_plan_covers_its_effects() {
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
        let preview = previewed(&world, &ProposedCommit { repo: planned, ..second.clone() });
        assert_eq!((preview.verdict, &preview.held), (Verdict::Change, &None), "{preview:?}");
        let moves = preview.objects.iter().map(|it| (it.change, it.moved_from.as_str(), it.repo.as_str()));
        assert_eq!(moves.collect::<Vec<_>>(), [(ChangeType::Changed, "config/fleet", moved_to); 7]);
        assert!(preview.others.len() == 1 && preview.others[0].refused.is_none(), "{:?}", preview.others);
    }
    let mut refused = maps(&[("infra/a.yaml", 0..8), ("apps/b.yaml", 8..9)]);
    refused.insert("apps/c.yaml", b"kind: [".to_vec());
    let preview = previewed(&world, &commit(3, refused));
    assert_eq!((preview.verdict, preview.refused.is_none()), (Verdict::Refused, true));
    let [other] = preview.others.as_slice() else { panic!("{:?}", preview.others) };
    assert!(
        other.repo == "config/apps"
            && other.refused.as_ref().is_some_and(|reason| reason.contains("apps/c.yaml"))
    );
}

#[test]
fn a_plan_shows_deletions_that_wait_for_the_window() {
    let mut world = fleet(3, 1);
    config_repo(&mut world, &repo(), json!({"url": "https://git.example/fleet"}));
    apply(&mut world, &commit(1, maps(&[("a.yaml", 0..30)])));
    apply(&mut world, &commit(2, maps(&[("a.yaml", 4..30)])));
    let third = commit(3, maps(&[("a.yaml", 8..30)]));
    let preview = previewed(&world, &third);
    let held = preview.held.as_ref().unwrap();
    assert_eq!(
        (preview.verdict, held.total, preview.objects.len()),
        (Verdict::NeedsApproval, 4, 0),
        "{preview:?}"
    );
    assert!(
        held.why.contains("4 deletions, after 4 others within 1h, are over the budget of 5"),
        "{}",
        held.why
    );
    let before = look(&world);
    apply(&mut world, &third);
    compare(&preview, &before, &look(&world)).unwrap();
}

#[test]
fn a_plan_names_the_reason_for_which_the_operator_then_holds_deletions() {
    let mut world = fleet(3, 3);
    let content = |maps: usize| {
        let mut content = Content { version: Some(1), ..Content::default() };
        content.maps[..maps].fill(Some(0));
        content.files()
    };
    apply(&mut world, &commit(1, content(4)));
    // Use up the budget.
    apply(&mut world, &commit(2, content(2)));
    let mut without_add_on = content(2);
    without_add_on.insert("addon.yaml", b"# nothing is left\n".to_vec());
    let third = commit(3, without_add_on);
    let planned = previewed(&world, &third).held.unwrap();
    apply(&mut world, &third);
    let repo = world.get::<ConfigRepo>(&repo()).unwrap();
    let message = &find_condition(repo.conditions(), READY).unwrap().message;
    assert!(message.contains("uninstalls it from 3 clusters"), "{message}");
    assert_eq!(planned.why, *message);
}

#[test]
fn a_plan_says_which_rollouts_were_under_way_before_and_what_the_commit_changes_of_them() {
    let mut world = fleet(3, 3);
    let app = |version| Content { version: Some(version), strategy: 1, ..Content::default() };
    apply(&mut world, &commit(1, app(1).files()));
    assert!(previewed(&world, &commit(2, app(2).files())).earlier.is_empty(), "nothing is under way");
    world.commit(&repo(), &"2".repeat(40), app(2).files());
    world.run_for(seconds(2)).unwrap();
    let mut with_map = app(2);
    with_map.maps[0] = Some(0);
    for (number, content, changes) in [
        (3, with_map, RolloutChanges::Nothing),
        (4, Content { strategy: 2, ..app(2) }, RolloutChanges::Strategy),
        (5, app(3), RolloutChanges::Revision),
    ] {
        let preview = previewed(&world, &commit(number, content.files()));
        let [earlier] = preview.earlier.as_slice() else { panic!("{preview:#?}") };
        assert_eq!((earlier.rollout.add_on.as_str(), earlier.changes), ("app", changes), "{preview:#?}");
        assert!(earlier.rollout.message.contains("progressing"), "{earlier:?}");
    }
}

#[test]
fn clusters_succeed_before_a_short_deadline_of_a_rollout() {
    let mut world = fleet(3, 3);
    let content = |version| Content { version: Some(version), strategy: 1, ..Content::default() }.files();
    apply(&mut world, &commit(1, content(1)));
    let next = ProposedCommit { succeeds_after: seconds(35), ..commit(2, content(2)) };
    let preview = previewed(&world, &next);
    assert_eq!(preview.assumptions, ["clusters take 10s instead of 35s, because app has a deadline of 20s"]);
    let arrived =
        preview.add_ons[0].batches.iter().all(|batch| batch.arrived_after == Some(batch.after + 10));
    assert!(arrived && preview.waits.is_empty() && preview.outcomes.is_empty(), "{preview:#?}");

    let late = previewed(&world, &ProposedCommit { meets_deadlines: false, ..next.clone() });
    let reason = "clusters take 35s, but app has a deadline of 20s, so its clusters time out";
    assert!(late.assumptions == [reason] && !late.waits.is_empty(), "{late:#?}");
    let soon = previewed(&world, &ProposedCommit { succeeds_after: seconds(4), ..next });
    assert!(soon.assumptions.is_empty() && soon.hash() == preview.hash(), "{soon:#?}");
}

#[test]
fn random_values_are_not_a_change_whether_or_not_their_seed_is_known() {
    let mut world = fleet(1, 1);
    let namespace = repo().namespace;
    let chart = |level: &str| -> FileTree {
        let data = format!("{{k: '{{{{ randAlphaNum 9 }}}}', level: '{level}'}}");
        let metadata = format!("{{name: web, namespace: {namespace}}}");
        let template = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {data}\n");
        let chart = "{apiVersion: v2, name: web, version: 0.1.0}".to_owned();
        [("Chart.yaml", chart), ("templates/a.yaml", template)]
            .map(|(path, text)| (path, text.into_bytes()))
            .into_iter()
            .collect()
    };
    let first = commit(1, chart("info"));
    assert_eq!(previewed(&world, &first).objects[0].change, ChangeType::Created);
    // The first fetch draws the seed; the next one reads it.
    apply(&mut world, &first);
    apply(&mut world, &first);
    let of = world.get::<ConfigRepo>(&repo()).unwrap();
    let secret = world.get::<Secret>(&random_values::key(&of)).unwrap();
    let seed = random_values::seed(&of, &secret).unwrap();
    let next = commit(2, chart("debug"));
    let known = ProposedCommit { seeds: BTreeMap::from([(repo(), seed)]), ..next.clone() };
    let unknown = ProposedCommit { base: BTreeMap::from([(repo(), first.head)]), ..next.clone() };
    let fields = |commit: &ProposedCommit| -> Vec<String> {
        let changed = previewed(&world, commit).objects.into_iter().flat_map(|object| object.fields);
        changed.map(|field| field.path).collect()
    };
    assert_eq!((fields(&known), fields(&unknown)), (vec!["data.level".into()], vec!["data.level".into()]));
    assert_eq!(fields(&next), ["data.k", "data.level"], "neither is given");
}
