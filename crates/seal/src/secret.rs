//! Secrets among the manifests of a work.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::cipher::{KEY, encoded};
use api::Manifest;
use api::names::{PLAIN_SECRET, SEALED_SECRET, SECRET_ANNOTATION};

/// Maximum number of encrypted values in a work. Their keys take 175 kB of the 256 KiB of all annotations.
pub const MAX_VALUES: usize = 4096;

/// Returns true if a manifest is a Secret.
pub fn is_secret(manifest: &Manifest) -> bool {
    text(manifest, "apiVersion") == "v1" && text(manifest, "kind") == "Secret"
}

/// Returns true if a Secret says that its values need no encryption.
pub fn is_plain(manifest: &Manifest) -> bool {
    annotation(manifest) == Some(PLAIN_SECRET)
}

/// Returns true if the values of a Secret are encrypted.
pub fn is_sealed(manifest: &Manifest) -> bool {
    is_secret(manifest) && annotation(manifest) == Some(SEALED_SECRET)
}

/// Returns true if the values of a Secret among manifests are encrypted.
pub fn has_sealed(manifests: &[Manifest]) -> bool {
    manifests.iter().any(is_sealed)
}

/// Returns true if the values of a Secret among manifests are neither encrypted nor declared as plain.
pub fn has_plaintext<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> bool {
    manifests.into_iter().any(|manifest| is_secret(manifest) && !is_sealed(manifest) && !is_plain(manifest))
}

/// Replaces encrypted values with the values in the live Secrets of the same name, for a preview without the key of
/// the hub.
pub fn keep_live(manifests: &mut [Manifest], live: &[Manifest]) {
    let place = |secret: &Manifest| ["namespace", "name"].map(|field| metadata(secret, field).to_owned());
    for secret in manifests.iter_mut().filter(|manifest| is_sealed(manifest)) {
        let mut same = live.iter().filter(|live| is_sealed(live) && place(live) == place(secret));
        let Some(known) = same.next().and_then(|live| live.get("data")?.as_object()) else { continue };
        let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) else { continue };
        for (name, value) in data {
            if let Some(known) = known.get(name) {
                value.clone_from(known);
            }
        }
    }
}

/// The place of a value.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    /// Returns the place as it is authenticated with the keys of a work.
    pub(crate) fn context(self) -> Vec<u8> {
        encoded([self.namespace, self.secret, self.name].map(str::as_bytes))
    }
}

/// An encrypted value.
pub(crate) struct SealedValue<'a> {
    pub(crate) place: Place<'a>,
    /// The MAC of the plaintext, from which its key is derived; `None` if the value is malformed.
    pub(crate) parts: Option<([u8; KEY], Vec<u8>)>,
}

/// Returns the encrypted values of a Secret, in the order of their names.
pub(crate) fn values(secret: &Manifest) -> impl Iterator<Item = SealedValue<'_>> {
    let [namespace, secret_name] = ["namespace", "name"].map(|field| metadata(secret, field));
    let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
    let mut data: Vec<_> = data.collect();
    data.sort_by_key(|(name, _)| *name);
    data.into_iter().map(move |(name, value)| SealedValue {
        place: Place { namespace, secret: secret_name, name },
        parts: value.as_str().and_then(parts),
    })
}

fn parts(value: &str) -> Option<([u8; KEY], Vec<u8>)> {
    let bytes = STANDARD.decode(value).ok()?;
    let (mac, sealed) = bytes.split_at_checked(KEY)?;
    Some((mac.try_into().ok()?, sealed.to_vec()))
}

/// Returns an encrypted value as it is in the data of a Secret.
pub(crate) fn value(mac: &[u8; KEY], sealed: &[u8]) -> Value {
    STANDARD.encode([mac.as_slice(), sealed].concat()).into()
}

/// Returns the field of a Secret with a variable of an AddOnTemplate that encryption would keep from being replaced:
/// its name, or a value or the name of a value.
pub(crate) fn variable(secret: &Manifest) -> Option<String> {
    let is_variable = |text: &str| text.contains("{{");
    if is_variable(metadata(secret, "name")) {
        return Some("metadata.name".into());
    }
    ["data", "stringData"].into_iter().find_map(|field| {
        let mut values = secret.get(field)?.as_object()?.iter();
        let (name, _) =
            values.find(|(name, value)| is_variable(name) || value.as_str().is_some_and(is_variable))?;
        Some(format!("{field}.{name}"))
    })
}

/// Takes the plaintext of a Secret, in the order of the names.
///
/// # Errors
/// Returns the rest of a sentence about the Secret.
pub(crate) fn take_plaintext(secret: &mut Manifest) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut plain = std::collections::BTreeMap::new();
    for field in ["data", "stringData"] {
        let values = match secret.remove(field) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(values)) => values,
            Some(_) => return Err(format!("has a field {field} that is not a map")),
        };
        for (name, value) in values {
            let bytes = match &value {
                Value::String(text) if field == "stringData" => Some(text.clone().into_bytes()),
                Value::String(text) => STANDARD.decode(text.replace(['\n', '\r'], "")).ok(),
                Value::Null => Some(Vec::new()),
                _ => None,
            };
            let expected = if field == "data" { "base64" } else { "text" };
            plain.insert(name.clone(), bytes.ok_or_else(|| format!("has no {expected} in {field}.{name}"))?);
        }
    }
    Ok(plain.into_iter().collect())
}

/// Sets or removes the annotation that the values of a Secret are encrypted.
pub(crate) fn mark(secret: &mut Manifest, is_sealed: bool) {
    let metadata = secret.entry("metadata").or_insert_with(|| Map::new().into());
    let Some(metadata) = metadata.as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
    if annotations.is_null() {
        *annotations = Map::new().into();
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    if is_sealed {
        annotations.insert(SECRET_ANNOTATION.into(), SEALED_SECRET.into());
    } else {
        annotations.remove(SECRET_ANNOTATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Returns a Secret as it is called in messages.
pub(crate) fn named(secret: &Manifest) -> String {
    format!("the Secret {}/{}", metadata(secret, "namespace"), metadata(secret, "name"))
}

fn text<'a>(manifest: &'a Manifest, field: &str) -> &'a str {
    manifest.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn metadata<'a>(manifest: &'a Manifest, field: &str) -> &'a str {
    manifest.get("metadata").and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default()
}

fn annotation(manifest: &Manifest) -> Option<&str> {
    manifest.get("metadata")?.get("annotations")?.get(SECRET_ANNOTATION)?.as_str()
}
