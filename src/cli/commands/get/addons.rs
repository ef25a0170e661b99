//! Add-ons as a table or as trees.

use super::shown::{Rows, condition, status};
use crate::cli::CommandError;
use crate::cli::tree::Tree;
use crate::cli::writer::list;
use api::addon::v1alpha1::{ClusterManagementAddOn, InstallProgression, ManagedClusterAddOn};
use api::condition::Conditions as _;
use api::names::addon_conditions::{AVAILABLE, CONFIGURED, DEGRADED, PROGRESSING};
use engine::report::version_of;
use object::Metadata as _;

/// Returns a row for each cluster with an add-on, and a row for each add-on without clusters.
pub(super) async fn rows(
    client: &kube::Client,
    addons: &[ClusterManagementAddOn],
) -> Result<Rows<6>, CommandError> {
    let on_clusters = list::<ManagedClusterAddOn>(client, "", "").await?;
    let mut lines = Vec::new();
    for addon in addons {
        let name = addon.name().to_owned();
        let own: Vec<_> = on_clusters.iter().filter(|on| on.name() == addon.name()).collect();
        if own.is_empty() {
            lines.push([&*name, "-", "-", "-", "-", "-"].map(str::to_owned));
            continue;
        }
        lines.extend(own.into_iter().map(|on| {
            let conditions = on.conditions();
            [
                name.clone(),
                on.namespace().to_owned(),
                version_of(on),
                status(conditions, AVAILABLE),
                status(conditions, PROGRESSING),
                status(conditions, DEGRADED),
            ]
        }));
    }
    Ok(Rows { titles: ["NAME", "CLUSTER", "CONFIGURATION", "AVAILABLE", "PROGRESSING", "DEGRADED"], lines })
}

pub(super) async fn addons(
    client: &kube::Client,
    addons: &[ClusterManagementAddOn],
) -> Result<Vec<Tree>, CommandError> {
    let on_clusters = list::<ManagedClusterAddOn>(client, "", "").await?;
    Ok(addons.iter().map(|addon| self::addon(addon, &on_clusters)).collect())
}

fn addon(addon: &ClusterManagementAddOn, on_clusters: &[ManagedClusterAddOn]) -> Tree {
    let own = on_clusters.iter().filter(|on| on.name() == addon.name());
    let rollouts = addon.status.iter().flat_map(|status| &status.install_progressions);
    let mut fields: Vec<Tree> = rollouts.map(rollout).collect();
    fields.push(Tree::new("Clusters").with(own.map(on_cluster)));
    if fields.len() > 1 {
        fields.push(Tree::new(format!("why: wheelwright explain rollout {}", addon.name())));
    }
    Tree::new(addon.name()).with(fields)
}

fn rollout(progression: &InstallProgression) -> Tree {
    let name = format!("Rollout on {}/{}", progression.namespace, progression.name);
    condition(&name, &progression.conditions, PROGRESSING, false)
}

fn on_cluster(addon: &ManagedClusterAddOn) -> Tree {
    let conditions = addon.conditions();
    let mut fields = vec![condition("Available", conditions, AVAILABLE, true)];
    fields.push(Tree::field("Configuration", &version_of(addon)));
    for (name, type_, good) in
        [("Configured", CONFIGURED, true), ("Progressing", PROGRESSING, false), ("Degraded", DEGRADED, false)]
    {
        if conditions.iter().any(|c| c.type_ == type_ && c.is_true() != good) {
            fields.push(condition(name, conditions, type_, good));
        }
    }
    Tree::new(addon.namespace()).with(fields)
}
