//! Encrypts the Secrets in the ManifestWorkReplicaSets of a commit, before the commit is compared with the hub.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::sealing::Sealing;
use api::Manifest;
use api::addon::v1alpha1::AddOnTemplate;
use api::gitops::v1alpha1::{ConfigRepo, SecretHandling};
use api::names::{PLAIN_SECRET, SECRET_ANNOTATION};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::sync::Problem;
use object::{Gvk, Key, Object, RenderedObject};
use reconcile::{Query, Read, View};
use seal::HubKey;

/// The way in which the Secrets of a commit are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sealer {
    /// They are not encrypted.
    Plain,
    /// With the key of the hub.
    Hub(HubKey),
    /// In a preview, with the ciphertext of the same values in the sets on the hub.
    Preview(BTreeMap<Key, Vec<Manifest>>),
    /// The key of the hub is not known.
    Unknown,
}

impl Sealer {
    /// Returns how the Secrets of a ConfigRepo are encrypted.
    ///
    /// # Errors
    /// Fails if the sets on the hub cannot be read, in a preview.
    pub(super) fn of(repo: &ConfigRepo, view: &impl View) -> Read<Self> {
        if repo.spec.secrets == SecretHandling::Plain {
            return Ok(Self::Plain);
        }
        Ok(match Sealing::of(view).as_deref() {
            Some(Sealing::Preview) => {
                let sets = view.list_readable::<ManifestWorkReplicaSet>(Query::ALL)?;
                let manifests = |set: Arc<ManifestWorkReplicaSet>| {
                    (Key::of(set.as_ref()), set.spec.manifest_work_template.workload.manifests.clone())
                };
                Self::Preview(sets.into_iter().map(manifests).collect())
            }
            Some(Sealing::Hub(key)) => key.get().cloned().map_or(Self::Unknown, Self::Hub),
            None => Self::Unknown,
        })
    }

    /// Encrypts the Secrets in rendered sets. Sets without a namespace are in `namespace`.
    ///
    /// # Errors
    /// Returns the Secrets that cannot be encrypted.
    pub(super) fn seal(
        &self,
        namespace: &str,
        rendered: Vec<Arc<RenderedObject>>,
    ) -> Result<Vec<Arc<RenderedObject>>, Vec<Problem>> {
        if *self == Self::Plain {
            return Ok(rendered);
        }
        let (mut sealed, mut problems) = (Vec::new(), Vec::new());
        for one in rendered {
            match self.sealed(namespace, &one) {
                Ok(None) => sealed.push(one),
                Ok(Some(object)) => {
                    sealed.push(Arc::new(RenderedObject { object, ..RenderedObject::clone(&one) }));
                }
                Err(message) => {
                    let message = format!("{}: {message}", one.object.reference());
                    problems.push(Problem { reason: "InvalidObject", message, origin: one.origin.clone() });
                }
            }
        }
        if problems.is_empty() { Ok(sealed) } else { Err(problems) }
    }

    /// Returns an object with encrypted Secrets; `None` if it has none to encrypt.
    fn sealed(&self, namespace: &str, rendered: &RenderedObject) -> Result<Option<Object>, String> {
        let gvk = rendered.object.gvk();
        let is_set = is_kind(&gvk, &Gvk::of::<ManifestWorkReplicaSet>());
        let pointer = match () {
            () if is_set => "/manifestWorkTemplate/workload/manifests",
            () if is_kind(&gvk, &Gvk::of::<ManifestWork>()) => "/workload/manifests",
            () if is_kind(&gvk, &Gvk::of::<AddOnTemplate>()) => "/agentSpec/workload/manifests",
            () => return Ok(None),
        };
        let spec = rendered.object.at(&["spec"]);
        let manifests = spec.and_then(|spec| spec.pointer(pointer)?.as_array()).into_iter().flatten();
        let mut manifests: Vec<Manifest> =
            manifests.map(|manifest| manifest.as_object().cloned().unwrap_or_default()).collect();
        let mut secrets = manifests.iter().filter(|one| seal::is_secret(one) && !seal::is_plain(one));
        let Some(secret) = secrets.next() else { return Ok(None) };
        if !is_set {
            let name = Object(secret.clone()).key();
            return Err(format!(
                "with spec.secrets: Sealed, a Secret must be in a ManifestWorkReplicaSet; move the Secret {name} there, \
                 or annotate it with {SECRET_ANNOTATION}: {PLAIN_SECRET}"
            ));
        }
        let namespace = match rendered.object.namespace() {
            "" => rendered.release_namespace.as_deref().unwrap_or(namespace),
            own => own,
        };
        self.seal_set(&Key::namespaced(namespace, rendered.object.name()), &mut manifests)?;
        let mut object = rendered.object.clone();
        if let Some(at) = object.0.get_mut("spec").and_then(|spec| spec.pointer_mut(pointer)) {
            *at = manifests.into_iter().map(Value::Object).collect::<Vec<_>>().into();
        }
        Ok(Some(object))
    }

    fn seal_set(&self, set: &Key, manifests: &mut [Manifest]) -> Result<(), String> {
        match self {
            Self::Plain => Ok(()),
            Self::Hub(key) => key.seal(set, manifests),
            Self::Preview(live) => {
                HubKey::new(&[0; 32]).seal(set, manifests)?;
                seal::keep_live(manifests, live.get(set).map(Vec::as_slice).unwrap_or_default());
                Ok(())
            }
            Self::Unknown => {
                let reason = "see the operator's log, and its permissions on the Secret";
                Err(format!(
                    "the operator does not know its key to encrypt Secrets; {reason} {}",
                    api::names::SEALING_KEY_SECRET
                ))
            }
        }
    }
}

/// Returns true if two kinds are the same, in any version.
fn is_kind(gvk: &Gvk, other: &Gvk) -> bool {
    (&gvk.group, &gvk.kind) == (&other.group, &other.kind)
}
