//! Every custom resource definition there is: OCM's and ours, for hubs and for spokes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use super::kind::Crd;
use super::{addon, cluster, gitops, work};

/// Every definition, sorted by name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all: Vec<_> = hub().into_iter().chain(spoke()).collect();
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// The definitions a hub serves.
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
        single::<addon::v1alpha1::ClusterManagementAddOn>(),
        single::<addon::v1alpha1::ManagedClusterAddOn>(),
        single::<addon::v1alpha1::AddOnDeploymentConfig>(),
        single::<addon::v1alpha1::AddOnTemplate>(),
        single::<gitops::v1alpha1::ConfigRepo>(),
        single::<gitops::v1alpha1::RolloutPolicy>(),
    ]
}

/// The definitions a spoke serves, for its agent.
pub fn spoke() -> Vec<CustomResourceDefinition> {
    vec![single::<cluster::v1alpha1::ClusterClaim>(), single::<work::v1::AppliedManifestWork>()]
}

/// A definition of one version.
fn single<K: Crd>() -> CustomResourceDefinition {
    definition::<K>(vec![version::<K>(true)])
}

/// A definition of several versions, named as its stored one is.
fn definition<Stored: Crd>(versions: Vec<Value>) -> CustomResourceDefinition {
    let (kind, plural, group) = (Stored::kind(&()), Stored::plural(&()), Stored::group(&()));
    let mut names = json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()});
    if !Stored::SHORT_NAMES.is_empty() {
        names["shortNames"] = json!(Stored::SHORT_NAMES);
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": names,
            "scope": if Stored::NAMESPACED { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    });
    serde_json::from_value(definition).expect("built from the fields a definition has")
}

/// One version of a definition.
fn version<K: Crd>(stored: bool) -> Value {
    let subresources: Map<String, Value> = K::HAS_STATUS.then(|| ("status".to_owned(), json!({}))).into_iter().collect();
    let columns = K::COLUMNS.iter().map(|column| json!({"name": column.0, "type": column.1, "jsonPath": column.2}));
    let mut version = json!({
        "name": K::version(&()),
        "served": true,
        "storage": stored,
        "schema": {"openAPIV3Schema": K::schema()},
        "subresources": subresources,
    });
    if !K::COLUMNS.is_empty() {
        version["additionalPrinterColumns"] = columns.collect();
    }
    version
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The charts carry the definitions as files; `BLESS=1` writes them anew.
    #[test]
    fn chart_carries_every_definition() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/wheelwright/crds");
        let bless = std::env::var_os("BLESS").is_some();
        let mut wanted = Vec::new();
        for definition in all() {
            let spec = &definition.spec;
            let file = format!("{}_{}.yaml", spec.group, spec.names.plural);
            let text = serde_saphyr::to_string(&definition).unwrap();
            if bless {
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(dir.join(&file), &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(dir.join(&file)).unwrap_or_default(), text, "{file} is out of date: run with BLESS=1");
            wanted.push(file);
        }
        let found = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let stray: Vec<_> = found.filter(|file| !wanted.contains(file)).collect();
        assert!(stray.is_empty(), "no definition for {stray:?}");
    }
}
