//! Worked examples: the answers of OCM's library, and the cases in which this engine differs on purpose.
//!
//! The clusters, strategies and ages were observed by running the library itself.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::rollout::cluster::{Cluster, Group, GroupKey, Health, Report};
use crate::rollout::size::read_deadline;
use crate::rollout::strategy::{All, Mandatory, Options, Progressive, ProgressivePerGroup};
use crate::rollout::{ClusterState, Input, Policy, RolloutDecision, Size, Strategy, advance};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Returns a strategy from words: `R2 F0 D90s soak60s`, without `R` for per group; percentages as `F50%`.
fn strategy(words: &str, mandatory: &[Mandatory]) -> Strategy {
    let (mut options, mut concurrency, mut all, mut per_group) = (Options::default(), None, false, false);
    let size = |text: &str| match text.strip_suffix('%') {
        Some(percent) => Size::Percent(percent.parse().unwrap()),
        None => Size::Count(text.parse().unwrap()),
    };
    for word in words.split(' ') {
        match word {
            "All" => all = true,
            "PerGroup" => per_group = true,
            _ if word.starts_with("soak") => options.soak = object::duration::parse(&word[4..]).unwrap(),
            _ if word.starts_with('R') => concurrency = Some(size(&word[1..])),
            _ if word.starts_with('F') => options.failures = size(&word[1..]),
            _ => options.deadline = Some(object::duration::parse(&word[1..]).unwrap()),
        }
    }
    let mandatory = mandatory.to_vec();
    match (all, per_group) {
        (true, _) => Strategy::All(All { deadline: options.deadline }),
        (_, true) => Strategy::ProgressivePerGroup(ProgressivePerGroup { options, mandatory }),
        _ => Strategy::Progressive(Progressive { options, mandatory, concurrency }),
    }
}

/// Returns groups from words: `a1,a2 b1` are groups 0 and 1; `2:c1` sets the index explicitly.
fn groups(words: &str) -> Vec<Group> {
    let group = |(at, word): (usize, &str)| {
        let (index, names) =
            word.split_once(':').map_or((at as i32, word), |(index, names)| (index.parse().unwrap(), names));
        Group {
            key: GroupKey { index, name: format!("g{index}") },
            clusters: names.split(',').map(str::to_owned).collect(),
        }
    };
    words.split(' ').enumerate().map(group).collect()
}

/// Returns a cluster from words: `c1 Progressing 10` was assigned its hash and has reported this state for ten
/// seconds; `c1 ToDo` was not assigned it.
fn cluster(words: &str) -> Cluster {
    let mut words = words.split(' ');
    let (name, report) = (words.next().unwrap(), words.next().unwrap());
    let since = words.next().map(|age| NOW - SignedDuration::from_secs(age.parse().unwrap()));
    let mut cluster =
        Cluster { name: name.into(), wants: "new".into(), runs: Some("new".into()), ..Cluster::default() };
    let report = match report {
        "ToDo" => {
            cluster.runs = None;
            return cluster;
        }
        "Skip" => {
            cluster.skip = true;
            return cluster;
        }
        "ToApply" => Report::ToApply,
        "Progressing" => Report::Progressing,
        "Succeeded" => Report::Succeeded,
        "Failed" => Report::Failed,
        "TimeOut" => Report::TimeOut,
        other => panic!("{other}"),
    };
    cluster.health = Some(Health { of: "new".into(), report, since });
    cluster
}

struct Case {
    strategy: &'static str,
    mandatory: Vec<Mandatory>,
    groups: &'static str,
    existing: &'static str,
}

fn case(strategy: &'static str, groups: &'static str, existing: &'static str) -> Case {
    Case { strategy, mandatory: Vec::new(), groups, existing }
}

impl Case {
    fn mandatory(mut self, name: &str) -> Self {
        self.mandatory.push(Mandatory::Name(name.into()));
        self
    }

    fn run(&self) -> RolloutDecision {
        let mut input = Input::new("new", Ok(strategy(self.strategy, &self.mandatory)));
        input.policy = Ok(Policy { deadline: None, ..Policy::default() });
        input.groups = groups(self.groups);
        input.clusters = self.existing.split(", ").filter(|words| !words.is_empty()).map(cluster).collect();
        advance(&input, NOW)
    }

    /// Asserts the decision as `rollout
    /// timed out
    /// breach
    /// recheck`: starting clusters as `c1`, clusters in flight as `(c1)`.
    fn gives(&self, expected: &str) {
        let decision = self.run();
        let started: Vec<_> = decision.starting().collect();
        let rolling: Vec<_> = decision
            .rolling()
            .map(|name| if started.contains(&name) { name.to_owned() } else { format!("({name})") })
            .collect();
        let timed_out: Vec<_> = decision.timed_out().collect();
        let breach = if decision.breach.is_some() { "breach" } else { "" };
        let recheck =
            decision.recheck.map_or_else(String::new, |at| format!("{}s", at.duration_since(NOW).as_secs()));
        let found = [rolling.join(","), timed_out.join(","), breach.into(), recheck]
            .map(|part| part.trim().to_owned())
            .join(" | ");
        assert_eq!(found.trim(), expected.trim(), "{} {} {:?}", self.strategy, self.groups, self.existing);
    }
}

const SIX: &str = "c1,c2,c3,c4,c5,c6";

#[test]
fn progressive_is_as_in_ocm() {
    case("R2 F0 D90s", SIX, "").gives("c1,c2 |  |  |");
    case("R2 F0 D90s", SIX, "c1 Succeeded 20, c2 Progressing 10").gives("(c2),c3 |  |  | 80s");
    case("R1 F1 D90s", SIX, "c1 Failed 1000").gives("c2 | c1 |  |");
    case("R1 F0 D90s", SIX, "c1 Progressing 1000").gives("| c1 | breach |");
    case("R2 F0 D90s", SIX, "c1 Failed 10").gives("(c1) |  | breach | 80s");
    case("R2 F6 D90s", SIX, "c1 Progressing 1000").gives("c2,c3 | c1 |  |");
    case("R1 F0 D90s soak60s", SIX, "c1 Succeeded 10").gives("(c1) |  |  | 50s");
    case("R2 F3 D0s", SIX, "c1 Progressing 0, c2 Progressing 0").gives("c3,c4 | c1,c2 |  |");
    case("R2 F0", SIX, "c5 ToApply, c6 ToApply").gives("(c5),(c6) |  |  |");
    case("R2 F0", SIX, "c1 Skip").gives("c2,c3 |  |  |");
    case("R34% F0", SIX, "").gives("c1,c2,c3 |  |  |");
    case("F0", SIX, "").gives("c1,c2,c3,c4,c5,c6 |  |  |");
    case("R9 F0", SIX, "").gives("c1,c2,c3,c4,c5,c6 |  |  |");
    // A soak or deadline that counts from an unknown time restarts in every pass.
    case("R1 F0 D90s soak60s", SIX, "c1 Succeeded").gives("(c1) |  |  | 60s");
    case("R1 F0 D90s", SIX, "c1 Progressing").gives("(c1) |  |  | 90s");
    case("R1 F1 D0s", SIX, "c1 Progressing").gives("c2 | c1 |  |");
}

#[test]
fn the_strategy_all_is_as_in_ocm() {
    let all = case("All D90s", SIX, "c1 Failed 1000, c2 Succeeded 5, c3 Progressing 10, zz Succeeded 5");
    all.gives("(c3),c4,c5,c6 | c1 |  | 80s");
    assert_eq!(all.run().removed, ["zz"]);
}

#[test]
fn mandatory_groups_are_as_in_ocm() {
    let check = |existing, expected| {
        case("R2 F0 D90s", "m1,m2 c1,c2,c3,c4", existing).mandatory("g0").gives(expected)
    };
    check("", "m1,m2 |  |  |");
    check("m1 Succeeded 5, m2 Succeeded 5", "c1,c2 |  |  |");
    check("c1 Progressing 10", "(c1),m1,m2 |  |  | 80s");
    case("R2 F0 D90s", "m1,m2 c1,c2,c3,c4", "").mandatory("unknown").gives("c1,c2 |  |  |");
}

#[test]
fn per_group_is_as_in_ocm() {
    let check = |words, existing, expected| case(words, "a1,a2 b1 d1,d2 e1", existing).gives(expected);
    check("PerGroup F0 D90s", "", "a1,a2 |  |  |");
    check("PerGroup F0 D90s", "a1 Succeeded 5, a2 Succeeded 5", "b1 |  |  |");
    check("PerGroup F1 D90s", "a1 Failed 10, a2 Succeeded 5", "(a1),b1 |  |  | 80s");
    check("PerGroup F0", "a1 Failed 10, a2 Succeeded 5", "(a1) |  | breach |");
    check("PerGroup F0 D90s soak60s", "a1 Succeeded 10, a2 Succeeded 70", "(a1) |  |  | 50s");
    check("PerGroup F0 D90s", "d1 Progressing 10", "a1,a2,(d1) |  |  | 80s");
}

/// OCM walks the clusters by name and starts waiting ones before it sees the failure.
#[test]
fn failures_are_counted_before_anything_is_released() {
    case("R1 F0", "aa,m,z", "aa ToDo, m Succeeded 5, z Failed 5").gives("(z) |  | breach |");
    // OCM starts c1.
    case("R4 F0 D90s", SIX, "c1 ToDo, c2 Progressing 1000, c3 ToDo, c4 Progressing 5")
        .gives("(c4) | c2 | breach | 85s");
    // c1 was assigned before the breach, so it stays in flight.
    case("R4 F0 D90s", SIX, "c1 ToApply, c2 Progressing 1000, c4 Progressing 5")
        .gives("(c1),(c4) | c2 | breach | 85s");
    // OCM starts m2, although its mandatory group has already failed.
    case("R2 F50% D90s", "m1,m2 c1,c2", "m1 Progressing 1000").mandatory("g0").gives("| m1 | breach |");
    // OCM starts b1, although d1 has failed.
    case("PerGroup F0 D90s", "a1 b1 d1,d2", "a1 Succeeded 5, d1 Failed 10").gives("(d1) |  | breach | 80s");
}

/// OCM never frees the slot of a failed cluster without a deadline.
#[test]
fn a_tolerated_failure_holds_no_slot() {
    case("R1 F1", SIX, "c1 Failed 5").gives("(c1),c2 |  |  |");
    case("R1 F2", SIX, "c1 Failed 5, c2 Failed 5").gives("(c1),(c2),c3 |  |  |");
    case("R1 F1", SIX, "c1 Failed 5, c2 Failed 5").gives("(c1),(c2) |  | breach |");
}

/// OCM subtracts tolerated timeouts from the clusters in flight.
#[test]
fn a_group_never_starts_while_the_one_before_is_unfinished() {
    let check = |existing, expected| case("PerGroup F1 D90s", "a1,a2 b1 d1,d2 e1", existing).gives(expected);
    check("a1 Progressing 1000, a2 Succeeded 5", "b1 | a1 |  |");
    check("a1 Progressing 1000, a2 Progressing 5", "(a2) | a1 |  | 85s");
}

/// OCM replaces a size above the total with its default, 0.
#[test]
fn more_failures_allowed_than_clusters_is_all_of_them() {
    case("R2 F10 D90s", SIX, "c1 Progressing 1000").gives("c2,c3 | c1 |  |");
    case("PerGroup F2 D90s", "a1,a2 b1 d1,d2", "a1 Succeeded 5, a2 Succeeded 5, b1 Progressing 1000")
        .gives("d1,d2 | b1 |  |");
}

/// In OCM, activity outside the mandatory groups ends the first stage early.
#[test]
fn mandatory_groups_do_not_turn_the_rest_into_batches() {
    let done = "m1 Succeeded 5, m2 Succeeded 5, ";
    let check = |words, existing: &str, expected| {
        let existing = format!("{done}{existing}").leak();
        case(words, "m1,m2 c1,c2,c3,c4", existing).mandatory("g0").gives(expected);
    };
    check("R2 F0 D90s", "c1 Succeeded 5, c2 Progressing 10", "(c2),c3 |  |  | 80s");
    check("R2 F50% D90s", "c1 Progressing 1000, c2 Succeeded 5", "c3,c4 | c1 |  |");
}

/// OCM ignores clusters beyond the slot limit.
#[test]
fn clusters_beyond_the_slot_limit_are_still_judged() {
    case("R1 F0 D90s", SIX, "c1 Progressing 10, c2 Progressing 10, c3 Progressing 1000")
        .gives("(c1),(c2) | c3 | breach | 80s");
}

#[test]
fn neither_deadline_nor_soak_begins_before_the_assignment() {
    let check = |words: &str, report: &str, state: ClusterState| {
        let mut input = Input::new("new", Ok(strategy(words, &[])));
        input.groups = groups("c1");
        input.clusters =
            vec![Cluster { runs_since: Some(NOW - SignedDuration::from_secs(30)), ..cluster(report) }];
        assert_eq!(advance(&input, NOW).clusters["c1"].state, state);
    };
    let at = |seconds| NOW + SignedDuration::from_secs(seconds);
    check(
        "R1 F0 D90s",
        "c1 Progressing 1000",
        ClusterState::Progressing { deadline: Some(at(60)), reported: true },
    );
    check("R1 F0 soak60s", "c1 Succeeded 1000", ClusterState::Soaking { until: at(30) });
    check("R1 F0 soak60s", "c1 Succeeded", ClusterState::Soaking { until: at(30) });
    // A cluster that never reports also times out.
    check("R1 F0 D90s", "c1 ToApply", ClusterState::Progressing { deadline: Some(at(60)), reported: false });
    check("R1 F0 D20s", "c1 ToApply", ClusterState::TimedOut);
}

#[test]
fn a_cluster_that_returns_is_not_treated_as_timed_out() {
    let mut input = Input::new("new", Ok(strategy("R1 F0 D90s", &[])));
    input.groups = groups("c1");
    input.clusters = vec![Cluster { unreachable: true, ..cluster("c1 Progressing 1000") }];
    assert_eq!(advance(&input, NOW).clusters["c1"].state, ClusterState::Unreachable { moved: true });
    let back = Cluster { answers_since: Some(NOW), ..cluster("c1 Progressing 1000") };
    input.clusters = vec![back];
    let deadline = Some(NOW + SignedDuration::from_secs(90));
    assert_eq!(
        advance(&input, NOW).clusters["c1"].state,
        ClusterState::Progressing { deadline, reported: true }
    );
}

/// OCM does not handle timeouts that it did not decide itself.
#[test]
fn a_reported_timeout_is_a_failure() {
    case("R2 F0 D90s", "m1,m2 c1,c2", "m1 TimeOut 5, m2 Succeeded 5")
        .mandatory("g0")
        .gives("| m1 | breach |");
    case("PerGroup F0 D90s", "a1,a2 b1", "a1 TimeOut 5, a2 Succeeded 5").gives("| a1 | breach |");
    case("PerGroup F1 D90s", "a1,a2 b1", "a1 TimeOut 5, a2 Succeeded 5").gives("b1 | a1 |  |");
}

/// OCM counts the groups and iterates over that many indexes from 0.
#[test]
fn groups_beyond_a_missing_index_are_not_lost() {
    let gap = case("R5 F0", "0:c1 2:c2", "c2 Progressing 5");
    gap.gives("c1,(c2) |  |  |");
    assert!(gap.run().removed.is_empty());
}

#[test]
fn a_cluster_of_two_groups_belongs_to_the_first() {
    let decision = case("PerGroup F0", "c1 c1,c2", "").run();
    assert_eq!(decision.starting().collect::<Vec<_>>(), ["c1"]);
    let groups: BTreeMap<_, _> =
        decision.clusters.iter().map(|(name, assignment)| (name.as_str(), assignment.group.index)).collect();
    assert_eq!(groups, BTreeMap::from([("c1", 0), ("c2", 1)]));
}

/// OCM deletes everything as soon as a placement is empty.
#[test]
fn a_placement_that_shrinks_too_much_removes_nothing() {
    let mut input = Input::new("new", Ok(strategy("R2 F0", &[])));
    input.clusters = ["c1 Succeeded 5", "c2 Succeeded 5", "c3 Succeeded 5"].map(cluster).to_vec();
    let decision = advance(&input, NOW);
    assert!(decision.removed.is_empty());
    assert_eq!(decision.kept, ["c1", "c2", "c3"]);
    input.granted = decision.approvals;
    assert_eq!(advance(&input, NOW).removed, ["c1", "c2", "c3"]);
    // The approval covered only the first three.
    input.clusters.push(cluster("c4 Succeeded 5"));
    assert!(advance(&input, NOW).removed.is_empty());
}

/// OCM aborts every pass for every cluster.
#[test]
fn the_last_good_strategy_stays_while_the_new_one_is_refused() {
    let refused = read_deadline("progressive.progressDeadline", "5|").unwrap_err();
    let mut input = Input::new("new", Err(refused.clone()));
    input.groups = groups(SIX);
    let decision = advance(&input, NOW);
    assert_eq!((decision.starting().count(), decision.refused.as_slice()), (0, [refused.clone()].as_slice()));
    input.last_strategy = Some(strategy("R2 F0", &[]));
    let decision = advance(&input, NOW);
    assert_eq!((decision.starting().count(), decision.refused.as_slice()), (2, [refused].as_slice()));
}

#[test]
fn a_group_soaks_from_the_deadline_of_its_last_cluster() {
    let mut input = Input::new("new", Ok(strategy("PerGroup F1 D90s", &[])));
    input.groups = groups("a1 b1");
    input.clusters = vec![cluster("a1 Progressing 100")];
    let group_soak = SignedDuration::from_secs(60);
    input.policy = Ok(Policy { group_soak, ..Policy::default() });
    let decision = advance(&input, NOW);
    assert_eq!(decision.clusters["a1"].state, ClusterState::TimedOut);
    assert_eq!(
        (decision.starting().count(), decision.recheck),
        (0, Some(NOW + SignedDuration::from_secs(50)))
    );
}

#[test]
fn clusters_soak_by_the_policy_while_no_strategy_can_be_read() {
    let refused = read_deadline("progressive.progressDeadline", "5|").unwrap_err();
    let mut input = Input::new("new", Err(refused));
    input.groups = groups("c1");
    input.clusters = vec![cluster("c1 Succeeded 5")];
    let soak = SignedDuration::from_secs(60);
    input.policy = Ok(Policy { soak, ..Policy::default() });
    let until = NOW + SignedDuration::from_secs(55);
    assert_eq!(advance(&input, NOW).clusters["c1"].state, ClusterState::Soaking { until });
}

/// OCM reports nothing, so a misspelled canary is silently no canary.
#[test]
fn a_mandatory_group_that_does_not_exist_stops_nothing_and_is_reported() {
    let misspelled = case("R2 F0", "m1 c1,c2", "").mandatory("g0").mandatory("g00");
    misspelled.gives("m1 |  |  |");
    let found: Vec<_> = misspelled.run().corrections().collect();
    assert_eq!(
        found,
        [
            "mandatory group g00: the placement has no cluster in this group, so the rollout does not wait for it"
        ]
    );
    assert!(case("R2 F0", "m1 c1,c2", "").mandatory("g0").run().absent.is_empty());
    let mut without_canaries = Input::new("new", Ok(strategy("R2 F0", &misspelled.mandatory)));
    without_canaries.groups = groups("m1 c1");
    without_canaries.groups[0].clusters.clear();
    assert_eq!(
        advance(&without_canaries, NOW).absent,
        misspelled.mandatory,
        "the scheduler keeps a group without a cluster"
    );
    let undecided = Input::new("new", Ok(strategy("R2 F0", &misspelled.mandatory)));
    assert!(
        advance(&undecided, NOW).absent.is_empty(),
        "a placement without a decision may have the group yet"
    );
}
