//! The objects of an add-on that stay on the cluster after the add-on is deleted.

use crate::resource::{defined, identifier, reported};
use api::names::ADDON_DELETION_ORPHAN;
use api::work::v1::{DeleteOption, DeletePropagationPolicy, ManifestWork, ResourceIdentifier};
use object::Object;

/// Returns the delete option for the objects of an add-on. It follows the author's option, but keeps the objects
/// that are marked to stay. `existing` are the current works of the add-on.
///
/// The time to live is omitted, because the hub would recreate the work after it expires.
pub(super) fn delete_option(
    manifests: &[Object],
    existing: &[&ManifestWork],
    author: Option<&DeleteOption>,
) -> Option<DeleteOption> {
    let author = author.cloned().unwrap_or_default();
    let mut option = DeleteOption { ttl_seconds_after_finished: None, ..author };
    let stays = |manifest: &&Object| manifest.annotations().contains_key(ADDON_DELETION_ORPHAN);
    let marked: Vec<_> =
        manifests.iter().filter(stays).map(|manifest| rule(manifest, manifests, existing)).collect();
    if !marked.is_empty() && option.propagation_policy != DeletePropagationPolicy::Orphan {
        option.propagation_policy = DeletePropagationPolicy::SelectivelyOrphan;
        option.selectively_orphans.get_or_insert_default().orphaning_rules.extend(marked);
    }
    (option != DeleteOption::default()).then_some(option)
}

/// Returns the rule that identifies an object for the agent, which compares it with the resource name in the
/// cluster. If neither a definition nor a report gives that name, it is derived from the kind.
fn rule(manifest: &Object, manifests: &[Object], existing: &[&ManifestWork]) -> ResourceIdentifier {
    let kind = manifest.gvk();
    let by_definition = manifests.iter().find_map(|definition| defined(definition, &kind));
    let by_report = || Some(reported(existing.iter().copied(), &kind)?.resource.as_str());
    let named = identifier(manifest);
    match by_definition.or_else(by_report) {
        Some(resource) => ResourceIdentifier { resource: resource.to_owned(), ..named },
        None => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_objects_that_are_to_stay_are_named_to_the_agent() {
        let map = |name: &str, annotations: Value| {
            let metadata = json!({"name": name, "namespace": "ns", "annotations": annotations});
            Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
                .unwrap()
        };
        let option = |manifests: &[Object], author: Value| {
            let author: Option<DeleteOption> = serde_json::from_value(author).unwrap();
            serde_json::to_value(delete_option(manifests, &[], author.as_ref())).unwrap()
        };
        let goes = [map("goes", json!({}))];
        let both = [goes[0].clone(), map("data", json!({ADDON_DELETION_ORPHAN: ""}))];
        let rule = |name: &str| json!({"resource": "configmaps", "name": name, "namespace": "ns"});
        let selectively = |rules: Value| json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}});
        assert_eq!(option(&both, Value::Null), selectively(json!([rule("data")])));
        assert_eq!(option(&goes, Value::Null), Value::Null);
        let orphan = json!({"propagationPolicy": "Orphan"});
        assert_eq!(option(&both, orphan.clone()), orphan, "everything stays");
        let author = selectively(json!([rule("other")]));
        assert_eq!(option(&goes, author.clone()), author);
        assert_eq!(option(&both, author), selectively(json!([rule("other"), rule("data")])));
        let foreground = json!({"propagationPolicy": "Foreground", "ttlSecondsAfterFinished": 5});
        assert_eq!(option(&goes, foreground), Value::Null, "the work is not deleted and made again");
    }

    #[test]
    fn the_resource_of_an_orphan_comes_from_its_definition_or_its_cluster() {
        let metadata = json!({"name": "g", "annotations": {ADDON_DELETION_ORPHAN: ""}});
        let goose = json!({"apiVersion": "example.com/v1", "kind": "Goose", "metadata": metadata});
        let definition = |group: &str, plural: &str| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "spec": {"group": group, "names": {"kind": "Goose", "plural": plural}}})
        };
        let work = |group: &str, resource: &str| -> ManifestWork {
            let meta = json!({"ordinal": 0, "group": group, "kind": "Goose", "resource": resource});
            let manifests = json!([{"resourceMeta": meta, "conditions": []}]);
            let status = json!({"resourceStatus": {"manifests": manifests}});
            serde_json::from_value(json!({"metadata": {}, "spec": {"workload": {}}, "status": status}))
                .unwrap()
        };
        let resource = |definitions: &[Value], existing: &[&ManifestWork]| {
            let manifests = definitions.iter().chain([&goose]).cloned().map(Object::from_value);
            let manifests: Vec<Object> = manifests.map(Result::unwrap).collect();
            let rules = delete_option(&manifests, existing, None).unwrap().selectively_orphans.unwrap();
            rules.orphaning_rules[0].resource.clone()
        };
        let (other, ours) = (definition("other.com", "gooses"), definition("example.com", "geese"));
        let reports = work("example.com", "geese-reported");
        assert_eq!(resource(&[other.clone(), ours], &[&reports]), "geese");
        assert_eq!(resource(&[other], &[&work("other.com", "x"), &reports]), "geese-reported");
        assert_eq!(resource(&[], &[&reports]), "geese-reported");
        for unknown in ["", "*", "geese/status"] {
            assert_eq!(resource(&[], &[&work("example.com", unknown)]), "gooses", "{unknown}");
        }
    }
}
