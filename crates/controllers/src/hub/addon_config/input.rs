//! The input of the rollouts of an add-on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;

use super::hashes::ConfigHashes;
use crate::addon_reads;
use crate::hub::addon_deletion;
use crate::hub::addon_removal::{Installed, Removal};
use crate::placement_reads::{group_size, is_unreachable};
use api::addon::v1alpha1::{
    ClusterManagementAddOn, ClusterManagementAddOnSpec, InstallStrategyType, ManagedClusterAddOn,
    ManagedClusterAddOnSpec,
};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::RolloutStrategy;
use api::cluster::v1beta1::Placement;
use api::names::STRICT_VARIABLES_ANNOTATION;
use engine::addon::check::check;
use engine::addon::config::{Config, address, resolve};
use engine::addon::registration::Sources;
use engine::addon::selection::Selection;
use engine::addon::{config_refs, progress, snapshot, spec_hash};
use engine::rollout::Size;
use engine::rollout::input::Hash;
use object::{Key, Metadata as _, Object};
use reconcile::{Read, View};

/// The input of the decision about one rollout of an add-on.
pub(super) struct AddOnInput {
    pub(super) cma: Arc<ClusterManagementAddOn>,
    pub(super) name: String,
    /// Whether the hub knows the content of the configurations.
    pub(super) has_template: bool,
    pub(super) defaults: Vec<Config>,
    pub(super) placements: Vec<Node>,
    /// Whether every placement is settled.
    pub(super) settled: bool,
    pub(super) addons: BTreeMap<String, Arc<ManagedClusterAddOn>>,
    pub(super) unreachable: BTreeSet<String>,
    /// Clusters with a configuration that does not exist, recorded during the decision.
    pub(super) incomplete: BTreeMap<String, Problem>,
    /// Clusters that cannot be read, or that have an add-on that cannot be read; they are unreachable too.
    pub(super) unreadable: BTreeSet<String>,
    /// The problems of sets of configurations, by address, as far as they were checked.
    checked: BTreeMap<String, Option<Problem>>,
    /// Content of configurations by [`Config`], for the kinds that have snapshots.
    pub(super) contents: BTreeMap<Config, Arc<Object>>,
}

/// Reason if a configuration does not exist.
pub(super) const MISSING: &str = "ConfigurationMissing";
/// Reason if configurations cannot be rendered.
pub(super) const INVALID: &str = "ConfigurationInvalid";

/// The reason why no cluster gets a set of configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The reason of a condition.
    pub(super) reason: &'static str,
    /// The correction that a person has to make.
    pub(super) message: String,
}

/// One placement of the install strategy.
pub(super) struct Node {
    pub(super) placement: Key,
    pub(super) rollout_strategy: RolloutStrategy,
    pub(super) configs: Vec<Config>,
    pub(super) selection: Selection,
    pub(super) group_size: Option<Size>,
    /// The reason why the placement is not settled; `None` if it is.
    pub(super) waits_for: Option<&'static str>,
    /// Clusters of later placements.
    pub(super) taken: BTreeSet<String>,
}

impl Node {
    /// Returns the clusters that this placement decides about.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.selection.clusters().filter(|cluster| !self.taken.contains(*cluster))
    }
}

impl AddOnInput {
    pub(super) fn read(cma: Arc<ClusterManagementAddOn>, view: &impl View) -> Read<Self> {
        let name = progress::name(&cma).to_owned();
        let ClusterManagementAddOnSpec {
            add_on_meta: _,
            add_on_configuration: _,
            supported_configs: _, // `config_refs` reads them.
            install_strategy,
            unknown: _,
        } = &cma.spec;
        let by_placement = install_strategy.r#type == InstallStrategyType::Placements;
        let strategies = if by_placement { install_strategy.placements.as_slice() } else { &[] };
        let mut rollout = Self {
            name: name.clone(),
            has_template: config_refs::has_template(&cma),
            defaults: Vec::new(),
            placements: Vec::new(),
            settled: true,
            addons: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            incomplete: BTreeMap::new(),
            checked: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            contents: BTreeMap::new(),
            cma: Arc::clone(&cma),
        };
        rollout.defaults = rollout.with_content(config_refs::defaults(&cma), view)?;
        for (strategy, selection) in strategies.iter().zip(addon_reads::placements_of(strategies, view)?) {
            let held = cma.status.iter().flat_map(|status| &status.install_progressions);
            let held = held
                .filter(|p| (&p.namespace, &p.name) == (&strategy.namespace, &strategy.name))
                .flat_map(|p| &p.config_references);
            let held: Vec<Config> = held
                .filter_map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?)))
                .collect();
            let placement = view.get::<Placement>(&Key::namespaced(&strategy.namespace, &strategy.name))?;
            let waits_for = match &placement {
                None => Some("The placement does not exist."),
                Some(_) if !selection.settled => Some("The placement is not decided yet."),
                Some(_) => None,
            };
            let group_size = placement.as_deref().and_then(group_size);
            rollout.settled &= selection.settled;
            let configs = rollout.with_content(config_refs::named(&strategy.configs, &held), view)?;
            let own: BTreeSet<String> = selection.clusters().map(str::to_owned).collect();
            for earlier in &mut rollout.placements {
                earlier.taken.extend(own.iter().cloned());
            }
            rollout.placements.push(Node {
                placement: Key::namespaced(&strategy.namespace, &strategy.name),
                rollout_strategy: strategy.rollout_strategy.clone(),
                configs,
                selection,
                group_size,
                waits_for,
                taken: BTreeSet::new(),
            });
        }
        let on_clusters = addon_reads::of_clusters(&name, view)?;
        for addon in on_clusters.addons {
            rollout.addons.insert(addon.metadata.namespace.clone().unwrap_or_default(), addon);
        }
        rollout.unreachable.clone_from(&on_clusters.unreadable);
        rollout.unreadable = on_clusters.unreadable;
        let selected =
            rollout.placements.iter().flat_map(|node| node.selection.clusters()).map(str::to_owned);
        for cluster in selected.chain(rollout.addons.keys().cloned()).collect::<BTreeSet<_>>() {
            if rollout.unreadable.contains(&cluster) {
                continue;
            }
            if view
                .get::<ManagedCluster>(&Key::cluster(&cluster))?
                .is_some_and(|managed| is_unreachable(&managed))
            {
                rollout.unreachable.insert(cluster);
            }
        }
        Ok(rollout)
    }

    /// Returns the removal of the add-on from clusters that no placement selects any more, or from all of
    /// them.
    pub(super) fn removal(&self, view: &impl View, now: Timestamp) -> Read<Removal> {
        let by_placement = self.cma.spec.install_strategy.r#type == InstallStrategyType::Placements;
        let deletion = addon_deletion::of(&self.cma);
        if deletion.is_none() && !(by_placement && self.settled) {
            return Ok(Removal::default());
        }
        let selected = self.placements.iter().flat_map(|node| node.selection.clusters());
        let selected = selected.filter(|_| deletion.is_none()).map(str::to_owned);
        let selected: BTreeSet<String> = selected.collect();
        let addons: Vec<Arc<ManagedClusterAddOn>> = self.addons.values().cloned().collect();
        let add_on = &self.name;
        Installed { add_on, addons: &addons, selected: &selected, deletion }.removal(view, now)
    }

    /// Returns the same configurations with the hashes of their present content, as far as the hub knows
    /// them; a missing configuration has none.
    fn with_content(&mut self, configs: Vec<Config>, view: &impl View) -> Read<Vec<Config>> {
        let mut result = Vec::new();
        for mut config in configs {
            if let Some(object) = config_refs::config_object(&config).filter(|_| self.has_template) {
                config.hash = String::new();
                if let Some(content) = view.observed(&object)? {
                    config.hash = view.index(|hashes: &mut ConfigHashes| hashes.of(&object, &content))?;
                    self.contents.insert(config.clone(), content);
                }
            }
            result.push(config);
        }
        Ok(result)
    }

    /// Returns the configurations of a cluster's add-on: its own over those of its placement over the
    /// defaults.
    pub(super) fn own(&mut self, addon: Option<&ManagedClusterAddOn>, view: &impl View) -> Read<Vec<Config>> {
        let own = addon.map(|addon| {
            let references = addon.status.iter().flat_map(|status| &status.config_references);
            let held: Vec<Config> = references
                .filter_map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?)))
                .collect();
            let ManagedClusterAddOnSpec { install_namespace: _, configs, unknown: _ } = &addon.spec;
            config_refs::named(configs, &held)
        });
        self.with_content(own.unwrap_or_default(), view)
    }

    /// Returns the configurations behind the hashes of the rollout: those that placements ask for, and those
    /// that clusters were assigned or ran with success.
    pub(super) fn contents_by_hash(&self) -> BTreeMap<Hash, Vec<Config>> {
        let asked = self.placements.iter().map(|node| resolve([self.defaults.as_slice(), &node.configs]));
        let references = self
            .addons
            .values()
            .filter_map(|addon| addon.status.as_ref())
            .map(|status| &status.config_references);
        let held = references
            .flat_map(|references| [config_refs::desired(references), config_refs::applied(references)])
            .flatten();
        asked.chain(held).map(|configs| (Hash(address(&configs)), configs)).collect()
    }

    /// Returns the problem of a set of configurations of an add-on with a template: one of them does not
    /// exist, or the set cannot be rendered.
    pub(super) fn problem(&mut self, configs: &[Config], view: &impl View) -> Read<Option<Problem>> {
        if !self.has_template {
            return Ok(None);
        }
        let is_unknown =
            |config: &&Config| config.hash.is_empty() && config_refs::config_gvk(&config.kind).is_some();
        if let Some(config) = configs.iter().find(is_unknown) {
            let message = format!("{} {} does not exist", config.kind.resource, config.key);
            return Ok(Some(Problem { reason: MISSING, message }));
        }
        let address = address(configs);
        if let Some(known) = self.checked.get(&address) {
            return Ok(known.clone());
        }
        let is_strict = self.cma.annotation(STRICT_VARIABLES_ANNOTATION) == Some("true");
        let result = match self.template(configs, view)? {
            Some(sources) => sources.and_then(|sources| check(&self.name, &sources, is_strict)),
            None => Ok(()),
        };
        let problem = result.err().map(|message| Problem { reason: INVALID, message });
        self.checked.insert(address, problem.clone());
        Ok(problem)
    }

    /// Returns the template and deployment configuration among `configs`, by their content; `None` without a
    /// template.
    pub(super) fn template(
        &self,
        configs: &[Config],
        view: &impl View,
    ) -> Read<Option<Result<Sources, String>>> {
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
