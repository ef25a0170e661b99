//! A cluster with Argo CD.

use serde_json::{Value, json};
use store::ResourcePath;

/// Returns Argo CD's namespace and the CRD of its kind, which has no status subresource.
pub(crate) fn argo_cd() -> [(ResourcePath, Value); 2] {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "applications.argoproj.io"},
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced",
            "names": {"plural": "applications", "singular": "application", "kind": "Application", "listKind": "ApplicationList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    [
        (ResourcePath::resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), definition),
        (ResourcePath::resource("", "v1", "namespaces"), namespace),
    ]
}
