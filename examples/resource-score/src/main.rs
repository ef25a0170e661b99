//! An add-on that scores clusters by their free CPU and memory, for placements.
//!
//! `addon.rs` is what the manager deploys, `score.rs` is what the agent does.

mod addon;
mod score;

use std::net::SocketAddr;
use std::path::PathBuf;

use addon_sdk::AddOn as _;
use addon_sdk::agent::{self, AgentOptions};
use addon_sdk::manager::{self, ManagerOptions};
use clap::Parser;
use reconcile::Register as _;

/// An add-on that scores clusters by their free CPU and memory.
#[derive(Parser)]
enum Command {
    /// Run on the hub: deploy the agent to every cluster that has the add-on.
    Manager {
        /// Kubeconfig of the hub; without one, the service account of the pod.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// Namespace of the Lease by which several managers choose the one that writes.
        #[arg(long)]
        lease_namespace: Option<String>,
        /// Address of health and metrics.
        #[arg(long)]
        listen: Option<SocketAddr>,
    },
    /// Run on a cluster: publish its score.
    Agent {
        /// Name of the cluster.
        #[arg(long, env = "CLUSTER_NAME")]
        cluster_name: String,
        /// Namespace of the agent.
        #[arg(long)]
        namespace: String,
        /// Kubeconfig of the hub, which the registration agent keeps in a Secret.
        #[arg(long, env = "HUB_KUBECONFIG")]
        hub_kubeconfig: PathBuf,
        /// Kubeconfig of the cluster; without one, the service account of the pod.
        #[arg(long)]
        spoke_kubeconfig: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let command = Command::parse();
    let stop = shell::stop_on_signal();
    match command {
        Command::Manager { kubeconfig, lease_namespace, listen } => {
            let options = ManagerOptions { kubeconfig, lease_namespace, listen };
            manager::run::<addon::ResourceScore>(options, stop).await?;
        }
        Command::Agent { cluster_name, namespace, hub_kubeconfig, spoke_kubeconfig } => {
            let options = AgentOptions {
                addon: addon::ResourceScore::NAME.to_owned(),
                cluster: cluster_name,
                namespace,
                hub_kubeconfig,
                spoke_kubeconfig,
            };
            agent::run(options, |register| register.add::<score::ScoreController>(), stop).await?;
        }
    }
    Ok(())
}
