//! The objects of a commit as they will be sent: checked, completed, and freed of what a repository has no say in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Id, Problem};
use crate::applier;
use api::{crds, names};
use object::hex;
use object::text;
use object::{Gvk, Key, Object, ObjectRef};

/// An object as it was rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The object.
    pub object: Object,
    /// File and line it came from.
    pub origin: String,
}

/// An object as it will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// What it is and where.
    pub reference: ObjectRef,
    /// With the marks of its owner.
    pub object: Object,
    /// Digest of the object without those marks; the live object carries it as a mark.
    pub digest: String,
    /// File and line it came from.
    pub origin: String,
}

/// Metadata that only the API server writes, or that names other objects of one cluster by uid.
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
];

/// Largest object that is sent: etcd takes requests of 1.5 MiB, and the server adds to what it stores.
const MAX_OBJECT_BYTES: usize = 1_400_000;

/// Checks and completes the objects of a commit, in stage order; `tenant` confines them to the namespace of the repository.
///
/// # Errors
/// All that is wrong with them; nothing of the commit may then be applied.
pub fn desired(repo: &Key, rendered: Vec<Rendered>, tenant: bool) -> Result<Vec<Desired>, Vec<Problem>> {
    let scopes = Scopes::of(&rendered);
    let mut problems = Vec::new();
    let mut found: BTreeMap<Id, Desired> = BTreeMap::new();
    for Rendered { object, origin } in rendered {
        let problem = |reason, message| Problem { reason, message, origin: origin.clone() };
        let desired = match complete(repo, object, &scopes, &origin) {
            Ok(desired) => desired,
            Err(why) => {
                problems.push(problem("InvalidObject", why));
                continue;
            }
        };
        if tenant && let Some(why) = out_of_bounds(repo, &desired, &scopes) {
            problems.push(problem("NotAllowed", why));
        }
        let id = Id::of(&desired.reference);
        if let Some(first) = found.get(&id) {
            let message = format!(
                "{id} is there twice; remove one of them, or give them different names (the other: {})",
                first.origin
            );
            problems.push(problem("DuplicateObject", message));
        } else {
            found.insert(id, desired);
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut desired: Vec<_> = found.into_values().collect();
    desired.sort_by_key(|desired| super::stage(&desired.reference.gvk));
    Ok(desired)
}

/// The digest of a whole commit's objects.
pub fn digest(desired: &[Desired]) -> String {
    let parts: BTreeSet<_> = desired.iter().map(|d| format!("{} {}\n", d.reference, d.digest)).collect();
    short(parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)))
}

/// 64 bits are plenty to tell versions of one object apart.
fn short(hash: Sha256) -> String {
    hex(hash.finalize().get(..8).unwrap_or_default())
}

fn complete(repo: &Key, mut object: Object, scopes: &Scopes, origin: &str) -> Result<Desired, String> {
    let what = object.reference();
    if what.gvk.version.is_empty() || what.gvk.kind.is_empty() {
        return Err("an object has no apiVersion or no kind".into());
    }
    if what.key.name.is_empty() {
        return Err(format!(
            "an object of kind {} has no metadata.name; generateName cannot be applied",
            what.gvk
        ));
    }
    let size = serde_json::to_vec(&object).map_or(usize::MAX, |bytes| bytes.len());
    if size > MAX_OBJECT_BYTES {
        return Err(format!("{what} has {size} bytes, and an API server takes {MAX_OBJECT_BYTES} at most"));
    }
    object.0.remove("status");
    let metadata = object.metadata_mut();
    for field in SERVER_FIELDS {
        metadata.remove(*field);
    }
    let scope = scopes.is_namespaced(&what.gvk);
    if scope == Some(false) {
        metadata.remove("namespace");
    } else if scope == Some(true) && what.key.namespace.is_empty() {
        metadata.insert("namespace".into(), repo.namespace.clone().into());
    }
    for mark in
        [names::CONFIG_REPO_ANNOTATION, names::APPLIED_DIGEST_ANNOTATION, names::LAST_APPLIED_ANNOTATION]
    {
        metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
            .map(|annotations| annotations.remove(mark));
    }
    let bytes = serde_json::to_vec(&object).map_err(|e| format!("{what} cannot be written as JSON: {e}"))?;
    let digest = short(Sha256::new_with_prefix(bytes));
    mark(&mut object, repo, &digest)?;
    Ok(Desired { reference: object.reference(), object, digest, origin: origin.to_owned() })
}

fn mark(object: &mut Object, repo: &Key, digest: &str) -> Result<(), String> {
    let what = object.reference();
    let slot =
        object.metadata_mut().entry("annotations").or_insert_with(|| Value::Object(Default::default()));
    if slot.is_null() {
        *slot = Value::Object(Default::default());
    }
    let annotations =
        slot.as_object_mut().ok_or_else(|| format!("metadata.annotations of {what} is not a map"))?;
    annotations.insert(names::CONFIG_REPO_ANNOTATION.into(), repo.to_string().into());
    annotations.insert(names::APPLIED_DIGEST_ANNOTATION.into(), digest.into());
    Ok(())
}

/// Why a repository that is confined to its namespace may not hold an object.
fn out_of_bounds(repo: &Key, desired: &Desired, scopes: &Scopes) -> Option<String> {
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
    let escalates = matches!(gvk.group.as_str(), "rbac.authorization.k8s.io" | names::GITOPS_GROUP);
    escalates.then(|| format!("{} could give it more rights: {hint}", desired.reference))
}

/// Which kinds live in namespaces, as far as it is known without asking the hub.
struct Scopes {
    in_commit: BTreeMap<(String, String), bool>,
}

impl Scopes {
    fn of(rendered: &[Rendered]) -> Self {
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
            let scope = |crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
                ((crd.spec.group, crd.spec.names.kind), crd.spec.scope == "Namespaced")
            };
            crds::all().into_iter().map(scope).collect()
        });
        let name = (gvk.group.clone(), gvk.kind.clone());
        let builtin = || {
            let (with, without) = (applier::is_namespaced(gvk, "x"), applier::is_namespaced(gvk, ""));
            (with == without).then_some(with)
        };
        self.in_commit.get(&name).or_else(|| OURS.get(&name)).copied().or_else(builtin)
    }
}

/// The message of a list of problems: the worst few, and how many there are.
pub fn summary(problems: &[Problem]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> =
        problems.iter().take(SHOWN).map(|problem| text::plain(&problem.to_string(), 400)).collect();
    let more = problems.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join("; "))
}
