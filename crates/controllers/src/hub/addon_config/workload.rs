//! An add-on as a workload: the state of each cluster, and the configurations that it may be assigned.
//!
//! A cluster is read again when the cluster, its add-on or a configuration that its add-on names has changed. All
//! clusters of a placement are read again when their common configurations change.

use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::{ClusterConfigs, RolloutBasis};
use super::input::AddOnInput;
use crate::MESSAGE;
use crate::placement_reads::answers_since;
use crate::placement_rollout::RolloutMember;
use crate::rollout_driver::Workload;
use api::cluster::v1::ManagedCluster;
use engine::addon::config::{Config, address, resolve};
use engine::addon::{config_refs, progress};
use engine::rollout::cluster::{Cluster, Hash};
use object::Key;
use object::text::plain;
use reconcile::{Read, View};

impl Workload for AddOnInput {
    type Basis = RolloutBasis;
    type Facts = ClusterConfigs;

    fn cluster(
        &mut self,
        name: &str,
        (basis, configs): (&RolloutBasis, &mut ClusterConfigs),
        view: &impl View,
        now: Timestamp,
    ) -> Read<Option<RolloutMember>> {
        configs.incomplete.remove(name);
        let addon = self.fleet.addons.get(name).cloned();
        // An unreadable cluster exists, but counts as unreachable.
        let is_unreadable = self.fleet.unreadable.contains(name);
        let managed = if is_unreadable { None } else { view.get::<ManagedCluster>(&Key::cluster(name))? };
        let is_leaving = addon.as_ref().is_some_and(|addon| addon.metadata.deletion_timestamp.is_some());
        let stays = |managed: &Arc<ManagedCluster>| managed.metadata.deletion_timestamp.is_none();
        if is_leaving || !(is_unreadable || managed.as_ref().is_some_and(stays)) {
            return Ok(None);
        }
        let own = self.own(addon.as_deref(), view)?;
        let wants = resolve([basis.defaults.as_slice(), &basis.configs, &own]);
        if let Some(problem) = self.problem(&wants, view)? {
            // It cannot succeed, so no rollout waits for it. See docs/hazards.md#overlapping-placements.
            configs.incomplete.insert(name.to_owned(), problem);
            return Ok(None);
        }
        let unknown =
            || Cluster { name: name.to_owned(), wants: Hash(address(&wants)), ..Cluster::default() };
        let mut cluster = addon.as_ref().map_or_else(unknown, |addon| progress::cluster(addon, &wants));
        cluster.unreachable = self.fleet.unreachable.contains(name);
        let refused = self.fleet.refused.get(name).filter(|_| addon.is_none());
        let turn = refused.filter(|refused| refused.revision == cluster.wants.0);
        cluster.refused_since = turn.and_then(|refused| refused.turn.as_ref()).map(|turn| turn.0);
        cluster.answers_since = managed.as_deref().and_then(answers_since);
        // The creation time of the cluster comes from the hub's clock. The creation time of the add-on would not
        // work, because add-ons appear one after the other during a first rollout.
        let created = managed.as_ref().and_then(|managed| managed.metadata.creation_timestamp.as_ref());
        cluster.joined = created.map(|created| created.0);
        let applied = addon
            .as_ref()
            .and_then(|addon| config_refs::applied(&addon.status.as_ref()?.config_references))
            .filter(|configs| !configs.is_empty());
        // The target of a rollback: the revision that last succeeded on the cluster, or else the last good
        // revision of all clusters combined with the cluster's own configurations. A revision that succeeded
        // everywhere is the last good one itself.
        let good_everywhere = basis.good.as_ref().map(|good| resolve([good.as_slice(), &own]));
        let is_other = |configs: &Vec<Config>| address(configs) != cluster.wants.0;
        let is_complete = good_everywhere.as_ref().is_some_and(|good| !is_other(good));
        let recorded = addon.as_deref().and_then(progress::last_good).filter(|_| !is_complete);
        let last_good = applied.filter(is_other).or(recorded.filter(is_other)).or(good_everywhere);
        cluster.last_good = last_good.as_ref().map(|configs| Hash(address(configs)));
        if let Some(recovered) = addon.as_deref().and_then(progress::recovered).filter(|_| !is_complete) {
            cluster.restart_soak(recovered);
        }
        configs.contents.insert(cluster.wants.clone(), wants);
        configs.contents.extend(cluster.last_good.clone().zip(last_good));
        let read = cluster.clone();
        let cluster = cluster.at(now);
        Ok(Some(RolloutMember { is_timed: cluster != read, cluster }))
    }

    fn message(&self, cluster: &str) -> Option<String> {
        let Some(addon) = self.fleet.addons.get(cluster) else {
            return self.fleet.refused.get(cluster).map(|refused| refused.message.clone());
        };
        let conditions = &addon.status.as_ref()?.conditions;
        let message = progress::message(conditions)?;
        Some(plain(message, MESSAGE)).filter(|message| !message.is_empty())
    }
}

impl AddOnInput {
    /// Returns the input that the clusters of a placement with these configurations share.
    pub(super) fn basis(&self, configs: &[Config], good: Option<Vec<Config>>) -> RolloutBasis {
        RolloutBasis {
            has_template: self.has_template,
            is_strict: self.is_strict(),
            defaults: self.defaults.clone(),
            configs: configs.to_vec(),
            good,
        }
    }
}
