//! What a work wants of each object.

use serde_json::Value;

use crate::applier::{self, Owner, Path};
use api::names::WORK_AGENT_MANAGER;
use api::work::v1::{
    ConditionRule, DeletePropagationPolicy, FeedbackRule, IgnoreFieldsCondition, ManifestConfigOption,
    ManifestResourceMeta, ManifestWork, ResourceIdentifier, UpdateStrategy, UpdateStrategyType,
};
use object::{Object, ObjectRef};

/// One manifest of a work with everything the work says about it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where it stands in the work, and what it is.
    pub meta: ManifestResourceMeta,
    /// The manifest.
    pub object: Object,
    /// Which object it makes.
    pub reference: ObjectRef,
    /// Whether the object goes when the work goes.
    pub owned: bool,
    /// How the object is updated.
    pub strategy: UpdateStrategy,
    /// What to read back from it.
    pub feedback: Vec<FeedbackRule>,
    /// What to conclude from it.
    pub conditions: Vec<ConditionRule>,
}

/// Reads the manifests of a work, in its order.
pub fn read(work: &ManifestWork) -> Vec<Wanted> {
    let manifests = work.spec.workload.manifests.iter().enumerate();
    manifests
        .map(|(ordinal, manifest)| {
            wanted(work, i32::try_from(ordinal).unwrap_or(i32::MAX), Object(manifest.clone()))
        })
        .collect()
}

fn wanted(work: &ManifestWork, ordinal: i32, mut object: Object) -> Wanted {
    let gvk = object.gvk();
    object.metadata_mut().remove("uid");
    if !applier::is_namespaced(&gvk, object.namespace()) {
        object.metadata_mut().remove("namespace");
    }
    let reference = object.reference();
    let meta = ManifestResourceMeta {
        ordinal,
        resource: applier::plural(&gvk.kind),
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        name: reference.key.name.clone(),
        namespace: reference.key.namespace.clone(),
        ..ManifestResourceMeta::default()
    };
    let configs =
        || work.spec.manifest_configs.iter().filter(|config| applies(&config.resource_identifier, &meta));
    let first = |has: fn(&ManifestConfigOption) -> bool| configs().find(|config| has(config));
    Wanted {
        owned: is_owned(work, &meta),
        strategy: first(|c| c.update_strategy.is_some())
            .and_then(|c| c.update_strategy.clone())
            .unwrap_or_default(),
        feedback: first(|c| !c.feedback_rules.is_empty())
            .map(|c| c.feedback_rules.clone())
            .unwrap_or_default(),
        conditions: first(|c| !c.condition_rules.is_empty())
            .map(|c| c.condition_rules.clone())
            .unwrap_or_default(),
        meta,
        object,
        reference,
    }
}

fn applies(identifier: &ResourceIdentifier, meta: &ManifestResourceMeta) -> bool {
    identifier.group == meta.group
        && identifier.resource == meta.resource
        && matches(&identifier.namespace, &meta.namespace)
        && matches(&identifier.name, &meta.name)
}

/// Whether a text matches a pattern in which `*` stands for any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len()).filter_map(|i| text.get(i..)).any(|tail| matches(rest, tail))
}

fn is_owned(work: &ManifestWork, meta: &ManifestResourceMeta) -> bool {
    let Some(option) = &work.spec.delete_option else { return true };
    match option.propagation_policy {
        DeletePropagationPolicy::Orphan => false,
        DeletePropagationPolicy::SelectivelyOrphan => {
            let rules = option.selectively_orphans.iter().flat_map(|orphans| &orphans.orphaning_rules);
            !rules.into_iter().any(|rule| {
                (&rule.group, &rule.resource, &rule.name, &rule.namespace)
                    == (&meta.group, &meta.resource, &meta.name, &meta.namespace)
            })
        }
        DeletePropagationPolicy::Foreground | DeletePropagationPolicy::Other(_) => true,
    }
}

/// What is to be done about one manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The object is as wanted, or none of our business.
    Leave,
    /// Server-side apply.
    Apply {
        /// What is sent.
        object: Object,
        /// Whether fields of other managers are taken.
        force: bool,
        /// As whom.
        manager: String,
    },
    /// Creation; what exists is left as it is.
    Create(Object),
    /// The manifest makes no sense; nothing can be written.
    Refuse(String),
}

/// Decides about one manifest, given the live object and whether this very manifest has been applied before.
///
/// A manifest that was applied before is applied again only where the object lacks what it says. One that was not is always applied,
/// because fields the manifest before it had must go.
pub fn decide(wanted: &Wanted, live: Option<&Object>, owner: &Owner, was_applied: bool) -> Decision {
    if wanted.reference.key.name.is_empty() || wanted.reference.gvk.kind.is_empty() {
        return Decision::Refuse("the manifest has no kind or no name".into());
    }
    let mut object = wanted.object.clone();
    if wanted.owned {
        object.metadata_mut().insert("ownerReferences".into(), Value::Array(vec![owner.reference()]));
    }
    let options = wanted.strategy.server_side_apply.clone();
    let (force, manager) = match &wanted.strategy.r#type {
        UpdateStrategyType::ReadOnly => return Decision::Leave,
        UpdateStrategyType::CreateOnly => {
            return if live.is_some() { Decision::Leave } else { Decision::Create(object) };
        }
        UpdateStrategyType::ServerSideApply => {
            options.as_ref().map_or((false, WORK_AGENT_MANAGER.to_owned()), |options| {
                (options.force, options.field_manager.clone())
            })
        }
        UpdateStrategyType::Update | UpdateStrategyType::Other(_) => (true, WORK_AGENT_MANAGER.to_owned()),
    };
    if let Some(live) = live {
        let ignored = options.iter().flat_map(|options| &options.ignore_fields);
        let paths: Vec<Path> = ignored
            .filter(|ignored| ignored.condition == IgnoreFieldsCondition::OnSpokePresent)
            .flat_map(|ignored| ignored.json_pointers.iter().map(|pointer| pointer_path(pointer)))
            .collect();
        applier::strip_ignored(&mut object, live, &paths);
        let unchanged = applier::covers(&Value::Object(live.0.clone()), &Value::Object(object.0.clone()));
        if was_applied && unchanged {
            return Decision::Leave;
        }
    }
    Decision::Apply { object, force, manager }
}

/// The steps of a JSON pointer (RFC 6901).
fn pointer_path(pointer: &str) -> Path {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_run_of_characters() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abd", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
