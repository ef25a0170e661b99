//! Decides about a single manifest of a work.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value};

use super::decision::{ApplyDecision, ApplyRefusal};
use super::executor::Executor;
use super::ignore::{self, IgnoredFields};
use super::manifest::{Served, Wanted};
use super::merge;
use crate::applier;
use api::names::WORK_AGENT_MANAGER;
use api::work::v1::{ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType};
use object::fields::is_as_applied;
use object::{Object, ObjectRef};

/// Returns the reason that a manifest cannot be applied to any cluster, if there is one.
pub fn refusal(wanted: &Wanted) -> Option<ApplyRefusal> {
    let ObjectRef { gvk, key } = &wanted.reference;
    Some(match &wanted.served {
        _ if key.name.is_empty() || gvk.kind.is_empty() => {
            ApplyRefusal::Rejected("the manifest has no kind or no name".into())
        }
        Served::Not => {
            ApplyRefusal::Failed(format!("the server doesn't have a resource type {:?}", gvk.kind))
        }
        Served::As { namespaced: true, .. } if key.namespace.is_empty() => {
            ApplyRefusal::Rejected("an empty namespace may not be set during creation".into())
        }
        Served::As { .. } | Served::Unread if wanted.executor == Executor::Unknown => {
            ApplyRefusal::Failed(wanted.not_allowed())
        }
        Served::As { .. } | Served::Unread => ApplyRefusal::Failed(wanted.unreadable.clone()?),
    })
}

/// Decides about one manifest. `was_applied` is true if this manifest was the last one applied to the live
/// object.
///
/// The last applied manifest is reapplied only if the object differs from it. A changed manifest is always
/// applied, which removes fields that only the earlier version had. `docs/design/works.md` explains why the
/// strategy Update applies, too.
pub fn decide(
    wanted: &Wanted,
    live: Option<&Object>,
    owner: &OwnerReference,
    was_applied: bool,
) -> ApplyDecision {
    if let Some(reason) = refusal(wanted) {
        return ApplyDecision::Refuse(reason);
    }
    let UpdateStrategy { r#type, server_side_apply, unknown: _ } = &wanted.strategy;
    let none = ServerSideApplyConfig {
        field_manager: WORK_AGENT_MANAGER.into(),
        ..ServerSideApplyConfig::default()
    };
    let (config, force) = match r#type {
        UpdateStrategyType::ReadOnly => return ApplyDecision::Leave,
        UpdateStrategyType::CreateOnly | UpdateStrategyType::Update | UpdateStrategyType::Other(_) => {
            (&none, true)
        }
        UpdateStrategyType::ServerSideApply => {
            let config = server_side_apply.as_ref().unwrap_or(&none);
            (config, config.force)
        }
    };
    let mut object = wanted.object.clone();
    let mut metadata = match r#type {
        UpdateStrategyType::ServerSideApply => Map::new(),
        _ => without_removed_keys(&mut object, live),
    };
    if let Some(owners) = live.and_then(|live| new_owners(wanted, live, owner, force)) {
        metadata.insert("ownerReferences".into(), owners.into());
    }
    if !metadata.is_empty() {
        return patch(metadata);
    }
    let references = applier::references_to_apply(live, owner, wanted.owned);
    if !references.is_empty() {
        object.metadata_mut().insert("ownerReferences".into(), references.into());
    }
    if *r#type == UpdateStrategyType::CreateOnly {
        return if live.is_some() { ApplyDecision::Leave } else { ApplyDecision::Create(object) };
    }
    if *r#type != UpdateStrategyType::ServerSideApply && merge::is_needed(&object, live, was_applied) {
        return merge::decide(object, live, was_applied);
    }
    let ServerSideApplyConfig { force: _, field_manager, ignore_fields, unknown: _ } = config;
    let ignored = IgnoredFields::read(ignore_fields, &object, wanted.steps);
    let result =
        ignored.and_then(|ignored| ignore::keep_live_values(&mut object, live, ignored, was_applied));
    if let Err(reason) = result {
        return ApplyDecision::Refuse(ApplyRefusal::IgnoredFields(reason));
    }
    if was_applied && live.is_some_and(|live| is_as_applied(live, &object, field_manager)) {
        return ApplyDecision::Leave;
    }
    let given = live.filter(|_| *r#type != UpdateStrategyType::ServerSideApply);
    if let Some(entries) = given.and_then(|live| merge::made_applied(live, field_manager)) {
        return patch(Map::from_iter([("managedFields".to_owned(), entries.into())]));
    }
    ApplyDecision::Apply { object, force, manager: field_manager.clone() }
}

/// Decides about the live object of a manifest that is no longer applied. This writes at most the owner
/// reference.
pub fn take_over(wanted: &Wanted, live: &Object, owner: &OwnerReference) -> ApplyDecision {
    match new_owners(wanted, live, owner, true) {
        Some(owners) if wanted.strategy.r#type != UpdateStrategyType::ReadOnly => {
            patch(Map::from_iter([("ownerReferences".to_owned(), owners.into())]))
        }
        Some(_) | None => ApplyDecision::Leave,
    }
}

fn patch(metadata: Map<String, Value>) -> ApplyDecision {
    ApplyDecision::Patch(Map::from_iter([("metadata".to_owned(), metadata.into())]))
}

/// Removes labels and annotations with a trailing dash in the key from a manifest, because they request the
/// removal of that key. Returns the patch that removes the keys that the live object has.
fn without_removed_keys(object: &mut Object, live: Option<&Object>) -> Map<String, Value> {
    let mut patch = Map::new();
    for field in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = object.metadata_mut().get_mut(field) else { continue };
        let keys: Vec<String> = entries.keys().filter(|key| key.ends_with('-')).cloned().collect();
        entries.retain(|key, _| !key.ends_with('-'));
        let values = live.and_then(|live| live.at(&["metadata", field]));
        let names = keys.iter().filter_map(|key| key.strip_suffix('-'));
        let present = names.filter(|name| values.is_some_and(|values| values.get(name).is_some()));
        let removed: Map<String, Value> = present.map(|name| (name.to_owned(), Value::Null)).collect();
        if !removed.is_empty() {
            patch.insert(field.to_owned(), removed.into());
        }
    }
    patch
}

/// Returns the owner references to write before the content. Without force, ours is applied with the content,
/// because an object whose fields belong to another manager does not belong to the work.
fn new_owners(wanted: &Wanted, live: &Object, owner: &OwnerReference, force: bool) -> Option<Vec<Value>> {
    match (wanted.owned, applier::is_owned_by(live, owner)) {
        (true, false) if force => Some(applier::with_owner(live, owner)),
        (false, true) => Some(applier::without_owner(live, owner)),
        (true, _) | (false, false) => None,
    }
}
