//! The decision about one manifest of a work.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::manifest::Wanted;
use crate::applier::{self, Path};
use api::names::WORK_AGENT_MANAGER;
use api::work::v1::{
    IgnoreField, IgnoreFieldsCondition, ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType,
};
use object::fields::is_as_applied;
use object::{Object, ObjectRef};

/// The write that one manifest needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// None: the object is as wanted, or it is only read.
    Leave,
    /// Server-side apply.
    Apply {
        /// The fields to apply.
        object: Object,
        /// Whether fields of other managers are taken.
        force: bool,
        /// The field manager.
        manager: String,
    },
    /// Creation; an object that exists stays as it is.
    Create(Object),
    /// Nothing can be written; the text says why.
    Refuse(&'static str),
}

/// Why a manifest cannot be applied, whatever the cluster has.
pub fn refusal(wanted: &Wanted) -> Option<&'static str> {
    let ObjectRef { gvk, key } = &wanted.reference;
    (key.name.is_empty() || gvk.kind.is_empty()).then_some("the manifest has no kind or no name")
}

/// Decides about one manifest, given the live object and whether this manifest was the last one applied to it.
///
/// The manifest that was applied last is applied again only where the object is not as it was applied. Another manifest is always
/// applied, so that fields that only the one before had are removed.
pub fn decide(wanted: &Wanted, live: Option<&Object>, owner: &OwnerReference, was_applied: bool) -> Decision {
    if let Some(why) = refusal(wanted) {
        return Decision::Refuse(why);
    }
    let mut object = wanted.object.clone();
    if wanted.owned {
        object.metadata_mut().insert("ownerReferences".into(), applier::with_owner(live, owner).into());
    }
    let UpdateStrategy { r#type, server_side_apply, unknown: _ } = &wanted.strategy;
    let mut ignored_fields: &[IgnoreField] = &[];
    let (force, manager) = match r#type {
        UpdateStrategyType::ReadOnly => return Decision::Leave,
        UpdateStrategyType::CreateOnly if live.is_some() => return Decision::Leave,
        UpdateStrategyType::CreateOnly => return Decision::Create(object),
        UpdateStrategyType::ServerSideApply => match server_side_apply {
            Some(ServerSideApplyConfig { force, field_manager, ignore_fields, unknown: _ }) => {
                ignored_fields = ignore_fields;
                (*force, field_manager.clone())
            }
            None => (false, WORK_AGENT_MANAGER.to_owned()),
        },
        UpdateStrategyType::Update | UpdateStrategyType::Other(_) => (true, WORK_AGENT_MANAGER.to_owned()),
    };
    if let Some(live) = live {
        let paths: Vec<Path> = ignored_fields.iter().flat_map(ignored_paths).collect();
        applier::strip_ignored(&mut object, live, &paths);
        if was_applied && is_as_applied(live, &object, &manager) {
            return Decision::Leave;
        }
    }
    Decision::Apply { object, force, manager }
}

/// The fields that a rule leaves to the cluster once the object exists.
fn ignored_paths(rule: &IgnoreField) -> Vec<Path> {
    let IgnoreField {
        condition,
        json_pointers,
        // Only JSON pointers are followed.
        json_paths: _,
        jq_path_expressions: _,
        unknown: _,
    } = rule;
    match condition {
        IgnoreFieldsCondition::OnSpokePresent => {
            json_pointers.iter().map(|pointer| pointer_path(pointer)).collect()
        }
        IgnoreFieldsCondition::OnSpokeChange | IgnoreFieldsCondition::Other(_) => Vec::new(),
    }
}

/// The steps of a JSON pointer (RFC 6901).
fn pointer_path(pointer: &str) -> Path {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}
