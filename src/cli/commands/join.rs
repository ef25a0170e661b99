//! `wheelwright join`.

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use object::Kind;
use serde_json::{Value, json};

use super::block_on;
use crate::cli::bootstrap::BootstrapArgs;
use crate::cli::connect::is_embedded;
use crate::cli::output::Ui;
use crate::cli::writer::{WriteArgs, Writer};
use crate::cli::{CommandError, CommandResult};
use api::names::AGENT_NAMESPACE;

/// Name of the agent's objects, as in its chart.
pub(super) const AGENT: &str = "wheelwright-agent";
/// The secret with the bootstrap kubeconfig, as in OCM.
pub(super) const BOOTSTRAP_SECRET: &str = "bootstrap-hub-kubeconfig";

/// Join a cluster to a hub: install the agent on it, which asks the hub to be let in.
///
/// `--kubeconfig` names the cluster here. `wheelwright get token` on the hub prints the command. With
/// `--dry-run -o yaml` the objects are printed for a repository.
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
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if !object::names::is_dns_label(&args.cluster_name) {
        let error =
            anyhow!("--cluster-name: {:?} is not a valid name of a namespace on the hub", args.cluster_name);
        return Err(CommandError::hinted(error, "use at most 63 lower-case letters, digits and '-'"));
    }
    let kubeconfig = args.bootstrap.kubeconfig()?;
    block_on(async {
        let mut writer = args.write.connect().await?;
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

async fn apply<K: Kind>(writer: &mut Writer, object: Value) -> Result<(), CommandError> {
    let object: K = serde_json::from_value(object)?;
    writer.apply(&object).await?;
    Ok(())
}

/// Applies the objects of the agent's chart.
async fn install(writer: &mut Writer, args: &Args, kubeconfig: &str) -> Result<(), CommandError> {
    let metadata = json!({"name": AGENT, "namespace": AGENT_NAMESPACE});
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    apply::<Namespace>(writer, json!({"metadata": {"name": AGENT_NAMESPACE}})).await?;
    let secret = json!({"name": BOOTSTRAP_SECRET, "namespace": AGENT_NAMESPACE});
    let data = json!({"kubeconfig": STANDARD.encode(kubeconfig)});
    apply::<Secret>(writer, json!({"metadata": secret, "data": data})).await?;
    apply::<ServiceAccount>(writer, json!({ "metadata": metadata })).await?;
    apply::<ClusterRole>(writer, json!({"metadata": {"name": AGENT}, "rules": everything})).await?;
    let binding = json!({
        "metadata": {"name": AGENT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": AGENT},
        "subjects": [{"kind": "ServiceAccount", "name": AGENT, "namespace": AGENT_NAMESPACE}],
    });
    apply::<ClusterRoleBinding>(writer, binding).await?;
    apply::<Deployment>(writer, deployment(args)).await
}

fn deployment(args: &Args) -> Value {
    let labels = json!({"app.kubernetes.io/name": AGENT});
    let arguments = json!([
        "agent",
        "--bootstrap-kubeconfig=/bootstrap/kubeconfig",
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
    let pod = json!({
        "serviceAccountName": AGENT,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "bootstrap", "secret": {"secretName": BOOTSTRAP_SECRET}}],
    });
    json!({
        "metadata": {"name": AGENT, "namespace": AGENT_NAMESPACE, "labels": labels},
        // Two agents of one cluster would undo each other's changes.
        "spec": {
            "replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}
