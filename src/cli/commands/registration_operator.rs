//! `wheelwright registration-operator`.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;

use super::agent_flags::UnknownFlags;
use crate::agent;
use crate::cli::CommandResult;
use crate::cli::connect::{CLUSTER_KUBECONFIG, HubArgs};
use crate::cli::election::ElectionArgs;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::operator::registration::{self, RegistrationOptions};
use crate::serve::Listen;
use crate::shell::stop_on_signal;
use api::crds;
use api::names::OCM_NAMESPACE;

/// Run a registration operator: `klusterlet` for agents, or `hub` for the hub side.
///
/// With `klusterlet`, it installs the agent of each Klusterlet on a cluster. With `hub`, it installs the hub
/// side that a ClusterManager describes. If the object is deleted, the operator removes that agent or hub
/// side.
///
/// It replaces OCM's registration operator, and takes over what that operator installed. A pod of OCM's
/// operator also runs with the image `wheelwright`, because `/registration-operator klusterlet` and
/// `/registration-operator hub` mean this command.
#[derive(Debug, clap::Args)]
#[command(mut_arg("kubeconfig", |arg| arg.help(CLUSTER_KUBECONFIG)))]
pub(crate) struct Args {
    /// Part to install.
    #[arg(value_enum)]
    component: Component,
    #[command(flatten)]
    cluster: HubArgs,
    #[command(flatten)]
    election: ElectionArgs,
    /// Image of Wheelwright, for a ClusterManager that names none. The agent of a Klusterlet that names none
    /// has the image `wheelwright-agent` next to it [default: wheelwright with the version of this program,
    /// which no registry has].
    #[arg(long)]
    image: Option<String>,
    /// Namespace of the Lease for the leader election.
    #[arg(long, default_value = OCM_NAMESPACE)]
    namespace: String,
    /// Address that serves `/livez`, `/healthz`, `/readyz` and `/metrics`, such as `127.0.0.1:8080`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Serve `--listen` over HTTPS, as the probes of OCM's pods require. The operator creates the certificate
    /// when it starts.
    #[arg(long, requires = "listen")]
    listen_tls: bool,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    disable_leader_election: Option<String>,
    #[command(flatten)]
    unknown: UnknownFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Component {
    /// The agent, from Klusterlets.
    Klusterlet,
    /// The hub side, from a ClusterManager.
    Hub,
}

pub(crate) fn run(args: &Args, _: &mut Ui) -> CommandResult {
    args.unknown.warn();
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let (component, lease, kind, further) = match args.component {
            Component::Klusterlet => {
                (registration::Component::Klusterlet, "klusterlet-lock", "Klusterlet", crds::spoke())
            }
            Component::Hub => (
                registration::Component::ClusterManager,
                "cluster-manager-lock",
                "ClusterManager",
                Vec::new(),
            ),
        };
        let own = crds::operator().into_iter().filter(|one| one.spec.names.kind == kind);
        let definitions = own.chain(further).collect();
        agent::install_definitions(&cluster, definitions)
            .await
            .context("cannot install the definitions of the kinds")?;
        let election = match args.disable_leader_election.as_deref() {
            None | Some("false") => args.election.candidate(&args.cluster, &args.namespace, lease).await?,
            Some(_) => None,
        };
        let stop = stop_on_signal();
        let listen = args.listen.map(|address| Listen { address, tls: args.listen_tls });
        let options = RegistrationOptions { cluster, component, image: args.image.clone(), election, listen };
        registration::run(options, stop.clone()).await;
        // After losing leadership, exit with a failure so that the supervisor restarts the operator.
        Ok(if stop.is_cancelled() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
