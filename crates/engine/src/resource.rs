//! Derives resource names from kinds if neither discovery nor a definition is available, because the hub does
//! not know which resources a cluster serves. `docs/design/works.md` says when this is a guess, and what a wrong
//! guess causes.

use serde_json::Value;

use api::work::v1::{ManifestResourceMeta, ManifestWork, ResourceIdentifier};
use object::{Gvk, Object};

/// Returns the plural name of a kind. It is correct for every kind in Kubernetes, and for custom kinds with a
/// regular plural.
pub fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    let vowel_before_y = name.len() > 1
        && name.get(..name.len() - 1).is_some_and(|stem| stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match name.as_str() {
        "endpoints" => name,
        _ if name.ends_with('y') && !vowel_before_y => format!("{}ies", name.trim_end_matches('y')),
        _ if name.ends_with(['s', 'x']) || name.ends_with("ch") || name.ends_with("sh") => {
            format!("{name}es")
        }
        _ => format!("{name}s"),
    }
}

/// Returns the identifier of an object in the configuration of a work. The resource is derived from the kind,
/// which is correct for Kubernetes kinds.
pub fn identifier(manifest: &Object) -> ResourceIdentifier {
    let reference = manifest.reference();
    ResourceIdentifier {
        group: reference.gvk.group.clone(),
        resource: plural(&reference.gvk.kind),
        name: reference.key.name,
        namespace: reference.key.namespace,
        ..ResourceIdentifier::default()
    }
}

/// Returns the plural name of a kind if an object is its definition.
pub fn defined<'a>(object: &'a Object, kind: &Gvk) -> Option<&'a str> {
    let text = move |path: &[&str]| object.at(path).and_then(Value::as_str);
    let is_it = object.kind() == "CustomResourceDefinition"
        && text(&["spec", "group"]) == Some(kind.group.as_str())
        && text(&["spec", "names", "kind"]) == Some(kind.kind.as_str());
    text(&["spec", "names", "plural"]).filter(|_| is_it)
}

/// Returns the resource of an object of a kind as reported by an agent, which knows the resources of its
/// cluster.
pub fn reported<'a>(
    works: impl IntoIterator<Item = &'a ManifestWork>,
    kind: &Gvk,
) -> Option<&'a ManifestResourceMeta> {
    let statuses = works.into_iter().filter_map(|work| work.status.as_ref());
    let mut metas =
        statuses.flat_map(|status| &status.resource_status.manifests).map(|manifest| &manifest.resource_meta);
    metas.find(|meta| meta.group == kind.group && meta.kind == kind.kind && is_name(&meta.resource))
}

/// Returns true if a text is a resource name without a subresource.
pub(crate) fn is_name(resource: &str) -> bool {
    !resource.is_empty() && resource.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::Resource;
    use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
    use k8s_openapi::api::core::v1::{Endpoints, Namespace, ServiceAccount};
    use k8s_openapi::api::networking::v1::{IPAddress, Ingress, NetworkPolicy};
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
    use k8s_openapi::api::storage::v1::StorageClass;

    use super::*;

    fn check<K: Resource>() {
        assert_eq!(plural(K::KIND), K::URL_PATH_SEGMENT);
    }

    #[test]
    fn the_kinds_of_an_agent_have_the_plurals_of_kubernetes() {
        check::<Namespace>();
        check::<ServiceAccount>();
        check::<ClusterRole>();
        check::<ClusterRoleBinding>();
        check::<Role>();
        check::<RoleBinding>();
        check::<Deployment>();
    }

    #[test]
    fn plurals_follow_the_custom() {
        check::<DaemonSet>();
        check::<NetworkPolicy>();
        check::<Ingress>();
        check::<IPAddress>();
        check::<StorageClass>();
        check::<Endpoints>();
        assert_eq!(plural("Gateway"), "gateways");
    }
}
