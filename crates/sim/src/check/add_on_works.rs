//! Checks that a cluster has exactly the add-on content assigned to it, never a mix of two revisions.

use k8s_openapi::api::apps::v1::ControllerRevision;

use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::names::{CONFIG_SPEC_HASH_ANNOTATION, IMAGE_REGISTRIES_ANNOTATION, WORK_GROUP};
use api::work::v1::ManifestWork;
use engine::addon::config::{Config, annotation};
use engine::addon::hosting::{Place, addon_of};
use engine::addon::registration::Sources;
use engine::addon::template::{self, TemplateInput};
use engine::addon::{config_refs, snapshot, works};
use engine::sync::ObjectId;
use object::fields::covers;
use object::{Key, Metadata as _, Object};
use reconcile::{Action, View};

impl Checker {
    /// Checks that a plan's works are rendered from the snapshots assigned to the cluster.
    pub(super) fn has_assigned_content(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { controller: "addon-deploy", key, view, plan, .. } = decided else {
            return Ok(());
        };
        let written = plan.steps.iter().flatten().filter_map(|action| match action {
            Action::Apply { object, .. } if object.kind() == "ManifestWork" => object.to_typed().ok(),
            _ => None,
        });
        let written: Vec<ManifestWork> = written.filter(|work| is_deploy(key, work)).collect();
        if written.is_empty() {
            return Ok(());
        }
        let Ok(Some(addon)) = view.get::<ManagedClusterAddOn>(key) else { return Ok(()) };
        let configs = assigned(&addon).unwrap_or_default();
        let manifests = render(&addon, &configs, *view).unwrap_or_default();
        for work in written {
            let broken = |reason: String| {
                Err(Violation::new(Invariant::WorksHaveAssignedContent, Key::of(&work), reason))
            };
            if let Some(reason) = other_revision(&work, &configs) {
                return broken(reason);
            }
            for manifest in objects(&work) {
                let reference = manifest.reference();
                let wanted = manifests.iter().find(|wanted| wanted.reference() == reference);
                if !wanted.is_some_and(|wanted| covers(&manifest, wanted)) {
                    return broken(format!("{reference} is not that of the assigned template"));
                }
            }
        }
        Ok(())
    }

    /// Checks that every work of an add-on belongs to the one revision assigned to its cluster, and that clusters
    /// have the objects of their works.
    pub(super) fn has_one_revision(&self) -> CheckResult {
        let works = self
            .hub
            .of_kind(WORK_GROUP, "ManifestWork")
            .filter_map(|work| work.to_typed::<ManifestWork>().ok());
        for work in works.filter(|work| !work.is_terminating()) {
            let broken =
                |reason: String| Err(Violation::new(Invariant::NoMixOfRevisions, Key::of(&work), reason));
            let addon = addon_of(&work)
                .filter(|key| is_deploy(key, &work))
                .and_then(|key| self.hub.typed::<ManagedClusterAddOn>(&key));
            let configs = addon.as_ref().and_then(assigned);
            if let Some(reason) = configs.and_then(|configs| other_revision(&work, &configs)) {
                return broken(reason);
            }
            let Some(cluster) = self.spokes.get(work.namespace()) else { continue };
            for manifest in objects(&work) {
                let id = ObjectId::of(&manifest.reference());
                if !cluster.get(&id).is_some_and(|live| covers(live, &manifest)) {
                    return broken(format!("{id} on the cluster is not as in the work"));
                }
            }
        }
        Ok(())
    }
}

fn is_deploy(addon: &Key, work: &ManifestWork) -> bool {
    [Place::Managed, Place::Hosting].into_iter().any(|place| works::is_deploy(addon, place, work))
}

/// Returns the configurations that the rollout assigned.
fn assigned(addon: &ManagedClusterAddOn) -> Option<Vec<Config>> {
    config_refs::desired(&addon.status.as_ref()?.config_references)
}

/// Returns the reason why a work does not belong to these configurations, if it does not.
fn other_revision(work: &ManifestWork, configs: &[Config]) -> Option<String> {
    let recorded = work.annotation(CONFIG_SPEC_HASH_ANNOTATION);
    let is_other = recorded != annotation(configs).as_deref();
    is_other.then(|| format!("it is of {recorded:?}, and {configs:?} is assigned"))
}

fn objects(work: &ManifestWork) -> impl Iterator<Item = Object> {
    work.spec.workload.manifests.iter().cloned().map(Object)
}

/// Renders the template from the snapshot of the assigned content.
fn render(addon: &ManagedClusterAddOn, configs: &[Config], view: &impl View) -> Option<Vec<Object>> {
    let (name, cluster) = (addon.name(), addon.namespace());
    let content = |is: fn(&Config) -> bool| {
        let config = configs.iter().find(|config| is(config))?;
        view.get::<ControllerRevision>(&snapshot::key(name, config)).ok()?
    };
    let config = content(config_refs::is_deployment_config);
    let sources = Sources::read(&*content(config_refs::is_template)?, config.as_deref()).ok()?;
    let managed = view.get::<ManagedCluster>(&Key::cluster(cluster)).ok()??;
    let input = TemplateInput {
        addon: name,
        cluster,
        template: &sources.template,
        config: sources.config.as_ref(),
        registries: managed.annotation(IMAGE_REGISTRIES_ANNOTATION),
    };
    template::render(&input).ok()
}
