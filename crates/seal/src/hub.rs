//! The key of a hub, which encrypts values and derives their keys.

use std::fmt::{Debug, Formatter};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cipher::{KEY, derived, encrypted, mac};
use crate::identity::{Identity, Recipient};
use crate::keys;
use crate::owner::Owner;
use crate::secret::{self, MAX_VALUES, Place, is_plain, is_secret, named};
use api::Manifest;
use api::names::{PLAIN_SECRET, SEALED_SECRET, SECRET_ANNOTATION};
use object::Key;

/// The secret of a hub.
#[derive(Clone, PartialEq, Eq)]
pub struct HubKey {
    macs: [u8; KEY],
    values: [u8; KEY],
    ephemeral: [u8; KEY],
}

impl Debug for HubKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("HubKey")
    }
}

impl HubKey {
    /// Returns the key of 32 random bytes.
    pub fn new(random: &[u8; KEY]) -> Self {
        let part = |info| derived(b"gitops.wheelwright.dev/sealed/v1", random, info);
        Self { macs: part("macs"), values: part("values"), ephemeral: part("ephemeral") }
    }

    /// Encrypts the values of the Secrets in a set or a template, except those that say that they need no encryption.
    ///
    /// # Errors
    /// Returns the Secret and the name of the value that cannot be encrypted.
    pub fn seal(&self, owner: &Owner, manifests: &mut [Manifest]) -> Result<(), String> {
        let secrets = manifests.iter_mut().filter(|manifest| is_secret(manifest) && !is_plain(manifest));
        for manifest in secrets {
            self.seal_secret(owner, manifest).map_err(|reason| format!("{} {reason}", named(manifest)))?;
        }
        match keys::sealed(manifests).count() {
            0..=MAX_VALUES => Ok(()),
            many => Err(format!("the Secrets have {many} values, but at most {MAX_VALUES} can be encrypted")),
        }
    }

    fn seal_secret(&self, owner: &Owner, manifest: &mut Manifest) -> Result<(), String> {
        if secret::is_sealed(manifest) {
            let reason = "which only the operator sets; remove the annotation";
            return Err(format!("has the annotation {SECRET_ANNOTATION}: {SEALED_SECRET}, {reason}"));
        }
        if let Owner::Template(_) = owner
            && let Some(field) = secret::variable(manifest)
        {
            return Err(format!(
                "has a variable in {field}, which cannot be replaced in an encrypted Secret; remove the variable, or \
                 annotate the Secret with {SECRET_ANNOTATION}: {PLAIN_SECRET}"
            ));
        }
        let plain = secret::take_plaintext(manifest)?;
        secret::mark(manifest, true);
        if !secret::is_sealed(manifest) {
            return Err("has annotations that are not a map".into());
        }
        let (namespace, name) = {
            let object = object::Object(manifest.clone());
            (object.namespace().to_owned(), object.name().to_owned())
        };
        let sealed = plain.into_iter().map(|(key, plain)| {
            let context = owner.context(Place { namespace: &namespace, secret: &name, name: &key });
            let mac = mac(&self.macs, [context.as_slice(), &plain]);
            let sealed = encrypted(&self.key_of(&context, &mac), &[], &plain);
            (key, secret::value(&mac, &sealed))
        });
        manifest.insert("data".into(), sealed.collect::<serde_json::Map<_, _>>().into());
        Ok(())
    }

    /// Returns the annotation of a work with the keys of its encrypted values. The keys of values that were not
    /// encrypted for this owner are useless.
    pub fn keys(&self, owner: &Owner, work: &Key, manifests: &[Manifest], recipient: &Recipient) -> String {
        let keys = keys::sealed(manifests).map(|value| {
            value.parts.as_ref().map_or([0; KEY], |(mac, _)| self.key_of(&owner.context(value.place), mac))
        });
        let keys = keys.collect::<Vec<_>>().concat();
        let context = keys::context(work, manifests);
        let ephemeral = mac(&self.ephemeral, [recipient.0.as_slice(), &context, &keys]);
        let ephemeral = Identity::new(ephemeral);
        let share = ephemeral.recipient();
        // A public key that no private key has gets keys that it cannot read.
        let shared = ephemeral.shared(recipient).unwrap_or(self.ephemeral);
        let sealed = encrypted(&keys::wrapping_key(&share, recipient, &shared), &context, &keys);
        format!("{recipient} {}", STANDARD.encode([share.0.as_slice(), &sealed].concat()))
    }

    /// Returns the key of a value.
    fn key_of(&self, context: &[u8], of_plain: &[u8; KEY]) -> [u8; KEY] {
        mac(&self.values, [context, of_plain])
    }
}
