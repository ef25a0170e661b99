//! The input of the rollouts of an add-on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;

use super::config_problem::{ConfigProblem, INVALID, MISSING};
use super::fleet::{AddOnFleet, AddOnFleets};
use crate::addon_creation::is_by_placements;
use crate::addon_deletion;
use crate::addon_removal::{Installed, Removal};
use crate::rollout_driver::PlacementNode;
use api::addon::v1alpha1::{
    ClusterManagementAddOn, ClusterManagementAddOnSpec, InstallProgression, InstallStrategy,
    InstallStrategyType, ManagedClusterAddOn, ManagedClusterAddOnSpec, PlacementStrategy,
};
use api::names::STRICT_VARIABLES_ANNOTATION;
use engine::addon::check::{CheckOptions, check};
use engine::addon::config::{Config, address, resolve};
use engine::addon::error::AddOnError;
use engine::addon::registration::Sources;
use engine::addon::{config_refs, progress, snapshot, spec_hash};
use engine::rollout::cluster::Hash;
use object::{Key, Metadata as _, Object};
use reconcile::{Read, View};

/// The input of the decision about the rollouts of an add-on.
pub(super) struct AddOnInput {
    pub(super) cma: Arc<ClusterManagementAddOn>,
    pub(super) name: String,
    /// True if the hub knows the content of the configurations.
    pub(super) has_template: bool,
    pub(super) defaults: Vec<Config>,
    pub(super) placements: Vec<AddOnPlacement>,
    /// True if every placement is settled.
    pub(super) settled: bool,
    /// The add-on on its clusters, with the results of earlier decisions.
    pub(super) fleet: AddOnFleet,
    /// The clusters that changed since the last decision.
    pub(super) changed: BTreeSet<String>,
    /// Clusters with a missing configuration, recorded during the decision.
    pub(super) incomplete: BTreeMap<String, ConfigProblem>,
    /// The content of the configurations by [`Config`], for the kinds with snapshots.
    pub(super) contents: BTreeMap<Config, Arc<Object>>,
}

/// A placement of the install strategy.
pub(super) struct AddOnPlacement {
    pub(super) node: PlacementNode,
    /// The configurations that the placement names.
    pub(super) configs: Vec<Config>,
    /// The same with the defaults.
    pub(super) desired: Vec<Config>,
    /// The entry of the placement in the status of the add-on.
    pub(super) progression: InstallProgression,
}

impl AddOnInput {
    pub(super) fn read(cma: Arc<ClusterManagementAddOn>, view: &impl View, now: Timestamp) -> Read<Self> {
        let name = progress::name(&cma).to_owned();
        let ClusterManagementAddOnSpec {
            add_on_meta: _,
            add_on_configuration: _,
            supported_configs: _, // read by `config_refs`
            install_strategy,
            unknown: _,
        } = &cma.spec;
        let InstallStrategy { r#type, placements, unknown: _ } = install_strategy;
        let by_placement = *r#type == InstallStrategyType::Placements;
        let strategies = if by_placement { placements.as_slice() } else { &[] };
        let mut fleet = view.index(|fleets: &mut AddOnFleets| fleets.take(&Key::cluster(&name)))?;
        let mut changed = fleet.update(&name, view)?;
        let contents = fleet.own_contents(&mut changed, view)?.into_iter().collect();
        let mut rollout = Self {
            name: name.clone(),
            has_template: config_refs::has_template(&cma),
            defaults: Vec::new(),
            placements: Vec::new(),
            settled: true,
            fleet,
            changed,
            incomplete: BTreeMap::new(),
            contents,
            cma: Arc::clone(&cma),
        };
        rollout.defaults = rollout.with_content(None, config_refs::defaults(&cma), view)?;
        for strategy in strategies {
            rollout.read_placement(strategy, view, now)?;
        }
        let selections: Vec<_> =
            rollout.placements.iter().map(|it| Arc::clone(&it.node.clusters.selection)).collect();
        rollout.fleet.select(&selections);
        for (placement, taken) in rollout.placements.iter_mut().zip(&rollout.fleet.taken) {
            placement.node.clusters.taken = Arc::clone(taken);
        }
        Ok(rollout)
    }

    fn read_placement(&mut self, strategy: &PlacementStrategy, view: &impl View, now: Timestamp) -> Read<()> {
        let PlacementStrategy { namespace, name, configs, rollout_strategy, unknown: _ } = strategy;
        let key = Key::namespaced(namespace, name);
        let node = PlacementNode::read(key, rollout_strategy, &mut self.fleet.selections, view, now)?;
        self.settled &= node.clusters.selection.settled;
        let mut progressions = self.cma.status.iter().flat_map(|status| &status.install_progressions);
        let recorded = progressions.find(|p| (&p.namespace, &p.name) == (namespace, name)).cloned();
        let hashed: Vec<Config> = recorded
            .iter()
            .flat_map(|p| &p.config_references)
            .filter_map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?)))
            .collect();
        let configs = self.with_content(None, config_refs::named(configs, &hashed), view)?;
        let desired = resolve([self.defaults.as_slice(), &configs]);
        let Key { namespace, name } = node.placement.clone();
        let progression = InstallProgression { namespace, name, ..recorded.unwrap_or_default() };
        self.placements.push(AddOnPlacement { node, configs, desired, progression });
        Ok(())
    }

    /// Returns the removal of the add-on from clusters that no placement selects any longer, or from all of them.
    pub(super) fn removal(&self, view: &impl View, now: Timestamp) -> Read<Removal> {
        let by_placement = is_by_placements(&self.cma);
        let deletion = addon_deletion::of(&self.cma);
        if deletion.is_none() && !(by_placement && self.settled) {
            return Ok(Removal::default());
        }
        let add_on = &self.name;
        if deletion.is_some() {
            let addons: Vec<Arc<ManagedClusterAddOn>> = self.fleet.addons.values().cloned().collect();
            return Installed { add_on, addons: &addons, selected: &BTreeSet::new(), deletion }
                .removal(view, now);
        }
        let addons = self.fleet.unselected_addons();
        Installed { add_on, addons: &addons, selected: &self.fleet.selected, deletion }.removal(view, now)
    }

    /// Returns the configurations with the hashes of their current content, if the hub knows it; a missing
    /// configuration has no hash. Configurations that a cluster's add-on names are recorded for that cluster.
    fn with_content(
        &mut self,
        cluster: Option<&str>,
        configs: Vec<Config>,
        view: &impl View,
    ) -> Read<Vec<Config>> {
        let mut result = Vec::new();
        for mut config in configs {
            if let Some(object) = config_refs::config_object(&config).filter(|_| self.has_template) {
                config.hash = String::new();
                let content = view.observed(&object)?;
                if let Some(content) = &content {
                    config.hash = self.fleet.content_hashes.of(&object, content);
                    self.contents.insert(config.clone(), Arc::clone(content));
                }
                if let Some(cluster) = cluster {
                    self.fleet.names_own(cluster, object, &config, content);
                }
            }
            result.push(config);
        }
        Ok(result)
    }

    /// Returns the configurations that a cluster's add-on names itself.
    pub(super) fn own(&mut self, addon: Option<&ManagedClusterAddOn>, view: &impl View) -> Read<Vec<Config>> {
        let Some(addon) = addon else { return Ok(Vec::new()) };
        let references = addon.status.iter().flat_map(|status| &status.config_references);
        let hashed: Vec<Config> = references
            .filter_map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?)))
            .collect();
        let ManagedClusterAddOnSpec { install_namespace: _, configs, unknown: _ } = &addon.spec;
        self.with_content(Some(addon.namespace()), config_refs::named(configs, &hashed), view)
    }

    /// Returns the configurations for the hashes of the rollout: those that placements request, and those that
    /// clusters were assigned or last succeeded with.
    pub(super) fn contents_by_hash(&self) -> BTreeMap<Hash, Vec<Config>> {
        let asked = self.placements.iter().map(|placement| placement.desired.clone());
        let assigned = self.fleet.addons.values().filter_map(|addon| {
            let references = &addon.status.as_ref()?.config_references;
            let named = [config_refs::desired(references), config_refs::applied(references)];
            Some(named.into_iter().chain([progress::last_good(addon)]).flatten())
        });
        asked.chain(assigned.flatten()).map(|configs| (Hash(address(&configs)), configs)).collect()
    }

    /// Returns the problem of a set of configurations for an add-on with a template: one does not exist, or the
    /// set cannot be rendered.
    pub(super) fn problem(&mut self, configs: &[Config], view: &impl View) -> Read<Option<ConfigProblem>> {
        if !self.has_template {
            return Ok(None);
        }
        let is_unknown =
            |config: &&Config| config.hash.is_empty() && config_refs::config_gvk(&config.kind).is_some();
        if let Some(config) = configs.iter().find(is_unknown) {
            let message = format!("{} {} does not exist", config.kind.resource, config.key);
            return Ok(Some(ConfigProblem { reason: MISSING, message }));
        }
        let options = CheckOptions { is_strict: self.is_strict(), is_hosted: self.fleet.is_hosted() };
        let set = (address(configs), options);
        if let Some(known) = self.fleet.checked.get(&set) {
            return Ok(known.clone());
        }
        let Some(sources) = self.template(configs, view)? else { return Ok(None) };
        let result = sources.and_then(|sources| check(&self.name, &sources, options));
        let invalid = |error: AddOnError| ConfigProblem { reason: INVALID, message: error.to_string() };
        let problem = result.err().map(invalid);
        self.fleet.remember(set, problem.clone());
        Ok(problem)
    }

    /// Returns true if a template may only use defined variables.
    pub(super) fn is_strict(&self) -> bool {
        self.cma.annotation(STRICT_VARIABLES_ANNOTATION) == Some("true")
    }

    /// Returns the template and deployment configuration among `configs`, with their content; `None` without a
    /// template.
    pub(super) fn template(
        &self,
        configs: &[Config],
        view: &impl View,
    ) -> Read<Option<Result<Sources, AddOnError>>> {
        let content = |config: &Config| -> Read<Option<ControllerRevision>> {
            match self.contents.get(config) {
                Some(object) => Ok(Some(snapshot::snapshot(&self.name, config, spec_hash::content(object)))),
                None => Ok(view
                    .get::<ControllerRevision>(&snapshot::key(&self.name, config))?
                    .map(|revision| ControllerRevision::clone(&revision))),
            }
        };
        let find = |is: fn(&Config) -> bool| {
            configs.iter().find(|config| is(config)).map(content).transpose().map(Option::flatten)
        };
        let (template, config) = (find(config_refs::is_template)?, find(config_refs::is_deployment_config)?);
        Ok(template.map(|template| Sources::read(&template, config.as_ref())))
    }
}
