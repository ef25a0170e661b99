//! Decides which clusters lose their content because no placement selects them any longer.
//!
//! The budget counts clusters over a time window, so that a repeatedly shrinking placement cannot empty a fleet
//! in small steps. Removals above the budget wait for an approval, or for the window to pass.
//!
//! If a policy rolls out removals, a [`RemovalOrder`] determines which of the decided removals come first.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::cluster::{Group, Instance};
use super::policy::Policy;
use super::refused::Refused;
use super::stage::{StagePlan, grouped, stages};
use super::strategy::Strategy;
use object::duration::later;
use object::hex;

/// The prefix of the approval tokens for removals.
pub const REMOVAL_TOKEN: &str = "remove/";

/// The maximum number of removals in a window that are recorded by name: about 100 kB in a status.
const RECORDED: usize = 1000;

/// The input of a removal decision.
#[derive(Clone, Copy, Debug)]
pub struct RemovalInput<'a> {
    /// The owner of the content: an add-on, or a ManifestWorkReplicaSet as NAMESPACE/NAME. An approval covers
    /// only this owner, even if its policy covers several.
    pub owner: &'a str,
    /// The clusters that left and still have the content.
    pub left: &'a BTreeMap<String, Instance>,
    /// The number of clusters that have the content, should have it, or lost it within the window.
    pub total: usize,
    /// The clusters that lost the content without an approval, and when.
    pub recent: &'a BTreeMap<String, Timestamp>,
    /// The policy, or the reason it is invalid. In that case nothing is removed.
    pub policy: &'a Result<Policy, Refused>,
    /// The granted tokens.
    pub granted: &'a BTreeSet<String>,
}

/// The decision about removals from clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalDecision {
    /// Clusters that lose the content now.
    pub removed: Vec<String>,
    /// Clusters in `removed` that count against the budget. Record them before the removal.
    pub counted: Vec<String>,
    /// Clusters in `removed` whose removal a person approved. Mark them before the removal
    /// ([`Instance::is_decided`]): the approval covers all of them together, so it no longer matches once the
    /// first has lost the content.
    pub approved: Vec<String>,
    /// Clusters that keep the content until a person approves, the window has passed, or the pause ends.
    pub kept: Vec<String>,
    /// The token that would approve the removal from the clusters in `kept`.
    pub approval: Option<String>,
    /// The time at which the budget allows the removal from the clusters in `kept`.
    pub recheck: Option<Timestamp>,
}

/// Decides which clusters lose their content now.
///
/// Without an approval, either all clusters that left lose it, or only those that are already counted. Removals
/// that were decided earlier come first, and only a pause or an invalid policy blocks them.
pub fn remove(input: &RemovalInput<'_>, now: Timestamp) -> RemovalDecision {
    let RemovalInput { owner, left, total, recent, policy, granted } = *input;
    let policy = match policy {
        Ok(policy) if !policy.paused => policy,
        Ok(_) | Err(_) => {
            return RemovalDecision { kept: left.keys().cloned().collect(), ..RemovalDecision::default() };
        }
    };
    let (decided, open): (Vec<_>, Vec<_>) = left.iter().partition(|(_, instance)| instance.is_decided);
    let removed = names(&[decided.clone(), open.clone()].concat());
    let everything = RemovalDecision { removed, ..RemovalDecision::default() };
    let allowed = policy.removals.of(total);
    if allowed >= total {
        return everything;
    }
    let allowed = allowed.min(RECORDED);
    let recent = within_window(recent, policy, now);
    let (counted, new): (Vec<_>, Vec<_>) = open.into_iter().partition(|(name, _)| recent.contains_key(*name));
    let token = removal_token(owner, new.iter().copied());
    if granted.contains(&token) {
        return RemovalDecision { approved: names(&new), ..everything };
    }
    let sum = new.len() + recent.len();
    if new.is_empty() || sum <= allowed {
        return RemovalDecision { counted: names(&new), ..everything };
    }
    let ends = recent.into_values().map(|at| end(at, policy));
    let recheck = first_within(ends, |left| new.len() + left <= allowed);
    let removed = names(&[decided, counted].concat());
    RemovalDecision {
        removed,
        kept: names(&new),
        approval: Some(token),
        recheck,
        ..RemovalDecision::default()
    }
}

fn names(left: &[(&String, &Instance)]) -> Vec<String> {
    left.iter().map(|(name, _)| (*name).clone()).collect()
}

/// Returns the removals that still count. A time in the future, written by a clock that ran ahead, counts too.
pub fn within_window(
    recent: &BTreeMap<String, Timestamp>,
    policy: &Policy,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let counts = recent.iter().filter(|(_, at)| end(**at, policy) > now);
    counts.map(|(name, at)| (name.clone(), *at)).collect()
}

/// Returns the time at which a removal stops counting.
pub(crate) fn end(at: Timestamp, policy: &Policy) -> Timestamp {
    later(at, policy.removal_window)
}

/// Returns the earliest end after which `is_within` accepts the number of remaining entries; `None` if it never
/// does.
pub(crate) fn first_within(
    ends: impl Iterator<Item = Timestamp>,
    is_within: impl Fn(usize) -> bool,
) -> Option<Timestamp> {
    let mut ends: Vec<Timestamp> = ends.collect();
    ends.sort_unstable();
    let mut ends = (0..ends.len()).rev().zip(ends);
    ends.find(|(left, _)| is_within(*left)).map(|(_, end)| end)
}

/// The order in which clusters lose their content: by placement, in the stages of its strategy. Clusters outside
/// all stages come last.
///
/// A stage starts when the decided removals of the earlier stages are complete. There is no soak, because a
/// cluster that has lost its content reports nothing about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalOrder {
    /// The stages of each placement.
    placements: Vec<Vec<RemovalStage>>,
    /// The number of clusters outside all stages that may lose the content together.
    rest: usize,
}

/// Clusters that lose their content before the next stage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RemovalStage {
    clusters: Vec<String>,
    slots: usize,
}

impl RemovalStage {
    fn from_plan(plan: &StagePlan<'_>) -> Self {
        let clusters = plan.members.iter().map(|member| member.name.to_owned()).collect();
        // At least one, so that the removal finishes.
        Self { clusters, slots: plan.slots.max(1) }
    }
}

impl RemovalOrder {
    /// Returns the order for placements with their strategies and groups, among `total` clusters.
    ///
    /// Nothing records which placement selected a cluster that is now in no group. The smallest `maxConcurrency`
    /// of all placements therefore limits these clusters.
    pub fn of(placements: &[(Strategy, Vec<Group>)], total: usize) -> Self {
        let rules = placements.iter().flat_map(|(strategy, _)| strategy.stages());
        let others = rules.filter(|rule| rule.groups.is_none());
        let rest = others.map(|rule| rule.slots.of(total).max(1)).min().unwrap_or(total);
        let stages_of = |(strategy, groups): &(Strategy, Vec<Group>)| -> Vec<RemovalStage> {
            let plans = stages(Some(strategy), &Policy::default(), grouped(groups, &BTreeMap::new()));
            plans.iter().map(RemovalStage::from_plan).collect()
        };
        Self { placements: placements.iter().map(stages_of).collect(), rest }
    }

    /// Returns the clusters in `decided` that may lose the content now, while those in `leaving` lose it.
    pub fn next(&self, decided: &[String], leaving: &BTreeSet<String>) -> Vec<String> {
        let waiting: BTreeSet<&str> = decided.iter().map(String::as_str).collect();
        let is_open = |cluster: &String| waiting.contains(cluster.as_str()) || leaving.contains(cluster);
        let is_unfinished = |stage: &&RemovalStage| stage.clusters.iter().any(is_open);
        let unfinished: Vec<&RemovalStage> =
            self.placements.iter().filter_map(|stages| stages.iter().find(is_unfinished)).collect();
        if unfinished.is_empty() {
            return decided.iter().take(self.rest.saturating_sub(leaving.len())).cloned().collect();
        }
        let next = |stage: &RemovalStage| -> Vec<String> {
            let busy = stage.clusters.iter().filter(|cluster| leaving.contains(*cluster)).count();
            let decided = stage.clusters.iter().filter(|cluster| waiting.contains(cluster.as_str()));
            decided.take(stage.slots.saturating_sub(busy)).cloned().collect()
        };
        unfinished.into_iter().flat_map(next).collect()
    }
}

/// Returns the token that approves one removal of an owner's content from exactly these clusters. Content that
/// comes back is a new instance and needs a new approval.
pub(super) fn removal_token<'a>(
    owner: &str,
    clusters: impl IntoIterator<Item = (&'a String, &'a Instance)>,
) -> String {
    let mut text = format!("{owner}\n");
    for (cluster, Instance { uid, is_decided: _ }) in clusters {
        text.extend([cluster.as_str(), " ", uid.as_str(), "\n"]);
    }
    let sum = Sha256::digest(text);
    format!("{REMOVAL_TOKEN}{}", hex(sum.get(..6).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::cluster::GroupKey;
    use crate::rollout::size::Size;
    use crate::rollout::strategy::{All, Mandatory, Progressive, ProgressivePerGroup};
    use jiff::SignedDuration;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Returns content with a unique uid for each cluster.
    fn instances(names: &[&str]) -> BTreeMap<String, Instance> {
        let instance = |name: &str| Instance { uid: format!("uid-{name}"), is_decided: false };
        names.iter().map(|name| ((*name).to_owned(), instance(name))).collect()
    }

    /// Decides for 100 clusters, of which two may leave within an hour. `recent` left at the given minutes.
    fn decide(left: &[&str], recent: &[(&str, i64)], granted: &[String], minute: i64) -> RemovalDecision {
        decide_about(&instances(left), recent, granted, minute)
    }

    fn decide_about(
        left: &BTreeMap<String, Instance>,
        recent: &[(&str, i64)],
        granted: &[String],
        minute: i64,
    ) -> RemovalDecision {
        let recent = recent.iter().map(|(name, minute)| ((*name).to_owned(), at(*minute))).collect();
        let input = RemovalInput {
            owner: "tool",
            left,
            total: 100,
            recent: &recent,
            policy: &Ok(Policy::default()),
            granted: &granted.iter().cloned().collect(),
        };
        remove(&input, at(minute))
    }

    #[test]
    fn removals_count_over_the_window_and_not_one_by_one() {
        let one = decide(&["c"], &[("a", 0)], &[], 10);
        assert_eq!((one.removed, one.counted), (names(&["c"]), names(&["c"])), "it is recorded before");
        let held = decide(&["c"], &[("a", 0), ("b", 5)], &[], 10);
        assert_eq!((held.removed.len(), held.kept.as_slice()), (0, names(&["c"]).as_slice()));
        assert_eq!(held.recheck, Some(at(60)), "the first of the window ends then");
        assert_eq!(decide(&["c"], &[("a", 0), ("b", 5)], &[], 60).removed, ["c"]);
        assert_eq!(decide(&["c", "d"], &[("a", 0), ("b", 5)], &[], 10).recheck, Some(at(65)));
        assert_eq!(decide(&["c", "d", "e"], &[], &[], 10).recheck, None, "no window is long enough");
        let four = [("a", 0), ("b", 5), ("f", 6), ("g", 7)];
        assert_eq!(
            decide(&["c"], &four, &[], 10).recheck,
            Some(at(66)),
            "three of four have to leave the window"
        );
    }

    #[test]
    fn a_recorded_removal_that_did_not_happen_is_repeated_and_counts_once() {
        let again = decide(&["a", "b"], &[("a", 0), ("b", 0)], &[], 1);
        assert_eq!((again.removed, again.counted.len()), (names(&["a", "b"]), 0));
        let more = decide(&["a", "b", "c"], &[("a", 0), ("b", 0)], &[], 1);
        assert_eq!((more.removed, more.kept), (names(&["a", "b"]), names(&["c"])));
    }

    #[test]
    fn an_approval_is_for_exactly_the_clusters_that_wait() {
        let token = decide(&["c", "d", "e"], &[], &[], 0).approval.unwrap();
        let approved = decide(&["c", "d", "e"], &[], std::slice::from_ref(&token), 0);
        assert_eq!((approved.removed.len(), approved.counted.len()), (3, 0), "an approval spends no budget");
        assert!(decide(&["c", "d", "e", "f"], &[], &[token], 0).removed.is_empty());
    }

    #[test]
    fn an_approval_does_not_count_for_content_that_came_back() {
        let left = instances(&["c", "d", "e"]);
        let first = decide_about(&left, &[], &[], 0).approval.unwrap();
        let granted = std::slice::from_ref(&first);
        assert_eq!(decide_about(&left, &[], granted, 0).removed, ["c", "d", "e"]);
        let mut back = left;
        back.insert("d".to_owned(), Instance { uid: "another".to_owned(), is_decided: false });
        let again = decide_about(&back, &[], granted, 1440);
        assert_eq!((again.removed.len(), again.kept), (0, names(&["c", "d", "e"])));
        assert_ne!(again.approval, Some(first));
    }

    #[test]
    fn an_approved_removal_continues_after_the_first_clusters_left_and_others_joined() {
        let mut left = instances(&["c", "d", "e"]);
        let token = decide_about(&left, &[], &[], 0).approval.unwrap();
        let approved = decide_about(&left, &[], std::slice::from_ref(&token), 0);
        assert_eq!(approved.approved, ["c", "d", "e"]);
        left.values_mut().for_each(|instance| instance.is_decided = true);
        left.remove("c");
        left.extend(instances(&["a", "b", "f"]));
        let next = decide_about(&left, &[], std::slice::from_ref(&token), 0);
        assert_eq!((next.removed, next.kept), (names(&["d", "e"]), names(&["a", "b", "f"])));
        assert!(next.approved.is_empty() && next.approval.is_some_and(|next| next != token));
    }

    #[test]
    fn an_approval_of_one_add_on_takes_no_other_from_the_same_clusters() {
        let (left, recent, policy) = (instances(&["c", "d", "e"]), BTreeMap::new(), Ok(Policy::default()));
        let decide = |owner, granted: &BTreeSet<String>| {
            let input =
                RemovalInput { owner, left: &left, total: 100, recent: &recent, policy: &policy, granted };
            remove(&input, at(0))
        };
        let granted: BTreeSet<String> = decide("tool", &BTreeSet::new()).approval.into_iter().collect();
        assert_eq!(decide("tool", &granted).removed, ["c", "d", "e"]);
        assert_eq!(decide("other", &granted).kept, ["c", "d", "e"]);
    }

    #[test]
    fn a_budget_of_everything_records_nothing() {
        let policy = Policy { removals: Size::ALL, ..Policy::default() };
        let (left, recent, granted) = (instances(&["a", "b"]), BTreeMap::new(), BTreeSet::new());
        let input = RemovalInput {
            owner: "tool",
            left: &left,
            total: 2,
            recent: &recent,
            policy: &Ok(policy),
            granted: &granted,
        };
        let removed = names(&["a", "b"]);
        assert_eq!(remove(&input, at(0)), RemovalDecision { removed, ..Default::default() });
    }

    #[test]
    fn a_time_ahead_of_the_clock_counts() {
        assert_eq!(Policy::default().removal_window, SignedDuration::from_hours(1));
        assert_eq!(decide(&["c"], &[("a", 600), ("b", 600)], &[], 0).kept, ["c"]);
    }

    fn groups(groups: &[&[&str]]) -> Vec<Group> {
        let group = |(index, clusters): (i32, &&[&str])| Group {
            key: GroupKey { index, name: String::new() },
            clusters: names(clusters),
        };
        (0..).zip(groups).map(group).collect()
    }

    /// Returns a strategy with the second group as canary, and the given concurrency after it.
    fn progressive(concurrency: Size) -> Strategy {
        let mandatory = vec![Mandatory::Index(1)];
        Strategy::Progressive(Progressive {
            mandatory,
            concurrency: Some(concurrency),
            ..Progressive::default()
        })
    }

    #[test]
    fn a_removal_follows_the_stages_and_slots_of_the_strategy() {
        let per_group = Strategy::ProgressivePerGroup(ProgressivePerGroup::default());
        let all = Strategy::All(All::default());
        let two = progressive(Size::Count(2));
        let fleet = || groups(&[&["a", "c", "d"], &["b"]]);
        for (strategy, decided, leaving, next) in [
            (&two, vec!["a", "b", "c", "d", "x"], vec![], vec!["b"]),
            (&two, vec!["a", "c", "d", "x"], vec!["b"], vec![]),
            (&two, vec!["a", "c", "d", "x"], vec![], vec!["a", "c"]),
            (&two, vec!["d", "x"], vec!["c"], vec!["d"]),
            (&two, vec!["x"], vec!["d"], vec![]),
            (&two, vec!["x", "y", "z"], vec!["w"], vec!["x"]),
            (&progressive(Size::Percent(34)), vec!["d"], vec!["c"], vec!["d"]),
            (&progressive(Size::Percent(33)), vec!["d"], vec!["c"], vec![]),
            (&progressive(Size::Count(0)), vec!["c", "d"], vec![], vec!["c"]),
            (&per_group, vec!["a", "b", "c", "x"], vec!["d"], vec!["a", "c"]),
            (&per_group, vec!["b", "x"], vec![], vec!["b"]),
            (&all, vec!["a", "b", "x"], vec!["c", "d"], vec!["a", "b"]),
            (&all, vec!["x", "y", "z"], vec![], vec!["x", "y", "z"]),
        ] {
            let order = RemovalOrder::of(&[(strategy.clone(), fleet())], 7);
            let leaving: BTreeSet<String> = names(&leaving).into_iter().collect();
            let found = order.next(&names(&decided), &leaving);
            assert_eq!(found, names(&next), "{strategy:?} {decided:?} {leaving:?}");
        }
    }

    #[test]
    fn placements_do_not_wait_for_each_other_and_the_smallest_number_limits_clusters_of_none() {
        let two = (progressive(Size::Count(2)), groups(&[&["a"], &["b"]]));
        let all = (Strategy::All(All::default()), groups(&[&["c", "d"]]));
        let next = |placements: &[(Strategy, Vec<Group>)], decided: &[&str]| {
            RemovalOrder::of(placements, 4).next(&names(decided), &BTreeSet::new())
        };
        let both = [two, all];
        assert_eq!(next(&both, &["a", "b", "c", "d", "x"]), ["b", "c", "d"]);
        assert_eq!(next(&both, &["x", "y", "z"]), ["x", "y"]);
        assert_eq!(next(&[], &["x", "y", "z"]), ["x", "y", "z"]);
    }
}
