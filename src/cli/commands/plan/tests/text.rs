use super::*;
use preview::{ApprovalRequest, Batch, CommitWindow};

#[expect(clippy::too_many_lines, reason = "one value with all its fields")]
pub(in crate::cli::commands::plan) fn example() -> Preview {
    let changed = ObjectChange {
        object: "ConfigMap config/a".into(),
        change: ChangeType::Changed,
        repo: String::new(),
        moved_from: String::new(),
        fields: vec![FieldChange {
            path: "data.k".into(),
            before: Some("1".into()),
            after: Some("2".into()),
        }],
    };
    let moved = ObjectChange {
        object: "ConfigMap config/b".into(),
        repo: "config/apps".into(),
        moved_from: "config/fleet".into(),
        fields: Vec::new(),
        ..changed.clone()
    };
    let created = ObjectChange { moved_from: String::new(), change: ChangeType::Created, ..moved.clone() };
    let other =
        RepoPreview { repo: "config/apps".into(), refused: None, plan_approval: String::new(), held: None };
    Preview {
        repo: "config/fleet".into(),
        applied: "1".repeat(40),
        commit: "2".repeat(40),
        verdict: Verdict::NeedsApproval,
        refused: None,
        plan_approval: "c0de".into(),
        frozen: None,
        opens: None,
        others: vec![other],
        objects: vec![changed.clone(), moved, created],
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
            change: ChangeType::Changed,
            objects: vec![changed],
            clusters: vec!["c1".into(), "c2".into()],
        }],
        approvals: vec![ApprovalRequest {
            after: 60,
            policy: "p".into(),
            add_on: "app".into(),
            replica_set: String::new(),
            token: "v2/prod".into(),
        }],
        waits: vec![RolloutWait {
            after: 36,
            add_on: "app".into(),
            replica_set: String::new(),
            placement: "config/fleet".into(),
            why: "waits for the freeze night to end at 2026-03-02T08:00:00Z".into(),
        }],
        removals: vec![HeldRemoval {
            policy: "p".into(),
            add_on: "app".into(),
            clusters: 1,
            approval: "removal/app".into(),
        }],
        outcomes: vec![IncompleteRollout {
            add_on: "app".into(),
            replica_set: String::new(),
            placement: "config/fleet".into(),
            message: "1/2 progressing...".into(),
        }],
        earlier: vec![EarlierRollout {
            rollout: IncompleteRollout {
                add_on: "app".into(),
                replica_set: String::new(),
                placement: "config/fleet".into(),
                message: "0/2 progressing.".into(),
            },
            changes: RolloutChanges::Revision,
        }],
        assumptions: Vec::new(),
        digests: std::collections::BTreeMap::new(),
        assumed_kinds: vec!["Proxy.example.com".into()],
        warnings: vec!["A and a differ only in case".into()],
        ends_after: 130,
    }
}

#[test]
fn a_rollout_that_was_under_way_is_not_an_effect_of_the_commit() {
    let mut preview = example();
    preview.earlier[0].changes = RolloutChanges::Nothing;
    let page = page(&preview, None);
    let earlier = "app in config/fleet: 0/2 progressing; the commit does not change it\n";
    assert!(page.contains(earlier), "{page}");
    assert!(page.contains("\n  app (under way before the commit): 1 enter: c2\n"), "{page}");
}

#[test]
fn a_page_shows_everything_in_the_order_in_which_it_happens() {
    let expected = "\
ConfigRepo config/fleet: 111111111111 to 222222222222
Needs approval: 1 object created, 2 changed, 0 deleted.
Hash: HASH
Report: commit c0ffee, 5m old

Other ConfigRepos of the branch
  config/apps applies the commit too

Objects of the hub
  ~ ConfigMap config/a
      data.k: \"1\" to \"2\"
  ~ ConfigMap config/b moves from ConfigRepo config/fleet to config/apps
  + ConfigMap config/b of ConfigRepo config/apps

Deletions that wait for approval
  3 deletions are over the budget of 2
  - ConfigMap config/c
  and 2 more objects

Rollouts under way before the commit
  app in config/fleet: 0/2 progressing; the commit replaces its revision

Placements
  config/fleet: 2 clusters; 1 enter: c2; 1 leave: c3

Add-ons
  app: 1 enter: c2
    batch 1 at 0s (canary): c1; healthy at 35s
    batch 2 at 1m35s: c2; does not complete

Works on clusters
  ~ addon-app-deploy-0 on 2 clusters: c1, c2
      ~ ConfigMap config/a
          data.k: \"1\" to \"2\"

Waits
  from 36s: app in config/fleet waits for the freeze night to end at 2026-03-02T08:00:00Z

Approvals
  first: the commit waits until ConfigRepo config/fleet has the annotation gitops.wheelwright.dev/approve-plan=c0de
  at 1m: app waits until spec.approved of RolloutPolicy p has v2/prod
  in the end: app stays on 1 cluster until spec.approved of RolloutPolicy p has removal/app

Rollouts that do not complete
  app in config/fleet: 1/2 progressing...

Warnings
  A and a differ only in case

Assumptions
  Proxy.example.com is assumed to be namespaced: neither the hub nor a work on its clusters defines it
  the plan assumes that the ConfigRepos have permission to write these objects and that admission accepts them

Finished
  after 2m10s, if every cluster succeeds and approvals are granted at once
";
    let preview = example();
    let report = Some("commit c0ffee, 5m old");
    assert_eq!(page(&preview, report), expected.replace("HASH", &preview.hash()));
}

#[test]
fn a_removal_whose_token_a_report_does_not_know_says_where_to_read_it() {
    let mut preview = example();
    preview.removals[0].approval.clear();
    let page = page(&preview, None);
    let line = "app stays on 1 cluster until spec.approved of RolloutPolicy p has the value that `wheelwright rollout \
                status` shows once the commit is applied\n";
    assert!(page.contains(line), "{page}");
}

#[test]
fn a_page_says_when_a_commit_that_waits_for_a_window_is_applied() {
    let night = CommitWindow { window: "night".into(), until: "2026-03-02T08:00:00Z".parse().unwrap() };
    let then = "2026-03-02T08:00:00Z: the commit is applied then, and times count from there\n";
    let frozen = page(&Preview { frozen: Some(night.clone()), ..example() }, None);
    assert!(frozen.contains(&format!("\nFreeze\n  the freeze night ends at {then}")), "{frozen}");
    let opens = page(&Preview { opens: Some(night), ..example() }, None);
    assert!(opens.contains(&format!("\nApply window\n  the apply window night opens at {then}")), "{opens}");
}
