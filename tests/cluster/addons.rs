//! Published add-ons from other projects.

use std::os::unix::fs::symlink;

use super::{PLACEMENT, User};
use crate::kube::{built, free_port};

const MANAGED_SERVICE_ACCOUNT: &str = "quay.io/open-cluster-management/managed-serviceaccount:v0.10.0";
const CLUSTER_PROXY: &str = "quay.io/open-cluster-management/cluster-proxy:v0.10.0";
const PROPAGATOR: &str = "quay.io/open-cluster-management/governance-policy-propagator:v0.17.0";
/// The namespace in which the add-ons' charts are installed.
const NAMESPACE: &str = "open-cluster-management-addon";

/// OCM's managed-serviceaccount is installed as published: its manager runs on the hub and its agents on the
/// spokes, and a spoke accepts the token that the hub gets.
#[test]
fn a_published_add_on_runs_with_its_manager_on_real_nodes() {
    let user = User::of_new_clusters("published");
    user.load(MANAGED_SERVICE_ACCOUNT, &[("msa", &built("tests/managed-serviceaccount/build").join("msa"))]);
    user.run(
        "wheelwright install --image wheelwright:0.1.0 --addon-roles managed-serviceaccount-addon-agent",
    );
    user.join();
    user.run("kubectl apply -f examples-repo/bootstrap/managed-serviceaccount.yaml");
    user.run("kubectl create namespace open-cluster-management-addon");
    user.run("kubectl apply -f tests/published/managed-serviceaccount-manager.yaml");
    user.run(
        "kubectl -n open-cluster-management-addon rollout status \
         deployment/managed-serviceaccount-addon-manager --timeout=120s",
    );
    user.has_addon("managed-serviceaccount");
    user.write(
        "robot.yaml",
        "apiVersion: authentication.open-cluster-management.io/v1beta1\nkind: ManagedServiceAccount\n\
         metadata: {name: robot, namespace: c1}\nspec: {rotation: {enabled: true, validity: 1h0m0s}}\n",
    );
    user.run("kubectl apply -f robot.yaml");
    user.run("kubectl -n c1 wait secret/robot --for=create --timeout=60s");
    let name = user.run(
        "token=$(kubectl -n c1 get secret robot -o 'jsonpath={.data.token}' | base64 -d); \
         kubectl --context c1 --token $token auth whoami",
    );
    assert!(name.contains("system:serviceaccount:open-cluster-management-agent-addon:robot"), "{name}");
}

/// OCM's cluster-proxy is installed with its chart. Through its tunnel, requests from the hub reach Services and
/// API servers of the spokes, with accounts of the spoke and of the hub. The add-on leaves the spokes after an
/// approval.
#[test]
#[ignore = "its programs take too long to build: make addons"]
fn requests_pass_the_tunnel_of_cluster_proxy_on_real_nodes() {
    let user = User::of_new_clusters("proxied");
    let built = built("tests/cluster-proxy/build");
    let programs = ["manager", "agent", "cluster-proxy", "proxy-server", "proxy-agent"];
    let programs = programs.map(|name| (name, built.join(name)));
    user.load(CLUSTER_PROXY, &programs.each_ref().map(|(name, file)| (*name, file.as_path())));
    symlink(built.join("chart"), user.path("cluster-proxy")).unwrap();
    user.run("wheelwright install --image wheelwright:0.1.0");
    user.join();
    user.run(
        "helm install cluster-proxy ./cluster-proxy --namespace open-cluster-management-addon --create-namespace \
         --set enableServiceProxy=true --set userServer.enabled=true",
    );
    user.has_addon("cluster-proxy");
    user.run("kubectl -n open-cluster-management-addon wait deployment --all --for=condition=Available --timeout=120s");
    user.write("web.yaml", WEB);
    user.run("wheelwright work create web -f web.yaml --clusters c1,c2");
    for cluster in ["c1", "c2"] {
        let web = format!("kubectl --context {cluster} -n web wait deployment/web --timeout=60s");
        user.run(&format!("{web} --for=create"));
        user.run(&format!("{web} --for=condition=Available"));
    }

    user.run(
        "kubectl create serviceaccount visitor; kubectl --context c1 -n web create serviceaccount visitor",
    );
    let tunnel = Tunnel { user: &user, port: free_port() };
    let of_the_spoke = "kubectl --context c1 -n web create token visitor";
    tunnel.asks_as(of_the_spoke, "auth whoami", "system:serviceaccount:web:visitor");
    tunnel.asks_as(of_the_spoke, "-n web get pods", "cannot list resource");
    let of_the_hub = "kubectl create token visitor";
    tunnel.asks_as(of_the_hub, "auth whoami", "cluster:hub:system:serviceaccount:default:visitor");
    tunnel.asks_as(of_the_hub, "-n web get pods", "Running");
    tunnel.asks_as(of_the_hub, "-n kube-system get pods", "cannot list resource");
    tunnel.asks_as("echo nobody", "get pods", "You must be logged in");
    tunnel.gets("c1", "ready", "200");
    tunnel.gets("c1", "break", "503");
    user.run("kubectl --context c1 -n web wait pod -l app=web --for=condition=Ready=false --timeout=30s");
    tunnel.gets("c2", "ready", "200");

    user.run("kubectl delete clustermanagementaddon cluster-proxy --wait=false");
    user.eventually("wheelwright explain rollout cluster-proxy", "its removal from 2 clusters is on hold");
    user.run("wheelwright rollout approve cluster-proxy");
    user.run("kubectl wait clustermanagementaddon/cluster-proxy --for=delete --timeout=60s");
    for cluster in ["c1", "c2"] {
        let pods =
            "kubectl wait pod -n open-cluster-management-cluster-proxy --all --for=delete --timeout=60s";
        user.run(&format!("{pods} --context {cluster}"));
    }
}

/// The Service on the spokes for `requests_pass_the_tunnel_of_cluster_proxy_on_real_nodes`, which the hub's
/// account may see.
const WEB: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "workload:1", args: [serve], readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: web}
# A pod that is not ready serves, too.
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}], publishNotReadyAddresses: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: visitor, namespace: web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "cluster:hub:system:serviceaccount:default:visitor"}]
"#;

/// The user server of cluster-proxy, on a local port.
struct Tunnel<'u> {
    user: &'u User,
    port: u16,
}

impl Tunnel<'_> {
    /// Sends a kubectl request to c1's API server, with the token printed by a command, until the answer contains
    /// `words`.
    fn asks_as(&self, token: &str, request: &str, words: &str) {
        let host = format!("cluster-proxy-addon-user.{NAMESPACE}.svc");
        let port = self.port;
        self.through(
            &format!(
                "kubectl --server https://localhost:{port}/c1 --tls-server-name {host} --certificate-authority proxy.crt \
                 --token $({token}) {request}"
            ),
            words,
        );
    }

    /// Sends a request to a spoke's Service until the response has the given status.
    fn gets(&self, cluster: &str, path: &str, status: &str) {
        let host = format!("cluster-proxy-addon-user.{NAMESPACE}.svc");
        let port = self.port;
        self.through(
            &format!(
                "curl --silent --output answer --write-out '%{{http_code}}' --cacert proxy.crt --connect-to {host}:9092:localhost:{port} \
                 https://{host}:9092/{cluster}/api/v1/namespaces/web/services/http:web:80/proxy-service/{path}"
            ),
            status,
        );
    }

    fn through(&self, request: &str, words: &str) {
        let port = self.port;
        self.user.eventually(
            &format!(
                "kubectl -n {NAMESPACE} get secret proxy-server-ca -o 'jsonpath={{.data.ca\\.crt}}' | base64 -d >proxy.crt; \
                 kubectl -n {NAMESPACE} port-forward service/cluster-proxy-addon-user {port}:9092 >forwarded 2>&1 & \
                 trap 'kill $!' EXIT; timeout 20 bash -c 'until grep -q Forwarding forwarded; do sleep 0.1; done'; {request}"
            ),
            words,
        );
    }
}

/// OCM's governance-policy-propagator is installed as its project ships it, with its webhook. A policy reaches its
/// clusters' namespaces on the hub, and the compliance that the clusters report there is collected in the policy.
/// The program that carries policies between a cluster and its namespace cannot be built here. Lines of bash
/// replace it, with the credentials that our agent keeps for an add-on of that name.
#[test]
#[ignore = "its program takes too long to build: make addons"]
fn a_policy_reaches_its_clusters_and_their_compliance_comes_back_on_real_nodes() {
    let user = User::of_new_clusters("governed");
    let built = built("tests/governance/build");
    user.load(
        PROPAGATOR,
        &[("usr/local/bin/governance-policy-propagator", &built.join("governance-policy-propagator"))],
    );
    symlink(built.join("deploy"), user.path("governance")).unwrap();
    user.run("wheelwright install --image wheelwright:0.1.0 --addon-roles governance-policy-framework");
    user.join();
    user.installs_the_propagator();
    user.write("framework.yaml", &(PLACEMENT.replace("NAME", "policies") + FRAMEWORK));
    user.run(
        "definition=$(kubectl create --dry-run=client -o json -f governance/crds/policy.open-cluster-management.io_policies.yaml); \
         text=$(cat framework.yaml); printf '%s\\n' \"${text/DEFINITION/\"- $definition\"}\" | kubectl apply -f -",
    );
    user.has_addon("governance-policy-framework");

    user.write("policy.yaml", POLICY);
    user.run("kubectl apply -f policy.yaml");
    let name = "a-name-that-is-too-long-beside-that-of-the-namespace-of-a-policy";
    let refusal = user.fails(&format!(
        "sed '/^---/,$d; s/name: banner, /name: {name}, /' policy.yaml | kubectl apply -f -"
    ));
    assert!(refusal.contains("cannot exceed 62 characters"), "{refusal}");
    for cluster in ["c1", "c2"] {
        user.run(&format!("kubectl -n {cluster} wait policy/policies.banner --for=create --timeout=60s"));
        user.has_credentials(cluster);
        user.carries_the_policy(cluster, "NonCompliant");
    }
    let other = user.fails("kubectl --kubeconfig c1/kubeconfig -n c2 get policies");
    assert!(other.contains("cannot list resource"), "{other}");
    user.eventually(COMPLIANCE, "NonCompliant: c1=NonCompliant c2=NonCompliant ");

    user.write(
        "banner.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: banner, namespace: default}\ndata: {cluster: c1}\n",
    );
    user.run("wheelwright work create banner -f banner.yaml --clusters c1,c2");
    for cluster in ["c1", "c2"] {
        user.run(&format!(
            "kubectl --context {cluster} -n default wait configmap/banner --for=create --timeout=60s"
        ));
    }
    // The policy checks for the name of each cluster.
    user.carries_the_policy("c1", "Compliant");
    user.carries_the_policy("c2", "NonCompliant");
    user.eventually(COMPLIANCE, "NonCompliant: c1=Compliant c2=NonCompliant ");
    user.run("sed -i 's/cluster: c1/cluster: c2/' banner.yaml; wheelwright work create banner -f banner.yaml --clusters c2 --overwrite");
    user.run("kubectl --context c2 -n default wait configmap/banner --for='jsonpath={.data.cluster}=c2' --timeout=60s");
    user.carries_the_policy("c2", "Compliant");
    user.eventually(COMPLIANCE, "Compliant: c1=Compliant c2=Compliant ");

    user.run("kubectl delete -f policy.yaml");
    for cluster in ["c1", "c2"] {
        user.run(&format!("kubectl -n {cluster} wait policy/policies.banner --for=delete --timeout=60s"));
    }
}

/// Prints the compliance of the policy overall and per cluster.
const COMPLIANCE: &str = "kubectl -n policies get policy banner -o \
    'jsonpath={.status.compliant}: {range .status.status[*]}{.clustername}={.compliant} {end}'";

/// OCM's add-on governance-policy-framework without its program: the kind Policy and the namespace for policies on
/// the cluster, and the program's permissions on the hub. Its clusters are selected in the namespace `policies`.
const FRAMEWORK: &str = r#"---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: governance-policy-framework}
rules:
- {apiGroups: [policy.open-cluster-management.io], resources: [policies], verbs: [get, list, watch]}
- {apiGroups: [policy.open-cluster-management.io], resources: [policies/status], verbs: [get, update, patch]}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: governance-policy-framework}
spec:
  addonName: governance-policy-framework
  agentSpec:
    workload:
      manifests:
      - {apiVersion: v1, kind: Namespace, metadata: {name: "{{CLUSTER_NAME}}"}}
      DEFINITION
  registration:
  - type: KubeClient
    kubeClient:
      hubPermissions:
      - {type: CurrentCluster, currentCluster: {clusterRoleName: governance-policy-framework}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata:
  name: governance-policy-framework
  annotations: {addon.open-cluster-management.io/lifecycle: addon-manager}
spec:
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addontemplates, defaultConfig: {name: governance-policy-framework}}
  installStrategy:
    type: Placements
    placements: [{name: all, namespace: policies}]
"#;

const POLICY: &str = r"apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {name: banner, namespace: policies}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: banner}
      spec:
        remediationAction: inform
        severity: low
        object-templates:
        - complianceType: musthave
          objectDefinition:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: banner, namespace: default}
            data: {cluster: '{{hub .ManagedClusterName hub}}'}
---
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {name: banner, namespace: policies}
placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: all}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: banner}]
";

impl User {
    /// Waits until an add-on is available on both spokes.
    fn has_addon(&self, name: &str) {
        for cluster in ["c1", "c2"] {
            let addon = format!("kubectl -n {cluster} wait managedclusteraddon/{name} --timeout=120s");
            self.run(&format!("{addon} --for=create"));
            self.run(&format!("{addon} --for=condition=Available"));
        }
    }

    /// Installs the propagator with its webhook. In the project, cert-manager creates the certificate.
    fn installs_the_propagator(&self) {
        self.run("for file in governance/crds/*.yaml; do kubectl apply -f $file; done");
        self.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -keyout webhook.key -out webhook.crt \
             -subj /CN=webhook -addext subjectAltName=DNS:propagator-webhook-service.open-cluster-management.svc",
        );
        self.run(
            "kubectl create namespace open-cluster-management --dry-run=client -o yaml | kubectl apply -f -; \
             kubectl -n open-cluster-management create secret tls propagator-webhook-server-cert --cert webhook.crt --key webhook.key",
        );
        self.run(
            "sed 's/:latest/:v0.17.0/; s/imagePullPolicy: Always/imagePullPolicy: IfNotPresent/' governance/operator.yaml \
             | kubectl apply -n open-cluster-management -f -",
        );
        self.run(
            "awk 'BEGIN { RS = ORS = \"---\\n\" } !/apiVersion: cert-manager.io/' governance/webhook.yaml | kubectl apply -f -",
        );
        self.run(
            "kubectl patch validatingwebhookconfiguration propagator-webhook-validating-configuration --type json -p \
             '[{\"op\": \"add\", \"path\": \"/webhooks/0/clientConfig/caBundle\", \"value\": \"'$(base64 -w 0 webhook.crt)'\"}]'",
        );
        self.run(
            "kubectl -n open-cluster-management rollout status deployment/governance-policy-propagator --timeout=120s",
        );
    }

    /// Reads the add-on's hub credentials from a cluster.
    fn has_credentials(&self, cluster: &str) {
        let secret = format!(
            "secret/governance-policy-framework-hub-kubeconfig --context {cluster} -n open-cluster-management-agent-addon"
        );
        self.run(&format!("kubectl wait {secret} --for=create --timeout=60s"));
        self.run(&format!(
            "mkdir {cluster}; for key in kubeconfig tls.crt tls.key; do \
             kubectl get {secret} -o go-template=\"{{{{index .data \\\"$key\\\" | base64decode}}}}\" >{cluster}/$key; done"
        ));
    }

    /// Copies the policy to a cluster, checks if the cluster complies, and reports the result first on the
    /// cluster, then on the hub.
    fn carries_the_policy(&self, cluster: &str, expected: &str) {
        let hub = format!("kubectl --kubeconfig {cluster}/kubeconfig -n {cluster}");
        self.run(&format!(
            "spec=$({hub} get policy policies.banner -o 'jsonpath={{.spec}}'); printf '%s' '{{\"apiVersion\": \"policy.open-cluster-management.io/v1\", \
             \"kind\": \"Policy\", \"metadata\": {{\"name\": \"policies.banner\", \"namespace\": \"{cluster}\"}}, \"spec\": '\"$spec\"'}}' \
             | kubectl --context {cluster} apply -f -"
        ));
        let template = ".spec.policy-templates[0].objectDefinition.spec.object-templates[0].objectDefinition";
        let spoke = format!("kubectl --context {cluster}");
        let found = self.run(&format!(
            "wanted=$({spoke} -n {cluster} get policy policies.banner -o 'jsonpath={{{template}.data.cluster}}'); \
             found=$({spoke} -n default get configmap banner --ignore-not-found -o 'jsonpath={{.data.cluster}}'); \
             if [ \"$wanted\" = \"$found\" ]; then echo Compliant; else echo NonCompliant; fi"
        ));
        assert_eq!(found.trim(), expected, "{cluster}");
        let status = format!(
            "'{{\"status\": {{\"compliant\": \"{expected}\", \"details\": [{{\"compliant\": \"{expected}\", \"templateMeta\": {{\"name\": \"banner\"}}}}]}}}}'"
        );
        for kubectl in [format!("{spoke} -n {cluster}"), hub] {
            self.run(&format!(
                "{kubectl} patch policy policies.banner --subresource=status --type=merge -p {status}"
            ));
        }
    }
}
