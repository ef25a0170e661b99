//! The objects of the fleet that a report carries, so that `wheelwright plan --report` needs no hub.
//!
//! Objects of the repository itself are left out if only the commit decides them: a plan renders the applied
//! commit. It cannot render those of other repositories, so what it needs of them is here: which objects they
//! own, and the templates and configurations of add-ons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;

use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::config::Config;
use engine::addon::config_refs;
use engine::report;
use object::{Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{Query, Read, View, Watches};

/// Registers the kinds of a snapshot that the controller does not read anyway. What another ConfigRepo has
/// applied makes a snapshot old that has no other change.
pub(super) fn watches<W: Watches>(watches: &mut W) {
    watches.on::<ConfigRepo>(
        |change, view| {
            if change.differs_in(applied) { with_snapshot(view) } else { Vec::new() }
        },
    );
    watches.read::<ManagedClusterSet>();
    watches.read::<ManagedClusterSetBinding>();
    watches.read::<AddOnPlacementScore>();
    watches.read::<ConfigRepoInventory>();
    watches.read::<ControllerRevision>();
}

/// Returns the files of the snapshot, by path; `None` if the fleet is too large for one, or an object of it
/// cannot be read: a plan must not take that object for absent.
///
/// # Errors
/// A kind has not been read.
pub(super) fn snapshot(view: &impl View, now: Timestamp) -> Read<Option<BTreeMap<String, String>>> {
    match objects(view) {
        Err(error) if error.is_unreadable() => Ok(None),
        objects => Ok(report::snapshot(objects?, now)),
    }
}

/// Returns the objects one by one, so that a fleet that is too large is not converted to its end.
fn objects(view: &impl View) -> Read<impl Iterator<Item = Object>> {
    let lists = [
        list::<ManagedCluster>(view)?,
        list::<ManagedClusterSet>(view)?,
        list::<ManagedClusterSetBinding>(view)?,
        list::<Placement>(view)?,
        list::<PlacementDecision>(view)?,
        list::<AddOnPlacementScore>(view)?,
        list::<ClusterManagementAddOn>(view)?,
        list::<ManagedClusterAddOn>(view)?,
        list::<ManifestWork>(view)?,
        list::<ManifestWorkReplicaSet>(view)?,
        list::<RolloutPolicy>(view)?,
        list::<ConfigRepo>(view)?,
        list::<ConfigRepoInventory>(view)?,
        list::<ControllerRevision>(view)?,
        list::<Namespace>(view)?,
        configs(view)?,
    ];
    Ok(lists.into_iter().flatten())
}

/// Returns the fields of a ConfigRepo that change with what it owns.
fn applied(repo: &ConfigRepo) -> impl PartialEq + '_ {
    (&repo.spec, repo.status.as_ref().map(|status| (&status.applied, status.objects)))
}

/// Returns the ConfigRepos whose reports have a snapshot.
fn with_snapshot(view: &impl View) -> Vec<Key> {
    let has_snapshot =
        |repo: &&Arc<ConfigRepo>| repo.spec.report.as_ref().is_some_and(|report| report.snapshot);
    let repos = view.readable::<ConfigRepo>(Query::ALL);
    repos.iter().filter(has_snapshot).map(|repo| Key::of(&**repo)).collect()
}

/// Returns the templates and deployment configurations that add-ons with templates name. One with the value
/// of a Secret is left out: without the value it is another configuration, which a plan would roll out.
fn configs(view: &impl View) -> Read<Box<dyn Iterator<Item = Object>>> {
    let all = view.list::<ClusterManagementAddOn>(Query::ALL)?;
    let templated: Vec<_> = all.iter().filter(|cma| config_refs::has_template(cma)).collect();
    let mut named: Vec<Config> = Vec::new();
    for cma in &templated {
        named.extend(config_refs::defaults(cma));
        let placements = &cma.spec.install_strategy.placements;
        named.extend(placements.iter().flat_map(|placement| config_refs::named(&placement.configs, &[])));
    }
    let names: BTreeSet<&str> = templated.iter().map(|cma| cma.name()).collect();
    for add_on in view.list::<ManagedClusterAddOn>(Query::ALL)? {
        if !add_on.spec.configs.is_empty() && names.contains(add_on.name()) {
            named.extend(config_refs::named(&add_on.spec.configs, &[]));
        }
    }
    let references: BTreeSet<ObjectRef> = named.iter().filter_map(config_refs::config_object).collect();
    let mut configs = Vec::new();
    for reference in &references {
        let config = view.observed(reference)?.filter(|config| report::is_shown(config));
        configs.extend(config.map(Arc::unwrap_or_clone));
    }
    Ok(Box::new(configs.into_iter()))
}

fn list<K: Kind>(view: &impl View) -> Read<Box<dyn Iterator<Item = Object>>> {
    let all = view.list::<K>(Query::ALL)?;
    Ok(Box::new(all.into_iter().map(|object| Object::from_typed(&*object))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use api::names::ADDON_GROUP;
    use reconcile::{Caches, Delta, Site, Unreadable};

    /// Returns the caches of a hub without objects.
    fn listed() -> Caches {
        let mut caches = Caches::default();
        caches.replace::<ManagedCluster>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterSet>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterSetBinding>(Site::Hub, Vec::new(), "1");
        caches.replace::<Placement>(Site::Hub, Vec::new(), "1");
        caches.replace::<PlacementDecision>(Site::Hub, Vec::new(), "1");
        caches.replace::<AddOnPlacementScore>(Site::Hub, Vec::new(), "1");
        caches.replace::<ClusterManagementAddOn>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManifestWork>(Site::Hub, Vec::new(), "1");
        caches.replace::<ManifestWorkReplicaSet>(Site::Hub, Vec::new(), "1");
        caches.replace::<RolloutPolicy>(Site::Hub, Vec::new(), "1");
        caches.replace::<ConfigRepo>(Site::Hub, Vec::new(), "1");
        caches.replace::<ConfigRepoInventory>(Site::Hub, Vec::new(), "1");
        caches.replace::<ControllerRevision>(Site::Hub, Vec::new(), "1");
        caches.replace::<Namespace>(Site::Hub, Vec::new(), "1");
        caches
    }

    #[test]
    fn a_report_has_no_snapshot_while_an_object_cannot_be_read() {
        assert!(snapshot(&Caches::default(), Timestamp::UNIX_EPOCH).is_err(), "nothing has been read");
        let mut caches = listed();
        assert!(snapshot(&caches, Timestamp::UNIX_EPOCH).unwrap().is_some());
        let refused = Unreadable { key: Key::cluster("c1"), labels: None, why: "spec: not a map".into() };
        caches.apply::<ManagedCluster>(Site::Hub, Delta::Unreadable(refused));
        assert_eq!(snapshot(&caches, Timestamp::UNIX_EPOCH).unwrap(), None);
    }

    #[test]
    fn a_snapshot_has_the_templates_that_add_ons_name_but_none_with_a_secret() {
        let config = |name: &str| json!({"group": ADDON_GROUP, "resource": "addontemplates", "name": name});
        let supported =
            json!({"group": ADDON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": "default"}});
        let placement = json!({"namespace": "n", "name": "p", "configs": [config("of-placement")]});
        let cma = json!({
            "metadata": {"name": "app", "uid": "a", "resourceVersion": "2"},
            "spec": {
                "supportedConfigs": [supported],
                "installStrategy": {"type": "Placements", "placements": [placement]},
            },
        });
        let add_on = json!({
            "metadata": {"namespace": "c1", "name": "app", "uid": "b", "resourceVersion": "2"},
            "spec": {"configs": [config("of-cluster"), config("secret"), config("absent")]},
        });
        let template = |name: &str| {
            let kind = if name == "secret" { "Secret" } else { "ConfigMap" };
            let manifest =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "m"}, "data": {"k": "v"}});
            let template = json!({
                "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "AddOnTemplate",
                "metadata": {"name": name, "uid": name, "resourceVersion": "2"},
                "spec": {"addonName": "app", "agentSpec": {"workload": {"manifests": [manifest]}}},
            });
            Object::from_value(template).unwrap()
        };
        let mut caches = listed();
        let cma: ClusterManagementAddOn = serde_json::from_value(cma).unwrap();
        let add_on: ManagedClusterAddOn = serde_json::from_value(add_on).unwrap();
        caches.replace(Site::Hub, vec![cma], "2");
        caches.replace(Site::Hub, vec![add_on], "2");
        assert!(snapshot(&caches, Timestamp::UNIX_EPOCH).is_err(), "the templates have not been listed");
        let names = ["default", "of-placement", "of-cluster", "secret", "other"];
        let templates: Vec<Object> = names.map(template).into();
        let kind = templates[0].gvk();
        caches.replace_observed(&kind, templates, "2");
        let files = snapshot(&caches, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        let mut reader = report::SnapshotReader::default();
        let read: Vec<_> = files.values().flat_map(|file| reader.read(file).unwrap()).collect();
        let of_kind = |object: &&Object| object.kind() == "AddOnTemplate";
        let found: BTreeSet<&str> = read.iter().filter(of_kind).map(Object::name).collect();
        assert_eq!(found, ["default", "of-cluster", "of-placement"].into());
    }
}
