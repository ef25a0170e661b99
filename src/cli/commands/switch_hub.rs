//! `wheelwright switch-hub`.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cli::bootstrap::BootstrapArgs;
use crate::cli::connect::{CLUSTER_KUBECONFIG, answering, parse};
use crate::cli::duration::{Wait, wait};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, find};
use crate::cli::{CommandError, CommandResult};
use crate::shell;
use api::cluster::v1::ManagedCluster;
use api::names::{AGENT_NAMESPACE, BOOTSTRAP_SECRET, CLUSTER_LEASE, HUB_KUBECONFIG_SECRET};
use object::Key;

/// The interval at which the cluster and the new hub are polled.
const POLL: Duration = Duration::from_secs(1);

/// Hand a cluster over to another hub: its agent leaves its hub and joins the other one.
///
/// `--kubeconfig` names the cluster, and the other options name the new hub. The command replaces the
/// bootstrap kubeconfig of the old hub, and waits until the agent has joined the new hub and renews its lease
/// there. Objects of the old hub stay until a work of the new hub takes them over, or until the grace period
/// of the agent ends, which is an hour by default.
#[derive(Debug, clap::Args)]
#[command(mut_arg("kubeconfig", |arg| arg.help(CLUSTER_KUBECONFIG)))]
pub(crate) struct Args {
    #[command(flatten)]
    bootstrap: BootstrapArgs,
    /// Time to wait for the agent, such as `5m`. 0 does not wait.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = wait)]
    wait: Wait,
    /// Namespace of the agent.
    #[arg(short, long, default_value = AGENT_NAMESPACE)]
    namespace: String,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let bootstrap = args.bootstrap.kubeconfig()?;
    block_on(async {
        let hub = hub_config(&bootstrap).await?;
        let new = hub.cluster_url.clone();
        // If the new hub rejected the bootstrap kubeconfig, the agent would have no hub at all.
        may_join(&answering(hub).await?, &new).await?;
        let mut writer = args.write.connect().await?;
        let secret = Key::namespaced(&args.namespace, BOOTSTRAP_SECRET);
        let found = find::<Secret>(writer.client(), &secret).await?;
        let stored = found.and_then(|secret| text(&secret, "kubeconfig")).ok_or_else(|| {
            let hint = "an agent with several bootstrap kubeconfigs goes to its next hub when its hub denies the cluster";
            CommandError::hinted(anyhow!("there is no bootstrap kubeconfig in the Secret {secret}"), hint)
        })?;
        let identity = HubKubeconfig::read(writer.client(), &args.namespace).await?.ok_or_else(|| {
            let error = anyhow!("the agent of this cluster has not joined a hub yet");
            CommandError::hinted(error, "wheelwright join")
        })?;
        let (cluster, old) = (identity.cluster.clone(), identity.hub().await?);
        if stored == bootstrap && old == new {
            writer.add_line(format!("The hub of cluster {cluster} is {new} already"));
            return writer.finish(ui);
        }
        let registered = identity.registered().await;
        let data = json!({"data": {"kubeconfig": STANDARD.encode(&bootstrap)}});
        writer.merge::<Secret>(&secret, data).await?;
        if old == new {
            writer.add_line(format!(
                "Updated the bootstrap kubeconfig of cluster {cluster}; its hub is still {new}"
            ));
            return writer.finish(ui);
        }
        writer.add_line(format!("Switched cluster {cluster} from hub {old} to {new}"));
        if !args.wait.is_zero() && !writer.is_dry_run() {
            ui.error(format!(
                "On the new hub run: wheelwright accept --clusters {cluster} --wait {}",
                args.wait
            ))?;
            let identity = joined(writer.client(), &cluster, &new, args).await?;
            writer.add_line("The agent has joined it and renews its lease there.");
            if registered.is_some() && identity.registered().await == registered {
                writer.add_line("It is the same hub under another URL; there is nothing to clean up.");
            } else {
                to_clean_up(&cluster).into_iter().for_each(|line| writer.add_line(line));
            }
        }
        writer.finish(ui)
    })
}

/// Returns the instructions for the old hub.
fn to_clean_up(cluster: &str) -> [String; 5] {
    let patch = "--type=merge -p '{\"metadata\":{\"finalizers\":null}}'";
    let release = |resource: &str| format!("    kubectl patch {resource} NAME -n {cluster} {patch}");
    [
        "On the old hub run:".into(),
        format!("    kubectl delete managedcluster {cluster} --wait=false"),
        "No agent is left to remove the finalizers of its works and add-ons on the old hub. For each of them, run:"
            .into(),
        release("managedclusteraddon"),
        release("manifestwork"),
    ]
}

/// Checks that a bootstrap kubeconfig may request to join the hub.
async fn may_join(hub: &kube::Client, url: &Uri) -> Result<(), CommandError> {
    let attributes = ResourceAttributes {
        group: Some("certificates.k8s.io".into()),
        resource: Some("certificatesigningrequests".into()),
        verb: Some("create".into()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::all(hub.clone()).create(&PostParams::default(), &review).await;
    let reason = match answer {
        Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => return Ok(()),
        Ok(_) => "it may not create CertificateSigningRequests".to_owned(),
        Err(error) => shell::message(&error),
    };
    let error = anyhow!("the kubeconfig cannot join a cluster to {url}: {reason}");
    Err(CommandError::hinted(error, "on the new hub: wheelwright get token --output kubeconfig"))
}

/// Waits until the agent of a cluster has an identity on a hub and has renewed its lease there.
async fn joined(
    spoke: &kube::Client,
    cluster: &str,
    hub: &Uri,
    args: &Args,
) -> Result<HubKubeconfig, CommandError> {
    let deadline = args.wait.deadline();
    let (mut seen, mut missing) = (None, "joined");
    while Instant::now() < deadline {
        if let Some(identity) = HubKubeconfig::read(spoke, &args.namespace).await?
            && identity.hub().await? == *hub
        {
            missing = "renewed its lease on";
            let renewed = identity.renewed().await;
            if renewed.is_some() && seen.is_some() && renewed != seen {
                return Ok(identity);
            }
            seen = renewed.or(seen);
        }
        sleep(POLL).await;
    }
    let error = anyhow!("the agent of cluster {cluster} has not {missing} {hub} within {}", args.wait);
    let hint = format!(
        "on the new hub: wheelwright accept --clusters {cluster}; to go back, run this command with the old hub"
    );
    Err(CommandError::hinted(error, hint))
}

/// The identity of the agent on its hub, as stored in the cluster.
pub(super) struct HubKubeconfig {
    pub(super) cluster: String,
    kubeconfig: Kubeconfig,
}

impl HubKubeconfig {
    /// Reads the identity of the agent in a namespace; `None` if there is none.
    pub(super) async fn read(spoke: &kube::Client, namespace: &str) -> Result<Option<Self>, CommandError> {
        let key = Key::namespaced(namespace, HUB_KUBECONFIG_SECRET);
        let Some(secret) = find::<Secret>(spoke, &key).await? else { return Ok(None) };
        let data = ["cluster-name", "kubeconfig", "tls.crt", "tls.key"].map(|name| text(&secret, name));
        let [Some(cluster), Some(kubeconfig), Some(certificate), Some(private)] = data else {
            return Ok(None);
        };
        let mut kubeconfig = parse(&kubeconfig)
            .map_err(|error| CommandError::from(error.error.context("cannot use the stored identity")))?;
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo {
                client_certificate_data: Some(STANDARD.encode(&certificate)),
                client_key_data: Some(STANDARD.encode(&private).into()),
                ..AuthInfo::default()
            });
        }
        Ok(Some(Self { cluster, kubeconfig }))
    }

    pub(super) async fn hub(&self) -> Result<Uri, CommandError> {
        Ok(config(self.kubeconfig.clone()).await?.cluster_url)
    }

    /// Returns the uid of the ManagedCluster; `None` if it cannot be read.
    async fn registered(&self) -> Option<String> {
        let client = shell::client(config(self.kubeconfig.clone()).await.ok()?).ok()?;
        find::<ManagedCluster>(&client, &Key::cluster(&self.cluster)).await.ok()??.metadata.uid
    }

    /// Returns the time at which the agent last renewed its lease; `None` if it cannot be read.
    async fn renewed(&self) -> Option<Timestamp> {
        let client = shell::client(config(self.kubeconfig.clone()).await.ok()?).ok()?;
        let lease = find::<Lease>(&client, &Key::namespaced(&self.cluster, CLUSTER_LEASE)).await.ok()??;
        Some(lease.spec?.renew_time?.0)
    }
}

/// Returns a value of a Secret as text.
fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}

/// Returns the client config for the hub of a bootstrap kubeconfig.
pub(super) async fn hub_config(bootstrap: &str) -> Result<kube::Config, CommandError> {
    config(parse(bootstrap)?).await
}

async fn config(kubeconfig: Kubeconfig) -> Result<kube::Config, CommandError> {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Ok(config.context("cannot use the kubeconfig")?)
}
