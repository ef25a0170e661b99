//! Incremental rollout decisions for fleets in which few clusters change.
//!
//! [`IncrementalRollout`] gives the same results as [`advance`](super::advance()). It keeps the stages, the
//! individual state of every cluster, and the last decision. It reclassifies only clusters that changed or whose
//! state has expired. Then the functions of `advance` count and release. The pass reads only states and writes
//! only assignments that differ. A new strategy, policy or revision discards everything that was kept.
//!
//! An assignment follows from the cluster, its state and these rules, so it needs no comparison if none of them
//! changed. The properties in `tests/incremental.rs` compare the results over random histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::advance::{StageContext, by_name, decide};
use super::classify::{classify, has_begun};
use super::cluster::{Cluster, Group, Instance};
use super::decision::RolloutDecision;
use super::input::Input;
use super::rules::{FleetInput, Rules};
use super::stage::{Member, StagePlan, grouped, stages};
use super::state::ClusterState;
use super::strategy::Limits;

/// The cached state of one rollout.
#[derive(Debug)]
pub struct IncrementalRollout {
    /// The clusters are sorted by name and unique.
    input: Arc<Input>,
    cache: Option<Cache>,
}

/// The results for the current input. If absent, they are recomputed.
#[derive(Debug)]
struct Cache {
    stages: Vec<CachedStage>,
    /// The clusters of all stages, in stage order.
    members: Vec<CachedMember>,
    /// The position in `members` of each cluster in the input; `None` if the cluster left its groups.
    positions: Vec<Option<usize>>,
    left: BTreeMap<String, Instance>,
    decision: Arc<RolloutDecision>,
    /// The clusters whose assignment differs from what they run.
    moves: BTreeSet<String>,
    decided: Timestamp,
}

/// A [`StagePlan`] without its members.
#[derive(Debug)]
struct CachedStage {
    name: String,
    mandatory: bool,
    members: usize,
    slots: usize,
    allowed: Option<usize>,
    needs_approval: bool,
}

#[derive(Debug)]
struct CachedMember {
    /// The index of the group, and the index of the cluster in the group.
    place: (usize, usize),
    /// The index of the cluster in the input.
    cluster: Option<usize>,
    /// The state of the cluster, independent of the other clusters.
    judged: Option<ClusterState>,
    /// True if every later decision must reclassify the cluster.
    is_due: bool,
    /// The state in the last decision; `None` if the assignment must be rebuilt.
    shown: Option<ClusterState>,
}

impl IncrementalRollout {
    /// Creates a rollout from an input, without earlier results.
    pub fn new(mut input: Input) -> Self {
        let clusters: Vec<Cluster> = by_name(&input.clusters).into_values().cloned().collect();
        input.clusters = clusters;
        Self { input: Arc::new(input), cache: None }
    }

    /// Returns the input of the next decision.
    pub fn input(&self) -> &Arc<Input> {
        &self.input
    }

    /// Returns the clusters of the input, sorted by name.
    pub fn into_clusters(self) -> Vec<Cluster> {
        Arc::unwrap_or_clone(self.input).clusters
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.input.clusters.binary_search_by(|cluster| cluster.name.as_str().cmp(name)).ok()
    }

    /// Returns the cluster of that name.
    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.input.clusters.get(self.position(name)?)
    }

    /// Replaces a cluster. Returns false if the input has no cluster of that name.
    pub fn set_cluster(&mut self, cluster: Cluster) -> bool {
        let Some(at) = self.position(&cluster.name) else { return false };
        let Some(current) = Arc::make_mut(&mut self.input).clusters.get_mut(at) else { return false };
        *current = cluster;
        let (name, instance) = (current.name.clone(), current.instance.clone());
        let Some(cache) = self.cache.as_mut() else { return true };
        match cache.positions.get(at).copied().flatten() {
            Some(position) => {
                if let Some(member) = cache.members.get_mut(position) {
                    (member.is_due, member.shown) = (true, None);
                }
            }
            None => {
                cache.left.insert(name, instance);
            }
        }
        true
    }

    /// Copies everything except the groups and clusters from an input.
    pub fn set_rules(&mut self, rules: Input) {
        let Input {
            owner,
            revision,
            strategy,
            last_strategy,
            policy,
            groups: _,
            clusters: _,
            quarantined,
            late_since,
            recent_removals,
            began,
            granted,
        } = rules;
        let input = Arc::make_mut(&mut self.input);
        let is_same = (&input.revision, &input.strategy) == (&revision, &strategy)
            && (&input.last_strategy, &input.policy) == (&last_strategy, &policy);
        if !is_same {
            self.cache = None;
        }
        (input.revision, input.strategy, input.last_strategy) = (revision, strategy, last_strategy);
        (input.owner, input.policy, input.granted) = (owner, policy, granted);
        (input.quarantined, input.late_since, input.began) = (quarantined, late_since, began);
        input.recent_removals = recent_removals;
    }

    /// Decides the next assignments, like [`advance`](super::advance()).
    pub fn advance(&mut self, now: Timestamp) -> Arc<RolloutDecision> {
        let usable = self.cache.take().filter(|cache| cache.decided <= now);
        let mut cache = usable.unwrap_or_else(|| Cache::new(&self.input, now));
        cache.decide(&self.input, now);
        Arc::clone(&self.cache.insert(cache).decision)
    }

    /// Returns the clusters whose assignment in the last decision differs from what they run.
    pub fn moves(&self) -> impl Iterator<Item = &str> {
        self.cache.iter().flat_map(|cache| &cache.moves).map(String::as_str)
    }

    /// Returns true if the last decision assigns a cluster a different hash than it runs.
    pub fn is_moved(&self, name: &str) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.moves.contains(name))
    }
}

impl Cache {
    /// Builds the stages of an input, without classifying any cluster.
    fn new(input: &Input, now: Timestamp) -> Self {
        let rules = Rules::new(input);
        let clusters = by_name(&input.clusters);
        let plans = stages(rules.strategy, &rules.policy, grouped(&input.groups, &clusters));
        let places = places(&input.groups);
        let (mut members, mut positions) = (Vec::new(), vec![None; input.clusters.len()]);
        for member in plans.iter().flat_map(|plan| &plan.members) {
            let cluster = input.clusters.binary_search_by(|other| other.name.as_str().cmp(member.name)).ok();
            if let Some(position) = cluster.and_then(|at| positions.get_mut(at)) {
                *position = Some(members.len());
            }
            let place = places.get(member.name).copied().unwrap_or_default();
            members.push(CachedMember { place, cluster, judged: None, is_due: true, shown: None });
        }
        let stage = |plan: &StagePlan<'_>| CachedStage {
            name: plan.name.clone(),
            mandatory: plan.mandatory,
            members: plan.members.len(),
            slots: plan.slots,
            allowed: plan.allowed,
            needs_approval: plan.needs_approval,
        };
        let left = input.clusters.iter().zip(&positions).filter(|(_, position)| position.is_none());
        Self {
            stages: plans.iter().map(stage).collect(),
            left: left.map(|(cluster, _)| (cluster.name.clone(), cluster.instance.clone())).collect(),
            members,
            positions,
            decision: Arc::default(),
            moves: BTreeSet::new(),
            decided: now,
        }
    }

    fn decide(&mut self, input: &Input, now: Timestamp) {
        let rules = Rules::new(input);
        for member in &mut self.members {
            member.judge(input, &rules.limits, now);
        }
        let plans = self.plans(input);
        let decision = Arc::make_mut(&mut self.decision);
        let mut clusters = std::mem::take(&mut decision.clusters);
        let (mut members, moves) = (self.members.iter_mut(), &mut self.moves);
        let mut place = |context: &StageContext<'_>, member: &Member<'_>, state: &ClusterState| {
            let Some(cached) = members.next().filter(|cached| cached.shown.as_ref() != Some(state)) else {
                return;
            };
            cached.shown = Some(state.clone());
            let assignment = context.assignment(member, state);
            if assignment.assigned.as_ref() == member.runs() {
                moves.remove(member.name);
            } else {
                moves.insert(member.name.to_owned());
            }
            clusters.insert(member.name.to_owned(), assignment);
        };
        let fleet = FleetInput { input, rules: &rules, left: &self.left, now };
        let decided = decide(fleet, plans, &mut place);
        *decision = RolloutDecision { clusters, ..decided };
        self.decided = now;
    }

    /// Returns the stages with the classified members.
    fn plans<'a>(&self, input: &'a Input) -> Vec<StagePlan<'a>> {
        let mut members = self.members.iter();
        let plan = |stage: &CachedStage| StagePlan {
            name: stage.name.clone(),
            mandatory: stage.mandatory,
            members: members.by_ref().take(stage.members).filter_map(|member| member.borrow(input)).collect(),
            slots: stage.slots,
            allowed: stage.allowed,
            needs_approval: stage.needs_approval,
        };
        self.stages.iter().map(plan).collect()
    }
}

impl CachedMember {
    fn judge(&mut self, input: &Input, limits: &Limits, now: Timestamp) {
        let ends = self.judged.as_ref().and_then(ClusterState::ends);
        if !self.is_due && ends.is_none_or(|ends| ends > now) {
            return;
        }
        let cluster = self.cluster.and_then(|at| input.clusters.get(at));
        self.judged = classify(cluster, limits, now);
        // Without a known start, times count from now. The soak of an unreachable cluster is not part of its
        // state.
        self.is_due = match &self.judged {
            Some(ClusterState::Unreachable { moved }) => *moved,
            Some(state) => state.ends().is_some() && !cluster.is_some_and(has_begun),
            None => false,
        };
    }

    fn borrow<'a>(&self, input: &'a Input) -> Option<Member<'a>> {
        let (group, at) = self.place;
        let group = input.groups.get(group)?;
        Some(Member {
            name: group.clusters.get(at)?,
            group: &group.key,
            cluster: self.cluster.and_then(|at| input.clusters.get(at)),
            state: self.judged.clone(),
            newcomer: false,
        })
    }
}

/// Returns the first position of each cluster, in group order.
fn places(groups: &[Group]) -> BTreeMap<&str, (usize, usize)> {
    let mut sorted: Vec<(usize, &Group)> = groups.iter().enumerate().collect();
    sorted.sort_by_key(|(_, group)| &group.key);
    let mut places = BTreeMap::new();
    for (index, group) in sorted {
        for (at, name) in group.clusters.iter().enumerate() {
            places.entry(name.as_str()).or_insert((index, at));
        }
    }
    places
}
