//! Reads the metadata of a file: its recipients, its rule and its MAC.

use crate::age;
use crate::cipher::DataKey;
use crate::error::Error;
use crate::keys::Keys;
use crate::limits::{MAX_METADATA_FIELDS, MAX_RECIPIENTS, MAX_WRAPPED_BYTES};
use crate::openpgp;
use crate::rule::Rule;
use crate::tree::Value;

/// The fields with recipients of which we have no keys, and their names.
const SERVICES: [(&str, &str); 6] = [
    ("kms", "AWS KMS"),
    ("gcp_kms", "GCP KMS"),
    ("azure_kv", "Azure Key Vault"),
    ("hc_vault", "HashiCorp Vault"),
    ("hckms", "HuaweiCloud KMS"),
    ("key_groups", "key groups (Shamir)"),
];
/// The levels of metadata, of which the deepest are the recipients in a key group.
const LEVELS: usize = 5;
/// The recipients that a message names.
const SHOWN: usize = 5;

/// The metadata of a file.
pub(crate) struct Metadata {
    pub(crate) rule: Rule,
    pub(crate) mac: String,
    /// The time of the last change, with which the MAC was encrypted.
    pub(crate) last_modified: String,
    /// True if the MAC does not cover plain values.
    pub(crate) covers_encrypted_only: bool,
    recipients: Vec<Recipient>,
    services: Vec<&'static str>,
}

/// A data key that is wrapped for one recipient.
struct Recipient {
    kind: Kind,
    name: String,
    wrapped: String,
}

#[derive(Clone, Copy)]
enum Kind {
    Age,
    OpenPgp,
}

impl Metadata {
    /// Reads the value of the field `sops`.
    pub(crate) fn parse(metadata: &Value) -> Result<Self, Error> {
        let text = |field: &str| {
            let missing = || Error::Malformed(format!("its metadata has no {field}"));
            metadata.text_at(field).map(str::to_owned).ok_or_else(missing)
        };
        let mut recipients = recipients(metadata, Kind::Age);
        recipients.extend(self::recipients(metadata, Kind::OpenPgp));
        if recipients.len() > MAX_RECIPIENTS {
            return Err(Error::Malformed(format!("it has more than {MAX_RECIPIENTS} recipients")));
        }
        let is_used =
            |(field, _): &&(&str, &str)| metadata.get(field).is_some_and(|field| !items(field).is_empty());
        Ok(Self {
            rule: Rule::parse(metadata)?,
            mac: text("mac")?,
            last_modified: text("lastmodified")?,
            covers_encrypted_only: match metadata.get("mac_only_encrypted") {
                Some(Value::Bool(only)) => *only,
                _ => metadata.text_at("mac_only_encrypted") == Some("true"),
            },
            recipients,
            services: SERVICES.iter().filter(is_used).map(|(_, name)| *name).collect(),
        })
    }

    /// Opens the data key with the first key that fits.
    pub(crate) fn data_key(&self, keys: &Keys) -> Result<DataKey, Error> {
        if self.recipients.is_empty() {
            return Err(match self.services.as_slice() {
                [] => Error::Malformed("it has no age or OpenPGP recipient".into()),
                services => Error::Unsupported(services.join(" and ")),
            });
        }
        let opened = self.recipients.iter().find_map(|recipient| match recipient.kind {
            Kind::Age => age::open(&recipient.wrapped, &keys.age),
            Kind::OpenPgp => keys.openpgp.iter().find_map(|key| openpgp::open(&recipient.wrapped, key)),
        });
        opened.ok_or_else(|| {
            let names = self.recipients.iter().take(SHOWN);
            let mut names: Vec<String> = names.map(|one| object::text::plain(&one.name, 100)).collect();
            if self.recipients.len() > SHOWN {
                names.push(format!("{} others", self.recipients.len() - SHOWN));
            }
            Error::NoKey(names)
        })
    }
}

fn recipients(metadata: &Value, kind: Kind) -> Vec<Recipient> {
    let (field, name) = match kind {
        Kind::Age => ("age", "recipient"),
        Kind::OpenPgp => ("pgp", "fp"),
    };
    let recipient = |item: &Value| {
        let wrapped = item.text_at("enc").filter(|wrapped| wrapped.len() <= MAX_WRAPPED_BYTES)?;
        let name = item.text_at(name).unwrap_or("an unnamed recipient");
        Some(Recipient { kind, name: name.to_owned(), wrapped: wrapped.to_owned() })
    };
    metadata.get(field).map(items).unwrap_or_default().into_iter().filter_map(recipient).collect()
}

/// Returns the items of a list. Flat formats have maps with the indexes as keys.
fn items(list: &Value) -> Vec<&Value> {
    match list {
        Value::List(items) => items.iter().collect(),
        Value::Map(fields) => fields.iter().map(|(_, item)| item).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => Vec::new(),
    }
}

/// Builds metadata from the fields of a flat format, such as `age__list_0__map_enc`.
pub(crate) fn unflattened(fields: Vec<(String, Value)>) -> Result<Value, Error> {
    if fields.len() > MAX_METADATA_FIELDS {
        return Err(Error::Malformed(format!("it has more than {MAX_METADATA_FIELDS} fields of metadata")));
    }
    let mut root = Vec::new();
    for (key, value) in fields {
        let key = key.replace("__list_", "__map_");
        insert(&mut root, &key.splitn(LEVELS, "__map_").collect::<Vec<_>>(), value);
    }
    Ok(Value::Map(root))
}

fn insert(fields: &mut Vec<(String, Value)>, path: &[&str], value: Value) {
    let [field, rest @ ..] = path else { return };
    let at = fields.iter().position(|(key, _)| key == field).unwrap_or(fields.len());
    if at == fields.len() {
        fields.push(((*field).to_owned(), Value::Map(Vec::new())));
    }
    match (fields.get_mut(at), rest) {
        (Some((_, last)), []) => *last = value,
        (Some((_, Value::Map(inner))), rest) => insert(inner, rest, value),
        _ => {}
    }
}
