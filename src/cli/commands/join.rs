//! `wheelwright join`.

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use object::{Key, Kind, Metadata as _};
use serde_json::{Value, json};

use super::agent::NAME_HINT;
use super::switch_hub::{AgentIdentity, hub_url};
use crate::cli::bootstrap::BootstrapArgs;
use crate::cli::connect::is_embedded;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, Writer, find};
use crate::cli::{CommandError, CommandResult};
use api::names::{AGENT, AGENT_NAMESPACE, BOOTSTRAP_SECRET};
use engine::installation::MANAGED_BY;
use engine::klusterlet::every_permission;

/// Returns the name of the agent's ClusterRole and its binding, as in its chart. A cluster may have agents of
/// several hubs, in a namespace each.
pub(super) fn cluster_role(namespace: &str) -> String {
    format!("{AGENT}:{namespace}")
}

/// Join a cluster to a hub: install the agent on it, which asks the hub to be let in.
///
/// `--kubeconfig` names the cluster here. `wheelwright get token` on the hub prints the command. With
/// `--dry-run -o yaml` the objects are printed for a repository. It refuses where the agent of the namespace
/// has joined another hub or as another cluster, or belongs to a helm release.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
    /// Image of the agent.
    #[arg(long, default_value = concat!("wheelwright:", env!("CARGO_PKG_VERSION")))]
    image: String,
    /// Secret in the agent's namespace with which its image is pulled. It can be repeated.
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    image_pull_secrets: Vec<String>,
    /// Namespace of the agent. A cluster of several hubs has one for each agent.
    #[arg(short, long, default_value = AGENT_NAMESPACE)]
    namespace: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if !object::names::is_dns_label(&args.cluster_name) {
        let error =
            anyhow!("--cluster-name: {:?} is not a valid name of a namespace on the hub", args.cluster_name);
        return Err(CommandError::hinted(error, NAME_HINT));
    }
    if !object::names::is_dns_label(&args.namespace) {
        let error = anyhow!("--namespace: {:?} is not a valid name of a namespace", args.namespace);
        return Err(CommandError::hinted(error, NAME_HINT));
    }
    let kubeconfig = args.bootstrap.kubeconfig()?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        refuse_other(writer.client(), args, &kubeconfig).await?;
        install(&mut writer, args, &kubeconfig).await?;
        let name = &args.cluster_name;
        if is_embedded(writer.client()).await? {
            writer.add_line(
                "The cluster is an embedded API server, which runs no pods. Run the agent beside it:",
            );
            writer.add_line(format!(
                "    wheelwright agent --bootstrap-kubeconfig FILE --spoke-kubeconfig FILE --spoke-cluster-name {name}"
            ));
        }
        writer.add_line("Please log onto the hub cluster and run the following command:");
        writer.add_line(format!("    wheelwright accept --clusters {name} --wait 60"));
        writer.finish(ui)
    })
}

/// Refuses a namespace whose agent has joined another hub or has another name there, or belongs to a helm
/// release: the cluster would leave its hub, what it runs would be deleted as the work of a cluster that is
/// gone, and an agent with the few rights of its chart would get all of them.
async fn refuse_other(spoke: &kube::Client, args: &Args, bootstrap: &str) -> Result<(), CommandError> {
    let namespace = args.namespace.as_str();
    let agent = Key::namespaced(namespace, AGENT);
    let deployment = find::<Deployment>(spoke, &agent).await?;
    if deployment.is_some_and(|deployment| deployment.label(MANAGED_BY) == Some("Helm")) {
        let error = anyhow!("cannot install the agent: Deployment {agent} belongs to a helm release");
        let hint = "helm upgrade changes the agent, and helm uninstall removes it";
        return Err(CommandError::hinted(error, hint));
    }
    let Some(identity) = AgentIdentity::read(spoke, namespace).await? else { return Ok(()) };
    let (old, new) = (identity.hub().await?, hub_url(bootstrap).await?);
    let name = &identity.cluster;
    let hint = match (old == new, *name == args.cluster_name) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "is this the cluster that you mean? join with --cluster-name {name} again, or take it from the hub with wheelwright unjoin first"
        ),
        (false, _) => format!(
            "wheelwright switch-hub --namespace {namespace} hands it over; join --namespace NAME adds a second agent"
        ),
    };
    let wanted = &args.cluster_name;
    let error = anyhow!(
        "cannot join {new} as cluster {wanted}: the agent in {namespace} has joined {old} as cluster {name}"
    );
    Err(CommandError::hinted(error, hint))
}

async fn apply<K: Kind>(writer: &mut Writer, object: Value) -> Result<(), CommandError> {
    let object: K = serde_json::from_value(object)?;
    writer.apply(&object).await?;
    Ok(())
}

/// Applies the objects of the agent's chart.
async fn install(writer: &mut Writer, args: &Args, kubeconfig: &str) -> Result<(), CommandError> {
    let namespace = &args.namespace;
    let role = cluster_role(namespace);
    apply::<Namespace>(writer, json!({"metadata": {"name": namespace}})).await?;
    let secret = json!({"name": BOOTSTRAP_SECRET, "namespace": namespace});
    let data = json!({"kubeconfig": STANDARD.encode(kubeconfig)});
    apply::<Secret>(writer, json!({"metadata": secret, "data": data})).await?;
    let account = json!({"metadata": {"name": AGENT, "namespace": namespace}});
    apply::<ServiceAccount>(writer, account).await?;
    let rules = every_permission();
    apply::<ClusterRole>(writer, json!({"metadata": {"name": role}, "rules": rules})).await?;
    let binding = json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": AGENT, "namespace": namespace}],
    });
    apply::<ClusterRoleBinding>(writer, binding).await?;
    apply::<Deployment>(writer, deployment(args)).await
}

fn deployment(args: &Args) -> Value {
    let labels = json!({"app.kubernetes.io/name": AGENT});
    let arguments = json!([
        "agent",
        "--bootstrap-kubeconfig=/bootstrap/kubeconfig",
        format!("--namespace={}", args.namespace),
        format!("--spoke-cluster-name={}", args.cluster_name),
        "--listen=0.0.0.0:8080",
    ]);
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    let container = json!({
        "name": "agent", "image": args.image, "args": arguments,
        "ports": [{"name": "health", "containerPort": 8080}],
        "livenessProbe": probe("/livez"), "readinessProbe": probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "bootstrap", "mountPath": "/bootstrap", "readOnly": true}],
    });
    let secrets = args.image_pull_secrets.iter();
    let pull_secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
    let pod = json!({
        "serviceAccountName": AGENT,
        "imagePullSecrets": pull_secrets,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "bootstrap", "secret": {"secretName": BOOTSTRAP_SECRET}}],
    });
    json!({
        "metadata": {"name": AGENT, "namespace": args.namespace, "labels": labels},
        // Two agents of one cluster would undo each other's changes.
        "spec": {
            "replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}
