//! `wheelwright join`.

use anyhow::anyhow;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use object::{Key, Metadata as _, Object};
use serde_json::json;

use super::agent::NAME_HINT;
use super::join_stage::{AwaitedCluster, until_available};
use super::switch_hub::{HubKubeconfig, hub_config};
use crate::cli::bootstrap::BootstrapArgs;
use crate::cli::connect::{CLUSTER_KUBECONFIG, answering, check_version, is_embedded};
use crate::cli::duration::{Wait, wait};
use crate::cli::installation::image;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, Writer, find};
use crate::cli::{CommandError, CommandResult};
use api::names::{AGENT, AGENT_NAMESPACE, BOOTSTRAP_SECRET};
use engine::installation::{AgentInstallation, MANAGED_BY, agent_manifests, keep_resources};

/// Returns the name of the agent's ClusterRole and its binding, as in the chart. A cluster may run agents for
/// several hubs, each in its own namespace.
pub(super) fn cluster_role(namespace: &str) -> String {
    format!("{AGENT}:{namespace}")
}

/// Join a cluster to a hub: install the agent, which asks the hub to accept the cluster.
///
/// `--kubeconfig` names the cluster. `wheelwright get token` on the hub prints the complete command. With
/// `--dry-run -o yaml`, the command prints the objects for a repository. An installed agent keeps its
/// resource requests and limits. The command refuses if the agent in the namespace has joined another hub,
/// has joined under another name, or belongs to a Helm release.
#[derive(Debug, clap::Args)]
#[command(mut_arg("kubeconfig", |arg| arg.help(CLUSTER_KUBECONFIG)))]
pub(crate) struct Args {
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    #[command(flatten)]
    bootstrap: BootstrapArgs,
    /// Image of the agent.
    #[arg(long, default_value = concat!("wheelwright-agent:", env!("CARGO_PKG_VERSION")), value_parser = image)]
    image: String,
    /// Secret in the agent's namespace to pull its image with. Can be repeated.
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    image_pull_secrets: Vec<String>,
    /// Namespace of the agent. A cluster with several hubs has one namespace for each agent.
    #[arg(short, long, default_value = AGENT_NAMESPACE)]
    namespace: String,
    /// Time to wait until the hub reports that the cluster is available, such as `5m`. 0 does not wait. The
    /// command asks the hub with the bootstrap kubeconfig.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = wait)]
    wait: Wait,
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
        check_version(writer.client()).await?;
        refuse_other(writer.client(), args, &kubeconfig).await?;
        let hub = match !args.wait.is_zero() && !writer.is_dry_run() {
            true => Some(answering(hub_config(&kubeconfig).await?).await?),
            false => None,
        };
        install(&mut writer, args, &kubeconfig).await?;
        let Args { cluster_name: cluster, namespace, wait, .. } = args;
        let next = next_steps(cluster, is_embedded(writer.client()).await?);
        match hub {
            None => next.into_iter().for_each(|line| writer.add_line(line)),
            Some(hub) => {
                next.iter().try_for_each(|line| ui.error(line))?;
                until_available(&hub, AwaitedCluster { cluster, namespace, wait: *wait }, ui).await?;
                writer.add_line(format!("Cluster {cluster} is available"));
            }
        }
        writer.finish(ui)
    })
}

fn next_steps(cluster: &str, is_embedded: bool) -> Vec<String> {
    let beside = [
        "The cluster is an embedded API server, which runs no pods. Run the agent next to it:".to_owned(),
        format!(
            "    wheelwright agent --bootstrap-kubeconfig FILE --spoke-kubeconfig FILE --spoke-cluster-name {cluster}"
        ),
    ];
    let accept = [
        "Please log onto the hub cluster and run the following command:".to_owned(),
        format!("    wheelwright accept --clusters {cluster} --wait 1m"),
    ];
    beside.into_iter().filter(|_| is_embedded).chain(accept).collect()
}

/// Returns an error if the agent in the namespace has joined another hub, has another cluster name, or belongs to
/// a Helm release. Otherwise the cluster would leave its hub and its works would be deleted, or an agent with few
/// rights would get all of them.
async fn refuse_other(spoke: &kube::Client, args: &Args, bootstrap: &str) -> Result<(), CommandError> {
    let namespace = args.namespace.as_str();
    let agent = Key::namespaced(namespace, AGENT);
    let deployment = find::<Deployment>(spoke, &agent).await?;
    if deployment.is_some_and(|deployment| deployment.label(MANAGED_BY) == Some("Helm")) {
        let error = anyhow!("cannot install the agent: Deployment {agent} belongs to a helm release");
        let hint = "helm upgrade changes the agent, and helm uninstall removes it";
        return Err(CommandError::hinted(error, hint));
    }
    let Some(identity) = HubKubeconfig::read(spoke, namespace).await? else { return Ok(()) };
    let (old, new) = (identity.hub().await?, hub_config(bootstrap).await?.cluster_url);
    let name = &identity.cluster;
    let hint = match (old == new, *name == args.cluster_name) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "is this the cluster that you mean? join with --cluster-name {name} again, or remove it from the hub with wheelwright unjoin first"
        ),
        (false, _) => format!(
            "wheelwright switch-hub --namespace {namespace} moves it to the other hub; join --namespace NAME adds a second agent"
        ),
    };
    let wanted = &args.cluster_name;
    let error = anyhow!(
        "cannot join {new} as cluster {wanted}: the agent in {namespace} has joined {old} as cluster {name}"
    );
    Err(CommandError::hinted(error, hint))
}

/// Applies the namespace, the bootstrap kubeconfig and the objects of the agent's chart.
async fn install(writer: &mut Writer, args: &Args, kubeconfig: &str) -> Result<(), CommandError> {
    let Args { cluster_name: cluster, bootstrap: _, image, image_pull_secrets, namespace, wait: _, write: _ } =
        args;
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": BOOTSTRAP_SECRET, "namespace": namespace},
        "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
    });
    let mut objects = vec![Object::from_value(own)?, Object::from_value(secret)?];
    objects.extend(agent_manifests(AgentInstallation { namespace, cluster, image, image_pull_secrets })?);
    let agent = Key::namespaced(namespace.as_str(), AGENT);
    if let Some(present) = find::<Deployment>(writer.client(), &agent).await? {
        let present = Object::from_typed(&present);
        let deployments = objects.iter_mut().filter(|object| object.kind() == "Deployment");
        deployments.for_each(|wanted| keep_resources(wanted, &present));
    }
    // API servers reject dry runs in a namespace that does not exist.
    let is_asked = !writer.is_dry_run()
        || find::<Namespace>(writer.client(), &Key::cluster(namespace.as_str())).await?.is_some();
    for object in objects {
        if is_asked {
            writer.apply_object(&object).await?;
        } else {
            writer.show(object);
        }
    }
    Ok(())
}
