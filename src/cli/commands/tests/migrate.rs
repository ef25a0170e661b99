use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::*;
use crate::golden;
use reconcile::Caches;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain").join(name)
}

fn hub() -> Caches {
    let origin = Origin::from_file(case("migrate.yaml"));
    origin.read(&read_by::<PlacementController>()).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn a_plan_says_where_each_decision_goes_and_which_stay() {
    let plan = MigrationPlan::read("c1", &hub(), Timestamp::UNIX_EPOCH).unwrap().unwrap();
    golden::check([(case("migrate.txt"), text(&plan))]);
    let leaving: Vec<&str> = plan.leaving().map(|planned| planned.placement.as_str()).collect();
    assert_eq!(leaving, ["fleet/all", "fleet/one", "fleet/patient", "fleet/ssd", "fleet/three"]);
}

#[test]
fn a_cluster_that_no_placement_selects_has_nothing_to_move() {
    let plan = MigrationPlan::read("c4", &hub(), Timestamp::UNIX_EPOCH).unwrap().unwrap();
    assert_eq!(text(&plan), "no placement selects cluster c4\n");
    assert_eq!(MigrationPlan::read("nowhere", &hub(), Timestamp::UNIX_EPOCH), Ok(None));
}
