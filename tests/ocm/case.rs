//! Small random fleets from a seed, in the input formats of the library and the engine.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use object::Random;
use serde_json::{Value, json};

/// The revisions that are being rolled out and that clusters ran before.
const NEW: &str = "new";
const OLD: &str = "old";

/// A strategy, groups, and the known state of clusters.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) strategy: Value,
    pub(super) groups: Vec<Group>,
    pub(super) clusters: Vec<Cluster>,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) index: i32,
    pub(super) name: String,
    pub(super) clusters: Vec<String>,
}

/// A cluster. If it has no status, it only has to be updated.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) status: Status,
    /// Ages in seconds; a negative age is in the future.
    pub(super) since: Option<i64>,
    /// The age at which the wanted revision was assigned. The library has no such input.
    pub(super) assigned: Option<i64>,
    /// The age at which the cluster joined the fleet. The library has no such input.
    pub(super) joined: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The cluster runs another revision. The add-on manager passes such clusters as ToApply.
    ToDo,
    /// The wanted revision was assigned, but the cluster has not reported. Work controllers pass such clusters as
    /// ToApply.
    ToApply,
    Progressing,
    Succeeded,
    Failed,
    TimeOut,
    Skip,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::ToDo | Self::ToApply => "ToApply",
            Self::Progressing => "Progressing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::TimeOut => "TimeOut",
            Self::Skip => "Skip",
        }
    }
}

/// Maximum number of clusters in a small fleet. In larger ones no cluster leaves, so that percentages give round
/// numbers.
const SMALL: i64 = 12;

/// Returns the current time in every case.
pub(super) fn now() -> Timestamp {
    "2026-03-02T08:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

impl Case {
    /// Generates the case for a seed.
    pub(super) fn from_seed(seed: u64) -> Self {
        Maker { random: Random::new(seed) }.case()
    }

    /// Returns the input of the library.
    pub(super) fn library_input(&self) -> Value {
        let groups =
            self.groups.iter().map(|g| json!({"index": g.index, "name": g.name, "clusters": g.clusters}));
        let clusters = self
            .clusters
            .iter()
            .map(|c| json!({"name": c.name, "status": c.status.word(), "since": c.since.map(ago)}));
        json!({"now": now().to_string(), "strategy": self.strategy, "groups": groups.collect::<Value>(), "clusters": clusters.collect::<Value>()})
    }

    /// Returns the input of `wheelwright simulate rollout`.
    pub(super) fn scenario(&self) -> Value {
        let groups =
            self.groups.iter().map(|g| json!({"index": g.index, "name": g.name, "clusters": g.clusters}));
        let cluster = |c: &Cluster| {
            let (runs, state) =
                if c.status == Status::ToDo { (OLD, "Succeeded") } else { (NEW, c.status.word()) };
            let mut value = json!({"name": c.name, "runs": runs, "state": state});
            let times = [("since", c.since), ("runsSince", c.assigned), ("joined", c.joined)];
            for (field, age) in times.into_iter().filter_map(|(field, age)| Some((field, age?))) {
                value[field] = ago(age).into();
            }
            value
        };
        let clusters: Value = self.clusters.iter().map(cluster).collect();
        // The library has no default deadline.
        let policy = json!({"defaultDeadline": "None"});
        json!({
            "revision": NEW, "runs": OLD, "strategy": self.strategy, "policy": policy,
            "groups": groups.collect::<Value>(), "clusters": clusters,
        })
    }
}

struct Maker {
    random: Random,
}

impl Maker {
    fn case(&mut self) -> Case {
        let count = if self.random.chance(30) { self.one(&[20, 25, 50, 100]) } else { self.number(1, SMALL) };
        let mut names: Vec<String> = (0..count).map(|at| format!("c{at:02}")).collect();
        let groups = self.groups(&names);
        let strategy = self.strategy(count, &groups);
        // Some clusters have left.
        names.extend((0..self.number(0, 3)).map(|at| format!("z{at}")).filter(|_| self.random.chance(100)));
        let grouped: BTreeSet<&String> = groups.iter().flat_map(|group| &group.clusters).collect();
        let ways = Ways {
            add_ons: self.random.chance(400),
            assigned: self.random.chance(150),
            joined: self.random.chance(100),
            ..self.health()
        };
        let clusters =
            names.iter().filter_map(|name| self.cluster(name, grouped.contains(name), &ways)).collect();
        Case { strategy, groups, clusters }
    }

    fn number(&mut self, least: i64, most: i64) -> i64 {
        least + i64::try_from(self.random.below(u64::try_from(most - least + 1).unwrap())).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.random.below(of.len() as u64)).unwrap()].clone()
    }

    fn groups(&mut self, names: &[String]) -> Vec<Group> {
        let nobody_leaves = i64::try_from(names.len()).unwrap() > SMALL;
        let count = self.number(0, 4).max(1);
        let (gap, twice) = (self.random.chance(50), self.random.chance(50));
        let mut index = i32::from(gap && self.random.chance(300));
        let mut groups = Vec::new();
        for at in 0..count {
            let named = self.random.chance(600);
            let name = if !named {
                String::new()
            } else if self.random.chance(100) {
                "g0".into()
            } else {
                format!("g{at}")
            };
            groups.push(Group { index, name, clusters: Vec::new() });
            index += 1 + i32::from(gap && self.random.chance(300));
        }
        for name in names {
            // Each cluster is in one of the remaining groups; a group may stay empty.
            for _ in 0..1 + i32::from(twice && self.random.chance(300)) {
                let at = self.number(0, count - i64::from(nobody_leaves));
                if let Some(group) = groups
                    .get_mut(usize::try_from(at).unwrap())
                    .filter(|group| !group.clusters.contains(name))
                {
                    group.clusters.push(name.clone());
                } else if self.random.chance(700) {
                    groups[0].clusters.retain(|other| other != name);
                    groups[0].clusters.push(name.clone());
                }
            }
        }
        groups
    }

    fn strategy(&mut self, clusters: i64, groups: &[Group]) -> Value {
        let kind = self.one(&[
            "All",
            "Progressive",
            "Progressive",
            "Progressive",
            "ProgressivePerGroup",
            "ProgressivePerGroup",
        ]);
        let mut options = serde_json::Map::new();
        let deadlines = ["90s", "90s", "30s", "None", "", "0s", "1h30m", "500ms", "1m30s"];
        let wrong = ["5|", "30mxyz", "xyzNone", "0", "-5s", "1.5h", "5us"];
        if self.random.chance(700) {
            let text = if self.random.chance(15) { self.one(&wrong) } else { self.one(&deadlines) };
            options.insert("progressDeadline".into(), text.into());
        }
        if self.random.chance(400) {
            let text = if self.random.chance(15) {
                self.one(&["-10s", "5", "", "x"])
            } else {
                self.one(&["0", "0s", "60s", "1m", "10s"])
            };
            options.insert("minSuccessTime".into(), text.into());
        }
        if self.random.chance(700) {
            options.insert("maxFailures".into(), self.size(clusters));
        }
        if kind == "Progressive" && self.random.chance(800) {
            options.insert("maxConcurrency".into(), self.size(clusters));
        }
        if kind != "All" && self.random.chance(400) {
            let mandatory = (0..self.number(1, 2)).map(|_| {
                let group = self.one(groups);
                match self.number(0, 9) {
                    0 => json!({"groupName": "unknown"}),
                    1 => json!({}),
                    2..6 => json!({"groupIndex": group.index}),
                    _ => json!({"groupName": group.name, "groupIndex": group.index}),
                }
            });
            options.insert("mandatoryDecisionGroups".into(), mandatory.collect());
        }
        let field = match kind {
            "All" => "all",
            "Progressive" => "progressive",
            _ => "progressivePerGroup",
        };
        match self.number(0, 99) {
            0 => json!({field: options}),
            1 => json!({"type": "Canary"}),
            2 => json!({"type": kind}),
            _ => json!({"type": kind, field: options}),
        }
    }

    fn size(&mut self, clusters: i64) -> Value {
        // Percentages of 20, 25, 50 or 100 whose floating-point values are slightly too large.
        if clusters > SMALL && self.random.chance(500) {
            return json!(format!("{}%", self.one(&[7, 14, 28, 55, 56])));
        }
        match self.number(0, 99) {
            0 => self.one(&["5", "33.5%", "101%", "", "+5%", "x%"]).into(),
            1 => json!("0%"),
            2 => json!(-1),
            3..10 => json!("100%"),
            10..40 => json!(format!("{}%", self.number(0, 100))),
            40..90 => json!(self.number(0, clusters.min(4))),
            _ => json!(self.number(0, clusters + 3)),
        }
    }

    /// Returns the health of a fleet: mostly healthy, just starting, or mostly failing.
    fn health(&mut self) -> Ways {
        let (known, shares) = self.one(&[
            (200, [2, 3, 3, 1, 0, 0]),
            (500, [1, 4, 8, 1, 0, 0]),
            (500, [1, 2, 4, 3, 1, 1]),
            (900, [1, 2, 12, 1, 1, 1]),
            (900, [1, 1, 12, 0, 0, 0]),
            (1000, [0, 1, 2, 3, 0, 0]),
        ]);
        Ways { add_ons: false, assigned: false, joined: false, known, shares }
    }

    fn cluster(&mut self, name: &str, grouped: bool, ways: &Ways) -> Option<Cluster> {
        let known = self.random.chance(ways.known);
        let has_status = known || grouped && ways.add_ons;
        if !has_status {
            return None;
        }
        let status = if known { self.status(ways) } else { Status::ToDo };
        let ages = [0, 5, 10, 29, 30, 31, 60, 89, 90, 100, 1000, 10_000];
        let since =
            (!self.random.chance(100)).then(|| if self.random.chance(20) { -5 } else { self.one(&ages) });
        let assigned =
            (ways.assigned && status != Status::ToDo && self.random.chance(700)).then(|| self.one(&ages));
        let joined = (ways.joined && self.random.chance(400)).then(|| self.one(&[0, 10, 100]));
        let assigned = assigned.or_else(|| (ways.joined && status != Status::ToDo).then_some(50));
        Some(Cluster { name: name.into(), status, since, assigned, joined })
    }

    fn status(&mut self, ways: &Ways) -> Status {
        let all = [
            Status::ToApply,
            Status::Progressing,
            Status::Succeeded,
            Status::Failed,
            Status::TimeOut,
            Status::Skip,
        ];
        let among: Vec<Status> = all
            .into_iter()
            .zip(ways.shares)
            .flat_map(|(status, share)| std::iter::repeat_n(status, share))
            .collect();
        self.one(&among)
    }
}

/// The health of a fleet.
struct Ways {
    /// True if clusters that must be updated are passed as ToApply.
    add_ons: bool,
    assigned: bool,
    joined: bool,
    /// Clusters per 1,000 to which the wanted revision was assigned.
    known: u32,
    /// The distribution of these by status.
    shares: [usize; 6],
}
