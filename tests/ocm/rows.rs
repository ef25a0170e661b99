//! A second implementation of the library's answer, in which every row of the engine's table of differences is a
//! switch.
//!
//! Without rows it must answer like the library, with all rows like the engine. Therefore the rows describe all
//! differences between the two.

use std::collections::{BTreeMap, BTreeSet};

use object::duration;
use serde_json::Value;

use super::case::{Case, Cluster, Group, Status};

/// A row of the table in the documentation of `engine::rollout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    FailuresFirst,
    FailedSlot,
    Overlap,
    Generous,
    Batches,
    SlotLimit,
    Assigned,
    Silent,
    Timeout,
    Unheard,
    ToDo,
    Gap,
    Twice,
    Typo,
    Nobody,
    Fraction,
    Absent,
    Churn,
    Removal,
}

impl Row {
    /// Every row with its name in the table.
    pub(super) const ALL: [(Self, &'static str); 19] = [
        (Self::FailuresFirst, "failures first"),
        (Self::FailedSlot, "failed slot"),
        (Self::Overlap, "overlap"),
        (Self::Generous, "generous"),
        (Self::Batches, "batches"),
        (Self::SlotLimit, "slot limit"),
        (Self::Assigned, "assigned"),
        (Self::Silent, "silent"),
        (Self::Timeout, "timeout"),
        (Self::Unheard, "unheard"),
        (Self::ToDo, "to do"),
        (Self::Gap, "gap"),
        (Self::Twice, "twice"),
        (Self::Typo, "typo"),
        (Self::Nobody, "nobody"),
        (Self::Fraction, "fraction"),
        (Self::Absent, "absent"),
        (Self::Churn, "churn"),
        (Self::Removal, "removal"),
    ];
}

/// The state of a rollout in the library's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// `ClustersToRollout`, with their status.
    pub(super) rollout: BTreeMap<String, &'static str>,
    pub(super) timed_out: BTreeSet<String>,
    pub(super) removed: BTreeSet<String>,
    pub(super) breach: bool,
    /// In milliseconds.
    pub(super) recheck: Option<i64>,
}

/// Returns the answer with some rows in force; `None` if the strategy is rejected.
pub(super) fn answer(case: &Case, rows: &BTreeSet<Row>) -> Option<Answer> {
    let has = |row| rows.contains(&row);
    let options = Options::read(&case.strategy, rows)?;
    let groups = walked(&case.groups, rows);
    let members: BTreeSet<&str> =
        groups.iter().flat_map(|group| group.clusters.iter().map(String::as_str)).collect();
    let (existing, left): (Vec<&Cluster>, Vec<&Cluster>) =
        case.clusters.iter().partition(|c| members.contains(c.name.as_str()));
    let allowance = members.len().saturating_add(left.len()).saturating_mul(2).div_ceil(100);
    let removed = if has(Row::Removal) && left.len() > allowance {
        BTreeSet::new()
    } else {
        left.iter().map(|c| c.name.clone()).collect()
    };
    let begin = existing.iter().filter(|c| c.status != Status::ToDo).filter_map(|c| c.assigned).max();
    let newcomer =
        |c: &&&Cluster| has(Row::Churn) && begin.zip(c.joined).is_some_and(|(begin, joined)| joined < begin);
    let newcomers = existing.iter().filter(newcomer).map(|c| c.name.as_str()).collect();
    let ask = Asked { rows, options, total: members.len(), existing, newcomers };
    let pass = match ask.options.kind {
        Kind::All => ask.by_name(&groups, members.len(), members.len(), &ask.existing),
        Kind::Progressive | Kind::PerGroup => {
            // The library also finds mandatory groups after a gap, but none of their clusters.
            let everywhere = if has(Row::Gap) { &groups } else { &case.groups };
            let (mandatory, _) = ask.split(everywhere);
            let (_, rest) = ask.split(&groups);
            ask.in_stages(&mandatory, &rest)?
        }
    };
    let recheck = pass.listed.iter().filter_map(|listed| listed.ends).filter(|ends| *ends > 0).min();
    let rollout = pass.listed.into_iter().map(|listed| (listed.name, listed.status)).collect();
    Some(Answer { rollout, timed_out: pass.timed_out, removed, breach: pass.breach, recheck })
}

/// Returns the groups that the rollout goes through, in order.
fn walked(groups: &[Group], rows: &BTreeSet<Row>) -> Vec<Group> {
    let count = i32::try_from(groups.len()).unwrap();
    let mut groups: Vec<Group> =
        groups.iter().filter(|g| rows.contains(&Row::Gap) || g.index < count).cloned().collect();
    groups.sort_by_key(|group| group.index);
    let mut seen = BTreeSet::new();
    for group in &mut groups {
        group.clusters.retain(|name| seen.insert(name.clone()) || !rows.contains(&Row::Twice));
        group.clusters.sort();
    }
    groups
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Progressive,
    PerGroup,
}

struct Options {
    kind: Kind,
    /// In milliseconds.
    soak: i64,
    deadline: Option<i64>,
    failures: Value,
    concurrency: Value,
    mandatory: Vec<Value>,
}

impl Options {
    fn read(strategy: &Value, rows: &BTreeSet<Row>) -> Option<Self> {
        let has = |row| rows.contains(&row);
        let (kind, field) = match strategy["type"].as_str() {
            Some("All") => (Kind::All, "all"),
            None if has(Row::Absent) => (Kind::All, "all"),
            Some("Progressive") => (Kind::Progressive, "progressive"),
            Some("ProgressivePerGroup") => (Kind::PerGroup, "progressivePerGroup"),
            _ => return None,
        };
        let wire = &strategy[field];
        let soak = match wire["minSuccessTime"].as_str() {
            None => 0,
            Some(text) if has(Row::Absent) && (text.is_empty() || kind == Kind::All) => 0,
            Some(text) => millis(text)?,
        };
        let deadline = match wire["progressDeadline"].as_str() {
            None | Some("" | "None") => None,
            Some(text) => {
                let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
                let good = digits.len() < text.len() && digits.starts_with(['h', 'm', 's', '|']);
                Some(millis(text).filter(|_| good)?)
            }
        };
        let or_zero = |value: &Value| if value.is_null() { 0.into() } else { value.clone() };
        let options = Self {
            kind,
            soak: if has(Row::Absent) { soak.max(0) } else { soak },
            deadline,
            failures: or_zero(&wire["maxFailures"]),
            concurrency: or_zero(&wire["maxConcurrency"]),
            mandatory: wire["mandatoryDecisionGroups"].as_array().cloned().unwrap_or_default(),
        };
        if kind == Kind::All {
            return Some(Self { soak: 0, ..options });
        }
        let odd = |value: &Value| {
            value.as_str().is_some_and(|text| !(0..=100).any(|percent| text == format!("{percent}%")))
        };
        let nobody = |value: &Value| value == "0%" || value.as_i64().is_some_and(|count| count < 0);
        let refused = has(Row::Typo) && (odd(&options.failures) || odd(&options.concurrency))
            || has(Row::Nobody) && nobody(&options.concurrency);
        if refused { None } else { Some(options) }
    }
}

fn millis(text: &str) -> Option<i64> {
    duration::parse(text).map(|duration| i64::try_from(duration.as_millis()).unwrap())
}

/// A cluster of the answer.
struct Listed {
    name: String,
    status: &'static str,
    failed: bool,
    /// When the status ends, in milliseconds from now.
    ends: Option<i64>,
}

#[derive(Default)]
struct Pass {
    listed: Vec<Listed>,
    timed_out: BTreeSet<String>,
    breach: bool,
}

impl Pass {
    fn join(mut self, other: Self) -> Self {
        self.listed.extend(other.listed);
        self.timed_out.extend(other.timed_out);
        Self { breach: self.breach || other.breach, ..self }
    }

    fn start(&mut self, name: &str) {
        self.listed.push(Listed { name: name.into(), status: "ToApply", failed: false, ends: None });
    }
}

struct Asked<'a> {
    rows: &'a BTreeSet<Row>,
    options: Options,
    total: usize,
    existing: Vec<&'a Cluster>,
    newcomers: BTreeSet<&'a str>,
}

impl Asked<'_> {
    fn has(&self, row: Row) -> bool {
        self.rows.contains(&row)
    }

    fn split(&self, groups: &[Group]) -> (Vec<Group>, Vec<Group>) {
        let is = |group: &Group, wanted: &Value| match wanted["groupName"].as_str() {
            Some(name) if !name.is_empty() => group.name == name,
            _ => i64::from(group.index) == wanted["groupIndex"].as_i64().unwrap_or(0),
        };
        let mut groups = groups.to_vec();
        groups.sort_by_key(|group| group.index);
        groups.into_iter().partition(|group| self.options.mandatory.iter().any(|wanted| is(group, wanted)))
    }

    fn in_stages(&self, mandatory: &[Group], rest: &[Group]) -> Option<Pass> {
        let failures = self.size(&self.options.failures, self.total, 0)?;
        let is_mandatory = |c: &&Cluster| mandatory.iter().any(|group| group.clusters.contains(&c.name));
        let (inside, outside): (Vec<&Cluster>, Vec<&Cluster>) =
            self.existing.iter().copied().partition(is_mandatory);
        if self.has(Row::FailuresFirst) && self.is_breached(mandatory, rest, &outside, failures) {
            let (listed, _) = self.judged(&self.existing);
            return Some(Pass { breach: true, ..listed });
        }
        let first = if self.has(Row::Batches) { &inside } else { &self.existing };
        let mut before = Pass::default();
        if !mandatory.is_empty() {
            before = self.by_group(mandatory, first, |_| Some(0))?;
            let unfinished =
                before.listed.iter().any(|listed| !self.newcomers.contains(listed.name.as_str()));
            if unfinished || !before.timed_out.is_empty() {
                let elsewhere =
                    if self.has(Row::Batches) { self.judged(&outside).0 } else { Pass::default() };
                return Some(before.join(elsewhere));
            }
            before.breach = false;
        }
        let second = if self.has(Row::Batches) { &outside } else { &self.existing };
        let after = match self.options.kind {
            Kind::Progressive => {
                let clusters = names(rest).len();
                let slots = self.size(&self.options.concurrency, clusters, clusters)?;
                self.by_name(rest, slots, failures, second)
            }
            Kind::All | Kind::PerGroup => {
                self.by_group(rest, second, |clusters| self.size(&self.options.failures, clusters, 0))?
            }
        };
        Some(before.join(after))
    }

    /// Returns true if any stage has too many failures (row A).
    fn is_breached(
        &self,
        mandatory: &[Group],
        rest: &[Group],
        outside: &[&Cluster],
        failures: usize,
    ) -> bool {
        let failed = |group: &Group| {
            let among: Vec<&Cluster> =
                self.existing.iter().copied().filter(|c| group.clusters.contains(&c.name)).collect();
            self.judged(&among).1.len()
        };
        let rest_breached = match self.options.kind {
            Kind::PerGroup => rest
                .iter()
                .any(|g| failed(g) > self.size(&self.options.failures, g.clusters.len(), 0).unwrap()),
            Kind::All | Kind::Progressive => self.judged(outside).1.len() > failures,
        };
        mandatory.iter().any(|group| failed(group) > 0) || rest_breached
    }

    /// Returns the clusters of one stage, ordered by name, `slots` at a time.
    fn by_name(&self, groups: &[Group], slots: usize, failures: usize, existing: &[&Cluster]) -> Pass {
        let mut existing = existing.to_vec();
        existing.sort_by_key(|c| &c.name);
        let mut pass = Pass::default();
        let busy = |pass: &Pass| {
            pass.listed.iter().filter(|listed| !(listed.failed && self.has(Row::FailedSlot))).count()
        };
        let mut failed = 0;
        for cluster in &existing {
            let starts = cluster.status == Status::ToDo
                || cluster.status == Status::ToApply && !self.has(Row::Unheard);
            let status = if pass.breach && starts { cluster.status } else { self.judge(cluster, &mut pass) };
            failed += usize::from(matches!(status, Status::Failed | Status::TimeOut));
            pass.breach = failed > failures;
            if busy(&pass) >= slots && !self.has(Row::SlotLimit) {
                return pass;
            }
        }
        if pass.breach {
            return pass;
        }
        for name in names(groups) {
            let known = existing.iter().find(|c| c.name == name);
            if busy(&pass) < slots && known.is_none_or(|c| c.status == Status::ToDo && self.has(Row::ToDo)) {
                pass.start(name);
            }
        }
        pass
    }

    /// Returns the clusters of one stage, group by group.
    fn by_group(
        &self,
        groups: &[Group],
        existing: &[&Cluster],
        allowance: impl Fn(usize) -> Option<usize>,
    ) -> Option<Pass> {
        let known = |c: &&&Cluster| match c.status {
            Status::ToDo => false,
            Status::ToApply => self.has(Row::Unheard),
            Status::Progressing | Status::Succeeded | Status::Failed | Status::TimeOut | Status::Skip => true,
        };
        let existing: Vec<&Cluster> = existing.iter().filter(known).copied().collect();
        let (mut pass, failed) = self.judged(&existing);
        let mut failures = 0;
        let mut reached = BTreeSet::new();
        for group in groups {
            let allowed = allowance(group.clusters.len())?;
            reached.extend(group.clusters.iter().map(String::as_str));
            let here = group.clusters.iter().filter(|name| failed.contains(name.as_str())).count();
            for name in group.clusters.iter().filter(|name| !existing.iter().any(|c| c.name == **name)) {
                pass.start(name);
            }
            failures += here;
            pass.breach = here > allowed;
            let counts = |listed: &&Listed| {
                let name = listed.name.as_str();
                !self.newcomers.contains(name) && (reached.contains(name) || !self.has(Row::Batches))
            };
            let active = pass.listed.iter().filter(counts).count();
            let subtracted = if self.has(Row::Overlap) {
                pass.listed.iter().filter(counts).filter(|l| l.failed).count()
            } else {
                failures
            };
            if active > subtracted || pass.breach {
                return Some(pass);
            }
        }
        Some(pass)
    }

    /// Determines the states of clusters; also returns the names of those that failed.
    fn judged(&self, existing: &[&Cluster]) -> (Pass, BTreeSet<String>) {
        let mut pass = Pass::default();
        let failed = |status| matches!(status, Status::Failed | Status::TimeOut);
        let failed =
            existing.iter().filter(|c| failed(self.judge(c, &mut pass))).map(|c| c.name.clone()).collect();
        (pass, failed)
    }

    /// Returns the current state that follows from a cluster's report.
    fn judge(&self, cluster: &Cluster, pass: &mut Pass) -> Status {
        let assigned =
            cluster.assigned.filter(|_| self.has(Row::Assigned) || cluster.status == Status::ToApply);
        // These are ages, so the smaller one is later.
        let begin = [cluster.since, assigned].into_iter().flatten().min().map(|age| -1000 * age);
        let ends = |span: i64| begin.unwrap_or(0) + span;
        let mut list = |status, failed, ends| {
            pass.listed.push(Listed { name: cluster.name.clone(), status, failed, ends })
        };
        let deadline = self.options.deadline.map(ends);
        let expired = deadline.is_some_and(|deadline| deadline <= 0);
        match cluster.status {
            Status::ToDo if self.has(Row::ToDo) => {}
            Status::ToDo => list("ToApply", false, None),
            Status::ToApply if !self.has(Row::Silent) || begin.is_none() => list("ToApply", false, None),
            Status::ToApply if !expired => list("ToApply", false, deadline),
            Status::Succeeded if ends(self.options.soak) > 0 => {
                list("Succeeded", false, Some(ends(self.options.soak)))
            }
            Status::Progressing if !expired => list("Progressing", false, deadline),
            Status::Failed if !expired => list("Failed", true, deadline),
            Status::TimeOut if !self.has(Row::Timeout) => {}
            Status::ToApply | Status::Progressing | Status::Failed | Status::TimeOut => {
                pass.timed_out.insert(cluster.name.clone());
                return Status::TimeOut;
            }
            Status::Succeeded | Status::Skip => {}
        }
        cluster.status
    }

    /// Returns a number or a percentage of a total; `default` if it is absent or too large.
    fn size(&self, size: &Value, total: usize, default: usize) -> Option<usize> {
        let count = match size.as_str() {
            None => size.as_i64()?,
            Some(text) => {
                let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
                let share = if self.has(Row::Fraction) {
                    percent * total as f64 / 100.0
                } else {
                    percent / 100.0 * total as f64
                };
                share.ceil() as i64
            }
        };
        match usize::try_from(count) {
            Ok(count) if count > total && self.has(Row::Generous) => Some(total),
            Ok(count) if count > 0 && count <= total => Some(count),
            _ => Some(default),
        }
    }
}

/// Returns all clusters of groups, by name.
fn names(groups: &[Group]) -> BTreeSet<&str> {
    groups.iter().flat_map(|group| &group.clusters).map(String::as_str).collect()
}
