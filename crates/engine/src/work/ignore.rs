//! Fields that server-side apply leaves to the cluster (`ignoreFields`).
//!
//! OCM omits these fields from the applied manifest. By the rules of server-side apply, this removes fields that
//! were set at creation. OCM also does not compare the object again while the manifest is unchanged. Here, the
//! request contains the live value, and all other fields are enforced.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::jq;
use crate::applier::{self, Path};
use api::names::CONFIG_SPEC_HASH_ANNOTATION;
use api::work::v1::{IgnoreField, IgnoreFieldsCondition};
use object::Object;
use object::jsonpath::{self, PathError};
use object::steps::StepsLeft;

/// The fields that a manifest leaves to the cluster.
#[derive(Debug)]
pub(super) struct IgnoredFields {
    /// Ignored as soon as the object exists.
    present: Vec<Path>,
    /// Ignored while the manifest is unchanged.
    unchanged: Vec<Path>,
    /// True if there are any rules.
    any: bool,
    /// The remaining steps for the manifest.
    steps: StepsLeft,
}

impl IgnoredFields {
    /// Finds the ignored fields of a manifest. Evaluation is limited to `steps`.
    ///
    /// # Errors
    /// Names the invalid pointer, or the reason that an expression has no result.
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
        steps.take_text(pointer.len()).map_err(|reason| format!("the pointer {pointer:?}: {reason}"))?;
        paths.push(of_pointer(pointer)?);
    }
    for path in json_paths {
        match jsonpath::locate(manifest, path, steps) {
            Ok(found) => paths.extend(found),
            // As in OCM, an invalid path matches nothing.
            Err(PathError::Invalid { .. }) => {}
            Err(error @ (PathError::Refused { .. } | PathError::TooLong(_))) => return Err(error.to_string()),
        }
    }
    for expression in jq_path_expressions {
        paths.extend(jq::paths(expression, manifest, steps)?);
    }
    Ok(paths)
}

/// Parses a JSON pointer (RFC 6901).
fn of_pointer(pointer: &str) -> Result<Path, String> {
    match pointer.strip_prefix('/') {
        Some(steps) => Ok(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect()),
        None => Err(format!("{pointer:?} is not a JSON pointer")),
    }
}

/// Sets ignored fields to their live values, and records the applied manifest in an annotation.
///
/// Other agents record it in another format. Such a record is kept while the manifest is known to be applied, so
/// that a change of agents writes nothing.
///
/// # Errors
/// Names the limit that the live values exceed.
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
