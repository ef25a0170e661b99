//! Encrypts the Secrets in the ManifestWorkReplicaSets and AddOnTemplates of a commit, before the commit is compared
//! with the hub.
//!
//! Secrets in ManifestWorks are refused: nothing would hold such a work back from an agent without a key, which would
//! apply the ciphertext.

use std::sync::Arc;

use serde_json::Value;

use crate::sealing::{SealedSecrets, Sealing};
use api::Manifest;
use api::gitops::v1alpha1::{ConfigRepo, SecretHandling};
use api::names::{PLAIN_SECRET, SECRET_ANNOTATION};
use engine::sync::Problem;
use engine::work::manifests_at;
use object::{Key, Object, RenderedObject};
use reconcile::View;
use seal::{HubKey, Owner};

/// The way in which the Secrets of a commit are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sealer {
    /// They are not encrypted.
    Plain,
    /// With the key of the hub.
    Hub(HubKey),
    /// In a preview, with the ciphertext of the same values on the hub.
    Preview(Arc<SealedSecrets>),
    /// The key of the hub is not known.
    Unknown,
}

impl Sealer {
    /// Returns how the Secrets of a ConfigRepo are encrypted.
    pub(super) fn of(repo: &ConfigRepo, view: &impl View) -> Self {
        if repo.spec.secrets == SecretHandling::Plain {
            return Self::Plain;
        }
        match Sealing::of(view).as_deref() {
            Some(Sealing::Preview(live)) => Self::Preview(Arc::clone(live)),
            Some(Sealing::Hub(key)) => key.get().cloned().map_or(Self::Unknown, Self::Hub),
            None => Self::Unknown,
        }
    }

    /// Encrypts the Secrets in rendered sets and templates. Sets without a namespace are in `namespace`.
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
        let Some(pointer) = manifests_at(&rendered.object.gvk()) else { return Ok(None) };
        let spec = rendered.object.at(&["spec"]);
        let manifests = spec.and_then(|spec| spec.pointer(pointer)?.as_array()).into_iter().flatten();
        let mut manifests: Vec<Manifest> =
            manifests.map(|manifest| manifest.as_object().cloned().unwrap_or_default()).collect();
        let mut secrets = manifests.iter().filter(|one| seal::is_secret(one) && !seal::is_plain(one));
        let Some(secret) = secrets.next() else { return Ok(None) };
        let Some(owner) = owner(namespace, rendered) else {
            let name = Object(secret.clone()).key();
            return Err(format!(
                "with spec.secrets: Sealed, a ManifestWork cannot contain Secrets; move the Secret {name} to a \
                 ManifestWorkReplicaSet or an AddOnTemplate, or annotate it with {SECRET_ANNOTATION}: {PLAIN_SECRET}"
            ));
        };
        self.seal_manifests(&owner, &mut manifests)?;
        let mut object = rendered.object.clone();
        if let Some(at) = object.0.get_mut("spec").and_then(|spec| spec.pointer_mut(pointer)) {
            *at = manifests.into_iter().map(Value::Object).collect::<Vec<_>>().into();
        }
        Ok(Some(object))
    }

    fn seal_manifests(&self, owner: &Owner, manifests: &mut [Manifest]) -> Result<(), String> {
        match self {
            Self::Plain => Ok(()),
            Self::Hub(key) => key.seal(owner, manifests),
            Self::Preview(live) => {
                HubKey::new(&[0; 32]).seal(owner, manifests)?;
                seal::keep_live(manifests, live.get(owner).map(Vec::as_slice).unwrap_or_default());
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

/// Returns the set or template for which Secrets are encrypted; `None` for a ManifestWork.
fn owner(namespace: &str, rendered: &RenderedObject) -> Option<Owner> {
    let object = &rendered.object;
    match object.kind() {
        "ManifestWorkReplicaSet" => {
            let namespace = match object.namespace() {
                "" => rendered.release_namespace.as_deref().unwrap_or(namespace),
                own => own,
            };
            Some(Owner::Set(Key::namespaced(namespace, object.name())))
        }
        "AddOnTemplate" => Some(Owner::Template(object.name().to_owned())),
        _ => None,
    }
}
