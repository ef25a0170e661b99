//! Compares the wanted objects with those on a hub, and writes the differences.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use object::{Gvk, Key, Object, ObjectRef};

use crate::cli::writer::{api_of, failed, resource_of, untyped};
use crate::cli::{CommandError, objects};
use api::names::{CLI, GITOPS_GROUP};
use engine::installation::{MANAGED_BY, keep_conversion};

/// The annotation in which Helm records the release of an object.
pub(in crate::cli) const HELM_RELEASE: &str = "meta.helm.sh/release-name";

/// The result of applying or deleting an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ApplyResult {
    /// The object was created.
    Created,
    /// Some fields were changed.
    Configured,
    /// The object was already up to date.
    Unchanged,
    /// The object belongs to another component of Open Cluster Management and was left unchanged.
    Left,
    /// An earlier version installed the object, and this version does not have it.
    Deleted,
}

impl ApplyResult {
    /// Returns the word for the output.
    pub(in crate::cli) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Left => "left unchanged: another component of Open Cluster Management owns it",
            Self::Deleted => "deleted",
        }
    }
}

/// Writes objects of any kind to a hub.
pub(in crate::cli) struct Installer {
    pub(in crate::cli) hub: kube::Client,
    /// True if the hub is not changed.
    pub(in crate::cli) dry_run: bool,
    /// True if objects of other owners are taken over.
    pub(in crate::cli) take_ownership: bool,
    /// The values of the label [`MANAGED_BY`] on objects that the installer may change and delete.
    pub(in crate::cli) owners: &'static [&'static str],
}

impl Installer {
    fn api(&self, gvk: &Gvk, namespace: &str) -> Api<DynamicObject> {
        api_of(&self.hub, gvk, namespace)
    }

    pub(in crate::cli) async fn find(&self, target: &ObjectRef) -> Result<Option<Object>, CommandError> {
        let found = self
            .api(&target.gvk, &target.key.namespace)
            .get_opt(&target.key.name)
            .await
            .map_err(failed(format!("read {target}")))?;
        Ok(found.map(|found| untyped(&found)).transpose()?)
    }

    /// Reads the wanted objects from the hub.
    ///
    /// # Errors
    /// Fails if the hub cannot be read, or an object belongs to another owner and must not be taken over.
    pub(in crate::cli) async fn survey(
        &self,
        wanted: &[Object],
    ) -> Result<Vec<Option<Object>>, CommandError> {
        let mut present = Vec::new();
        for object in wanted {
            let found = self.find(&object.reference()).await?;
            if let Some(found) = &found {
                self.must_be_ours(found)?;
            }
            present.push(found);
        }
        Ok(present)
    }

    /// Checks that each namespace of the objects exists or is one of the objects.
    pub(in crate::cli) async fn must_have_namespaces(&self, wanted: &[Object]) -> Result<(), CommandError> {
        let namespace = |name: &str| ObjectRef::of::<Namespace>(Key::cluster(name));
        let comes_with_them = |name: &&str| wanted.iter().any(|object| object.reference() == namespace(name));
        let namespaces: BTreeSet<&str> = wanted.iter().map(Object::namespace).collect();
        for name in namespaces.into_iter().filter(|name| !name.is_empty() && !comes_with_them(name)) {
            if self.find(&namespace(name)).await?.is_none() {
                let error = anyhow!("there is no namespace {name}");
                let hint = format!("kubectl create namespace {name}, and run the command again");
                return Err(CommandError::hinted(error, hint));
            }
        }
        Ok(())
    }

    fn must_be_ours(&self, found: &Object) -> Result<(), CommandError> {
        let name = found.reference();
        match found.label(MANAGED_BY) {
            Some("Helm") => {
                let annotation = |name| found.annotations().get(name).map_or("", |value| *value).to_owned();
                let release = annotation(HELM_RELEASE);
                let namespace = annotation("meta.helm.sh/release-namespace");
                let error = anyhow!("{name} belongs to the helm release {release}");
                let hint =
                    format!("helm installed it: helm upgrade, or helm uninstall {release} -n {namespace}");
                Err(CommandError::hinted(error, hint))
            }
            _ if self.take_ownership || self.is_ours(found) || is_shared(found) => Ok(()),
            _ => {
                let error = anyhow!("{name} exists, and this command did not create it");
                Err(CommandError::hinted(error, "inspect it, or take it over with --take-ownership"))
            }
        }
    }

    /// Returns true if one of the owners installed the object, or only this product has such an object.
    fn is_ours(&self, object: &Object) -> bool {
        let is_namespace = object.kind() == "Namespace";
        let is_definition =
            object.kind() == "CustomResourceDefinition" && object.name().ends_with(GITOPS_GROUP);
        let is_of_owner = object.label(MANAGED_BY).is_some_and(|owner| self.owners.contains(&owner));
        is_namespace || is_definition || is_of_owner
    }

    /// Returns an error if a Helm release has an object of this kind and name in any namespace.
    pub(in crate::cli) async fn must_have_no_release(&self, target: &ObjectRef) -> Result<(), CommandError> {
        let found = self.managed_by(&["Helm"], &[target.gvk.clone()].into()).await?;
        found
            .iter()
            .filter(|object| object.name() == target.key.name)
            .try_for_each(|it| self.must_be_ours(it))
    }

    /// Applies an object; `present` is its current state on the hub.
    pub(in crate::cli) async fn apply(
        &self,
        wanted: &Object,
        present: Option<&Object>,
    ) -> Result<ApplyResult, CommandError> {
        let is_left = |present: &Object| is_shared(present) && !self.is_ours(present);
        if present.is_some_and(is_left) && !self.take_ownership {
            return Ok(ApplyResult::Left);
        }
        let mut wanted = wanted.clone();
        if let Some(present) = present {
            keep_conversion(&mut wanted, present);
        }
        let params = PatchParams { dry_run: self.dry_run, ..PatchParams::apply(CLI).force() };
        let target = wanted.reference();
        let api = self.api(&target.gvk, &target.key.namespace);
        let applied = api.patch(&target.key.name, &params, &Patch::Apply(&wanted)).await;
        // The object's namespace is created by the same installation.
        if let Err(kube::Error::Api(status)) = &applied
            && self.dry_run
            && status.code == 404
        {
            return Ok(ApplyResult::Created);
        }
        let applied = untyped(&applied.map_err(failed(format!("apply {target}")))?)?;
        Ok(match present {
            None => ApplyResult::Created,
            Some(present) if content(present) == content(&applied) => ApplyResult::Unchanged,
            Some(_) => ApplyResult::Configured,
        })
    }

    /// Lists the objects of some kinds that the owners installed.
    pub(in crate::cli) async fn installed(&self, kinds: &BTreeSet<Gvk>) -> Result<Vec<Object>, CommandError> {
        self.managed_by(self.owners, kinds).await
    }

    async fn managed_by(
        &self,
        managers: &[&str],
        kinds: &BTreeSet<Gvk>,
    ) -> Result<Vec<Object>, CommandError> {
        let labels = format!("{MANAGED_BY} in ({})", managers.join(","));
        let mut installed = Vec::new();
        for gvk in kinds {
            let api = Api::all_with(self.hub.clone(), &resource_of(gvk));
            match objects::of_api(&api, gvk, &labels, |_| true).await? {
                // The hub does not serve the kind yet.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                listed => installed.extend(listed.map_err(failed(format!("list {gvk}")))?),
            }
        }
        Ok(installed)
    }

    /// Deletes an object; returns `false` if it does not exist.
    pub(in crate::cli) async fn delete(&self, target: &ObjectRef) -> Result<bool, CommandError> {
        let params = DeleteParams { dry_run: self.dry_run, ..DeleteParams::foreground() };
        match self.api(&target.gvk, &target.key.namespace).delete(&target.key.name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            deleted => {
                deleted.map_err(failed(format!("delete {target}")))?;
                Ok(true)
            }
        }
    }
}

/// Returns true if other components of Open Cluster Management install the object, too.
fn is_shared(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition" || object.name().starts_with("open-cluster-management:")
}

/// Returns the fields of an object to compare, which are those that the API server does not maintain.
fn content(object: &Object) -> BTreeMap<&str, serde_json::Value> {
    let mut content = BTreeMap::new();
    for (field, value) in object.0.iter().filter(|(field, _)| *field != "status") {
        let mut value = value.clone();
        if let (true, Some(metadata)) = (field == "metadata", value.as_object_mut()) {
            metadata.retain(|field, _| {
                !["managedFields", "resourceVersion", "generation"].contains(&field.as_str())
            });
        }
        content.insert(field.as_str(), value);
    }
    content
}
