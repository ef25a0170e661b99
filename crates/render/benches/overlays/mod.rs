//! Overlays of one base, for the benchmarks.
#![allow(dead_code, reason = "each bench uses a part")]

pub(crate) const BASE: [(&str, &str); 5] = [
    (
        "kustomization.yaml",
        "resources: [deployment.yaml, service.yaml, account.yaml]\nconfigMapGenerator:\n- name: config\n  literals: [level=info, mode=fast]\n",
    ),
    (
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  replicas: 1\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      serviceAccountName: web\n      containers:\n      - name: web\n        image: registry.example.com/web:1.0.0\n        ports:\n        - containerPort: 8080\n        envFrom:\n        - configMapRef: {name: config}\n        resources:\n          requests: {cpu: 100m, memory: 128Mi}\n          limits: {memory: 256Mi}\n        livenessProbe:\n          httpGet: {path: /healthz, port: 8080}\n",
    ),
    (
        "service.yaml",
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector: {app: web}\n  ports:\n  - port: 80\n    targetPort: 8080\n",
    ),
    ("account.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: web\n"),
    ("README.md", "The base of all overlays.\n"),
];

/// Returns an overlay with its own namespace.
pub(crate) fn overlay(number: usize, replicas: usize) -> String {
    format!(
        "namespace: cluster-{number}\nnamePrefix: c{number}-\nresources: [../../base]\nlabels:\n- pairs: {{cluster: cluster-{number}}}\n  includeSelectors: true\nimages:\n- name: registry.example.com/web\n  newTag: 1.0.{number}\npatches:\n- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata: {{name: web}}\n    spec:\n      replicas: {replicas}\n      template: {{spec: {{containers: [{{name: web, env: [{{name: CLUSTER, value: cluster-{number}}}]}}]}}}}\n"
    )
}

/// Number of namespaces that the overlays of a root share.
pub(crate) const NAMESPACES: usize = 50;

/// Returns an overlay that shares its namespace with others.
pub(crate) fn root_overlay(number: usize, replicas: usize) -> String {
    let own = format!("namespace: cluster-{number}");
    overlay(number, replicas).replacen(&own, &format!("namespace: fleet-{}", number % NAMESPACES), 1)
}

/// Returns the files of a root that includes the overlays and their namespaces.
pub(crate) fn root(overlays: usize) -> [(String, String); 2] {
    let mut kustomization = "resources:\n- namespaces.yaml\n".to_owned();
    for number in 0..overlays {
        kustomization += &format!("- overlays/{number}\n");
    }
    let namespace =
        |number| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: fleet-{number}}}\n");
    let namespaces = (0..NAMESPACES).map(namespace).collect();
    [("kustomization.yaml".into(), kustomization), ("namespaces.yaml".into(), namespaces)]
}

/// Returns the CPU time of the main thread so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}
