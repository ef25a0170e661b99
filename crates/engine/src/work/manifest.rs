//! The manifests of a work, each with everything that the work says about it.

use crate::applier;
use api::work::v1::{
    ConditionRule, DeleteOption, DeletePropagationPolicy, FeedbackRule, ManifestConfigOption,
    ManifestResourceMeta, ManifestWork, ManifestWorkSpec, ManifestsTemplate, ResourceIdentifier,
    SelectivelyOrphan, UpdateStrategy,
};
use object::{Object, ObjectRef};

/// One manifest of a work with everything that the work says about it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The place of the manifest in the work, and the resource that it names.
    pub meta: ManifestResourceMeta,
    /// The manifest.
    pub object: Object,
    /// The object that the manifest makes.
    pub reference: ObjectRef,
    /// Whether the object is deleted with the work.
    pub owned: bool,
    /// How the object is updated.
    pub strategy: UpdateStrategy,
    /// Which values are reported back.
    pub feedback: Vec<FeedbackRule>,
    /// Which conditions are derived from the object.
    pub conditions: Vec<ConditionRule>,
}

/// Reads the manifests of a work, in its order.
pub fn read(work: &ManifestWork) -> Vec<Wanted> {
    let ManifestWorkSpec {
        workload: ManifestsTemplate { manifests, unknown: _ },
        delete_option,
        manifest_configs,
        // The agent applies with its own permissions.
        executor: _,
        unknown: _,
    } = &work.spec;
    let manifests = manifests.iter().enumerate().map(|(ordinal, manifest)| {
        let (object, meta) = named(i32::try_from(ordinal).unwrap_or(i32::MAX), Object(manifest.clone()));
        let mut wanted = Wanted {
            owned: delete_option.as_ref().is_none_or(|option| is_deleted_with_work(option, &meta)),
            strategy: UpdateStrategy::default(),
            feedback: Vec::new(),
            conditions: Vec::new(),
            reference: object.reference(),
            meta,
            object,
        };
        wanted.configure(manifest_configs);
        wanted
    });
    manifests.collect()
}

/// The object of a manifest, and its names.
fn named(ordinal: i32, mut object: Object) -> (Object, ManifestResourceMeta) {
    let gvk = object.gvk();
    object.metadata_mut().remove("uid");
    if !applier::is_namespaced(&gvk, object.namespace()) {
        object.metadata_mut().remove("namespace");
    }
    let meta = ManifestResourceMeta {
        ordinal,
        resource: applier::plural(&gvk.kind),
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        ..ManifestResourceMeta::default()
    };
    (object, meta)
}

impl Wanted {
    /// Takes each option from the first configuration that has it, among those that apply to the manifest.
    fn configure(&mut self, configs: &[ManifestConfigOption]) {
        let mut strategy = None;
        for config in configs {
            let ManifestConfigOption {
                resource_identifier,
                feedback_rules,
                update_strategy,
                condition_rules,
                // Every object is watched.
                feedback_scrape_type: _,
                unknown: _,
            } = config;
            if !applies(resource_identifier, &self.meta) {
                continue;
            }
            strategy = strategy.or(update_strategy.as_ref());
            if self.feedback.is_empty() {
                self.feedback.clone_from(feedback_rules);
            }
            if self.conditions.is_empty() {
                self.conditions.clone_from(condition_rules);
            }
        }
        self.strategy = strategy.cloned().unwrap_or_default();
    }
}

fn applies(identifier: &ResourceIdentifier, meta: &ManifestResourceMeta) -> bool {
    let ResourceIdentifier { group, resource, name, namespace, unknown: _ } = identifier;
    *group == meta.group
        && *resource == meta.resource
        && matches(namespace, &meta.namespace)
        && matches(name, &meta.name)
}

/// Whether a text matches a pattern in which `*` stands for any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len()).filter_map(|i| text.get(i..)).any(|tail| matches(rest, tail))
}

fn is_deleted_with_work(option: &DeleteOption, meta: &ManifestResourceMeta) -> bool {
    let DeleteOption {
        propagation_policy,
        selectively_orphans,
        // Works do not expire.
        ttl_seconds_after_finished: _,
        unknown: _,
    } = option;
    let is_orphan = |rule: &ResourceIdentifier| {
        let ResourceIdentifier { group, resource, name, namespace, unknown: _ } = rule;
        (group, resource, name, namespace) == (&meta.group, &meta.resource, &meta.name, &meta.namespace)
    };
    match propagation_policy {
        DeletePropagationPolicy::Orphan => false,
        DeletePropagationPolicy::SelectivelyOrphan => {
            let rules = selectively_orphans
                .iter()
                .flat_map(|SelectivelyOrphan { orphaning_rules, unknown: _ }| orphaning_rules);
            !rules.into_iter().any(is_orphan)
        }
        DeletePropagationPolicy::Foreground | DeletePropagationPolicy::Other(_) => true,
    }
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
