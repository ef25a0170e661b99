//! The custom resource definitions of OCM and Wheelwright, for hubs and spokes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};
use serde_json::{Map, Value, json};

use super::kind::Crd;
use super::{addon, cluster, gitops, multicluster, operator, work};

/// Returns true if an API server has accepted a definition and serves its kind, or will shortly.
pub fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Returns every definition, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<_> = hub().into_iter().chain(spoke()).chain(operator()).collect();
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// Returns the definitions that a hub serves.
pub fn hub() -> Vec<CustomResourceDefinition> {
    vec![
        single::<cluster::v1::ManagedCluster>(),
        single::<cluster::v1beta2::ManagedClusterSet>(),
        single::<cluster::v1beta2::ManagedClusterSetBinding>(),
        single::<cluster::v1beta1::Placement>(),
        single::<cluster::v1beta1::PlacementDecision>(),
        single::<cluster::v1alpha1::AddOnPlacementScore>(),
        single::<work::v1::ManifestWork>(),
        single::<work::v1alpha1::ManifestWorkReplicaSet>(),
        convertible::<addon::v1alpha1::ClusterManagementAddOn, addon::v1beta1::ClusterManagementAddOn>(),
        convertible::<addon::v1alpha1::ManagedClusterAddOn, addon::v1beta1::ManagedClusterAddOn>(),
        twofold::<addon::v1alpha1::AddOnDeploymentConfig, addon::v1beta1::AddOnDeploymentConfig>(),
        twofold::<addon::v1alpha1::AddOnTemplate, addon::v1beta1::AddOnTemplate>(),
        single::<gitops::v1alpha1::ClusterDecision>(),
        single::<gitops::v1alpha1::ConfigRepo>(),
        single::<gitops::v1alpha1::ConfigRepoInventory>(),
        single::<gitops::v1alpha1::RolloutPolicy>(),
    ]
}

/// Returns the definitions that a spoke serves for its agent.
pub fn spoke() -> Vec<CustomResourceDefinition> {
    vec![single::<cluster::v1alpha1::ClusterClaim>(), single::<work::v1::AppliedManifestWork>()]
}

/// Returns the definitions of the kinds from which a registration operator installs hubs and agents.
pub fn operator() -> Vec<CustomResourceDefinition> {
    vec![single::<operator::v1::ClusterManager>(), single::<operator::v1::Klusterlet>()]
}

/// Returns the definition of ClusterProfile, for hubs that publish their clusters as profiles. Other cluster
/// managers install it too.
pub fn cluster_profiles() -> CustomResourceDefinition {
    single::<multicluster::v1alpha1::ClusterProfile>()
}

/// Names of the definitions whose versions have different fields, so that an API server must convert between
/// them ([`addon::conversion`]).
///
/// Without conversion, a client of another version than the stored one would read fields in the wrong places. Such
/// versions are therefore served only if there is a converter.
pub const CONVERTIBLE: [&str; 2] = [
    "clustermanagementaddons.addon.open-cluster-management.io",
    "managedclusteraddons.addon.open-cluster-management.io",
];

/// Serves every version of a definition, for an API server that converts in its own process.
pub fn serve_all(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        version.served = true;
    }
}

/// Serves every version of a definition, with a webhook that converts between them.
pub fn convert_by(definition: &mut CustomResourceDefinition, client_config: WebhookClientConfig) {
    serve_all(definition);
    let client_config = Some(client_config);
    let webhook = WebhookConversion { client_config, conversion_review_versions: vec!["v1".into()] };
    definition.spec.conversion =
        Some(CustomResourceConversion { strategy: "Webhook".into(), webhook: Some(webhook) });
}

/// Returns a definition with one version.
fn single<K: Crd>() -> CustomResourceDefinition {
    definition::<K>(vec![version::<K>(true, true)])
}

/// Returns a definition with two versions that have the same fields.
fn twofold<Stored: Crd, Newer: Crd>() -> CustomResourceDefinition {
    definition::<Stored>(vec![version::<Stored>(true, true), version::<Newer>(false, true)])
}

/// Returns a definition with two versions that have different fields. The newer one is served only if there is a
/// converter, see [`CONVERTIBLE`].
fn convertible<Stored: Crd, Newer: Crd>() -> CustomResourceDefinition {
    definition::<Stored>(vec![version::<Stored>(true, true), version::<Newer>(false, false)])
}

/// Returns a definition with several versions, under the names of the stored one.
fn definition<Stored: Crd>(versions: Vec<Value>) -> CustomResourceDefinition {
    let (kind, plural, group) = (Stored::kind(&()), Stored::plural(&()), Stored::group(&()));
    let short_names = Some(Stored::SHORT_NAMES).filter(|names| !names.is_empty());
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": short_names,
            },
            "scope": if Stored::NAMESPACED { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    });
    serde_json::from_value(definition).expect("built from the fields a definition has")
}

fn version<K: Crd>(stored: bool, served: bool) -> Value {
    let subresources: Map<String, Value> =
        K::HAS_STATUS.then(|| ("status".to_owned(), json!({}))).into_iter().collect();
    let columns =
        K::COLUMNS.iter().map(|column| json!({"name": column.0, "type": column.1, "jsonPath": column.2}));
    let columns = Some(columns.collect::<Vec<_>>()).filter(|columns| !columns.is_empty());
    json!({
        "name": K::version(&()),
        "served": served,
        "storage": stored,
        "schema": {"openAPIV3Schema": K::schema()},
        "subresources": subresources,
        "additionalPrinterColumns": columns,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn versions_that_differ_are_served_only_with_a_converter() {
        let is_held_back = |one: &CustomResourceDefinition| one.spec.versions.iter().any(|v| !v.served);
        let held_back = all().into_iter().filter(is_held_back).filter_map(|one| one.metadata.name);
        assert_eq!(held_back.collect::<Vec<_>>(), CONVERTIBLE);
    }

    /// The chart contains the definitions as files. Helm always installs the definitions in `crds/`, and
    /// ClusterProfile only on request.
    #[test]
    fn chart_carries_every_definition() {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/wheelwright");
        let dir = chart.join("crds");
        let mut wanted = std::collections::BTreeMap::new();
        for definition in all() {
            let spec = &definition.spec;
            let file = format!("{}_{}.yaml", spec.group, spec.names.plural);
            let text = serde_saphyr::to_string(&definition).unwrap();
            wanted.insert(dir.join(file), text);
        }
        let mut stray = crate::golden::cases(&dir, "yaml");
        stray.retain(|file| !wanted.contains_key(file));
        let profiles = serde_saphyr::to_string(&cluster_profiles()).unwrap();
        wanted.insert(chart.join("files/clusterprofiles.yaml"), profiles);
        crate::golden::check(wanted);
        assert!(stray.is_empty(), "no definition for {stray:?}");
    }
}
