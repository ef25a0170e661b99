use jiff::SignedDuration;
use serde_json::json;

use super::*;

fn read(wire: serde_json::Value, group_size: Option<Size>) -> Result<Strategy, String> {
    Strategy::read(&serde_json::from_value(wire).unwrap(), group_size).map_err(|e| e.to_string())
}

#[test]
fn the_wire_is_read_with_its_defaults() {
    assert_eq!(read(json!({}), None), Ok(Strategy::All(All { deadline: None })));
    let wire = json!({"type": "Progressive", "all": {"progressDeadline": "5|"}, "progressive": {
        "minSuccessTime": "1m", "progressDeadline": "10m", "maxFailures": "25%", "maxConcurrency": 0,
        "mandatoryDecisionGroups": [{"groupName": "canary", "groupIndex": 3}, {}],
    }});
    let options = Options {
        soak: SignedDuration::from_mins(1),
        deadline: Some(SignedDuration::from_mins(10)),
        failures: Size::Percent(25),
    };
    let mandatory = vec![Mandatory::Name("canary".into()), Mandatory::Index(0)];
    let expected = |concurrency| {
        Strategy::Progressive(Progressive {
            options: options.clone(),
            mandatory: mandatory.clone(),
            concurrency,
        })
    };
    assert_eq!(read(wire.clone(), None), Ok(expected(None)));
    assert_eq!(read(wire, Some(Size::Percent(50))), Ok(expected(Some(Size::Percent(50)))));
    let per_group = Strategy::ProgressivePerGroup(ProgressivePerGroup::default());
    assert_eq!(read(json!({"type": "ProgressivePerGroup"}), None), Ok(per_group));
    let unknown =
        "type: \"Canary\" is refused: no such value; write one of All, Progressive, ProgressivePerGroup";
    assert_eq!(read(json!({"type": "Canary"}), None), Err(unknown.to_owned()));
}

#[test]
fn the_concurrency_of_the_strategy_takes_precedence_over_the_size_of_groups() {
    let wire = json!({"type": "Progressive", "progressive": {"maxConcurrency": 3}});
    let Ok(Strategy::Progressive(progressive)) = read(wire, Some(Size::Percent(50))) else { panic!() };
    assert_eq!(progressive.concurrency, Some(Size::Count(3)));
}

#[test]
fn a_mandatory_group_is_the_one_of_its_name_or_index() {
    let group = |index, name: &str| GroupKey { index, name: name.into() };
    let canary = Mandatory::Name("canary".into());
    assert!(canary.selects(&group(1, "canary")) && !canary.selects(&group(1, "rest")));
    assert!(
        Mandatory::Index(1).selects(&group(1, "rest")) && !Mandatory::Index(1).selects(&group(2, "rest"))
    );
}

#[test]
fn every_strategy_but_all_stops_on_failures() {
    for (r#type, stops) in [("All", false), ("Progressive", true), ("ProgressivePerGroup", true)] {
        let strategy = read(json!({"type": r#type}), None).unwrap();
        assert_eq!(strategy.stops_on_failures(), stops, "{strategy:?}");
    }
}
