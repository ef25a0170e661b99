//! The fleet's objects in a report, so that `wheelwright plan --report` needs no hub.
//!
//! Objects of the repository itself are left out if they depend only on the commit, because a plan renders the
//! applied commit. A plan cannot render other repositories, so the snapshot has what it needs of them: the objects
//! that they own, and the templates and configurations of add-ons.
//!
//! An apply removes the fields that the ConfigRepo owned and that the commit no longer has, unless somebody else
//! owns them too. Therefore objects that the repository's ConfigRepos apply include the owners of their fields,
//! and objects in which others own a field are included even if they do not belong to the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;

use crate::hub::config_repo::{RepoIdentity, is_same_source};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, RolloutPolicy};
use api::names::{CONFIG_REPO_ANNOTATION, CONFIG_REPO_MANAGER};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::config::Config;
use engine::addon::config_refs;
use engine::report;
use engine::sync::{ObjectId, recorded};
use object::duration::later;
use object::{Gvk, Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{Index, Observes, Query, Read, View, Watches};

/// Registers the kinds of a snapshot that the controller does not already read. A snapshot also becomes outdated
/// when another ConfigRepo applies a commit.
pub(super) fn watches<W: Watches>(watches: &mut W) {
    watches.on::<ConfigRepo>(
        |change, view| {
            if change.differs_in(applied) { with_snapshot(view) } else { Vec::new() }
        },
    );
    watches.on_observed(|change, view| {
        let is_applied = |object: &Object| object.annotations().contains_key(CONFIG_REPO_ANNOTATION);
        if !change.sides().any(is_applied) {
            return Vec::new();
        }
        let [old, new] = [&change.old, &change.new].map(|side| side.as_deref().map(report::decided));
        if old == new { Vec::new() } else { with_snapshot(view) }
    });
    watches.keep::<OwnerWaits>();
    watches.read::<ManagedClusterSet>();
    watches.read::<ManagedClusterSetBinding>();
    watches.read::<AddOnPlacementScore>();
    watches.read::<ConfigRepoInventory>();
    watches.read::<ControllerRevision>();
}

/// Returns the files of the snapshot by path; `None` if the fleet is too large, or if one of its objects is
/// unreadable, because a plan must not treat that object as absent.
///
/// # Errors
/// Fails if a kind has not been read.
pub(super) fn snapshot(
    applied: AppliedObjects,
    view: &impl View,
    now: Timestamp,
) -> Read<Option<BTreeMap<String, String>>> {
    match objects(applied, view) {
        Err(error) if error.is_unreadable() => Ok(None),
        objects => Ok(report::snapshot(objects?, now)),
    }
}

/// Returns the objects lazily, so that the conversion can stop early if the fleet is too large.
fn objects(mut applied: AppliedObjects, view: &impl View) -> Read<impl Iterator<Item = Object>> {
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
    ];
    let configs = configs(view)?;
    for config in &configs {
        applied.objects.remove(&ObjectId::of(&config.reference()));
    }
    let is_listed =
        |id: &ObjectId| lists.iter().any(|list| (&list.group, &list.kind) == (&id.group, &id.kind));
    let others: Vec<Object> = applied
        .objects
        .iter()
        .filter(|(id, AppliedObject { object, is_shared })| {
            *is_shared && !is_listed(id) && has_other_owner(object) && report::is_shown(object)
        })
        .map(|(_, applied)| Object::clone(&applied.object))
        .collect();
    let listed =
        lists.into_iter().flat_map(|list| list.objects).map(move |object| applied.with_owners(object));
    Ok(listed.chain(configs).chain(others))
}

/// The objects that the ConfigRepos of a repository apply, with the owners of their fields.
#[derive(Default)]
pub(super) struct AppliedObjects {
    objects: BTreeMap<ObjectId, AppliedObject>,
    /// True while the first list of a kind is missing.
    is_partial: bool,
}

struct AppliedObject {
    object: Arc<Object>,
    /// True if the whole object may be in the report. A tenant's object is not for everyone who can read the
    /// branch.
    is_shared: bool,
}

impl AppliedObjects {
    /// Reads the objects in the inventories of a ConfigRepo and the others with the same source, except Secrets.
    ///
    /// # Errors
    /// Fails if ConfigRepos or inventories have not been read.
    pub(super) fn read(repo: &ConfigRepo, view: &impl View) -> Read<Self> {
        let parts = view.list_readable::<ConfigRepoInventory>(Query::ALL)?;
        let repos = view.list_readable::<ConfigRepo>(Query::ALL)?;
        let mut applied = Self::default();
        for repo in repos.iter().filter(|other| is_same_source(other, repo)) {
            let Ok(identity) = RepoIdentity::of(repo, view)? else { continue };
            let is_shared = identity == RepoIdentity::Operator;
            for (id, version) in recorded(repo, parts.iter().map(Arc::as_ref)) {
                if id.group.is_empty() && id.kind == "Secret" {
                    continue;
                }
                match view.observed(&id.at(&version)) {
                    Ok(object) => {
                        let object = object.map(|object| (id, AppliedObject { object, is_shared }));
                        applied.objects.extend(object);
                    }
                    Err(error) => applied.is_partial |= error.is_coming(),
                }
            }
        }
        Ok(applied)
    }

    /// Returns until when a report waits for the first lists of kinds, so that a report without field owners is
    /// not followed by one with them. A kind that cannot be listed delays a report by a minute.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub(super) fn wait(&self, repo: &Key, view: &impl View, now: Timestamp) -> Read<Option<Timestamp>> {
        let until = view.index(|waits: &mut OwnerWaits| {
            if !self.is_partial {
                waits.0.remove(repo);
                return now;
            }
            *waits.0.entry(repo.clone()).or_insert_with(|| later(now, LIST_WAIT))
        })?;
        Ok((until > now).then_some(until))
    }

    fn with_owners(&self, mut object: Object) -> Object {
        let observed = self.objects.get(&ObjectId::of(&object.reference()));
        if let Some(owners) = observed.and_then(|it| it.object.at(&["metadata", "managedFields"])) {
            object.metadata_mut().insert("managedFields".into(), owners.clone());
        }
        object
    }
}

/// Time that a report waits for the first list of a kind.
const LIST_WAIT: SignedDuration = SignedDuration::from_mins(1);

/// The end of the wait for the first lists of kinds, by ConfigRepo.
#[derive(Default)]
struct OwnerWaits(BTreeMap<Key, Timestamp>);

impl Index for OwnerWaits {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(_: &mut O) {}
}

/// Returns true if a manager other than the ConfigRepos' owns a field outside of the status.
fn has_other_owner(object: &Object) -> bool {
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).into_iter().flatten();
    let text =
        |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    entries
        .filter(|entry| text(entry, "subresource").is_empty())
        .any(|entry| text(entry, "manager") != CONFIG_REPO_MANAGER)
}

/// Returns the fields of a ConfigRepo that change when the objects that it owns change.
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

/// Returns the templates and deployment configurations that add-ons with templates name. A configuration with the
/// value of a Secret is left out: without the value it would be a different configuration, which a plan would roll
/// out.
fn configs(view: &impl View) -> Read<Vec<Object>> {
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
    Ok(configs)
}

/// The objects of a kind.
struct KindList {
    group: String,
    kind: String,
    objects: Box<dyn Iterator<Item = Object>>,
}

fn list<K: Kind>(view: &impl View) -> Read<KindList> {
    let all = view.list::<K>(Query::ALL)?;
    let objects = Box::new(all.into_iter().map(|object| Object::from_typed(&*object)));
    let Gvk { group, version: _, kind } = Gvk::of::<K>();
    Ok(KindList { group, kind, objects })
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
        assert!(
            snapshot(AppliedObjects::default(), &Caches::default(), Timestamp::UNIX_EPOCH).is_err(),
            "nothing has been read"
        );
        let mut caches = listed();
        assert!(snapshot(AppliedObjects::default(), &caches, Timestamp::UNIX_EPOCH).unwrap().is_some());
        let refused = Unreadable { key: Key::cluster("c1"), labels: None, reason: "spec: not a map".into() };
        caches.apply::<ManagedCluster>(Site::Hub, Delta::Unreadable(refused));
        assert_eq!(snapshot(AppliedObjects::default(), &caches, Timestamp::UNIX_EPOCH).unwrap(), None);
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
        assert!(
            snapshot(AppliedObjects::default(), &caches, Timestamp::UNIX_EPOCH).is_err(),
            "the templates have not been listed"
        );
        let names = ["default", "of-placement", "of-cluster", "secret", "other"];
        let templates: Vec<Object> = names.map(template).into();
        let kind = templates[0].gvk();
        caches.replace_observed(&kind, templates, "2");
        let files = snapshot(AppliedObjects::default(), &caches, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        let mut reader = report::SnapshotReader::default();
        let read: Vec<_> = files.values().flat_map(|file| reader.read(file).unwrap()).collect();
        let of_kind = |object: &&Object| object.kind() == "AddOnTemplate";
        let found: BTreeSet<&str> = read.iter().filter(of_kind).map(Object::name).collect();
        assert_eq!(found, ["default", "of-cluster", "of-placement"].into());
    }
}
