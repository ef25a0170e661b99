//! Failing versions of each kind of workload, as add-ons, as sets, and as stages of a ConfigRepo.

use serde_json::Value;

use super::User;

/// A kind of workload, and the parts of its manifest.
struct Workload {
    name: &'static str,
    api: &'static str,
    kind: &'static str,
    spec: &'static str,
}

const WORKLOADS: [Workload; 7] = [
    Workload {
        name: "one-surge",
        api: "apps/v1",
        kind: "Deployment",
        spec: "replicas: 1, strategy: {type: RollingUpdate}, ",
    },
    Workload {
        name: "one-recreate",
        api: "apps/v1",
        kind: "Deployment",
        spec: "replicas: 1, strategy: {type: Recreate}, ",
    },
    Workload {
        name: "three-surge",
        api: "apps/v1",
        kind: "Deployment",
        spec: "replicas: 3, strategy: {type: RollingUpdate}, ",
    },
    Workload {
        name: "three-recreate",
        api: "apps/v1",
        kind: "Deployment",
        spec: "replicas: 3, strategy: {type: Recreate}, ",
    },
    Workload { name: "stateful", api: "apps/v1", kind: "StatefulSet", spec: "serviceName: none, " },
    Workload { name: "daemon", api: "apps/v1", kind: "DaemonSet", spec: "" },
    Workload { name: "job", api: "batch/v1", kind: "Job", spec: "" },
];

/// A type of failure, and the reason that a kubelet, a scheduler or a controller reports for it.
struct Failure {
    name: &'static str,
    reason: &'static str,
    image: &'static str,
    arguments: &'static str,
    cpu: &'static str,
}

const FAILURES: [Failure; 6] = [
    Failure { name: "image", reason: "ErrImagePull", image: "missing", arguments: "serve", cpu: "1m" },
    Failure { name: "crash", reason: "CrashLoopBackOff", image: "1", arguments: "exit, '3'", cpu: "1m" },
    Failure { name: "probe", reason: "Unhealthy", image: "1", arguments: "unready", cpu: "1m" },
    Failure { name: "memory", reason: "OOMKilled", image: "1", arguments: "oom", cpu: "1m" },
    Failure { name: "node", reason: "Unschedulable", image: "1", arguments: "serve", cpu: "100" },
    Failure { name: "quota", reason: "FailedCreate", image: "1", arguments: "serve", cpu: "600m" },
];

/// Returns the manifests of a namespace. In the one for quotas, all pods together may request half a CPU.
fn namespace(name: &str) -> Vec<String> {
    let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}");
    let quota = format!(
        "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: quota, namespace: {name}}}, \
         spec: {{hard: {{requests.cpu: 500m}}}}}}"
    );
    [namespace].into_iter().chain(name.ends_with("quota").then_some(quota)).collect()
}

/// A workload with a type of failure.
struct Cell {
    name: String,
    reason: &'static str,
    namespace: String,
    /// The manifests of the working and the failing version. A ConfigMap precedes the Job because a Job's pods
    /// cannot change.
    manifests: [String; 2],
}

/// Returns all cells, in namespaces with a common prefix.
fn cells(prefix: &str) -> Vec<Cell> {
    let every = FAILURES.iter().flat_map(|failure| WORKLOADS.iter().map(move |workload| (workload, failure)));
    every.map(|(workload, failure)| cell(prefix, workload, failure)).collect()
}

fn cell(prefix: &str, workload: &Workload, failure: &Failure) -> Cell {
    let Failure { name: failure, reason, image, arguments, cpu } = *failure;
    let Workload { name: workload, api, kind, spec } = *workload;
    let name = format!("{prefix}-{workload}-{failure}");
    let namespace = if failure == "quota" { format!("{prefix}-quota") } else { prefix.to_owned() };
    let is_job = kind == "Job";
    let labels = format!("{{app: {name}}}");
    let version = |image: &str, arguments: &str, cpu: &str| {
        let probe = "readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}";
        let container = format!(
            "{{name: workload, image: 'workload:{image}', args: [{arguments}], {probe}, \
             resources: {{requests: {{cpu: '{cpu}'}}, limits: {{memory: 24Mi}}}}}}"
        );
        let restart = if is_job { "restartPolicy: OnFailure, " } else { "" };
        let template =
            format!("{{metadata: {{labels: {labels}}}, spec: {{{restart}containers: [{container}]}}}}");
        let selector = if is_job { String::new() } else { format!("selector: {{matchLabels: {labels}}}, ") };
        format!(
            "{{apiVersion: {api}, kind: {kind}, metadata: {{name: {name}, namespace: {namespace}}}, \
             spec: {{{spec}{selector}template: {template}}}}}"
        )
    };
    let works = match is_job {
        true => {
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}}}}}")
        }
        false => version("1", "serve", "1m"),
    };
    let manifests = [works, version(image, arguments, cpu)];
    Cell { name, reason, namespace, manifests }
}

impl Cell {
    /// Returns the manifests of a version and of its namespace.
    fn with_namespace(&self, version: usize) -> String {
        let mut manifests = namespace(&self.namespace);
        manifests.push(self.manifests[version].clone());
        manifests.join(", ")
    }
}

/// Rolls out working versions and then failing ones, and waits until each shows its reason. `object` writes a
/// version of a cell, and `kind` is where `wheelwright status` lists it.
fn fails_with_its_reason(user: &User, cells: &[Cell], kind: &str, object: impl Fn(&Cell, usize) -> String) {
    let write = |version: usize| {
        let objects = cells.iter().map(|cell| format!("---\n{}\n", object(cell, version)));
        let objects = on_one_cluster(&user.name) + &objects.collect::<String>();
        user.write("fleet/kustomization.yaml", "resources: [objects.yaml]\n");
        user.write("fleet/objects.yaml", &objects);
    };
    write(0);
    user.commit("versions that work");
    user.follow();
    user.eventually_has("wheelwright status -o json", |status| not_done(&workloads(status, kind, cells)));

    write(1);
    user.commit("versions that fail");
    user.eventually_has("wheelwright status -o json", |status| {
        without_reason(&workloads(status, kind, cells))
    });
}

/// Versions of 7 workloads that fail in 6 ways, as add-ons: none of them ever completes, and each shows the
/// reason.
#[test]
#[ignore = "it keeps hundreds of pods busy, which slows what runs beside it: make matrix"]
fn no_add_on_that_fails_is_done_on_real_nodes() {
    let cells = cells("madd");
    let user = User::of_a_fleet("madd");
    fails_with_its_reason(&user, &cells, "addOns", |cell, version| {
        let (name, manifests) = (&cell.name, cell.with_namespace(version));
        format!(
            "{{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: AddOnTemplate, metadata: {{name: {name}-{version}}},\n\
             spec: {{addonName: {name}, agentSpec: {{workload: {{manifests: [{manifests}]}}}}}}}}\n\
             ---\n\
             {{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn,\n\
             metadata: {{name: {name}, annotations: {{addon.open-cluster-management.io/lifecycle: addon-manager}}}},\n\
             spec: {{supportedConfigs: [{{group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {{name: {name}-{version}}}}}],\n\
             installStrategy: {{type: Placements, placements: [{{name: one, namespace: madd}}]}}}}}}"
        )
    });
    // `lastAppliedConfig` keeps the last successful configuration.
    let list = "kubectl get managedclusteraddons -A -o \
        'jsonpath={range .items[*]}{.status.configReferences[0].lastAppliedConfig.name} {end}'";
    let succeeded = user.run(list);
    let succeeded: Vec<&str> =
        succeeded.split_whitespace().filter(|name| name.starts_with("madd-")).collect();
    assert_eq!(succeeded.len(), cells.len(), "{succeeded:?}");
    let done: Vec<&&str> = succeeded.iter().filter(|name| name.ends_with("-1")).collect();
    assert!(done.is_empty(), "{done:?}");
}

/// Versions of 7 workloads that fail in 6 ways, as ManifestWorkReplicaSets: none of them ever completes, and each
/// shows the reason.
#[test]
#[ignore = "it keeps hundreds of pods busy, which slows what runs beside it: make matrix"]
fn no_set_that_fails_is_done_on_real_nodes() {
    let cells = cells("mset");
    let user = User::of_a_fleet("mset");
    fails_with_its_reason(&user, &cells, "replicaSets", |cell, version| {
        let (name, manifests) = (&cell.name, cell.with_namespace(version));
        format!(
            "{{apiVersion: work.open-cluster-management.io/v1alpha1, kind: ManifestWorkReplicaSet, metadata: {{name: {name}, namespace: mset}},\n\
             spec: {{placementRefs: [{{name: one}}], manifestWorkTemplate: {{workload: {{manifests: [{manifests}]}}}}}}}}"
        )
    });
    let list = "kubectl -n mset get manifestworkreplicasets -o \
        'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type==\"PlacementRolledOut\")].status} {end}'";
    let rolled_out = user.run(list);
    assert_eq!(rolled_out.matches("=False").count(), cells.len(), "{rolled_out}");
}

/// Versions of 7 workloads that fail in 6 ways, as stages of ConfigRepos on the hub: the next stage is never
/// applied, and each ConfigRepo names the object.
#[test]
#[ignore = "it keeps hundreds of pods busy, which slows what runs beside it: make matrix"]
fn no_stage_that_fails_is_done_on_real_nodes() {
    let cells = cells("mstage");
    let user = User::of_a_fleet("mstage");
    let write = |version: usize| {
        for Cell { name, manifests, .. } in &cells {
            // Webhooks are applied last.
            let later = [
                "",
                "\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME}}",
            ];
            let later = later[version].replace("NAME", name);
            user.write(&format!("fleet/{name}/objects.yaml"), &format!("{}{later}", manifests[version]));
            user.write(&format!("fleet/{name}/kustomization.yaml"), "resources: [objects.yaml]\n");
        }
    };
    // The operator applies only what its roles allow.
    user.run(
        "kubectl create clusterrole mstage --verb='*' --resource=deployments.apps,statefulsets.apps,daemonsets.apps,jobs.batch,configmaps,validatingwebhookconfigurations.admissionregistration.k8s.io && \
         kubectl create clusterrolebinding mstage --clusterrole=mstage --serviceaccount=wheelwright-system:wheelwright-operator",
    );
    for name in ["mstage", "mstage-quota"] {
        user.run(&format!("kubectl apply -f - <<<'{}'", namespace(name).join("\n---\n")));
    }
    write(0);
    user.commit("versions that work");
    user.run(
        "kubectl -n wheelwright-system create secret generic mstage --from-file ca.crt=$REPOSITORIES/ca.crt",
    );
    let repo = |name: &str| {
        format!(
            "{{apiVersion: gitops.wheelwright.dev/v1alpha1, kind: ConfigRepo, metadata: {{name: {name}, namespace: wheelwright-system, labels: {{journey: mstage}}}},\n\
             spec: {{url: 'https://GIT/mstage.git', path: {name}, interval: 24h, healthTimeout: 45s, secretRef: {{name: mstage}}}}}}\n---\n"
        )
    };
    user.write("config-repos.yaml", &cells.iter().map(|cell| repo(&cell.name)).collect::<String>());
    user.run(r#"sed "s/GIT/$GIT/" config-repos.yaml | kubectl apply -f -"#);
    let list = "kubectl -n wheelwright-system get configrepos -l journey=mstage -o json";
    let ready = |repo: &Value, field: &str| {
        let mut conditions = repo["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        ready.and_then(|ready| ready[field].as_str()).unwrap_or_default().to_owned()
    };
    let applied = |repos: &Value| -> Vec<String> {
        let repos = repos["items"].as_array().into_iter().flatten();
        repos
            .map(|repo| repo["status"]["applied"]["commit"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let first = user.run("git -C fleet rev-parse HEAD").trim().to_owned();
    let others = |repos: &Value, field: &str, values: &[&str]| -> Vec<String> {
        let repos = repos["items"].as_array().into_iter().flatten();
        let others = repos.filter(|repo| !values.contains(&ready(repo, field).as_str()));
        others.map(|repo| format!("{}: {}", repo["metadata"]["name"], ready(repo, "message"))).collect()
    };
    let repos = user.eventually_has(list, |repos| others(repos, "status", &["True"]));
    assert_eq!(applied(&repos), vec![first.clone(); cells.len()]);

    write(1);
    user.commit("versions that fail");
    user.run("kubectl -n wheelwright-system annotate configrepos -l journey=mstage gitops.wheelwright.dev/reconcile-at=2");
    let repos =
        user.eventually_has(list, |repos| others(repos, "reason", &["HealthTimeout", "HealthCheckFailed"]));
    assert_eq!(applied(&repos), vec![first; cells.len()], "a later stage was applied");
    let webhooks = user.run("kubectl get validatingwebhookconfigurations -o name");
    assert!(!webhooks.contains("mstage-"), "{webhooks}");
    for repo in repos["items"].as_array().unwrap() {
        let (name, message) = (repo["metadata"]["name"].as_str().unwrap(), ready(repo, "message"));
        assert!(message.contains(name), "{message}");
    }
}

/// Returns a Placement `one` that selects one cluster, in a separate namespace.
fn on_one_cluster(namespace: &str) -> String {
    super::PLACEMENT.replace("NAME", namespace).replace("name: all,", "name: one,")
        + "  numberOfClusters: 1\n"
}

/// Returns the cells with their entries in `wheelwright status`.
fn workloads<'a>(status: &'a Value, kind: &str, cells: &'a [Cell]) -> Vec<(&'a Cell, &'a Value)> {
    let of = |cell: &'a Cell| {
        let mut all = status[kind].as_array().into_iter().flatten();
        let is_it =
            |workload: &&Value| workload["name"].as_str().is_some_and(|name| name.ends_with(&cell.name));
        (cell, all.find(is_it).unwrap_or(&Value::Null))
    };
    cells.iter().map(of).collect()
}

fn not_done(workloads: &[(&Cell, &Value)]) -> Vec<String> {
    let is_done =
        |workload: &Value| workload["total"] == 1 && workload["settled"] == 1 && workload["warned"] == 0;
    let others = workloads.iter().filter(|(_, workload)| !is_done(workload));
    others.map(|(cell, workload)| format!("{}: {}", cell.name, workload["groups"])).collect()
}

/// Returns the workloads that are done or whose cluster lacks the reason.
fn without_reason(workloads: &[(&Cell, &Value)]) -> Vec<String> {
    let is_named = |cell: &Cell, workload: &Value| {
        workload["settled"] == 0 && workload["groups"].to_string().contains(cell.reason)
    };
    let others = workloads.iter().filter(|(cell, workload)| !is_named(cell, workload));
    others.map(|(cell, workload)| format!("{} {}: {}", cell.name, cell.reason, workload["groups"])).collect()
}
