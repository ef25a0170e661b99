//! Tests of the reasons why commits and rollouts wait.

use super::super::rights::{Right, Rights};
use super::super::rollout;
use super::super::shown::Shown;
use super::{content, content_for, fleet, repository_page, rollout_page};
use controllers::hub::overview::{HeldChange, HeldField, HeldFields, ObjectList, StageSummary};
use controllers::undo::{Undo, UndoEffect};
use engine::rollout::ClusterState;
use engine::rollout::cluster::Hash;
use engine::rollout::decision::Stage;
use engine::rollout::state::{Breach, Wait};
use jiff::Timestamp;
use object::Key;

fn stage(name: String, unfinished: usize) -> StageSummary {
    let stage = Stage {
        name,
        mandatory: false,
        clusters: 8,
        slots: 3,
        busy: 2,
        failures: 0,
        allowed: Some(1),
        unfinished,
    };
    StageSummary { placement: "fleet/all".into(), stage }
}

#[test]
fn a_rollout_has_its_stages_from_left_to_right_with_their_limits() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].stages = vec![stage("<i>".into(), 0), stage("rest".into(), 6)];
    let html = content(&fleet);
    let (done, next) = (html.find("&lt;i&gt; 8</span>").unwrap(), html.find("rest 8</span>").unwrap());
    assert!(done < next, "{html}");
    let html = rollout_page("proxy", &fleet);
    let second = &html[html.find("<h3>rest</h3>").unwrap()..];
    for text in ["In flight", "1 of 8 clusters done", "2 of 3 slots in use", "0 failed, 1 allowed"] {
        assert!(second.contains(text), "{text}: {html}");
    }
    // No stage has the name of the group canary, so its clusters are in the last stage.
    assert!(
        second.contains("cell:last") && !html[..html.len() - second.len()].contains("cell:last"),
        "{html}"
    );
}

#[test]
fn a_stage_whose_clusters_wait_for_their_first_start_or_are_at_it_is_not_done() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].stages = vec![stage("canary".into(), 0)];
    assert!(content(&fleet).contains("<li class=\"d\" title=\"fleet/all canary"));
    for state in [ClusterState::Waiting(Wait::Slot { slots: 1 }), ClusterState::Starting] {
        fleet.add_ons[0].groups[0].clusters[0].state = state;
        assert!(!content(&fleet).contains("<li class=\"d\" title=\"fleet/all canary"));
    }
}

#[test]
fn a_stage_that_tolerated_a_failure_says_so() {
    let mut fleet = fleet(1);
    let mut canary = stage("canary".into(), 0);
    canary.stage.failures = 1;
    fleet.add_ons[0].stages = vec![canary];
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<span class=\"st e\">Passed with failures</span>"), "{html}");
}

#[test]
fn a_stage_whose_clusters_have_returned_says_so_and_they_need_no_attention() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].stages = vec![stage("canary".into(), 0)];
    for cluster in fleet.add_ons[0].groups.iter_mut().flat_map(|group| &mut group.clusters) {
        (cluster.state, cluster.available) = (ClusterState::Returned { to: Hash::default() }, true);
    }
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<h3>canary</h3><p><span class=\"st r\">Returned</span>"), "{html}");
    assert!(!html.contains("Clusters that need attention"), "{html}");
}

#[test]
fn clusters_that_a_pause_keeps_on_a_quarantined_revision_need_attention() {
    let mut fleet = fleet(1);
    let returning = ClusterState::Returning { to: Hash::default(), unreachable: false };
    fleet.add_ons[0].groups[0].clusters[0].state = returning;
    let keeps = "keeps its quarantined revision on 1 of 2 clusters until the pause ends";
    assert!(!content(&fleet).contains(keeps));
    fleet.add_ons[0].paused_by = vec!["policy".into()];
    let html = content(&fleet);
    assert!(html.contains("Return paused") && html.contains(keeps), "{html}");
}

/// Their clusters have no revision to return to.
#[test]
fn a_stage_whose_clusters_keep_a_quarantined_revision_has_failed() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].stages = vec![stage("canary".into(), 0)];
    fleet.add_ons[0].groups[0].clusters[0].state = ClusterState::Quarantined;
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<h3>canary</h3><p><span class=\"st x\">Failed</span>"), "{html}");
}

#[test]
fn a_rollout_with_tolerated_failures_is_in_flight_and_a_stopped_one_has_failed() {
    let mut fleet = fleet(2);
    let waiting = |wait: Wait| ClusterState::Waiting(wait);
    fleet.add_ons[0].groups[0].clusters[0].state = waiting(Wait::Slot { slots: 1 });
    let html = content(&fleet);
    assert!(
        html.contains("<span class=\"st f\">In flight, 1 failed</span>") && html.contains("Clusters failed"),
        "{html}"
    );
    let breach =
        Breach { stage: "canary".into(), failures: 1, allowed: 0, first: "last".into(), reports_until: None };
    fleet.add_ons[0].groups[0].clusters[0].state = waiting(Wait::Breach(breach));
    let html = content(&fleet);
    assert!(html.contains("<span class=\"st x\">Failed</span>") && html.contains("Rollout failed"), "{html}");
}

#[test]
fn a_gate_says_what_the_next_stage_waits_for() {
    let mut fleet = fleet(1);
    let wait = Wait::Approval { token: "abc".into() };
    fleet.add_ons[0].groups[0].clusters[0].state = ClusterState::Waiting(wait);
    fleet.add_ons[0].stages = vec![stage("canary".into(), 6)];
    let html = rollout_page("proxy", &fleet);
    assert!(html.contains("<li class=\"gate\"><div><b>Approval</b>"), "{html}");
    fleet.add_ons[0].groups[0].clusters[0].state = ClusterState::Waiting(Wait::Slot { slots: 1 });
    assert!(!rollout_page("proxy", &fleet).contains("<li class=\"gate\">"));
}

#[test]
fn a_button_describes_its_effect_on_clusters_before_it_acts() {
    let mut fleet = fleet(2);
    fleet.add_ons[0].groups[0].clusters[0].state = ClusterState::Waiting(Wait::Slot { slots: 1 });
    let confirmation = |html: &str| {
        let start = html.find("<summary id=\"open:pause:proxy\"").unwrap();
        html[start..].split("</details>").next().unwrap().to_owned()
    };
    let html = confirmation(&content(&fleet));
    assert!(html.contains("No further cluster starts until you resume: 1 cluster to go."), "{html}");
    assert!(html.contains("<button class=\"go\" id=\"pause:proxy\">Pause proxy</button>"), "{html}");
}

#[test]
fn of_many_stages_the_finished_ones_are_left_out_first() {
    let mut fleet = fleet(1);
    let stages = (0..30).map(|n| stage(format!("stage-{n}"), usize::from(n >= 4)));
    fleet.add_ons[0].stages = stages.collect();
    let html = content(&fleet);
    let shown: Vec<usize> = (0..30).filter(|n| html.contains(&format!(">stage-{n} 8</span>"))).collect();
    assert_eq!(shown, (4..24).collect::<Vec<_>>());
    assert!(html.contains(">10 more stages</a>"), "{html}");
}

#[test]
fn the_stages_of_a_placement_are_for_visitors_who_may_see_it_and_all_clusters() {
    let mut fleet = fleet(2);
    fleet.add_ons[0].stages = vec![stage("rest".into(), 6)];
    let is_shown = |everywhere: &[Right], within: &[(Right, &'static str)]| {
        let rights = Rights::new(everywhere, within);
        content_for(&rights, &fleet).contains("fleet/all rest: 8 clusters")
    };
    let all = [Right::ListAddOns, Right::ListAddOnsOfClusters];
    assert!(is_shown(&all, &[(Right::ListPlacements, "fleet")]));
    assert!(!is_shown(&all, &[(Right::ListPlacements, "other")]));
    assert!(!is_shown(&[Right::ListAddOns, Right::ListPlacements], &[(Right::ListAddOnsOfClusters, "last")]));
}

#[test]
fn a_plan_that_waits_for_its_approval_has_the_objects_that_it_changes() {
    let mut fleet = fleet(1);
    let changed =
        ObjectList { what: "11 objects to change".into(), objects: vec!["Role <i>".into()], more: 10 };
    fleet.repositories[0].held_changes = vec![changed];
    let list =
        "<h3>11 objects to change</h3><ul class=\"plain\"><li>Role &lt;i&gt;</li><li>and 10 more</li></ul>";
    let html = repository_page(&fleet);
    let (hash, list) = (html.find("<code>c0de&lt;i&gt;</code>").unwrap(), html.rfind(list).unwrap());
    assert!(hash < list && html.contains(" c0de&lt;i&gt;</code>."), "{html}");
    assert!(content(&fleet).contains("11 objects to change"));
    fleet.repositories[0].held_plan.clear();
    assert!(!(content(&fleet) + &repository_page(&fleet)).contains("objects to change"), "no plan waits");
}

#[test]
fn a_plan_that_waits_has_its_fields_once_for_equal_changes() {
    let field = |path: &str, before: &str, after: &str| HeldField {
        path: path.into(),
        before: before.into(),
        after: after.into(),
    };
    let shared = HeldChange {
        is_new: false,
        objects: vec!["ConfigMap a".into(), "ConfigMap <i>".into()],
        more: 38,
        fields: vec![field("data.k", "\"1\"", "\"<b>\""), field("data.gone", "\"x\"", "")],
        more_fields: 3,
    };
    let new = HeldChange {
        is_new: true,
        objects: vec!["Placement fleet/all".into()],
        fields: vec![field("spec.numberOfClusters", "", "3")],
        ..HeldChange::default()
    };
    let mut fleet = fleet(1);
    fleet.repositories[0].seen = "0123456789abcdef".into();
    fleet.repositories[0].held_fields = HeldFields { changes: vec![shared, new], unlisted: 7 };
    let html = repository_page(&fleet);
    for text in [
        "41 objects in 2 different changes",
        "<b>~ The same change in 40 objects</b>",
        "ConfigMap a, ConfigMap &lt;i&gt; and 38 more",
        "<span>data.k</span><del>− &quot;1&quot;</del><ins>+ &quot;&lt;b&gt;&quot;</ins>",
        "<span>data.gone</span><del>− &quot;x&quot;</del></div>",
        "and 3 more fields",
        "<b>+ Placement fleet/all</b>",
        "<span>spec.numberOfClusters</span><ins>+ 3</ins>",
        "The fields of 7 more objects are not listed here. <code>wheelwright plan --config-repo a/fleet --head 0123456789ab</code>",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    fleet.repositories[0].held_plan.clear();
    assert!(!repository_page(&fleet).contains("different change"), "no plan waits");
}

#[test]
fn an_undo_names_the_clusters_that_return_and_to_what_to_those_who_may_see_all_of_them() {
    let mut fleet = fleet(2);
    let clusters = (0..12).map(|number| format!("c{number:02}")).collect();
    let effect = UndoEffect {
        returning: [("proxy-1.1".to_owned(), clusters)].into(),
        kept: vec!["new-1".into()],
        spared: 3,
    };
    fleet.add_ons[0].undo = vec![Undo {
        placement: Key::namespaced("fleet", "all"),
        revision: "0123".into(),
        named: "proxy-1.2".into(),
        failure: String::new(),
        effect,
    }];
    let page = |rights: &Rights| {
        rollout::content("proxy", &Shown::to(rights, &fleet), Timestamp::UNIX_EPOCH).unwrap().into_string()
    };
    let html = page(&Rights::every());
    for text in [
        "<p>12 clusters will return to <b>proxy-1.1</b>:</p>",
        "<li>c09</li><li>and 2 more</li>",
        "<p>1 cluster will keep it, because nothing succeeded there before:</p>",
        "<p>3 clusters never received it and will not get it.</p>",
        "name=\"token\" value=\"fleet/all@0123\"",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let all = [
        Right::ListAddOns,
        Right::ListAddOnsOfClusters,
        Right::ListPlacements,
        Right::ListPolicies,
        Right::ChangePolicies,
    ];
    assert!(page(&Rights::new(&all, &[])).contains("value=\"undo\""));
    for left_out in &all[1..] {
        let others: Vec<_> = all.into_iter().filter(|right| right != left_out).collect();
        assert!(!page(&Rights::new(&others, &[])).contains("value=\"undo\""), "{left_out:?}");
    }
}
