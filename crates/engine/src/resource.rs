//! Names of resources that are derived from kinds, where neither discovery nor a definition is at hand: the
//! hub does not know which resources a cluster serves. `docs/design/works.md` says where that is a guess, and
//! what a wrong one does.

/// Returns the plural name of a kind. It is right for every kind of Kubernetes itself, and for every custom
/// kind that has a regular plural.
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
