//! Completes the objects of a commit: validates them and removes fields that a repository may not set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::argo;
use super::budget::cascades;
use super::ignore::FieldPath;
use super::{ObjectId, Problem};
use crate::work::manifests_at;
use api::{crds, names};
use object::builtin_lists::BUILTIN;
use object::hex;
use object::{Gvk, Key, Location, Object, ObjectRef, RenderedObject};

/// The completed objects of a commit. They are built once per commit and shared by all its plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// The objects, in stage order.
    pub objects: Vec<Arc<DesiredObject>>,
    /// The digest of all objects.
    pub digest: String,
    /// The scopes of the kinds that the commit defines.
    scopes: Scopes,
}

/// A completed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredObject {
    /// The kind, namespace and name of the object.
    pub reference: ObjectRef,
    /// The object, without our ownership annotations.
    pub object: Object,
    /// The digest of the object, which the live object has as an annotation.
    pub digest: String,
    /// The rule for applying the object.
    pub apply: ApplyRule,
    /// True if the object is deleted and recreated when one of its fields is immutable.
    pub is_recreated: bool,
    /// The fields that keep their live values.
    pub(super) ignored: Vec<FieldPath>,
    /// The place in the repository that the object comes from.
    pub origin: Location,
    /// The object as rendered.
    rendered: Arc<RenderedObject>,
}

/// The rule for applying an object, from its annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyRule {
    /// Applies the object whenever it differs from the commit.
    #[default]
    Always,
    /// Like `Always`, but fields that kubectl applied stay with kubectl.
    Merge,
    /// Creates the object if none has its name, and never changes it.
    IfNotPresent,
    /// Never applies or deletes the object.
    Ignore,
}

impl ApplyRule {
    fn parse(object: &Object) -> Result<Self, String> {
        match object.annotations().get(names::APPLY_ANNOTATION) {
            None | Some(&"Always") => Ok(Self::Always),
            Some(&"Merge") => Ok(Self::Merge),
            Some(&"IfNotPresent") => Ok(Self::IfNotPresent),
            Some(&"Ignore") => Ok(Self::Ignore),
            Some(other) => Err(format!(
                "the annotation {} of {} must be Always, Merge, IfNotPresent or Ignore, not {other:?}",
                names::APPLY_ANNOTATION,
                object.reference()
            )),
        }
    }
}

/// Returns true if an object is deleted and recreated when one of its fields is immutable. This is allowed only
/// if its deletion affects nothing else, such as the content of a namespace or an add-on on clusters.
fn is_recreated(object: &Object) -> Result<bool, String> {
    let annotation = names::FORCE_ANNOTATION;
    let reference = object.reference();
    let group = reference.gvk.group.as_str();
    let is_of_fleet = group == names::GITOPS_GROUP || group.ends_with(".open-cluster-management.io");
    match object.annotations().get(annotation) {
        None | Some(&"disabled") => Ok(false),
        Some(&"enabled") if is_of_fleet || cascades(&ObjectId::of(&reference)) => Err(format!(
            "{reference} cannot have the annotation {annotation}: deleting it would delete more than the object"
        )),
        Some(&"enabled") => Ok(true),
        Some(other) => Err(format!(
            "the annotation {annotation} of {reference} must be enabled or disabled, not {other:?}"
        )),
    }
}

/// Metadata that is reserved for the API server and controllers, or that refers to other objects of one cluster
/// by uid. A finalizer that nobody removes would block the deletion of an object forever.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
    "ownerReferences",
    "finalizers",
];

/// Annotations that a repository may not set: annotations that only we or `kubectl apply` write, and approvals
/// and requests by people. A commit must not weaken the protection against its own deletions.
const FOREIGN_ANNOTATIONS: [&str; 21] = [
    names::CONFIG_REPO_ANNOTATION,
    names::APPLIED_DIGEST_ANNOTATION,
    names::LAST_APPLIED_ANNOTATION,
    names::APPROVE_DELETION_ANNOTATION,
    names::APPROVE_PLAN_ANNOTATION,
    names::ACCEPT_REVISION_ANNOTATION,
    names::RECONCILE_AT_ANNOTATION,
    names::WEBHOOK_AT_ANNOTATION,
    names::INSTALLED_BY_ANNOTATION,
    names::COPIED_ANNOTATIONS_ANNOTATION,
    names::REMOVAL_DECIDED_ANNOTATION,
    names::ADD_ONS_OWNED_ANNOTATION,
    names::ROLLOUT_POLICY_ANNOTATION,
    names::TEMPLATE_HASH_ANNOTATION,
    names::ASSIGNED_AT_ANNOTATION,
    names::RECOVERED_AT_ANNOTATION,
    names::SUCCEEDED_AT_ANNOTATION,
    names::LAST_GOOD_TEMPLATE_ANNOTATION,
    names::PLACEMENTS_ANNOTATION,
    names::LEFT_SINCE_ANNOTATION,
    names::SEALED_KEYS_ANNOTATION,
];

/// The maximum size of an object that is sent. etcd accepts requests of 1.5 MiB, and the server adds to the
/// objects that it stores.
const MAX_OBJECT_BYTES: usize = 1_400_000;

impl Desired {
    /// Returns the identities of the objects.
    pub fn ids(&self) -> BTreeSet<ObjectId> {
        self.objects.iter().map(|object| ObjectId::of(&object.reference)).collect()
    }

    /// Validates and completes the rendered objects of a commit of `repo`. Objects without a namespace get
    /// `namespace`. A confined repository may only contain objects in the namespace of `repo`. Objects that are
    /// unchanged since `last`, an earlier commit of the same repository, are shared with it.
    ///
    /// # Errors
    /// Returns all problems of the objects. In that case, no part of the commit may be applied.
    pub fn complete(
        repo: &Key,
        namespace: &str,
        rendered: Vec<Arc<RenderedObject>>,
        is_confined: bool,
        last: Option<&Self>,
    ) -> Result<Self, Vec<Problem>> {
        let scopes = Scopes::new(&rendered);
        let known = Self::by_rendered(last.filter(|last| last.scopes == scopes));
        let mut problems = Vec::new();
        let mut found: BTreeMap<ObjectId, Arc<DesiredObject>> = BTreeMap::new();
        for rendered in rendered {
            let origin = rendered.origin.clone();
            let completed = match known.get(&Arc::as_ptr(&rendered)) {
                Some(known) => Ok(Arc::clone(known)),
                None => DesiredObject::complete(namespace, &rendered, &scopes).map(Arc::new),
            };
            let desired = match completed {
                Ok(desired) => desired,
                Err(message) => {
                    problems.push(Problem { reason: "InvalidObject", message, origin });
                    continue;
                }
            };
            if is_confined && let Some(message) = confinement_breach(repo, &desired, &scopes) {
                problems.push(Problem { reason: "NotAllowed", message, origin: origin.clone() });
            }
            let id = ObjectId::of(&desired.reference);
            if let Some(first) = found.get(&id) {
                let first = &first.origin;
                let message = format!(
                    "the repository has {id} twice; remove one of them, or give them different names (the other: {first})"
                );
                problems.push(Problem { reason: "DuplicateObject", message, origin });
            } else {
                found.insert(id, desired);
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut objects: Vec<_> = found.into_values().collect();
        objects.sort_by_key(|desired| crate::order::hub_stage(&desired.reference.gvk));
        Ok(Self { digest: digest(&objects), objects, scopes })
    }

    /// Returns the objects by the address of their rendered object. The addresses are unique, because each
    /// object keeps its rendered object alive.
    fn by_rendered(last: Option<&Self>) -> BTreeMap<*const RenderedObject, &Arc<DesiredObject>> {
        let objects = last.into_iter().flat_map(|last| &last.objects);
        objects.map(|object| (Arc::as_ptr(&object.rendered), object)).collect()
    }

    /// Returns the hash of the plan that changes the objects with digest `before` to these ones. It excludes
    /// commit hashes, so a merge has the same plan as its branch.
    ///
    /// A person approves this hash, so it is longer than a digest: an attacker must not be able to craft two
    /// commits with the same hash.
    pub fn plan_hash(&self, before: &str) -> String {
        let mut hash = Sha256::new_with_prefix(format!("{before}\n"));
        for desired in &self.objects {
            let bytes = serde_json::to_vec(&desired.object).unwrap_or_default();
            hash.update(format!("{} {}\n", desired.reference, bytes.len()));
            hash.update(bytes);
        }
        hex(hash.finalize().get(..16).unwrap_or_default())
    }

    /// Returns the place in the repository that an object comes from.
    pub fn origin(&self, reference: &ObjectRef) -> Option<&Location> {
        self.objects.iter().find(|desired| desired.reference == *reference).map(|desired| &desired.origin)
    }

    /// Returns the namespaces that the objects need and that the commit does not create.
    pub fn required_namespaces(&self) -> BTreeSet<String> {
        let created: BTreeSet<&str> = self
            .objects
            .iter()
            .filter(|desired| desired.reference.gvk.kind == "Namespace")
            .map(|desired| desired.reference.key.name.as_str())
            .collect();
        let used: BTreeSet<&str> = self
            .objects
            .iter()
            .map(|desired| desired.reference.key.namespace.as_str())
            .filter(|namespace| !namespace.is_empty())
            .collect();
        used.difference(&created).map(|namespace| (*namespace).to_owned()).collect()
    }
}

impl DesiredObject {
    /// Returns the sync phase in which Argo CD applies the object; `None` if it is not a hook.
    pub fn hook(&self) -> Option<&str> {
        argo::hook(&self.object)
    }

    /// Returns the object to send, with the annotations that mark the ConfigRepo as its owner.
    pub(super) fn marked(&self, object: &Object, repo: &Key) -> Object {
        let mut object = object.clone();
        let annotations = object.metadata_mut().entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = Value::Object(serde_json::Map::new());
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(names::CONFIG_REPO_ANNOTATION.into(), repo.to_string().into());
            annotations.insert(names::APPLIED_DIGEST_ANNOTATION.into(), self.digest.clone().into());
        }
        object
    }

    fn complete(namespace: &str, rendered: &Arc<RenderedObject>, scopes: &Scopes) -> Result<Self, String> {
        let mut object = rendered.object.clone();
        let reference = object.reference();
        if reference.gvk.version.is_empty() || reference.gvk.kind.is_empty() {
            return Err("an object has no apiVersion or no kind".into());
        }
        if reference.key.name.is_empty() {
            return Err(format!(
                "an object of kind {} has no metadata.name; generateName cannot be applied",
                reference.gvk
            ));
        }
        if reference.gvk.group == names::GITOPS_GROUP && reference.gvk.kind == "ConfigRepoInventory" {
            return Err(format!("{reference}: the operator alone writes inventories; remove it"));
        }
        if let Some(manifest) = manifest_without_namespace(&object) {
            return Err(format!(
                "{reference}: its manifest {manifest} has no metadata.namespace, so no cluster can apply it"
            ));
        }
        object.0.remove("status");
        let metadata = object.metadata_mut();
        for field in SERVER_FIELDS {
            metadata.remove(*field);
        }
        match scopes.is_namespaced(&reference.gvk) {
            Some(false) => {
                metadata.remove("namespace");
            }
            Some(true) if reference.key.namespace.is_empty() => {
                let namespace = rendered.release_namespace.as_deref().unwrap_or(namespace);
                metadata.insert("namespace".into(), namespace.into());
            }
            Some(true) | None => {}
        }
        match metadata.get_mut("annotations") {
            Some(Value::Object(annotations)) => {
                for annotation in FOREIGN_ANNOTATIONS {
                    annotations.remove(annotation);
                }
            }
            Some(Value::Null) | None => {}
            Some(_) => return Err(format!("metadata.annotations of {reference} is not a map")),
        }
        argo::untrack(&mut object);
        let bytes = serde_json::to_vec(&object)
            .map_err(|error| format!("{reference} cannot be written as JSON: {error}"))?;
        if bytes.len() > MAX_OBJECT_BYTES {
            return Err(format!(
                "{reference} has {} bytes, and an API server accepts at most {MAX_OBJECT_BYTES}",
                bytes.len()
            ));
        }
        let digest = short_hex(Sha256::new_with_prefix(bytes));
        let (apply, is_recreated) = (ApplyRule::parse(&object)?, is_recreated(&object)?);
        let ignored = FieldPath::parse_annotation(&object)?;
        let (reference, origin, rendered) =
            (object.reference(), rendered.origin.clone(), Arc::clone(rendered));
        Ok(Self { reference, object, digest, apply, is_recreated, ignored, origin, rendered })
    }
}

/// Returns the first manifest of a work or set that needs a namespace and has none. Agents do not complete manifests.
fn manifest_without_namespace(object: &Object) -> Option<String> {
    let gvk = object.gvk();
    let at = manifests_at(&gvk).filter(|_| gvk.group == names::WORK_GROUP)?;
    object.at(&["spec"])?.pointer(at)?.as_array()?.iter().find_map(|manifest| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&manifest["kind"]), &manifest["metadata"]);
        let is_namespaced = BUILTIN.is_namespaced(&text(&manifest["apiVersion"]), &kind) == Some(true);
        let needs_one = is_namespaced && text(&metadata["namespace"]).is_empty();
        needs_one.then(|| format!("{kind} {}", text(&metadata["name"])))
    })
}

/// Returns the digest of all objects of a commit.
fn digest(objects: &[Arc<DesiredObject>]) -> String {
    let parts: BTreeSet<_> = objects.iter().map(|d| format!("{} {}\n", d.reference, d.digest)).collect();
    short_hex(parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)))
}

/// Returns the first 64 bits of a hash, which are enough to distinguish the versions of one object.
pub(super) fn short_hex(hash: Sha256) -> String {
    hex(hash.finalize().get(..8).unwrap_or_default())
}

/// Returns the reason that a confined ConfigRepo may not contain an object; `None` if it may.
///
/// The API server decides if the service account may write the object. The confinement prevents the ConfigRepo
/// from comparing objects that the account cannot read, and from creating ConfigRepos with another identity.
fn confinement_breach(repo: &Key, desired: &DesiredObject, scopes: &Scopes) -> Option<String> {
    let ObjectRef { gvk, key } = &desired.reference;
    let hint = "this ConfigRepo has a serviceAccountName, which confines it to its namespace; move the object to a ConfigRepo without one";
    if scopes.is_namespaced(gvk) == Some(false) || key.namespace.is_empty() {
        return Some(format!("{} is cluster-scoped: {hint}", desired.reference));
    }
    if key.namespace != repo.namespace {
        return Some(format!(
            "{} is in another namespace than {}: {hint}",
            desired.reference, repo.namespace
        ));
    }
    (gvk.group == names::GITOPS_GROUP)
        .then(|| format!("{} could act as another identity: {hint}", desired.reference))
}

/// The scopes of kinds that are known without a request to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scopes {
    in_commit: BTreeMap<(String, String), bool>,
}

impl Scopes {
    fn new(rendered: &[Arc<RenderedObject>]) -> Self {
        let definitions = rendered.iter().filter(|r| r.object.kind() == "CustomResourceDefinition");
        let in_commit = definitions.filter_map(|r| {
            let field = |path: &[&str]| r.object.at(path).and_then(Value::as_str).map(str::to_owned);
            let scope = field(&["spec", "scope"])?;
            Some(((field(&["spec", "group"])?, field(&["spec", "names", "kind"])?), scope == "Namespaced"))
        });
        Self { in_commit: in_commit.collect() }
    }

    fn is_namespaced(&self, gvk: &Gvk) -> Option<bool> {
        static OURS: LazyLock<BTreeMap<(String, String), bool>> = LazyLock::new(|| {
            let specs = crds::all().into_iter().map(|crd| crd.spec);
            specs.map(|spec| ((spec.group, spec.names.kind), spec.scope == "Namespaced")).collect()
        });
        let name = (gvk.group.clone(), gvk.kind.clone());
        let builtin = || BUILTIN.is_namespaced(&gvk.api_version(), &gvk.kind);
        // A definition in the commit cannot change the scope of built-in kinds.
        OURS.get(&name).copied().or_else(builtin).or_else(|| self.in_commit.get(&name).copied())
    }
}
