//! What all placements share: the clusters, their scores, and how often decisions name them.
//!
//! A fleet is fed change by change and remembers, for every cluster, when something about it last changed. So a placement that
//! was scheduled before asks only for what changed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::filter::Facts;
use super::prioritizer::addon;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::PlacementDecision;

/// Fewer lost clusters than this are never worth new numbers.
const MANY_LOST: usize = 1024;

/// Number of a cluster in its fleet; a name keeps its number until [`Fleet::renumber`].
pub type Id = u32;

/// Clusters by number and by name.
#[derive(Debug, Default)]
pub struct Fleet {
    members: Vec<Member>,
    ids: BTreeMap<Arc<str>, Id>,
    /// How many clusters are named by how many decisions.
    histogram: BTreeMap<u32, u32>,
    /// How many clusters have gone since numbers were last given anew.
    lost: usize,
    /// When a cluster or one of its scores changed.
    pub changes: Log,
    /// When the number of decisions that name a cluster changed.
    pub uses: Log,
}

#[derive(Debug)]
struct Member {
    name: Arc<str>,
    cluster: Option<(Arc<ManagedCluster>, Facts)>,
    scores: Vec<Arc<AddOnPlacementScore>>,
    used: u32,
}

/// When each of many things last changed, in an order of its own.
#[derive(Debug, Default)]
pub struct Log {
    latest: BTreeMap<u64, Id>,
    at: BTreeMap<Id, u64>,
    now: u64,
}

impl Log {
    /// Notes a change.
    fn touch(&mut self, id: Id) {
        self.now += 1;
        if let Some(earlier) = self.at.insert(id, self.now) {
            self.latest.remove(&earlier);
        }
        self.latest.insert(self.now, id);
    }

    /// The moment of the last change.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What changed after a moment, each once.
    pub fn since(&self, moment: u64) -> impl Iterator<Item = Id> + '_ {
        self.latest.range(moment + 1..).map(|(_, id)| *id)
    }
}

impl Fleet {
    /// A fleet of these objects.
    pub fn of(
        clusters: impl IntoIterator<Item = Arc<ManagedCluster>>,
        scores: impl IntoIterator<Item = Arc<AddOnPlacementScore>>,
        decisions: impl IntoIterator<Item = Arc<PlacementDecision>>,
    ) -> Self {
        let mut fleet = Self::default();
        clusters.into_iter().for_each(|cluster| fleet.see_cluster(cluster));
        scores.into_iter().for_each(|score| fleet.see_score(None, Some(score)));
        decisions.into_iter().for_each(|decision| fleet.see_decision(None, Some(&decision)));
        fleet
    }

    /// Takes a cluster that is new or has changed.
    pub fn see_cluster(&mut self, cluster: Arc<ManagedCluster>) {
        let id = self.id_or_new(cluster.metadata.name.as_deref().unwrap_or_default());
        if let Some(member) = self.members.get_mut(id as usize) {
            member.cluster = Some((Arc::clone(&cluster), Facts::of(&cluster)));
        }
        self.changes.touch(id);
    }

    /// Takes note that a cluster is gone.
    pub fn lose_cluster(&mut self, name: &str) {
        let id = self.id_or_new(name);
        if let Some(member) = self.members.get_mut(id as usize) {
            member.cluster = None;
        }
        self.lost += 1;
        self.changes.touch(id);
    }

    /// Whether so many clusters have gone that [`Fleet::renumber`] is worth its while.
    pub fn is_sparse(&self) -> bool {
        self.lost > MANY_LOST.max(self.members.len() / 2)
    }

    /// Gives numbers anew, so that names nothing mentions any more cost nothing; whoever remembers numbers must forget them.
    pub fn renumber(&mut self) {
        let old = std::mem::take(self);
        self.histogram = old.histogram;
        let mentioned =
            |member: &Member| member.cluster.is_some() || !member.scores.is_empty() || member.used > 0;
        for member in old.members.into_iter().filter(mentioned) {
            let id = self.id_or_new(&member.name);
            self.changes.touch(id);
            if let Some(place) = self.members.get_mut(id as usize) {
                *place = member;
            }
        }
    }

    /// Takes scores before and after a change.
    pub fn see_score(&mut self, old: Option<&AddOnPlacementScore>, new: Option<Arc<AddOnPlacementScore>>) {
        let Some(namespace) = new.as_deref().or(old).and_then(|score| score.metadata.namespace.clone())
        else {
            return;
        };
        let name = new.as_deref().or(old).and_then(|score| score.metadata.name.clone());
        let id = self.id_or_new(&namespace);
        if let Some(member) = self.members.get_mut(id as usize) {
            member.scores.retain(|score| score.metadata.name != name);
            member.scores.extend(new);
        }
        self.changes.touch(id);
    }

    /// Takes a decision before and after a change.
    pub fn see_decision(&mut self, old: Option<&PlacementDecision>, new: Option<&PlacementDecision>) {
        let mut difference: BTreeMap<&str, i64> = BTreeMap::new();
        for (decision, sign) in [(old, -1), (new, 1)] {
            let entries = decision
                .and_then(|decision| decision.status.as_ref())
                .map(|status| status.decisions.as_slice());
            for entry in entries.unwrap_or_default() {
                *difference.entry(&entry.cluster_name).or_default() += sign;
            }
        }
        for (name, difference) in difference {
            let id = self.id_or_new(name);
            if difference != 0 {
                self.use_more(id, difference);
            }
        }
    }

    fn use_more(&mut self, id: Id, difference: i64) {
        let Some(member) = self.members.get_mut(id as usize) else { return };
        let before = member.used;
        member.used = u32::try_from(i64::from(before) + difference).unwrap_or_default();
        let after = member.used;
        if let Some(clusters) = self.histogram.get_mut(&before) {
            *clusters -= 1;
            if *clusters == 0 {
                self.histogram.remove(&before);
            }
        }
        if after > 0 {
            *self.histogram.entry(after).or_default() += 1;
        }
        self.uses.touch(id);
    }

    fn id_or_new(&mut self, name: &str) -> Id {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let name: Arc<str> = name.into();
        let id = Id::try_from(self.members.len()).expect("an API server cannot hold 2^32 clusters");
        self.members.push(Member { name: Arc::clone(&name), cluster: None, scores: Vec::new(), used: 0 });
        self.ids.insert(name, id);
        id
    }

    /// The number of a name that some object has mentioned.
    pub fn id(&self, name: &str) -> Option<Id> {
        self.ids.get(name).copied()
    }

    /// Every number, in the order of names.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.ids.values().copied()
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether nothing was ever seen.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The name of a number; empty for one that was never given.
    pub fn name(&self, id: Id) -> &str {
        self.members.get(id as usize).map(|member| &*member.name).unwrap_or_default()
    }

    /// A cluster, unless it is gone.
    pub fn cluster(&self, id: Id) -> Option<&Arc<ManagedCluster>> {
        self.members.get(id as usize)?.cluster.as_ref().map(|(cluster, _)| cluster)
    }

    /// The labels and claims of a cluster, unless it is gone.
    pub fn facts(&self, id: Id) -> Option<&Facts> {
        self.members.get(id as usize)?.cluster.as_ref().map(|(_, facts)| facts)
    }

    /// A cluster's scores of one name.
    pub fn scores(&self, id: Id, resource: &str) -> Option<&AddOnPlacementScore> {
        let scores = &self.members.get(id as usize)?.scores;
        scores.iter().find(|score| score.metadata.name.as_deref() == Some(resource)).map(|score| &**score)
    }

    /// All scores of a cluster that are valid, as expressions see them.
    pub fn valid_scores(&self, id: Id, now: Timestamp) -> BTreeMap<String, Vec<(String, i32)>> {
        let scores = self.members.get(id as usize).map(|member| member.scores.as_slice()).unwrap_or_default();
        let valid = scores.iter().filter_map(|score| {
            let status = score.status.as_ref()?;
            let valid = status.valid_until.as_ref().is_none_or(|until| until.0 >= now);
            let items = status.scores.iter().map(|item| (item.name.clone(), item.value)).collect();
            valid.then(|| (score.metadata.name.clone().unwrap_or_default(), items))
        });
        valid.collect()
    }

    /// The first moment at which a score of a cluster that is valid now is not.
    pub fn scores_until(&self, id: Id, now: Timestamp) -> Option<Timestamp> {
        let scores = self.members.get(id as usize).map(|member| member.scores.as_slice()).unwrap_or_default();
        let ends = scores.iter().filter_map(|score| Some(score.status.as_ref()?.valid_until.as_ref()?.0));
        ends.filter(|until| *until >= now).min().map(addon::after)
    }

    /// How many decisions name a cluster.
    pub fn used(&self, id: Id) -> u32 {
        self.members.get(id as usize).map(|member| member.used).unwrap_or_default()
    }

    /// The largest number of decisions that name one cluster, not counting those of one placement: how many of these name which.
    pub fn most_used(&self, own: impl Iterator<Item = (Id, u32)>) -> u32 {
        let mut levels: BTreeMap<u32, u32> = BTreeMap::new();
        let mut most_of_own = 0;
        for (id, times) in own {
            let used = self.used(id);
            *levels.entry(used).or_default() += 1;
            most_of_own = most_of_own.max(used.saturating_sub(times));
        }
        let others = self
            .histogram
            .iter()
            .rev()
            .find(|(used, clusters)| levels.get(used).is_none_or(|own| own < clusters));
        others.map_or(0, |(used, _)| *used).max(most_of_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(names: &[&str]) -> PlacementDecision {
        let decisions: Vec<_> =
            names.iter().map(|name| serde_json::json!({ "clusterName": name, "reason": "" })).collect();
        serde_json::from_value(serde_json::json!({ "metadata": {}, "status": { "decisions": decisions } }))
            .unwrap()
    }

    #[test]
    fn a_log_tells_each_change_once_at_its_latest() {
        let mut log = Log::default();
        for id in [1, 2, 1] {
            log.touch(id);
        }
        assert_eq!(log.since(0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(log.since(2).collect::<Vec<_>>(), [1]);
        assert_eq!(log.since(log.now()).count(), 0);
    }

    #[test]
    fn uses_are_counted_without_the_placements_own() {
        let mut fleet = Fleet::default();
        fleet.see_decision(None, Some(&decision(&["a", "b"])));
        fleet.see_decision(None, Some(&decision(&["a"])));
        let (a, b) = (fleet.id("a").unwrap(), fleet.id("b").unwrap());
        assert_eq!((fleet.used(a), fleet.used(b)), (2, 1));
        assert_eq!((fleet.most_used([(b, 1)].into_iter()), fleet.most_used([(a, 1)].into_iter())), (2, 1));
        assert_eq!(
            (fleet.most_used([(a, 2)].into_iter()), fleet.most_used([(a, 2), (b, 1)].into_iter())),
            (1, 0)
        );
        fleet.see_decision(Some(&decision(&["a"])), Some(&decision(&["b"])));
        assert_eq!((fleet.used(a), fleet.used(b)), (1, 2));
        assert_eq!(fleet.uses.since(0).collect::<Vec<_>>(), [a, b]);
    }

    #[test]
    fn names_that_nothing_mentions_cost_nothing_for_ever() {
        let mut fleet = Fleet::default();
        let cluster = |name: &str| {
            Arc::new(serde_json::from_value(serde_json::json!({ "metadata": { "name": name } })).unwrap())
        };
        fleet.see_cluster(cluster("stays"));
        fleet.see_decision(None, Some(&decision(&["decided"])));
        for i in 0..=MANY_LOST {
            assert!(!fleet.is_sparse());
            fleet.see_cluster(cluster(&format!("passes-{i}")));
            fleet.lose_cluster(&format!("passes-{i}"));
        }
        assert!(fleet.is_sparse());
        fleet.renumber();
        assert_eq!((fleet.len(), fleet.is_sparse(), fleet.most_used([].into_iter())), (2, false, 1));
        assert!(fleet.cluster(fleet.id("stays").unwrap()).is_some());
        assert_eq!((fleet.used(fleet.id("decided").unwrap()), fleet.id("passes-1")), (1, None));
    }
}
