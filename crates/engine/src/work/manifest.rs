//! The manifests of a work, each with its settings from the work.

use serde_json::Value;

use super::executor::Executor;
use api::names::{ADDON_GROUP, WORK_GROUP};
use api::work::v1::{
    AppliedResource, ConditionRule, DeleteOption, DeletePropagationPolicy, FeedbackRule,
    ManifestConfigOption, ManifestResourceMeta, ManifestWork, ManifestWorkSpec, ManifestsTemplate,
    ResourceIdentifier, SelectivelyOrphan, UpdateStrategy, UpdateStrategyType,
};
use object::steps::MAX_STEPS;
use object::{Gvk, Object, ObjectRef};

/// A manifest with its settings from the work.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The index of the manifest in the work, and its resource.
    pub meta: ManifestResourceMeta,
    pub object: Object,
    /// The reason that its encrypted values cannot be read; it is then not applied.
    pub unreadable: Option<String>,
    /// The reference of the object that the manifest defines.
    pub reference: ObjectRef,
    /// The availability of the kind on the cluster.
    pub served: Served,
    /// True if the object is deleted with the work.
    pub owned: bool,
    /// The executor of the manifest.
    pub executor: Executor,
    /// The update strategy of the object.
    pub strategy: UpdateStrategy,
    /// The feedback rules.
    pub feedback: Vec<FeedbackRule>,
    /// The condition rules.
    pub conditions: Vec<ConditionRule>,
    /// The step limit for evaluating its ignored fields, and separately for its feedback. This is its share of
    /// the work's limit.
    pub steps: usize,
}

/// The minimum number of steps per manifest, regardless of their number. A path to a field of a container takes
/// about 20.
const MIN_STEPS: usize = 1000;

/// The availability of a kind on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cluster serves the kind.
    As {
        /// The plural resource name.
        resource: String,
        /// True if the resource is namespaced.
        namespaced: bool,
    },
    /// The cluster does not serve the kind.
    Not,
    /// Discovery has not finished yet.
    Unread,
}

/// Returns where objects of a kind have manifests for clusters, as a pointer in their spec; `None` if they have none.
pub fn manifests_at(gvk: &Gvk) -> Option<&'static str> {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        (WORK_GROUP, "ManifestWorkReplicaSet") => Some("/manifestWorkTemplate/workload/manifests"),
        (ADDON_GROUP, "AddOnTemplate") => Some("/agentSpec/workload/manifests"),
        (WORK_GROUP, "ManifestWork") => Some("/workload/manifests"),
        _ => None,
    }
}

/// Reads the manifests of a work in order; `served` returns the availability of a kind.
pub fn read(work: &ManifestWork, served: impl Fn(&Gvk) -> Served) -> Vec<Wanted> {
    let ManifestWorkSpec {
        workload: ManifestsTemplate { manifests, unknown: _ },
        delete_option,
        manifest_configs,
        executor,
        unknown: _,
    } = &work.spec;
    let executor = Executor::from_spec(executor.as_ref());
    let steps = (MAX_STEPS / manifests.len().max(1)).max(MIN_STEPS);
    let manifests = manifests.iter().enumerate().map(|(ordinal, manifest)| {
        let mut object = Object(manifest.clone());
        let served = served(&object.gvk());
        let meta = named(i32::try_from(ordinal).unwrap_or(i32::MAX), &mut object, &served);
        let mut wanted = Wanted {
            owned: delete_option.as_ref().is_none_or(|option| {
                is_deleted_with_work(option, [&meta.group, &meta.resource, &meta.name, &meta.namespace])
            }),
            strategy: UpdateStrategy::default(),
            feedback: Vec::new(),
            conditions: Vec::new(),
            steps,
            executor: executor.clone(),
            reference: object.reference(),
            served,
            meta,
            object,
            unreadable: None,
        };
        wanted.configure(manifest_configs);
        wanted
    });
    manifests.collect()
}

/// Returns the identifiers of a manifest, and removes fields that a manifest must not set.
fn named(ordinal: i32, object: &mut Object, served: &Served) -> ManifestResourceMeta {
    let gvk = object.gvk();
    object.metadata_mut().remove("uid");
    drop_null_times(&mut object.0);
    let resource = match served {
        Served::As { resource, namespaced } => {
            if !namespaced {
                object.metadata_mut().remove("namespace");
            }
            resource.clone()
        }
        Served::Not | Served::Unread => String::new(),
    };
    ManifestResourceMeta {
        ordinal,
        resource,
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        ..ManifestResourceMeta::default()
    }
}

/// Removes each `creationTimestamp: null`, which Go writes into pod templates. Two appliers would conflict on
/// it.
fn drop_null_times(fields: &mut serde_json::Map<String, Value>) {
    fields.retain(|name, value| name != "creationTimestamp" || !value.is_null());
    for value in fields.values_mut() {
        drop_null_times_in(value);
    }
}

fn drop_null_times_in(value: &mut Value) {
    match value {
        Value::Object(fields) => drop_null_times(fields),
        Value::Array(items) => items.iter_mut().for_each(drop_null_times_in),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Wanted {
    /// Sets each option from the first matching configuration that has it.
    fn configure(&mut self, configs: &[ManifestConfigOption]) {
        let mut strategy = None;
        for config in configs {
            let ManifestConfigOption {
                resource_identifier,
                feedback_rules,
                update_strategy,
                condition_rules,
                // The scrape type is irrelevant, because every object is watched.
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

    /// Returns true if the manifest defines a namespace.
    pub fn is_namespace(&self) -> bool {
        (self.meta.group.as_str(), self.meta.kind.as_str()) == ("", "Namespace")
    }

    /// Returns true if the manifest applies an object, in any version, rather than only reading it.
    pub fn applies(&self, object: &ObjectRef) -> bool {
        let ObjectRef { gvk, key } = &self.reference;
        self.strategy.r#type != UpdateStrategyType::ReadOnly
            && (&gvk.group, &gvk.kind, key) == (&object.gvk.group, &object.gvk.kind, &object.key)
    }

    /// Returns true if an inventory entry may be the object of the manifest. A kind that is not known to be
    /// served may be any resource in its group, so that objects that may be wanted are not removed.
    pub fn may_be(&self, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let meta = &self.meta;
        let is_named = (meta.group.as_str(), meta.name.as_str()) == (group, name);
        match self.served {
            Served::As { .. } => is_named && (&*meta.resource, &*meta.namespace) == (resource, namespace),
            Served::Not | Served::Unread => is_named,
        }
    }
}

/// Returns true if an identifier matches an object of a work.
pub(crate) fn applies(identifier: &ResourceIdentifier, meta: &ManifestResourceMeta) -> bool {
    let ResourceIdentifier { group, resource, name, namespace, unknown: _ } = identifier;
    *group == meta.group
        && *resource == meta.resource
        && matches(namespace, &meta.namespace)
        && matches(name, &meta.name)
}

/// Returns true if a text matches a pattern in which `*` matches any sequence of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(head).and_then(|text| text.strip_suffix(tail)) else { return false };
    // Taking the first match of each part leaves the most text for the others.
    let mut parts = middle.split('*');
    parts.try_fold(text, |text, part| Some(text.split_once(part)?.1)).is_some()
}

/// Returns true if the object of an inventory entry is kept when its work is deleted. Unlike a manifest, an
/// entry has a resource name even if the cluster does not serve its kind.
pub fn stays(option: Option<&DeleteOption>, entry: &AppliedResource) -> bool {
    let AppliedResource { group, resource, name, namespace, .. } = entry;
    option.is_some_and(|option| !is_deleted_with_work(option, [group, resource, name, namespace]))
}

/// Returns true if an object is deleted with its work. `object` is its group, resource, name and namespace.
fn is_deleted_with_work(option: &DeleteOption, object: [&String; 4]) -> bool {
    let DeleteOption {
        propagation_policy,
        selectively_orphans,
        // The hub deletes expired works.
        ttl_seconds_after_finished: _,
        unknown: _,
    } = option;
    let is_orphan = |rule: &ResourceIdentifier| {
        let ResourceIdentifier { group, resource, name, namespace, unknown: _ } = rule;
        [group, resource, name, namespace] == object
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
    use serde_json::json;

    #[test]
    fn stars_match_any_run_of_characters() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abd", false),
            ("a", "ab", false),
            ("ab*ba", "aba", false),
            ("a**b*", "a-b", true),
            ("a*b*c", "a-c-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*ä*", "ä", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
        // Backtracking for every star would take centuries.
        assert!(!matches(&"*a".repeat(40).replace("*a*a*a", "*a*b*a"), &"a".repeat(253)));
    }

    fn work(manifest: Value, configs: Value) -> ManifestWork {
        let spec = json!({"workload": {"manifests": [manifest]}, "manifestConfigs": configs});
        serde_json::from_value(json!({"metadata": {"name": "w", "namespace": "c"}, "spec": spec})).unwrap()
    }

    #[test]
    fn resource_and_scope_come_from_the_cluster() {
        let manifest = json!({"apiVersion": "x.io/v1", "kind": "Prometheus", "metadata": {"name": "p", "namespace": "n"}});
        let configs = json!([{"resourceIdentifier": {"group": "x.io", "resource": "prometheusi", "name": "p"},
            "updateStrategy": {"type": "CreateOnly"}}]);
        let work = work(manifest, configs);
        let served = Served::As { resource: "prometheusi".into(), namespaced: false };
        let [wanted] = &read(&work, |_| served.clone())[..] else { panic!("one manifest") };
        let meta = &wanted.meta;
        assert_eq!((&*meta.resource, &*meta.namespace, wanted.object.namespace()), ("prometheusi", "", ""));
        assert_eq!(wanted.strategy.r#type, api::work::v1::UpdateStrategyType::CreateOnly);
        assert!(wanted.may_be("x.io", "prometheusi", "", "p") && !wanted.may_be("x.io", "others", "", "p"));
        let [unknown] = &read(&work, |_| Served::Not)[..] else { panic!("one manifest") };
        assert_eq!((&*unknown.meta.resource, &*unknown.meta.namespace), ("", "n"));
        assert!(unknown.may_be("x.io", "prometheusi", "", "p"), "it may be wanted, so it is not removed");
    }

    #[test]
    fn null_creation_timestamps_are_dropped_at_any_depth() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "creationTimestamp": null},
            "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}}}, "x": [{"creationTimestamp": null}],
                "y": {"creationTimestamp": "2026-01-01T00:00:00Z", "other": null}}});
        let [wanted] = &read(&work(manifest, json!([])), |_| Served::Unread)[..] else {
            panic!("one manifest")
        };
        assert_eq!(wanted.object.0["metadata"], json!({"name": "d"}));
        assert_eq!(
            wanted.object.0["spec"],
            json!({"template": {"metadata": {"labels": {"a": "b"}}}, "x": [{}],
                "y": {"creationTimestamp": "2026-01-01T00:00:00Z", "other": null}})
        );
    }
}
