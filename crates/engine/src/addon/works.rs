//! The ManifestWorks of an add-on on one cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::config::{address, annotation};
use super::hosting::{Place, Target, addon_of};
use super::orphans::delete_option;
use super::pack;
use crate::resource::identifier;
use crate::work::health::{add_rules, without_rules};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{ADDON_PRE_DELETE, CONFIG_FENCE_ANNOTATION, CONFIG_SPEC_HASH_ANNOTATION};
use api::work::v1::{
    FeedbackRule, FeedbackType, JsonPath, ManifestConfigOption, ManifestWork, ManifestWorkSpec,
    ManifestsTemplate,
};
use object::fields::covers;
use object::{Gvk, Key, Metadata as _, Object, ObjectRef, refers_to};

/// Feedback rules for workload health, in addition to OCM's well-known values. They show that the counts
/// describe the current configuration and the newest pods, as `kubectl rollout status` checks.
pub(crate) const FENCE: [(&str, &str); 5] = [
    ("ConfigAddress", r".metadata.annotations.gitops\.wheelwright\.dev/config-address"),
    ("Generation", ".metadata.generation"),
    ("ObservedGeneration", ".status.observedGeneration"),
    ("UpdatedReplicas", ".status.updatedReplicas"),
    ("UpdatedNumberScheduled", ".status.updatedNumberScheduled"),
];

/// Feedback rules for the reason that a Deployment lacks pods, named after the type or reason of the condition.
/// The first value counts. `ReplicaFailure` comes first because it names the quota or webhook that makes the
/// deadline pass.
///
/// A Deployment has these conditions only while it fails. For OCM's agents and ours, a path without a match is
/// neither a value nor an error, so a rollout without failures needs no additional writes.
pub(crate) const CAUSES: [(&str, &str); 2] = [
    ("ReplicaFailure", r#".status.conditions[?(@.type=="ReplicaFailure")].message"#),
    (DEADLINE_EXCEEDED, r#".status.conditions[?(@.reason=="ProgressDeadlineExceeded")].message"#),
];

/// The reason of a Deployment that exceeded its progress deadline.
pub(crate) const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// Returns true if a work deploys a part of the add-on.
pub fn is_deploy(addon: &Key, place: Place, work: &ManifestWork) -> bool {
    index(&place.deploy_prefix(addon), work).is_some()
}

/// Returns true if a work is controlled by the add-on, regardless of the uid.
pub(super) fn is_controlled_by(addon: &Key, work: &ManifestWork) -> bool {
    let mut owners = work.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && refers_to::<ManagedClusterAddOn>(owner, &addon.name))
}

/// Returns true if a work belongs to the hosted part of an add-on.
pub(super) fn is_hosted(addon: &Key, work: &ManifestWork) -> bool {
    let is_part = is_deploy(addon, Place::Hosting, work) || work.name() == Place::Hosting.hook_name(addon);
    addon_of(work).as_ref() == Some(addon) && is_part
}

/// Returns the index of a work whose name starts with `prefix`; `None` for other works.
fn index(prefix: &str, work: &ManifestWork) -> Option<u32> {
    work.name().strip_prefix(prefix)?.parse().ok()
}

/// Returns the desired works of an add-on on a cluster, given the existing ones. `author` is the work spec from
/// the author; its manifests are already rendered.
///
/// # Errors
/// Fails if a manifest exceeds the maximum size of a work.
pub(super) fn build(
    target: &Target<'_>,
    mut manifests: Vec<Object>,
    existing: &[&ManifestWork],
    author: &ManifestWorkSpec,
) -> Result<Vec<ManifestWork>, pack::PackError> {
    let configs = target.configs;
    let prefix = target.place.deploy_prefix(&Key::of(target.addon));
    manifests.retain(|manifest| !is_hook(manifest));
    let address = address(configs);
    manifests
        .iter_mut()
        .filter(|manifest| is_workload(&manifest.0))
        .for_each(|workload| fence(workload, &address));
    let content = |work: &&ManifestWork| Some((index(&prefix, work)?, objects(work)));
    let placed: BTreeMap<u32, BTreeSet<ObjectRef>> = existing.iter().filter_map(content).collect();
    let packed = pack::pack(&manifests, &placed)?;
    let manifest_configs = manifest_configs(&manifests, &author.manifest_configs);
    let delete_option = delete_option(&manifests, existing, author.delete_option.as_ref());
    let work = |(index, manifests): (u32, Vec<&Object>)| {
        let annotations =
            annotation(configs).map(|hashes| [(CONFIG_SPEC_HASH_ANNOTATION.to_owned(), hashes)].into());
        let metadata = ObjectMeta { annotations, ..target.metadata(format!("{prefix}{index}")) };
        let manifests = manifests.into_iter().map(|object| object.0.clone()).collect();
        let workload = ManifestsTemplate { manifests, ..ManifestsTemplate::default() };
        let spec = ManifestWorkSpec {
            workload,
            manifest_configs: manifest_configs.clone(),
            delete_option: delete_option.clone(),
            executor: author.executor.clone(),
            ..ManifestWorkSpec::default()
        };
        ManifestWork { metadata, spec, ..ManifestWork::default() }
    };
    Ok(packed.into_iter().map(work).collect())
}

/// Returns true if a manifest runs before the add-on is deleted, rather than when it is installed.
pub(super) fn is_hook(manifest: &Object) -> bool {
    let marked = manifest.annotations().contains_key(ADDON_PRE_DELETE)
        || manifest.labels().contains_key(ADDON_PRE_DELETE);
    marked && matches!(manifest.kind(), "Job" | "Pod")
}

/// Returns true if the health of the add-on depends on this object.
pub(crate) fn is_workload(manifest: &Map<String, Value>) -> bool {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    text("apiVersion").starts_with("apps/") && matches!(text("kind"), "Deployment" | "DaemonSet")
}

fn fence(workload: &mut Object, address: &str) {
    let metadata = workload.metadata_mut();
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(CONFIG_FENCE_ANNOTATION.into(), address.into());
    }
}

/// Returns the configurations of a work's manifests: condition rules for objects other than workloads, then the
/// workload probes merged with the author's rules for the same objects, then the author's other rules.
fn manifest_configs(manifests: &[Object], user: &[ManifestConfigOption]) -> Vec<ManifestConfigOption> {
    let paths = FENCE.iter().chain(&CAUSES).map(|(name, path)| JsonPath {
        name: (*name).into(),
        path: (*path).into(),
        ..JsonPath::default()
    });
    let paths = FeedbackRule {
        r#type: FeedbackType::JsonPaths,
        json_paths: paths.collect(),
        ..FeedbackRule::default()
    };
    let rules = vec![FeedbackRule::default(), paths];
    let probe = |workload: &Object| {
        let resource_identifier = identifier(workload);
        match user.iter().find(|config| config.resource_identifier == resource_identifier) {
            None => ManifestConfigOption {
                resource_identifier,
                feedback_rules: rules.clone(),
                ..ManifestConfigOption::default()
            },
            Some(user) => {
                ManifestConfigOption { feedback_rules: merged(&rules, &user.feedback_rules), ..user.clone() }
            }
        }
    };
    let mut configs: Vec<ManifestConfigOption> =
        manifests.iter().filter(|m| is_workload(&m.0)).map(probe).collect();
    let others =
        user.iter().filter(|user| !configs.iter().any(|c| c.resource_identifier == user.resource_identifier));
    let others: Vec<_> = others.cloned().collect();
    configs.extend(others);
    add_rules(&mut configs, manifests.iter().filter(|manifest| !is_workload(&manifest.0)));
    configs
}

/// Returns our rules, plus the author's paths with other names.
fn merged(ours: &[FeedbackRule], theirs: &[FeedbackRule]) -> Vec<FeedbackRule> {
    let mut rules = ours.to_vec();
    let names: BTreeSet<String> =
        ours.iter().flat_map(|rule| &rule.json_paths).map(|path| path.name.clone()).collect();
    let more =
        theirs.iter().flat_map(|rule| &rule.json_paths).filter(|path| !names.contains(&path.name)).cloned();
    if let Some(last) = rules.last_mut() {
        last.json_paths.extend(more);
    }
    rules
}

fn objects(work: &ManifestWork) -> BTreeSet<ObjectRef> {
    work.spec.workload.manifests.iter().map(reference).collect()
}

/// Returns the kind and key of a manifest, like [`Object::reference`], without copying the manifest.
fn reference(manifest: &Map<String, Value>) -> ObjectRef {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = |field: &str| text(manifest.get("metadata").and_then(|metadata| metadata.get(field)));
    ObjectRef {
        gvk: Gvk::parse(&text(manifest.get("apiVersion")), &text(manifest.get("kind"))),
        key: Key::namespaced(metadata("namespace"), metadata("name")),
    }
}

/// Returns the works that differ from the live ones, in two write steps. Works that lose an object come last.
/// Another work may gain the object, and an agent that sees the loss first would delete it.
pub(super) fn to_write<'w, 'l>(
    wanted: &'w [ManifestWork],
    live: impl Fn(&ManifestWork) -> Option<&'l ManifestWork>,
) -> [Vec<&'w ManifestWork>; 2] {
    let differs =
        |wanted: &&ManifestWork| live(wanted).is_none_or(|existing| !is_as_wanted(existing, wanted));
    let loses = |wanted: &&ManifestWork| {
        live(wanted).is_some_and(|existing| !objects(existing).is_subset(&objects(wanted)))
    };
    let (last, first) = wanted.iter().filter(differs).partition(loses);
    [first, last]
}

/// Returns true if a work matches the desired one. Labels and annotations of other writers are ignored. So are
/// [`CAUSES`] and the hub's condition rules: a work gets them with its next content, so that an upgrade of the
/// hub does not rewrite all works.
pub(crate) fn is_as_wanted(existing: &ManifestWork, wanted: &ManifestWork) -> bool {
    let metadata = |work: &ManifestWork| {
        Object::from_typed(&ManifestWork { metadata: work.metadata.clone(), ..ManifestWork::default() })
    };
    let ManifestWorkSpec { workload, delete_option, manifest_configs, executor, unknown } = &wanted.spec;
    existing.spec.workload == *workload
        && covers(&metadata(existing), &metadata(wanted))
        && existing.spec.delete_option == *delete_option
        && existing.spec.executor == *executor
        && existing.spec.unknown == *unknown
        && (existing.spec.manifest_configs == *manifest_configs
            || without_additions(&existing.spec.manifest_configs) == without_additions(manifest_configs))
}

/// Returns configurations without the parts that a work gets only with its next content.
fn without_additions(configs: &[ManifestConfigOption]) -> Vec<ManifestConfigOption> {
    let mut configs = configs.to_vec();
    without_rules(&mut configs);
    for rule in configs.iter_mut().flat_map(|config| &mut config.feedback_rules) {
        rule.json_paths.retain(|path| CAUSES.iter().all(|(name, _)| path.name != *name));
    }
    configs
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_has_the_kind_and_key_of_its_object() {
        let metadata = json!({"name": "d", "namespace": "ns"});
        let whole = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
        for object in [whole, json!({"kind": "Namespace"}), json!({"metadata": 1})] {
            let object = Object::from_value(object).unwrap();
            assert_eq!(reference(&object.0), object.reference());
        }
    }

    #[test]
    fn the_paths_of_causes_come_with_new_content_and_not_with_an_upgrade_of_the_hub() {
        let metadata = json!({"name": "d", "namespace": "ns"});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
        let deployment = Object::from_value(object).unwrap();
        let addon = ManagedClusterAddOn::default();
        let author = ManifestWorkSpec::default();
        let works = build(&Target::managed(&addon, &[]), vec![deployment], &[], &author).unwrap();
        let wanted = &works[0];
        let asks = |work: &ManifestWork| {
            let paths = &work.spec.manifest_configs[0].feedback_rules[1].json_paths;
            CAUSES.iter().filter(|(name, _)| paths.iter().any(|path| path.name == *name)).count()
        };
        let mut before = wanted.clone();
        before.spec.manifest_configs[0].feedback_rules[1].json_paths.truncate(FENCE.len());
        assert_eq!((asks(wanted), asks(&before)), (2, 0));
        assert!(is_as_wanted(&before, wanted), "no work is written for the paths alone");
        let mut other = before.clone();
        other.spec.manifest_configs[0].feedback_rules[1].json_paths.pop();
        assert!(!is_as_wanted(&other, wanted), "the other paths count");
        before.spec.workload.manifests[0].insert("spec".into(), json!({"replicas": 2}));
        assert!(!is_as_wanted(&before, wanted), "the content counts");
    }

    #[test]
    fn every_object_without_rules_of_the_author_gets_condition_rules() {
        let built = |configs: Value| {
            let workload = |kind: &str, version: &str| {
                let metadata = json!({"name": "w", "namespace": "ns"});
                Object::from_value(json!({"apiVersion": version, "kind": kind, "metadata": metadata}))
                    .unwrap()
            };
            let kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
            let mut manifests = kinds.map(|kind| workload(kind, "apps/v1")).to_vec();
            manifests.extend(["Job", "CronJob"].map(|kind| workload(kind, "batch/v1")));
            manifests.extend([
                workload("Pod", "v1"),
                workload("Widget", "example.com/v1"),
                workload("Secret", "v1"),
            ]);
            let author = serde_json::from_value(json!({"workload": {}, "manifestConfigs": configs})).unwrap();
            let addon = ManagedClusterAddOn::default();
            build(&Target::managed(&addon, &[]), manifests, &[], &author).unwrap().remove(0)
        };
        let judged = |work: &ManifestWork| {
            let configs = work.spec.manifest_configs.iter().filter(|one| !one.condition_rules.is_empty());
            configs.map(|config| config.resource_identifier.resource.clone()).collect::<Vec<_>>()
        };
        let plain = built(json!([]));
        let all = ["statefulsets", "replicasets", "jobs", "pods", "widgets"];
        assert_eq!(judged(&plain), all);
        let rule = json!({"type": "CEL", "condition": "Progressing", "celExpressions": ["false"]});
        let identifier = json!({"group": "batch", "resource": "jobs", "name": "w", "namespace": "ns"});
        let author = built(json!([{"resourceIdentifier": identifier, "conditionRules": [rule]}]));
        assert_eq!(judged(&author), ["statefulsets", "replicasets", "pods", "widgets", "jobs"]);
        let mut before = plain.clone();
        before.spec.manifest_configs.retain(|config| config.condition_rules.is_empty());
        assert!(is_as_wanted(&before, &plain), "no work is written for the rules alone");
        assert!(!is_as_wanted(&author, &plain), "the rules of an author count");
    }

    #[test]
    fn all_works_of_an_addon_run_as_the_executor_of_its_author() {
        let executor = json!({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "x"}}});
        let author = serde_json::from_value(json!({"workload": {}, "executor": executor})).unwrap();
        let object = |kind: &str, labels: Value| {
            let metadata = json!({"name": "m", "namespace": "ns", "labels": labels});
            Object::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
        };
        let manifests = vec![object("ConfigMap", json!({})), object("Pod", json!({ADDON_PRE_DELETE: ""}))];
        let addon = ManagedClusterAddOn::default();
        let target = Target::managed(&addon, &[]);
        let hook = super::super::hook::build(&target, &manifests, &author).unwrap();
        for work in build(&target, manifests, &[], &author).unwrap().into_iter().chain([hook]) {
            assert_eq!(serde_json::to_value(&work.spec.executor).unwrap(), executor, "{}", work.name());
        }
    }

    #[test]
    fn definitions_with_long_descriptions_are_in_works_as_they_are_written() {
        let definition = |name: &str| {
            let schema = json!({"openAPIV3Schema": {"type": "object", "description": "x".repeat(300 << 10)}});
            let spec =
                json!({"versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]});
            let metadata = json!({"name": name});
            let kind = "CustomResourceDefinition";
            let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec});
            Object::from_value(object).unwrap()
        };
        let manifests = ["as.example.com", "bs.example.com"].map(definition);
        let addon = ManagedClusterAddOn::default();
        let author = ManifestWorkSpec::default();
        let works = build(&Target::managed(&addon, &[]), manifests.to_vec(), &[], &author).unwrap();
        let written: Vec<_> = works.into_iter().map(|work| work.spec.workload.manifests).collect();
        assert_eq!(written, manifests.map(|definition| vec![definition.0]));
    }
}
