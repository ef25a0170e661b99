//! The input of a command: the objects of a hub or a file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};

use super::connect::HubArgs;
use super::runtime::block_on;
use super::{CommandError, objects, writer};
use api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{GITOPS_GROUP, ROLLOUT_POLICY_ANNOTATION};
use object::{Gvk, Key, Kind, Object, ObjectRef};
use reconcile::{
    Caches, Change, Controller, Index, Lookup, LookupAnswer, Observes, Representation, Scope, Site, Wakes,
    Watches,
};

/// The place from which a command reads objects.
#[derive(Debug, clap::Args)]
pub(super) struct Origin {
    /// Read the objects from this file instead of a hub. It contains YAML documents or a List, as kubectl
    /// prints it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    hub: HubArgs,
    /// Objects that were read before.
    #[arg(skip)]
    objects: Option<Vec<Object>>,
}

impl Origin {
    /// Returns the objects of a file as an origin.
    pub(super) fn from_file(file: PathBuf) -> Self {
        Self { snapshot: Some(file), hub: HubArgs::default(), objects: None }
    }

    /// Returns a hub as an origin.
    pub(super) fn from_hub(hub: HubArgs) -> Self {
        Self { snapshot: None, hub, objects: None }
    }

    /// Returns objects that were already read as an origin.
    pub(super) fn from_objects(objects: Vec<Object>) -> Self {
        Self { snapshot: None, hub: HubArgs::default(), objects: Some(objects) }
    }

    /// Returns true if the origin is a file.
    pub(super) fn is_file(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Returns the hub, for a command that writes to it.
    pub(super) fn hub(&self) -> HubArgs {
        self.hub.clone()
    }

    /// Connects to the hub, for a command that watches it.
    pub(super) async fn connect(&self) -> Result<Client, CommandError> {
        self.hub.connect().await
    }

    /// Reads all objects of some kinds into caches.
    ///
    /// # Errors
    /// Fails if the file cannot be read, the hub does not respond or does not serve a kind, or an object does not
    /// match its type.
    pub(super) fn read(&self, wanted: &[KindToRead]) -> Result<Caches, CommandError> {
        let snapshot = match self.stored()? {
            Some(stored) => stored,
            None => block_on(async { Snapshot::from_hub(&self.hub.connect().await?, wanted).await })?,
        };
        snapshot.caches(wanted)
    }

    /// Reads the objects of some kinds into caches, as far as the user may list them: in the whole hub, or else in
    /// a namespace. Returns the kinds that the user may list in neither.
    ///
    /// # Errors
    /// As for [`Origin::read`], or the user may not list any kind.
    pub(super) fn read_permitted(
        &self,
        wanted: &[KindToRead],
        namespace: Option<&str>,
    ) -> Result<(Caches, Vec<Gvk>), CommandError> {
        let (snapshot, refused) = match self.stored()? {
            Some(stored) => (stored, Vec::new()),
            None => block_on(async {
                Snapshot::permitted_of_hub(&self.hub.connect().await?, wanted, namespace).await
            })?,
        };
        Ok((snapshot.caches(wanted)?, refused.into_iter().map(|(gvk, _)| gvk).collect()))
    }

    /// Returns the objects of the file, or those that were already read; `None` if the origin is a hub.
    fn stored(&self) -> Result<Option<Snapshot>, CommandError> {
        let objects = match (&self.objects, &self.snapshot) {
            (Some(objects), _) => objects.clone(),
            (None, Some(file)) => objects::of_file(file)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Snapshot { objects }))
    }
}

/// Reads all objects of some kinds from a hub into caches, like [`Origin::read`].
///
/// # Errors
/// Fails if the hub does not respond or does not serve a kind, or an object does not match its type.
pub(super) async fn read_hub(hub: &Client, wanted: &[KindToRead]) -> Result<Caches, CommandError> {
    Snapshot::from_hub(hub, wanted).await?.caches(wanted)
}

/// Returns true if a hub serves our kinds. A hub with only OCM's components does not, but its clusters, placements
/// and add-ons are shown as well.
///
/// # Errors
/// Fails if the hub does not respond.
pub(super) async fn serves_ours(hub: &Client) -> Result<bool, CommandError> {
    let groups = hub.list_api_groups().await.map_err(writer::failed("list the API groups".into()))?;
    Ok(groups.groups.iter().any(|group| group.name == GITOPS_GROUP))
}

/// A kind to read, and the function that loads its objects into caches.
pub(super) struct KindToRead {
    gvk: Gvk,
    plural: String,
    load: fn(&Snapshot, &mut Caches) -> Result<(), CommandError>,
}

impl KindToRead {
    /// Returns a kind to read as its type.
    pub(super) fn typed<K: Kind>() -> Self {
        Self { gvk: Gvk::of::<K>(), plural: K::plural(&()).into(), load: Snapshot::load::<K> }
    }

    /// Returns a kind to read as untyped content.
    pub(super) fn observed<K: Kind>() -> Self {
        Self { gvk: Gvk::of::<K>(), plural: K::plural(&()).into(), load: Snapshot::load_observed::<K> }
    }

    /// Lists the objects of the whole hub or, if the user may not, of a namespace. The inner error is the first
    /// denial.
    async fn permitted(
        &self,
        hub: &Client,
        namespace: Option<&str>,
    ) -> Result<Result<Vec<Object>, CommandError>, CommandError> {
        let Self { gvk, plural, load: _ } = self;
        let names = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let resource = ApiResource::from_gvk_with_plural(&names, plural);
        let labels = Scope::Rollouts.narrow(gvk, Representation::Whole, false).labels;
        let failed = || writer::failed(format!("list {gvk}"));
        let refusal = match objects::of_api(&Api::all_with(hub.clone(), &resource), gvk, &labels, |_| true)
            .await?
        {
            Ok(objects) => return Ok(Ok(objects)),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(failed()(kube::Error::Api(status))),
            Err(error) => return Err(failed()(error)),
        };
        let Some(namespace) = namespace else { return Ok(refusal) };
        let inside = Api::namespaced_with(hub.clone(), namespace, &resource);
        match objects::of_api(&inside, gvk, &labels, |_| true).await? {
            Ok(objects) => Ok(Ok(objects)),
            // The API server returns 404 for a cluster-scoped kind in a namespace.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(refusal),
            Err(error) => Err(failed()(error)),
        }
    }
}

/// Returns the kinds on the hub that a controller registers, so that explanations are based on the same objects as
/// its decisions.
pub(super) fn read_by<C: Controller>() -> Vec<KindToRead> {
    let mut kinds = Kinds(vec![KindToRead::typed::<C::Primary>()]);
    C::watches(&mut kinds);
    kinds.0
}

/// Returns the kinds that a controller of add-ons reads, and the content of the configurations.
pub(super) fn read_by_rollouts<C: Controller>() -> Vec<KindToRead> {
    let mut kinds = read_by::<C>();
    kinds.extend([KindToRead::observed::<AddOnTemplate>(), KindToRead::observed::<AddOnDeploymentConfig>()]);
    kinds
}

struct Kinds(Vec<KindToRead>);

impl Kinds {
    fn add<K: Kind>(&mut self, site: Site) {
        let gvk = Gvk::of::<K>();
        if site == Site::Hub && !self.0.iter().any(|kind| kind.gvk == gvk) {
            self.0.push(KindToRead::typed::<K>());
        }
    }
}

impl Watches for Kinds {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, _: Wakes<K, Caches>) {
        self.add::<K>(site);
    }

    fn on_readability<K: Kind>(&mut self, _: fn(&Caches) -> Vec<Key>) {
        self.add::<K>(Site::Hub);
    }

    fn on_observed(&mut self, _: Wakes<Object, Caches>) {}

    fn on_source(&mut self, _: fn(&Key) -> Vec<Key>) {}

    fn keep<I: Index>(&mut self) {
        I::observes(self);
    }
}

impl<I: Index> Observes<I> for Kinds {
    fn on<K: Kind>(&mut self, _: fn(&mut I, &Change<K>) -> Vec<Key>) {
        self.add::<K>(Site::Hub);
    }

    fn on_observed(&mut self, _: fn(&mut I, &Change<Object>) -> Vec<Key>) {}
}

struct Snapshot {
    objects: Vec<Object>,
}

impl Snapshot {
    /// Reads the objects of some kinds from a hub. Skips our kinds if the hub does not serve them.
    async fn from_hub(hub: &Client, wanted: &[KindToRead]) -> Result<Self, CommandError> {
        match Self::permitted_of_hub(hub, wanted, None).await? {
            (_, mut refused) if !refused.is_empty() => Err(refused.remove(0).1),
            (snapshot, _) => Ok(snapshot),
        }
    }

    /// Reads the objects that the user may list, like [`Origin::read_permitted`]. Returns the other kinds, with
    /// the hub's answer.
    async fn permitted_of_hub(
        hub: &Client,
        wanted: &[KindToRead],
        namespace: Option<&str>,
    ) -> Result<(Self, Vec<(Gvk, CommandError)>), CommandError> {
        let (mut snapshot, mut refused) = (Self { objects: Vec::new() }, Vec::new());
        let has_ours = serves_ours(hub).await?;
        let wanted = wanted.iter().filter(|kind| kind.gvk.group != GITOPS_GROUP || has_ours);
        for kind in wanted.clone() {
            match kind.permitted(hub, namespace).await? {
                Ok(objects) => snapshot.objects.extend(objects),
                Err(error) => refused.push((kind.gvk.clone(), error)),
            }
        }
        if refused.len() == wanted.count() && !refused.is_empty() {
            return Err(refused.remove(0).1);
        }
        Ok((snapshot, refused))
    }

    /// Loads the objects into caches.
    fn caches(&self, wanted: &[KindToRead]) -> Result<Caches, CommandError> {
        let mut caches = Caches::default();
        for kind in wanted {
            (kind.load)(self, &mut caches)?;
        }
        for policy in self.missing_policies() {
            let policy = ObjectRef::of::<RolloutPolicy>(Key::cluster(policy));
            caches.set_answer(Lookup::Object(policy), Ok(LookupAnswer::Object(None)));
        }
        Ok(caches)
    }

    /// Returns the policies that add-ons and sets reference but that are not among the objects. The operator would
    /// look them up on the hub. A command treats them as missing, so that it works between the deletion of a
    /// policy and the write that removes its name.
    fn missing_policies(&self) -> BTreeSet<&str> {
        let policies = self.objects.iter().filter(|object| object.gvk() == Gvk::of::<RolloutPolicy>());
        let policies: BTreeSet<&str> = policies.map(|policy| policy.name()).collect();
        let names = self.objects.iter().filter_map(|object| {
            object.at(&["metadata", "annotations", ROLLOUT_POLICY_ANNOTATION])?.as_str()
        });
        names.flat_map(|names| names.split(',')).filter(|name| !policies.contains(name)).collect()
    }

    /// Loads the objects of a kind into caches, as a complete list.
    ///
    /// # Errors
    /// Fails if an object does not match its type.
    fn load<K: Kind>(&self, caches: &mut Caches) -> Result<(), CommandError> {
        let gvk = Gvk::of::<K>();
        let typed = self.objects.iter().filter(|object| object.gvk() == gvk).map(Object::to_typed::<K>);
        caches.replace(Site::Hub, typed.collect::<Result<Vec<_>, _>>()?, "0");
        Ok(())
    }

    fn load_observed<K: Kind>(&self, caches: &mut Caches) -> Result<(), CommandError> {
        let gvk = Gvk::of::<K>();
        let objects = self.objects.iter().filter(|object| object.gvk() == gvk).cloned();
        caches.replace_observed(&gvk, objects.collect(), "0");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconcile::View as _;

    #[test]
    fn an_explanation_reads_the_kinds_of_its_controller() {
        let kinds = |kinds: Vec<KindToRead>| kinds.into_iter().map(|kind| kind.gvk.kind).collect::<Vec<_>>();
        let placement = kinds(read_by::<controllers::hub::placement::PlacementController>());
        assert!(placement.contains(&"AddOnPlacementScore".to_owned()), "of its index: {placement:?}");
        let rollout = kinds(read_by::<controllers::hub::addon_config::AddOnConfigController>());
        assert!(rollout.contains(&"RolloutPolicy".to_owned()), "{rollout:?}");
        assert_eq!(rollout.iter().filter(|kind| *kind == "PlacementDecision").count(), 1, "{rollout:?}");
    }

    #[test]
    fn a_deleted_policy_that_an_add_on_still_names_is_recognized_as_deleted() {
        let named = serde_json::json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": "a", "annotations": {ROLLOUT_POLICY_ANNOTATION: "gone,present"}}});
        let present = serde_json::json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "present"}});
        let objects = [named, present].map(|object| Object::from_value(object).unwrap()).to_vec();
        let caches = Snapshot { objects }.caches(&[KindToRead::typed::<RolloutPolicy>()]).unwrap();
        assert_eq!(caches.exists::<RolloutPolicy>(&Key::cluster("gone")), Ok(false));
    }
}
