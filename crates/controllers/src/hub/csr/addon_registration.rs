//! The templates that define how an add-on's agent on a cluster registers with the hub.
//!
//! If the hub does not deploy an add-on, the add-on's manager decides about the requests of its agents. If it
//! does, the status of the ClusterManagementAddOn and the spec of the ManagedClusterAddOn name the templates.
//! While a placement or a person decides what the cluster gets, the status of the ManagedClusterAddOn allows
//! nothing, because the agent may write it. See docs/hazards.md#any-subject and
//! docs/hazards.md#approval-of-another-manager.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;

use crate::addon_creation::is_by_placements;
use crate::addon_removal::is_by_placement;
use crate::placement_reads::selection;
use api::addon::v1alpha1::{
    AddOnTemplateSpec, ClusterManagementAddOn, DefaultConfigReference, ManagedClusterAddOn, RegistrationType,
};
use engine::addon::config::Config;
use engine::addon::{config_refs, snapshot, spec_hash};
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// An add-on on a cluster that the hub deploys, so that the hub decides about the requests of its agent.
pub(super) struct Registration {
    pub(super) addon: Arc<ManagedClusterAddOn>,
    /// The templates that the hub gives it, starting with the assigned ones.
    pub(super) templates: Vec<AddOnTemplateSpec>,
}

impl Registration {
    /// Reads the registration of an add-on on a cluster; `None` if the cluster does not have it, or if another
    /// manager deploys it.
    pub(super) fn read(cluster: &str, addon: &str, view: &impl View) -> Read<Option<Self>> {
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(addon))?;
        let Some(cma) = cma.filter(|cma| config_refs::is_deployed(cma)) else { return Ok(None) };
        let Some(installed) = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, addon))? else {
            return Ok(None);
        };
        let mut configs = configs(&installed, &cma, view)?;
        let assigned = config_refs::assigned(&installed).unwrap_or_default();
        configs.sort_by_key(|config| !assigned.contains(config));
        let mut templates = Vec::new();
        for config in &configs {
            let snapshot = view.get::<ControllerRevision>(&snapshot::key(addon, config))?;
            templates.extend(snapshot.and_then(|snapshot| snapshot::spec(&snapshot).ok()));
        }
        Ok(Some(Self { addon: installed, templates }))
    }

    /// Returns true if a template requests a client certificate for the hub.
    pub(super) fn is_client(&self) -> bool {
        let mut registrations =
            self.templates.iter().flat_map(|template| template.registration.iter().flatten());
        registrations.any(|registration| registration.r#type == RegistrationType::KubeClient)
    }
}

/// Returns the cluster's own template or, without one, the wanted and last known good templates of the last
/// placement that selects the cluster, or else the default.
///
/// A placement that is not settled may select the cluster, so its templates count too. An add-on whose removal is
/// held keeps its assigned template, because no placement names it any longer.
fn configs(
    installed: &ManagedClusterAddOn,
    cma: &ClusterManagementAddOn,
    view: &impl View,
) -> Read<Vec<Config>> {
    let own = config_refs::named(&installed.spec.configs, &[]).into_iter().find(config_refs::is_template);
    if let Some(mut own) = own {
        let object = config_refs::config_object(&own).map(|object| view.observed(&object)).transpose()?;
        own.hash = object.flatten().map(|object| spec_hash::spec_hash(&object)).unwrap_or_default();
        return Ok(vec![own]);
    }
    let Some(status) = &cma.status else { return Ok(Vec::new()) };
    let mut references = Vec::new();
    let mut is_selected = false;
    for progression in status.install_progressions.iter().rev() {
        let placement = Key::namespaced(&progression.namespace, &progression.name);
        let selection = selection(&placement, view)?;
        is_selected = selection.clusters().any(|cluster| cluster == installed.namespace());
        if is_selected || !selection.settled {
            references.extend(progression.config_references.iter().flat_map(|r| {
                let hashes = [&r.desired_config, &r.last_known_good_config].into_iter().flatten();
                hashes.map(|hash| config_refs::hashed(&r.group, &r.resource, hash))
            }));
        }
        if is_selected {
            break;
        }
    }
    if !is_selected && is_by_placements(cma) && is_by_placement(installed) {
        references.extend(config_refs::assigned(installed).unwrap_or_default());
    }
    if !is_selected {
        let defaults = status.default_config_references.iter();
        let hashed = |r: &DefaultConfigReference| {
            Some(config_refs::hashed(&r.group, &r.resource, r.desired_config.as_ref()?))
        };
        references.extend(defaults.filter_map(hashed));
    }
    references.retain(config_refs::is_template);
    Ok(references)
}
