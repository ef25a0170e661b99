//! `wheelwright unjoin`.

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

use super::block_on;
use super::join::{AGENT, BOOTSTRAP_SECRET};
use crate::cli::output::Ui;
use crate::cli::writer::{WriteArgs, list};
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1alpha1::ClusterClaim;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use api::work::v1::AppliedManifestWork;
use controllers::agent_identity::claim_name;
use engine::plural::counted;
use object::Key;

/// Remove the agent from a cluster. The kubeconfig is that of the cluster.
///
/// It refuses while works are applied, because no agent would remove their objects later: delete the
/// ManagedCluster on the hub first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = args.write.connect().await?;
        let name = &args.cluster_name;
        let works = list::<AppliedManifestWork>(writer.client(), "", "").await?;
        if !works.is_empty() {
            let error = anyhow!("cluster {name} still has {}", counted(works.len(), "applied work"));
            let hint =
                format!("on the hub: kubectl delete managedcluster {name}; then wait until it is gone");
            return Err(CommandError::hinted(error, hint));
        }
        let own = |name: &str| Key::namespaced(AGENT_NAMESPACE, name);
        let deleted = [
            writer.delete::<Deployment>(&own(AGENT)).await?,
            writer.delete::<ClusterRoleBinding>(&Key::cluster(AGENT)).await?,
            writer.delete::<ClusterRole>(&Key::cluster(AGENT)).await?,
            writer.delete::<ServiceAccount>(&own(AGENT)).await?,
            writer.delete::<Secret>(&own(BOOTSTRAP_SECRET)).await?,
            writer.delete::<Secret>(&own(HUB_KUBECONFIG_SECRET)).await?,
            // Without it, another agent of the hub may come.
            writer.delete::<ClusterClaim>(&Key::cluster(claim_name(&own(HUB_KUBECONFIG_SECRET)))).await?,
        ];
        writer.add_line(if deleted.contains(&true) {
            format!("Removed the agent and its identity from cluster {name}")
        } else {
            format!("There is no agent on cluster {name}")
        });
        writer.finish(ui)
    })
}
