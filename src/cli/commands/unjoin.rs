//! `wheelwright unjoin`.

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

use super::join::cluster_role;
use crate::cli::connect::CLUSTER_KUBECONFIG;
use crate::cli::installation::HELM_RELEASE;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, find, list};
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1alpha1::ClusterClaim;
use api::names::{
    AGENT, AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_KUBECONFIG_SECRET, KEPT_WORK_LABEL, SEALING_IDENTITY_SUFFIX,
};
use api::work::v1::AppliedManifestWork;
use controllers::agent_identity::{AgentIdentity, claim_name};
use engine::plural::counted;
use object::{Key, Metadata as _};

/// Remove the agent from a cluster.
///
/// `--kubeconfig` names the cluster. The command refuses while works of the agent's hub are applied, because
/// no agent would remove their objects later. Delete the ManagedCluster on the hub first. It also refuses if
/// the agent belongs to a cluster with another name.
#[derive(Debug, clap::Args)]
#[command(mut_arg("kubeconfig", |arg| arg.help(CLUSTER_KUBECONFIG)))]
pub(crate) struct Args {
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Namespace of the agent.
    #[arg(short, long, default_value = AGENT_NAMESPACE)]
    namespace: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = args.write.connect().await?;
        let name = &args.cluster_name;
        let own = |name: &str| Key::namespaced(&args.namespace, name);
        let claim = Key::cluster(claim_name(&own(HUB_KUBECONFIG_SECRET)));
        let mut works = list::<AppliedManifestWork>(writer.client(), "", "").await?;
        // Works of another hub belong to another agent. Without a claim, all works may belong to this agent.
        let claimed = find::<ClusterClaim>(writer.client(), &claim).await?;
        if let Some(identity) = claimed.and_then(|claim| AgentIdentity::parse(&claim.spec.value)) {
            let other = &identity.cluster;
            if other != name {
                let error = anyhow!(
                    "cannot remove the agent of cluster {name}: the agent in {} belongs to cluster {other}",
                    args.namespace
                );
                let hint = format!("check that the kubeconfig is for {name}");
                return Err(CommandError::hinted(error, hint));
            }
            works.retain(|work| identity.has(&work.spec));
        }
        if !works.is_empty() {
            let error = anyhow!("cluster {name} still has {}", counted(works.len(), "applied work"));
            let hint =
                format!("on the hub: kubectl delete managedcluster {name}; then wait until it is gone");
            return Err(CommandError::hinted(error, hint));
        }
        let agent = find::<Deployment>(writer.client(), &own(AGENT)).await?;
        let release = agent.and_then(|agent| agent.annotation(HELM_RELEASE).map(str::to_owned));
        let role = Key::cluster(cluster_role(&args.namespace));
        let deleted = [
            writer.delete::<Deployment>(&own(AGENT)).await?,
            writer.delete::<ClusterRoleBinding>(&role).await?,
            writer.delete::<ClusterRole>(&role).await?,
            writer.delete::<RoleBinding>(&own(AGENT)).await?,
            writer.delete::<Role>(&own(AGENT)).await?,
            writer.delete::<ServiceAccount>(&own(AGENT)).await?,
            writer.delete::<Secret>(&own(BOOTSTRAP_SECRET)).await?,
            writer.delete::<Secret>(&own(HUB_KUBECONFIG_SECRET)).await?,
            writer
                .delete::<Secret>(&own(&format!("{HUB_KUBECONFIG_SECRET}{SEALING_IDENTITY_SUFFIX}")))
                .await?,
            // Without the claim, another agent of the hub may take over.
            writer.delete::<ClusterClaim>(&claim).await?,
        ];
        // The agent has lost its permissions, so it writes no more of these Secrets.
        for secret in list::<Secret>(writer.client(), &args.namespace, KEPT_WORK_LABEL).await? {
            writer.delete::<Secret>(&Key::of(&secret)).await?;
        }
        writer.add_line(if deleted.contains(&true) {
            format!("Removed the agent and its identity from cluster {name}")
        } else {
            format!("There is no agent on cluster {name}")
        });
        if let Some(release) = release {
            let command = format!("helm uninstall {release} --namespace {}", args.namespace);
            writer.add_line(format!("Helm still lists the release {release}. To remove it: {command}"));
        }
        writer.finish(ui)
    })
}
