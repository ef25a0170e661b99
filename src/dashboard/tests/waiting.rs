//! What commits and rollouts wait for.

use super::super::page;
use super::super::rights::{Right, Rights};
use super::super::shown::Shown;
use super::{content, fleet};
use controllers::hub::overview::{ObjectList, StageSummary};
use engine::rollout::decision::Stage;

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
fn a_rollout_has_a_line_for_each_stage_in_the_words_of_explain() {
    let mut fleet = fleet(1);
    fleet.add_ons[0].stages = vec![stage("<i>".into(), 0), stage("rest".into(), 6)];
    let html = content(&fleet);
    let counts = |unfinished: usize| {
        format!("8 clusters, {unfinished} unfinished, 2 of 3 slots in use, 0 failed (1 allowed)")
    };
    let lines =
        format!("<ul><li>fleet/all &lt;i&gt;: {}</li><li>fleet/all rest: {}</li></ul>", counts(0), counts(6));
    assert!(html.contains(&lines), "{html}");
}

#[test]
fn of_many_stages_the_finished_ones_are_left_out_first() {
    let mut fleet = fleet(1);
    let stages = (0..30).map(|n| stage(format!("stage-{n}"), usize::from(n >= 4)));
    fleet.add_ons[0].stages = stages.collect();
    let html = content(&fleet);
    let shown: Vec<usize> = (0..30).filter(|n| html.contains(&format!(" stage-{n}:"))).collect();
    assert_eq!(shown, (4..24).collect::<Vec<_>>());
    assert!(html.contains("<li>and 10 more</li>"), "{html}");
}

#[test]
fn the_stages_of_a_placement_are_for_visitors_who_may_see_it_and_all_clusters() {
    let mut fleet = fleet(2);
    fleet.add_ons[0].stages = vec![stage("rest".into(), 6)];
    let is_shown = |everywhere: &[Right], within: &[(Right, &'static str)]| {
        let rights = Rights::of(everywhere, within);
        page::content(&Shown::to(&rights, &fleet)).contains("fleet/all rest: 8 clusters")
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
    let list = "</p><h4>11 objects to change</h4><ul><li>Role &lt;i&gt;</li><li>and 10 more</li></ul>";
    let html = content(&fleet);
    let (plan, list) = (html.find("approve-plan=c0de&lt;i&gt;").unwrap(), html.find(list).unwrap());
    assert!(plan < list, "{html}");
    fleet.repositories[0].held_plan.clear();
    assert!(!content(&fleet).contains("objects to change"), "no plan waits");
}
