//! Tests the decision about the clusters that lose an add-on, its marks and its record.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::custom_signer::replace;
use crate::addon_removal::{AddOnDeletion, Installed, Removal, mark};
use crate::rollout_policy;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{RemovalStatus, RolloutPolicy};
use api::names::{
    ADDON_NAME_LABEL, CONFIG_REPO_ANNOTATION, DEFAULT_ROLLOUT_POLICY, INSTALLED_BY_ANNOTATION,
    REMOVAL_DECIDED_ANNOTATION,
};
use api::work::v1::ManifestWork;
use engine::rollout::removal::RemovalDecision;
use reconcile::{Action, Caches, Plan, Query, View as _};

const CLUSTERS: &[&str] = &["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
/// 2023-11-14T22:13:20Z.
pub(super) const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);
/// A time within the window of the removal budget, and one before it.
const RECENTLY: &str = "2023-11-14T22:00:00Z";
const LONG_AGO: &str = "2023-11-14T20:00:00Z";

/// The objects of a hub with the add-on `a`.
#[derive(Default)]
pub(super) struct Fleet {
    pub(super) add_ons: Vec<Value>,
    pub(super) placements: Vec<Value>,
    pub(super) decisions: Vec<Value>,
    pub(super) clusters: Vec<Value>,
    pub(super) addons: Vec<Value>,
    pub(super) works: Vec<Value>,
    pub(super) policies: Vec<Value>,
}

impl Fleet {
    /// Returns eight clusters with these add-ons and a policy.
    pub(super) fn new(addons: Vec<Value>, policy: &Value) -> Self {
        let policy = json!({"metadata": {"name": "p"}, "spec": policy});
        let clusters = CLUSTERS.iter().map(|name| cluster(name)).collect();
        Self { clusters, addons, policies: vec![policy], ..Self::default() }
    }

    pub(super) fn caches(&self) -> Caches {
        let mut caches = Caches::default();
        replace::<ClusterManagementAddOn>(&mut caches, &self.add_ons);
        replace::<Placement>(&mut caches, &self.placements);
        replace::<PlacementDecision>(&mut caches, &self.decisions);
        replace::<ManagedCluster>(&mut caches, &self.clusters);
        replace::<ManagedClusterAddOn>(&mut caches, &self.addons);
        replace::<ManifestWork>(&mut caches, &self.works);
        replace::<RolloutPolicy>(&mut caches, &self.policies);
        caches
    }

    pub(super) fn removal(&self, selected: &[&str], deletion: Option<AddOnDeletion>) -> Removal {
        let view = self.caches();
        let addons = view.list::<ManagedClusterAddOn>(Query::ALL).unwrap();
        let selected: BTreeSet<String> = names(selected).into_iter().collect();
        let installed = Installed { add_on: "a", addons: &addons, selected: &selected, deletion };
        installed.removal(&view, NOW).unwrap()
    }

    /// Returns true if the removals of a decision may follow, and the plan that records it.
    fn record(&self, decision: &RemovalDecision) -> (bool, Plan) {
        let removal = Removal { decision: decision.clone(), ..Removal::default() };
        let selected = BTreeSet::new();
        let installed = Installed { add_on: "a", addons: &[], selected: &selected, deletion: None };
        let mut plan = Plan::nothing();
        let may_follow = installed.record(&removal, &mut plan, &self.caches(), NOW).unwrap();
        (may_follow, plan)
    }
}

pub(super) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})
}

/// Returns an unreachable cluster.
pub(super) fn silent(name: &str) -> Value {
    let mut cluster = cluster(name);
    cluster["status"] = json!({"conditions": [{
        "type": "ManagedClusterConditionAvailable", "status": "Unknown", "reason": "R", "message": "",
        "lastTransitionTime": "2023-01-01T00:00:00Z",
    }]});
    cluster
}

/// Returns a cluster's add-on that a placement installed.
pub(super) fn addon(cluster: &str) -> Value {
    let annotations = json!({INSTALLED_BY_ANNOTATION: "true"});
    json!({"metadata": {"namespace": cluster, "name": "a", "annotations": annotations}, "spec": {}})
}

/// Returns a cluster's add-on with the mark that its removal was decided.
pub(super) fn decided(cluster: &str) -> Value {
    let mut addon = addon(cluster);
    addon["metadata"]["annotations"][REMOVAL_DECIDED_ANNOTATION] = json!("true");
    addon
}

pub(super) fn terminating(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2023-01-01T00:00:00Z");
    object
}

/// Returns a work of a cluster's add-on.
fn work(cluster: &str) -> Value {
    json!({"metadata": {"namespace": cluster, "name": "w", "labels": {ADDON_NAME_LABEL: "a"}}, "spec": {}})
}

/// Returns the status of a policy that records the removal of the add-on from a cluster.
fn lost(cluster: &str, time: &str) -> Value {
    json!({"removals": [{"addOn": "a", "recent": [{"cluster": cluster, "time": time}]}]})
}

#[test]
fn placements_remove_their_addons_from_unselected_clusters_and_a_deletion_removes_those_of_people_and_commits_too()
 {
    let mut by_person = addon("c3");
    by_person["metadata"]["annotations"] = json!({});
    let mut by_commit = addon("c6");
    by_commit["metadata"]["annotations"][CONFIG_REPO_ANNOTATION] = json!("gitops/fleet");
    let addons = vec![addon("c1"), addon("c2"), by_person, terminating(addon("c4")), addon("c5"), by_commit];
    let mut fleet = Fleet::new(addons, &json!({"removalBudget": "100%"}));
    fleet.clusters[4] = terminating(cluster("c5"));
    let without_placement = fleet.removal(&["c1"], None);
    assert_eq!((without_placement.decision.removed, without_placement.is_deletion), (names(&["c2"]), false));
    let deleted = fleet.removal(&[], Some(AddOnDeletion::Budgeted));
    assert_eq!((deleted.decision.removed, deleted.is_deletion), (names(&["c1", "c2", "c3", "c6"]), true));
}

#[test]
fn the_budget_is_a_share_of_the_clusters_that_should_have_the_addon_have_it_or_lost_it_recently() {
    // Each case has seven clusters, four of them selected.
    for (left, lost_by, held, enough) in [
        (names(&["c5", "c6", "c7"]), None, "28%", "29%"),
        (names(&["c5", "c6"]), Some(("c7", RECENTLY)), "28%", "29%"),
        (names(&["c5", "c6", "c7"]), Some(("c1", RECENTLY)), "42%", "43%"),
        (names(&["c5", "c6", "c7"]), Some(("c8", LONG_AGO)), "28%", "29%"),
    ] {
        let decide = |budget: &str| {
            let have = CLUSTERS[..4].iter().copied().chain(left.iter().map(String::as_str));
            let mut fleet = Fleet::new(have.map(addon).collect(), &json!({"removalBudget": budget}));
            if let Some((cluster, time)) = lost_by {
                fleet.policies[0]["status"] = lost(cluster, time);
            }
            let RemovalDecision { removed, kept, .. } = fleet.removal(&CLUSTERS[..4], None).decision;
            (removed, kept)
        };
        assert_eq!(decide(held), (Vec::new(), left.clone()), "{held} {lost_by:?}");
        assert_eq!(decide(enough), (left.clone(), Vec::new()), "{enough} {lost_by:?}");
    }
}

#[test]
fn a_decided_removal_waits_only_for_a_policy_that_is_paused_or_not_valid() {
    for (policy, removed, kept, hold) in [
        (json!({"removalBudget": 0}), names(&["c2"]), names(&["c1"]), None),
        (json!({"removalBudget": "100%"}), names(&["c2", "c1"]), names(&[]), None),
        (
            json!({"removalBudget": "100%", "paused": true}),
            names(&[]),
            names(&["c1", "c2"]),
            Some("is paused"),
        ),
        (json!({"onBreach": "Abort"}), names(&[]), names(&["c1", "c2"]), Some("is not valid")),
    ] {
        let removal = Fleet::new(vec![addon("c1"), decided("c2")], &policy).removal(&[], None);
        let decision = removal.decision;
        assert_eq!((decision.removed, decision.kept, removal.hold), (removed, kept, hold), "{policy}");
        assert_eq!((removal.later, &*removal.policy), (names(&[]), "p"), "{policy}");
    }
}

#[test]
fn an_approved_deletion_spends_no_budget_and_a_pause_holds_it() {
    let both = || names(&["c1", "c2"]);
    let of_commit = Some(AddOnDeletion::Approved);
    for (policy, deletion, removed, kept) in [
        (json!({"removalBudget": 0}), Some(AddOnDeletion::Budgeted), names(&[]), both()),
        (json!({"removalBudget": 0}), of_commit, both(), names(&[])),
        (json!({"removalBudget": 0, "paused": true}), of_commit, names(&[]), both()),
    ] {
        let decision = Fleet::new(vec![addon("c1"), addon("c2")], &policy).removal(&[], deletion).decision;
        assert_eq!((decision.removed, decision.kept), (removed, kept), "{policy} {deletion:?}");
        assert_eq!(decision.counted, names(&[]), "{policy} {deletion:?}");
    }
}

#[test]
fn a_removal_without_a_policy_of_people_names_the_default_one() {
    let mut fleet = Fleet::new(vec![addon("c1"), addon("c2")], &json!({}));
    fleet.policies.clear();
    let removal = fleet.removal(&[], None);
    assert_eq!((removal.decision.kept, removal.hold), (names(&["c1", "c2"]), None));
    assert_eq!(removal.policy, DEFAULT_ROLLOUT_POLICY);
}

#[test]
fn an_approval_is_for_the_addons_of_the_clusters_and_not_for_those_that_are_installed_again() {
    let with_uid = |cluster: &str, uid: &str| {
        let mut addon = addon(cluster);
        addon["metadata"]["uid"] = json!(uid);
        addon
    };
    let decide = |addons: Vec<Value>, approved: &[String]| {
        Fleet::new(addons, &json!({"removalBudget": 0, "approved": approved})).removal(&[], None).decision
    };
    let installed = || vec![with_uid("c1", "1"), with_uid("c2", "2")];
    let token = decide(installed(), &[]).approval.unwrap();
    let approved = decide(installed(), std::slice::from_ref(&token));
    assert_eq!((approved.removed, approved.approved), (names(&["c1", "c2"]), names(&["c1", "c2"])));
    let again = decide(vec![with_uid("c1", "1"), with_uid("c2", "3")], std::slice::from_ref(&token));
    assert_eq!((again.removed, again.kept), (names(&[]), names(&["c1", "c2"])));
    let [mut gone, mut left] = [with_uid("c1", "1"), with_uid("c2", "2")];
    gone = terminating(gone);
    left["metadata"]["annotations"][REMOVAL_DECIDED_ANNOTATION] = json!("true");
    let next = decide(vec![gone, left, with_uid("c3", "4")], &[token]);
    assert_eq!((next.removed, next.kept), (names(&["c2"]), names(&["c3"])), "it is completed, and no more");
}

/// Returns a fleet with a policy and four clusters whose removal was decided.
fn four_decided(policy: &Value) -> Fleet {
    Fleet::new(CLUSTERS[..4].iter().map(|name| decided(name)).collect(), policy)
}

#[test]
fn a_batch_has_the_size_of_the_budget_or_one_if_the_removal_is_rolled_out() {
    for (policy, batch) in [
        (json!({"removalBudget": 1}), 4),
        (json!({"removalBudget": 0, "rollOut": "InstallAndContent"}), 1),
        (json!({"removalBudget": 2, "rollOut": "InstallAndContent"}), 2),
        (json!({"removalBudget": "100%", "rollOut": "InstallAndContent"}), 4),
    ] {
        let removal = four_decided(&policy).removal(&[], None);
        let (now, later) = CLUSTERS[..4].split_at(batch);
        assert_eq!((removal.decision.removed, removal.later), (names(now), names(later)), "{policy}");
    }
}

#[test]
fn a_batch_waits_for_reachable_clusters_that_the_addon_has_not_left_completely() {
    type Edit = fn(&mut Fleet);
    let cases: [(&str, Edit, usize); 9] = [
        ("no cluster is leaving", |_| {}, 2),
        ("an add-on is being deleted", |fleet| fleet.addons.push(terminating(addon("c5"))), 1),
        ("a work is left", |fleet| fleet.works.push(work("c6")), 1),
        (
            "the add-on that is being deleted has a work",
            |fleet| {
                fleet.addons.push(terminating(addon("c5")));
                fleet.works.push(work("c5"));
            },
            1,
        ),
        (
            "two clusters are leaving",
            |fleet| {
                fleet.addons.push(terminating(addon("c5")));
                fleet.works.push(work("c6"));
            },
            0,
        ),
        ("a cluster that keeps the add-on has a work", |fleet| fleet.works.push(work("c1")), 2),
        (
            "the add-on of a silent cluster is being deleted",
            |fleet| {
                fleet.addons.push(terminating(addon("c5")));
                fleet.clusters[4] = silent("c5");
            },
            2,
        ),
        (
            "a work is left of a silent cluster",
            |fleet| {
                fleet.works.push(work("c6"));
                fleet.clusters[5] = silent("c6");
            },
            2,
        ),
        ("a work is left of a cluster that is gone", |fleet| fleet.works.push(work("c9")), 2),
    ];
    for (case, change, batch) in cases {
        let mut fleet = four_decided(&json!({"removalBudget": 2, "rollOut": "InstallAndContent"}));
        change(&mut fleet);
        let removal = fleet.removal(&[], None);
        let (now, later) = CLUSTERS[..4].split_at(batch);
        assert_eq!((removal.decision.removed, removal.later), (names(now), names(later)), "{case}");
    }
}

#[test]
fn exactly_the_addons_that_leave_later_and_have_no_mark_get_one() {
    let view = Fleet::new(vec![addon("c1"), decided("c2"), addon("c3")], &json!({})).caches();
    let addons = view.list::<ManagedClusterAddOn>(Query::ALL).unwrap();
    let approved = RemovalDecision { approved: names(&["c1"]), ..RemovalDecision::default() };
    let removal = Removal { decision: approved, later: names(&["c2"]), ..Removal::default() };
    assert_eq!(mark(&removal, &addons).len(), 1, "an approved removal is marked before it is made");
    let removal = Removal { later: names(&["c1", "c2"]), ..Removal::default() };
    let patch = json!({"metadata": {"annotations": {REMOVAL_DECIDED_ANNOTATION: "true"}}});
    let patch = patch.as_object().cloned().unwrap();
    assert_eq!(mark(&removal, &addons), [Action::patch(addons[0].as_ref(), patch)]);
}

#[test]
fn an_expired_window_alone_does_not_rewrite_the_record() {
    let mut fleet = Fleet::new(Vec::new(), &json!({}));
    for time in [RECENTLY, LONG_AGO] {
        fleet.policies[0]["status"] = lost("c8", time);
        assert_eq!(fleet.record(&RemovalDecision::default()), (true, Plan::nothing()), "{time}");
    }
}

#[test]
fn the_record_shows_what_is_removed_and_what_waits_before_any_removal() {
    let mut fleet = Fleet::new(Vec::new(), &json!({}));
    fleet.policies[0]["status"] = lost("c8", RECENTLY);
    let decision = RemovalDecision {
        removed: names(&["c1"]),
        counted: names(&["c1"]),
        approved: Vec::new(),
        kept: names(&["c2", "c3"]),
        approval: Some("remove/x".to_owned()),
        recheck: None,
    };
    let (may_follow, plan) = fleet.record(&decision);
    let plan = serde_json::to_value(plan).unwrap();
    let written = plan["steps"][0][0]["patch"]["status"]["removals"].clone();
    let recent = json!([
        {"cluster": "c1", "time": "2023-11-14T22:13:21Z"},
        {"cluster": "c8", "time": RECENTLY},
    ]);
    let wanted = json!([{"addOn": "a", "held": 2, "approval": "remove/x", "recent": recent}]);
    let [written, wanted] =
        [written, wanted].map(|record| serde_json::from_value::<Vec<RemovalStatus>>(record).unwrap());
    assert_eq!((may_follow, written), (true, wanted));
    fleet.policies.clear();
    let (may_follow, plan) = fleet.record(&decision);
    assert_eq!((may_follow, plan.steps), (false, vec![vec![rollout_policy::create_default()]]));
}
