//! Lists which blocks of the pages run, and why the others do not.

/// The pages whose blocks run, in this order, on one hub, and the directory to run them in: `fleet` is the
/// checkout from the tutorial. First the pages for a hub with only two clusters.
pub(super) const ON_A_NEW_HUB: &[(&str, &str)] = &[
    ("docs/tutorial.md", ""),
    ("examples-repo/README.md", "fleet"),
    ("docs/plan.md", "fleet"),
    ("docs/plan-from-report.md", "fleet"),
    ("docs/rendering.md", "fleet"),
    ("docs/laptop.md", "laptop"),
];

/// The pages for a hub with an add-on whose rollout stopped.
pub(super) const ON_A_HUB_WITH_A_FLEET: &[(&str, &str)] = &[
    ("docs/cli.md", ""),
    ("docs/charts.md", ""),
    ("docs/canaries.md", ""),
    ("docs/tenants.md", ""),
    ("docs/permissions.md", ""),
    ("docs/several-hubs.md", ""),
    ("docs/from-ocm.md", ""),
    ("docs/disaster-recovery.md", ""),
    ("docs/operating.md", ""),
    ("docs/agents.md", ""),
    ("docs/registration-operator.md", ""),
    ("docs/rollouts.md", ""),
    ("docs/dashboard.md", ""),
    ("docs/observability.md", ""),
    ("docs/addons.md", ""),
    ("docs/addon-removal.md", ""),
    ("docs/addon-failures.md", ""),
    ("docs/addon-managers.md", ""),
    ("docs/addon-templates.md", ""),
    ("docs/argocd.md", ""),
    ("docs/argocd-clusters.md", ""),
    ("docs/argocd-pull.md", ""),
    ("docs/argocd-health.md", ""),
    ("docs/repositories.md", ""),
    ("docs/deletions.md", ""),
    ("docs/git-access.md", ""),
    ("docs/signatures.md", ""),
    ("docs/reports.md", ""),
    ("docs/notifications.md", ""),
    ("docs/simulate.md", ""),
    ("README.md", ""),
];

/// Commands that run until they are stopped: page, start of the block, and the output that shows that they work.
/// The block has no other command. It is stopped at the end of its page.
pub(super) const UNTIL_STOPPED: &[(&str, &str, &str)] = &[
    ("docs/rendering.md", "wheelwright render overlays/prod --watch", "kind: "),
    ("docs/dashboard.md", "wheelwright dashboard", "http://127.0.0.1:"),
    ("docs/laptop.md", "wheelwright hub --data hub", "the hub listens on"),
    ("docs/laptop.md", "wheelwright hub --data cluster", "the hub listens on"),
    ("docs/laptop.md", "wheelwright operator", "fetched"),
    ("docs/laptop.md", "wheelwright agent", "waiting for the certificate request"),
    ("README.md", "wheelwright operator", "started"),
    ("README.md", "wheelwright agent", "joining the hub"),
];

/// Blocks that do not run: page, start of the first line, and reason.
pub(super) const NOT_RUN: &[(&str, &str, &str)] = &[
    ("docs/oci.md", "flux push", "no flux; oci:: pushes the same artifact with curl"),
    ("docs/oci.md", "tar -czf", "no oras; oci:: pushes the same artifact with curl"),
    ("docs/oci.md", "wheelwright render", "no registry; oci:: renders and plans artifacts"),
    ("docs/oci.md", "kubectl -n wheelwright-system create secret docker-registry", "no registry with logins"),
    (
        "docs/rendering.md",
        "kubectl -n wheelwright-system create secret docker-registry",
        "no registry with logins; chart::remote:: renders and applies private charts",
    ),
    (
        "docs/rendering.md",
        "mkdir -p logins",
        "no registry with logins; chart::remote:: renders with the same file",
    ),
    ("docs/oci.md", "cosign generate-key-pair", "no cosign; oci:: has a signature of cosign"),
    ("docs/oci.md", "cosign sign", "no cosign; oci:: has a keyless signature"),
    ("docs/oci.md", "cosign trusted-root create", "no cosign; oci:: has a trust root"),
    ("README.md", "make demo", "a step of .ci/run"),
    ("README.md", "cargo install", "no test runs it; the tests have built the program"),
    ("README.md", "make test", "it is what runs this test"),
    ("README.md", "wheelwright crds |", "this hub has the operator already; helm:: runs it"),
    ("docs/choose.md", "make demo", "a step of .ci/run"),
    ("docs/tutorial.md", "make demo", "a step of .ci/run"),
    ("docs/tutorial.md", "cargo install", "no test runs it; the tests have built the program"),
    (
        "docs/tutorial.md",
        "wheelwright repo reconcile",
        "no operator runs here; a_reader_of_the_tutorial_has_clusters_that_follow_a_repository runs it",
    ),
    ("docs/canaries.md", "wheelwright rollout approve", "nothing waits here; rollout:: approves what waits"),
    ("docs/disaster-recovery.md", "etcdctl", "it needs the address of an etcd; faults::restore:: runs it"),
    (
        "docs/disaster-recovery.md",
        "kubectl scale deployment wheelwright-operator",
        "this hub is not restored; faults::restore:: runs it",
    ),
    ("docs/operating.md", "podman build", "no daemon and no registry; image:: makes the image"),
    ("docs/supply-chain.md", "ssh-keygen -Y verify", "there is no release here; release:: runs it"),
    (
        "docs/supply-chain.md",
        "skopeo copy",
        "no registry and no skopeo; release:: pulls the charts with helm",
    ),
    ("docs/rollouts.md", "wheelwright rollout approve", "nothing waits here; rollout:: approves what waits"),
    ("docs/operating.md", "wheelwright crds |", "helm has installed nothing here; helm:: runs it"),
    (
        "docs/agents.md",
        "kubectl create namespace open-cluster-management-agent",
        "this hub is no cluster of a fleet; helm:: runs it",
    ),
    (
        "docs/registration-operator.md",
        "kubectl annotate clustermanager",
        "there is no ClusterManager here; registration_operators_take_the_fleet_from_each_other_on_real_nodes does it",
    ),
    (
        "docs/registration-operator.md",
        "helm install registration-operator",
        "nothing runs its pods here; helm:: runs helm, and klusterlet:: the chart",
    ),
    (
        "docs/registration-operator.md",
        "kubectl create namespace cluster1",
        "there are no kubeconfigs of other clusters here; klusterlet::hosted:: does the same",
    ),
    ("docs/dashboard.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/observability.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/operating.md", "helm uninstall", "helm has installed nothing here; helm:: runs it"),
    (
        "docs/dashboard.md",
        "kubectl port-forward",
        "nothing runs pods here; charts_are_installed_upgraded_and_rolled_back_on_real_nodes does it",
    ),
    ("docs/argocd-clusters.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/argocd-pull.md", "helm upgrade", "helm has installed nothing here; helm:: runs it"),
    ("docs/cli.md", "wheelwright migrate", "no operator moves anything here; migrate:: moves workloads"),
    (
        "docs/cli.md",
        "wheelwright get token --output kubeconfig > new-hub",
        "there is one hub; switch_hub:: goes to another one",
    ),
    (
        "docs/simulate.md",
        "kinds=$(kubectl",
        "the add-on of the fleet here has no template; cli::commands::simulate:: plays a fleet of a file",
    ),
    (
        "docs/rendering.md",
        "helm pull",
        "there is no such server; docs/charts.md makes a chart with helm create",
    ),
    (
        "docs/rendering.md",
        "wheelwright render --chart",
        "the fleet has no chart; chart::render:: renders those of this repository",
    ),
    ("docs/plan-from-report.md", "wheelwright plan --repo", "no git server is here; plan:: reads a report"),
    (
        "docs/git-access.md",
        "ssh-keygen -q -t ed25519 -N '' -C wheelwright",
        "there is no such server; git:: fetches over ssh",
    ),
    ("docs/secrets.md", "age-keygen", "age is not here; secrets:: decrypts with such a Secret"),
    (
        "docs/secrets.md",
        "kubectl -n wheelwright-system patch configrepo fleet",
        "sealed:: sets the same field",
    ),
    ("docs/reports.md", "git fetch origin", "no operator reports here; git:: fetches reports and archives"),
    (
        "docs/git-access.md",
        "wheelwright operator",
        "helm has installed nothing here; helm:: runs helm, and sources:: an operator with webhooks",
    ),
];

/// The programs that a block of commands begins with.
pub(super) const PROGRAMS: &str = "wheelwright age-keygen kubectl helm make mkdir cargo cp etcdctl podman skopeo ssh-keygen git curl flux tar cosign";

/// Blocks without a language that are not commands: page and start.
pub(super) const PRINTED: &[(&str, &str)] = &[
    ("README.md", "== log of all parts in"),
    ("docs/plan.md", "ConfigRepo wheelwright-system/fleet: "),
    ("examples-repo/README.md", "base/sets "),
    ("ARCHITECTURE.md", "config repo ──fetch──▶"),
];
