//! The input that all placements share: the clusters, their scores, and the number of decisions that name each
//! cluster.
//!
//! A fleet applies every change and records which clusters changed. A placement that was scheduled before needs
//! to look only at later changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::changes::ChangeLog;
use super::filter::ClusterAttributes;
use super::prioritizer::first_invalid;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::PlacementDecision;
use object::Metadata as _;

/// The number of removed clusters up to which a fleet is not renumbered.
const MANY_REMOVED: usize = 1024;

/// The number of a cluster in its fleet. A name keeps its number until [`Fleet::renumber`].
pub type Id = u32;

/// The clusters by number and by name.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    members: Vec<FleetMember>,
    ids: BTreeMap<Arc<str>, Id>,
    /// The number of clusters for each number of decisions.
    histogram: BTreeMap<u32, u32>,
    /// The number of clusters removed since the last renumbering.
    removed: usize,
    /// The clusters that changed or have changed scores.
    pub changes: ChangeLog,
    /// The clusters for which the number of decisions changed.
    pub uses: ChangeLog,
}

#[derive(Clone, Debug)]
struct FleetMember {
    name: Arc<str>,
    cluster: Option<(Arc<ManagedCluster>, ClusterAttributes)>,
    scores: Vec<Arc<AddOnPlacementScore>>,
    used: u32,
}

impl Fleet {
    /// Builds a fleet from objects.
    pub fn new(
        clusters: impl IntoIterator<Item = Arc<ManagedCluster>>,
        scores: impl IntoIterator<Item = Arc<AddOnPlacementScore>>,
        decisions: impl IntoIterator<Item = Arc<PlacementDecision>>,
    ) -> Self {
        let mut fleet = Self::default();
        for cluster in clusters {
            fleet.set_cluster(cluster);
        }
        for score in scores {
            fleet.set_score(None, Some(score));
        }
        for decision in decisions {
            fleet.set_decision(None, Some(&decision));
        }
        fleet
    }

    /// Adds or replaces a cluster.
    pub fn set_cluster(&mut self, cluster: Arc<ManagedCluster>) {
        let id = self.id_or_new(cluster.metadata.name.as_deref().unwrap_or_default());
        if let Some(member) = self.members.get_mut(id as usize) {
            member.cluster = Some((Arc::clone(&cluster), ClusterAttributes::from_cluster(&cluster)));
        }
        self.changes.record(id);
    }

    /// Removes a cluster.
    pub fn remove_cluster(&mut self, name: &str) {
        let id = self.id_or_new(name);
        if let Some(member) = self.members.get_mut(id as usize) {
            member.cluster = None;
        }
        self.removed += 1;
        self.changes.record(id);
    }

    /// Returns true if enough clusters were removed for [`Fleet::renumber`] to pay off.
    pub fn should_renumber(&self) -> bool {
        self.removed > MANY_REMOVED.max(self.members.len() / 2)
    }

    /// Renumbers the clusters and drops names that no object mentions. All existing [`Id`]s become invalid.
    pub fn renumber(&mut self) {
        let old = std::mem::take(self);
        self.histogram = old.histogram;
        let mentioned =
            |member: &FleetMember| member.cluster.is_some() || !member.scores.is_empty() || member.used > 0;
        for member in old.members.into_iter().filter(mentioned) {
            let id = self.id_or_new(&member.name);
            self.changes.record(id);
            if let Some(place) = self.members.get_mut(id as usize) {
                *place = member;
            }
        }
    }

    /// Replaces one AddOnPlacementScore of a cluster.
    pub fn set_score(&mut self, old: Option<&AddOnPlacementScore>, new: Option<Arc<AddOnPlacementScore>>) {
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
        self.changes.record(id);
    }

    /// Replaces a PlacementDecision of any placement.
    pub fn set_decision(&mut self, old: Option<&PlacementDecision>, new: Option<&PlacementDecision>) {
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
                self.change_use(id, difference);
            }
        }
    }

    fn change_use(&mut self, id: Id, difference: i64) {
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
        self.uses.record(id);
    }

    fn id_or_new(&mut self, name: &str) -> Id {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let name: Arc<str> = name.into();
        let id = Id::try_from(self.members.len()).expect("an API server cannot hold 2^32 clusters");
        self.members.push(FleetMember {
            name: Arc::clone(&name),
            cluster: None,
            scores: Vec::new(),
            used: 0,
        });
        self.ids.insert(name, id);
        id
    }

    /// Returns the number of a name that has been mentioned by an object.
    pub fn id(&self, name: &str) -> Option<Id> {
        self.ids.get(name).copied()
    }

    /// Returns all numbers, in name order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        self.ids.values().copied()
    }

    /// Returns the number of clusters, including removed ones.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if [`Fleet::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the name of a cluster; empty for an unknown number.
    pub fn name(&self, id: Id) -> &str {
        self.members.get(id as usize).map(|member| &*member.name).unwrap_or_default()
    }

    /// Returns the cluster with a number, if it exists.
    pub fn cluster(&self, id: Id) -> Option<&Arc<ManagedCluster>> {
        self.members.get(id as usize)?.cluster.as_ref().map(|(cluster, _)| cluster)
    }

    /// Returns the attributes of the cluster with a number, if it exists.
    pub fn attributes(&self, id: Id) -> Option<&ClusterAttributes> {
        self.members.get(id as usize)?.cluster.as_ref().map(|(_, attributes)| attributes)
    }

    /// Returns the scores of a cluster in the AddOnPlacementScore of the given name.
    pub(crate) fn scores(&self, id: Id, resource: &str) -> Option<&AddOnPlacementScore> {
        let scores = &self.members.get(id as usize)?.scores;
        scores.iter().find(|score| score.metadata.name.as_deref() == Some(resource)).map(|score| &**score)
    }

    /// Returns all valid scores of a cluster, in the form for expressions.
    pub(crate) fn valid_scores(&self, id: Id, now: Timestamp) -> BTreeMap<String, Vec<(String, i32)>> {
        let scores = self.members.get(id as usize).map(|member| member.scores.as_slice()).unwrap_or_default();
        let valid = scores.iter().filter_map(|score| {
            let status = score.status.as_ref()?;
            let valid = status.valid_until.as_ref().is_none_or(|until| until.0 >= now);
            let items = status.scores.iter().map(|item| (item.name.clone(), item.value)).collect();
            valid.then(|| (score.name().to_owned(), items))
        });
        valid.collect()
    }

    /// Returns the first moment at which a currently valid score becomes invalid.
    pub(crate) fn scores_until(&self, id: Id, now: Timestamp) -> Option<Timestamp> {
        let scores = self.members.get(id as usize).map(|member| member.scores.as_slice()).unwrap_or_default();
        let ends = scores.iter().filter_map(|score| Some(score.status.as_ref()?.valid_until.as_ref()?.0));
        ends.filter(|until| *until >= now).min().map(first_invalid)
    }

    /// Returns the number of decision entries that name a cluster.
    pub(crate) fn used(&self, id: Id) -> u32 {
        self.members.get(id as usize).map(|member| member.used).unwrap_or_default()
    }

    /// Returns the largest number of entries that name one cluster, excluding one placement's own entries, which
    /// are given by cluster.
    pub(crate) fn most_used(&self, own: impl Iterator<Item = (Id, u32)>) -> u32 {
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
    fn uses_by_the_placement_itself_are_not_counted() {
        let mut fleet = Fleet::default();
        fleet.set_decision(None, Some(&decision(&["a", "b"])));
        fleet.set_decision(None, Some(&decision(&["a"])));
        let (a, b) = (fleet.id("a").unwrap(), fleet.id("b").unwrap());
        assert_eq!((fleet.used(a), fleet.used(b)), (2, 1));
        assert_eq!((fleet.most_used([(b, 1)].into_iter()), fleet.most_used([(a, 1)].into_iter())), (2, 1));
        assert_eq!(
            (fleet.most_used([(a, 2)].into_iter()), fleet.most_used([(a, 2), (b, 1)].into_iter())),
            (1, 0)
        );
        fleet.set_decision(Some(&decision(&["a"])), Some(&decision(&["b"])));
        assert_eq!((fleet.used(a), fleet.used(b)), (1, 2));
        assert_eq!(fleet.uses.since(0).collect::<Vec<_>>(), [a, b]);
    }

    #[test]
    fn a_name_that_no_object_mentions_is_forgotten() {
        let mut fleet = Fleet::default();
        let cluster = |name: &str| {
            Arc::new(serde_json::from_value(serde_json::json!({ "metadata": { "name": name } })).unwrap())
        };
        fleet.set_cluster(cluster("stays"));
        fleet.set_decision(None, Some(&decision(&["decided"])));
        for i in 0..=MANY_REMOVED {
            assert!(!fleet.should_renumber());
            fleet.set_cluster(cluster(&format!("passes-{i}")));
            fleet.remove_cluster(&format!("passes-{i}"));
        }
        assert!(fleet.should_renumber());
        fleet.renumber();
        assert_eq!((fleet.len(), fleet.should_renumber(), fleet.most_used([].into_iter())), (2, false, 1));
        assert!(fleet.cluster(fleet.id("stays").unwrap()).is_some());
        assert_eq!((fleet.used(fleet.id("decided").unwrap()), fleet.id("passes-1")), (1, None));
    }
}
