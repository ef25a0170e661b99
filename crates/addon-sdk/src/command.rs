//! The command line of a program that is both the manager and the agent of an add-on.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::AddOn;
use crate::agent::{self, AddOnAgentOptions};
use crate::manager::{self, Error, ManagerOptions};
use shell::Registrar;

#[derive(Parser)]
enum Command {
    /// Run on the hub, and deploy the agent to every cluster that has the add-on.
    Manager {
        /// Kubeconfig of the hub. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// Namespace of the Lease with which managers elect the one that writes.
        #[arg(long, value_name = "NAMESPACE")]
        lease_namespace: Option<String>,
        /// Address that serves health and metrics.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Run on a cluster.
    Agent {
        /// Name of the cluster.
        #[arg(long, env = "CLUSTER_NAME", value_name = "NAME")]
        cluster_name: String,
        /// Namespace of the agent.
        #[arg(long)]
        namespace: String,
        /// Kubeconfig of the hub, from the Secret that the registration agent writes.
        #[arg(long, env = "HUB_KUBECONFIG", value_name = "FILE")]
        hub_kubeconfig: PathBuf,
        /// Kubeconfig of the cluster. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
        #[arg(long, value_name = "FILE")]
        spoke_kubeconfig: Option<PathBuf>,
    },
}

/// Runs the manager or the agent of an add-on until SIGINT or SIGTERM, depending on the arguments. Logs go to
/// standard error. `register` registers the controllers of the agent.
///
/// # Errors
/// Fails if a kubeconfig cannot be used, or if the manager loses the leadership. Invalid arguments exit the
/// process, as in any command.
pub async fn run<A: AddOn>(register: impl Fn(&mut Registrar)) -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).init();
    let matches = Command::command().name(A::NAME).get_matches();
    let stop = shell::stop_on_signal();
    match Command::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()) {
        Command::Manager { kubeconfig, lease_namespace, listen } => {
            manager::run::<A>(ManagerOptions { kubeconfig, lease_namespace, listen }, stop).await
        }
        Command::Agent { cluster_name, namespace, hub_kubeconfig, spoke_kubeconfig } => {
            let options =
                AddOnAgentOptions { cluster: cluster_name, namespace, hub_kubeconfig, spoke_kubeconfig };
            agent::run::<A>(options, register, stop).await
        }
    }
}
