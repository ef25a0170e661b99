//! Wheelwright in place of Open Cluster Management, whose operators install its controllers and agents as pods.

use std::os::unix::fs::symlink;

use super::User;
use super::pages::Reader;
use crate::kube::built;

/// OCM's programs and their images. OCM's operators pull images with the tag `latest` every time, except their
/// own.
const PROGRAMS: [(&str, &str); 5] = [
    ("registration-operator", "registration-operator:latest"),
    ("registration", "registration:v1.2.0"),
    ("placement", "placement:v1.2.0"),
    ("work", "work:v1.2.0"),
    ("addon", "addon-manager:v1.2.0"),
];

const KLUSTERLET: &str = "apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: klusterlet}
spec:
  clusterName: CLUSTER
  namespace: open-cluster-management-agent
  registrationImagePullSpec: quay.io/open-cluster-management/registration:v1.2.0
  workImagePullSpec: quay.io/open-cluster-management/work:v1.2.0
  workConfiguration: {statusSyncInterval: 5s}
";

impl User {
    /// Installs OCM as its project ships it on the hub and both spokes, and makes the spokes join.
    fn installs_ocm(&self) {
        let programs = built("tests/interop/build");
        for (program, image) in PROGRAMS {
            self.load(
                &format!("quay.io/open-cluster-management/{image}"),
                &[(program, &programs.join(program))],
            );
        }
        symlink(programs, self.path("ocm")).unwrap();
        self.run("kubectl apply -k ocm/cluster-manager");
        self.eventually("kubectl api-resources --cached=false", "clustermanagers ");
        let sample = "operator_open-cluster-management_clustermanagers.cr.yaml";
        self.run(&format!(
            "sed s/:latest/:v1.2.0/ ocm/cluster-manager/samples/{sample} | kubectl apply -f -"
        ));
        // OCM runs a work controller only if this feature is enabled.
        self.run(
            "kubectl patch clustermanager cluster-manager --type=merge -p \
             '{\"spec\": {\"workConfiguration\": {\"featureGates\": [{\"feature\": \"ManifestWorkReplicaSet\", \"mode\": \"Enable\"}]}}}'",
        );
        self.eventually("kubectl -n open-cluster-management-hub get deployments -o name", "work-controller");
        self.has_controllers_of_ocm();
        self.run("wheelwright get token --output kubeconfig >bootstrap.kubeconfig");
        for cluster in ["c1", "c2"] {
            let kubectl = format!("kubectl --context {cluster}");
            self.run(&format!("{kubectl} apply -k ocm/klusterlet"));
            self.eventually(&format!("{kubectl} api-resources --cached=false"), "klusterlets ");
            self.run(&format!("{kubectl} create namespace open-cluster-management-agent"));
            self.run(&format!(
                "{kubectl} -n open-cluster-management-agent create secret generic bootstrap-hub-kubeconfig \
                 --from-file kubeconfig=bootstrap.kubeconfig"
            ));
            self.write("klusterlet.yaml", &KLUSTERLET.replace("CLUSTER", cluster));
            self.run(&format!("{kubectl} apply -f klusterlet.yaml"));
        }
        self.run("wheelwright accept --clusters c1,c2 --wait 120");
        self.run("kubectl wait managedcluster c1 c2 --for=condition=ManagedClusterConditionAvailable --timeout=120s");
    }

    /// Waits until all of OCM's controllers are running on the hub.
    fn has_controllers_of_ocm(&self) {
        self.run(
            "kubectl -n open-cluster-management-hub wait deployment --all --for=condition=Available --timeout=120s",
        );
    }

    /// Waits until the operator runs with its new arguments and is the leader.
    fn has_operator(&self) {
        self.run(
            "kubectl -n wheelwright-system rollout status deployment/wheelwright-operator --timeout=120s",
        );
        self.eventually("wheelwright doctor", " leads, and renewed its lease ");
    }

    /// Returns the add-on's pod on each spoke and its restart count.
    fn pods(&self) -> [String; 2] {
        let name = &self.name;
        ["c1", "c2"].map(|cluster| {
            self.run(&format!(
                "kubectl --context {cluster} -n {name} get pods -l app={name} \
                 -o 'jsonpath={{range .items[*]}}{{.metadata.uid}} {{.status.containerStatuses[0].restartCount}};{{end}}'"
            ))
        })
    }

    /// Waits until each spoke has a pod of a version, regardless of which side rolls it out.
    fn has_pods(&self, version: &str) {
        for cluster in ["c1", "c2"] {
            let pods = format!("kubectl --context {cluster} -n {} get pods -L version", self.name);
            self.eventually(&pods, &format!(" {version}\n"));
        }
    }

    /// Commits a version and waits until both spokes run it.
    fn releases(&self, version: &str) {
        self.addon(version, "serve");
        self.commit(&format!("version {version}"));
        self.runs(version);
    }
}

/// Each of OCM's controllers is replaced by ours as in the guide, then comes back. The pods of an add-on keep
/// running each time, and each side rolls out the next commit.
#[test]
fn ocms_controllers_give_way_one_by_one_and_come_back_on_real_nodes() {
    let user = User::of_new_clusters("rows");
    user.installs_ocm();
    let mut page = Reader::new(
        &user,
        "docs/from-ocm.md",
        &[("registry.example.com/wheelwright:0.1.0", "wheelwright:0.1.0 --git-hosts $GIT")],
    );
    let nothing_twice = "but make none of this operator's decisions";

    page.opens("wheelwright install --image");
    page.types("wheelwright install --image");
    user.has_operator();
    user.eventually("wheelwright doctor", nothing_twice);
    user.allow_repositories();
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.eventually("wheelwright rollout status rows", "2 of 2 clusters done");
    let pods = user.pods();

    page.types("kubectl scale deployment cluster-manager ");
    user.has_operator();
    user.eventually("wheelwright doctor", nothing_twice);
    page.types("kubectl scale deployment cluster-manager-addon-manager-controller");
    user.has_operator();
    user.eventually("wheelwright doctor", "no controllers of Open Cluster Management are on this hub");
    user.eventually("wheelwright rollout status rows", "✓ c1 1  ✓ c2 1");
    assert_eq!(user.pods(), pods, "the pods go on");
    user.run("wheelwright upgrade --take-ownership");
    user.releases("2");

    let pods = user.pods();
    page.types("wheelwright upgrade --controllers=config-repo");
    user.has_operator();
    user.eventually("kubectl -n open-cluster-management get pods", "cluster-manager-");
    user.has_controllers_of_ocm();
    user.eventually("wheelwright doctor", nothing_twice);
    assert_eq!(user.pods(), pods, "the pods go on");
    user.addon("3", "serve");
    user.commit("version 3");
    user.has_pods("3");
}

/// Our registration operator takes over the hub from OCM's, with the options in its ClusterManager, and then a
/// cluster's agent. The pods of an add-on and the ConfigRepo keep running, and OCM's operators get everything
/// back.
#[test]
fn registration_operators_take_the_fleet_from_each_other_on_real_nodes() {
    let user = User::of_new_clusters("registered");
    user.installs_ocm();
    user.run("kubectl create namespace wheelwright-system");
    let mut page = Reader::new(
        &user,
        "docs/registration-operator.md",
        &[("registry.example.com/wheelwright", "wheelwright"), ("[\"git.example.com\"]", "[\"'$GIT'\"]")],
    );

    user.run("kubectl -n open-cluster-management scale deployment cluster-manager --replicas=0");
    page.opens("kubectl annotate clustermanager");
    page.types("kubectl annotate clustermanager");
    page.types("helm install registration-operator");
    user.allow_repositories();
    user.addon("1", "serve");
    user.commit("version 1");
    user.follow();
    user.eventually("wheelwright rollout status registered", "✓ c1 1  ✓ c2 1");
    user.eventually(
        "wheelwright doctor --operator-namespace open-cluster-management-hub",
        " leads, and renewed its lease ",
    );
    user.releases("2");

    let pods = user.pods();
    user.run("kubectl --context c1 -n open-cluster-management scale deployment klusterlet --replicas=0");
    user.run(
        "helm --kube-context c1 install registration-operator charts/wheelwright-registration-operator \
         --namespace open-cluster-management --set image.repository=wheelwright",
    );
    user.run(
        "kubectl --context c1 patch klusterlet klusterlet --type=merge -p \
         '{\"spec\": {\"registrationImagePullSpec\": \"wheelwright-agent:0.1.0\", \"workImagePullSpec\": \"wheelwright-agent:0.1.0\"}}'",
    );
    let agents = "kubectl --context c1 -n open-cluster-management-agent get pods";
    user.eventually(
        &format!("{agents} -o 'jsonpath={{.items[*].spec.containers[0].image}}'"),
        "wheelwright-agent:0.1.0 wheelwright-agent:0.1.0",
    );
    user.run("kubectl --context c1 wait klusterlet klusterlet --for=condition=Available --timeout=120s");
    assert_eq!(user.pods(), pods, "the pods go on");
    user.releases("3");

    let pods = user.pods();
    user.run(
        "kubectl -n open-cluster-management scale deployment wheelwright-registration-operator --replicas=0",
    );
    user.run("wheelwright uninstall --namespace open-cluster-management-hub");
    user.run("kubectl -n open-cluster-management scale deployment cluster-manager --replicas=1");
    user.eventually("kubectl -n open-cluster-management-hub get deployments -o name", "work-webhook");
    user.has_controllers_of_ocm();
    assert_eq!(user.pods(), pods, "the pods go on");
    user.addon("4", "serve");
    user.run("kubectl apply -k fleet");
    user.has_pods("4");
}
