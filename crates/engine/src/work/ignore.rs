//! Fields that server-side apply leaves to the cluster (`ignoreFields`).
//!
//! Open Cluster Management leaves such fields out of the applied manifest. By the rules of server-side apply,
//! that removes a field that it set at creation. It also does not compare an object again while the manifest
//! stays the same. Here the request carries the live value, and every other field stays as wanted.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::jq;
use crate::applier::{self, Path};
use api::names::CONFIG_SPEC_HASH_ANNOTATION;
use api::work::v1::{IgnoreField, IgnoreFieldsCondition};
use object::Object;
use object::jsonpath::{self, PathError};
use object::steps::StepsLeft;

/// The fields of a manifest that it leaves to the cluster.
#[derive(Debug)]
pub(super) struct IgnoredFields {
    /// As soon as the object exists.
    present: Vec<Path>,
    /// While the manifest stays the same.
    unchanged: Vec<Path>,
    /// Whether any rule was given.
    any: bool,
    /// The steps that are left of the manifest.
    steps: StepsLeft,
}

impl IgnoredFields {
    /// Finds the fields in a manifest, within so many steps.
    ///
    /// # Errors
    /// Names the invalid pointer, or says why an expression has no result.
    pub(super) fn read(rules: &[IgnoreField], manifest: &Object, steps: usize) -> Result<Self, String> {
        let any = !rules.is_empty();
        let mut all = Self { any, present: Vec::new(), unchanged: Vec::new(), steps: StepsLeft(steps) };
        if rules.is_empty() {
            return Ok(all);
        }
        let whole = Value::Object(manifest.0.clone());
        for rule in rules {
            let paths = paths(rule, &whole, &mut all.steps)?;
            match &rule.condition {
                IgnoreFieldsCondition::OnSpokePresent => all.present.extend(paths),
                IgnoreFieldsCondition::OnSpokeChange => all.unchanged.extend(paths),
                IgnoreFieldsCondition::Other(other) => {
                    return Err(format!("the condition {other} is not known"));
                }
            }
        }
        Ok(all)
    }
}

fn paths(rule: &IgnoreField, manifest: &Value, steps: &mut StepsLeft) -> Result<Vec<Path>, String> {
    let IgnoreField { condition: _, json_paths, json_pointers, jq_path_expressions, unknown: _ } = rule;
    let mut paths = Vec::new();
    for pointer in json_pointers {
        steps.take_text(pointer.len()).map_err(|why| format!("the pointer {pointer:?}: {why}"))?;
        paths.push(of_pointer(pointer)?);
    }
    for path in json_paths {
        match jsonpath::locate(manifest, path, steps) {
            Ok(found) => paths.extend(found),
            // An invalid path matches nothing, as in Open Cluster Management.
            Err(PathError::Invalid { .. }) => {}
            Err(error @ (PathError::Refused { .. } | PathError::TooLong(_))) => return Err(error.to_string()),
        }
    }
    for expression in jq_path_expressions {
        paths.extend(jq::paths(expression, manifest, steps)?);
    }
    Ok(paths)
}

/// Returns the steps of a JSON pointer (RFC 6901).
fn of_pointer(pointer: &str) -> Result<Path, String> {
    match pointer.strip_prefix('/') {
        Some(steps) => Ok(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()),
        None => Err(format!("{pointer:?} is not a JSON pointer")),
    }
}

/// Gives ignored fields their live value, and records in an annotation which manifest was applied.
///
/// The record of another agent has another form. It stays while the manifest is known to have been applied,
/// so that a change of agents writes nothing.
///
/// # Errors
/// Says which limit the live values exceed.
pub(super) fn keep_live_values(
    object: &mut Object,
    live: Option<&Object>,
    ignored: IgnoredFields,
    was_applied: bool,
) -> Result<(), String> {
    let IgnoredFields { present, unchanged, any, mut steps } = ignored;
    if !any {
        return Ok(());
    }
    let mut hashed = object.clone();
    applier::remove(&mut hashed, &present);
    hashed.metadata_mut().remove("ownerReferences");
    let text = serde_json::to_string(&hashed.0).unwrap_or_default();
    let mut hash = object::hex(Sha256::digest(text));
    if let Some(live) = live {
        applier::keep_live_values(object, live, &present, &mut steps)?;
        let noted = live.annotations().get(CONFIG_SPEC_HASH_ANNOTATION).map(|noted| (*noted).to_owned());
        let is_foreign = noted.as_ref().is_some_and(|noted| noted.len() != hash.len());
        if noted.as_ref() == Some(&hash) || (is_foreign && was_applied) {
            applier::keep_live_values(object, live, &unchanged, &mut steps)?;
            hash = noted.unwrap_or(hash);
        }
    }
    let annotations =
        object.metadata_mut().entry("annotations").or_insert_with(|| Value::Object(Default::default()));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(CONFIG_SPEC_HASH_ANNOTATION.into(), hash.into());
    }
    Ok(())
}
