//! `wheelwright agent`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::agent_flags::{FeatureGates, OcmArgs};
use crate::agent::{self, AgentOptions, Bootstrap, Leaver};
use crate::cli::connect;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult};
use crate::serve::Listen;
use crate::shell::stop_on_signal;
use crate::shell::{self, EnabledControllers};
use api::cluster::v1::ClientConfig;
use api::names::{AGENT_ANNOTATION_PREFIX, AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use controllers::agent_identity::ClaimOptions;
use engine::klusterlet::CLUSTER_LABELS_VARIABLE;
use object::Key;

/// The hint about valid names of clusters, namespaces and agents.
pub(super) const NAME_HINT: &str = "use at most 63 lower-case letters, digits and '-'";
/// The file that contains the namespace of a pod.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The controllers of OCM's work agent.
const WORK_CONTROLLERS: [&str; 2] = ["work-agent", "unmanaged-applied-work"];

/// Run the agent of a managed cluster.
///
/// The agent joins the hub, renews the lease of the cluster, applies works and reports their status. It works
/// with any hub of Open Cluster Management (OCM). It waits until the hub accepts the cluster and approves its
/// certificate request.
///
/// The program `wheelwright-agent` is this command alone, and needs less memory.
///
/// The flags are those of OCM's agents, so pods of OCM's agents run with this program. `/registration agent` is
/// the registration agent, `/work agent` the work agent, and `/registration-operator agent` both.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bootstrap kubeconfig of the hub, which the agent uses until the cluster has joined. Can be repeated.
    /// With several, the agent switches to the next hub that accepts it if its hub denies the cluster or is
    /// away for too long.
    #[arg(
        long,
        visible_alias = "bootstrap-kubeconfigs",
        value_name = "FILE",
        required_unless_present_any = ["hub_kubeconfig", "leave"]
    )]
    bootstrap_kubeconfig: Vec<PathBuf>,
    /// Kubeconfig of the hub, with the identity in the same directory, for a work agent without the
    /// registration part. Otherwise, it is the bootstrap kubeconfig.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// Directory with the files of the identity: `kubeconfig`, `tls.key`, `tls.crt`, `cluster-name` and
    /// `agent-name`. The agent writes it in addition to the Secret. A work agent without the registration
    /// part reads it.
    #[arg(long, value_name = "DIR")]
    hub_kubeconfig_dir: Option<PathBuf>,
    /// Time in seconds after which the agent switches to another hub if its hub is away, at least 180.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    hub_connection_timeout_seconds: u64,
    /// Kubeconfig of the managed cluster. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of
    /// the pod.
    #[arg(long, value_name = "FILE")]
    spoke_kubeconfig: Option<PathBuf>,
    /// Run on another cluster than the managed one, which `--spoke-kubeconfig` names. The agent keeps its
    /// Secrets on its own cluster, in a namespace that must exist.
    #[arg(long, requires = "spoke_kubeconfig")]
    hosted: bool,
    /// Kubeconfig of the cluster on which a hosted agent keeps its Secrets. Default: `KUBECONFIG`,
    /// `~/.kube/config`, or the service account of the pod.
    #[arg(long, value_name = "FILE", requires = "hosted")]
    kubeconfig: Option<PathBuf>,
    /// Leave the managed cluster: remove the finalizers and the claim of the agent, and then its identity.
    /// The objects of works stay. The command then waits until it is stopped, so that it can run as a pod. It
    /// fails if the cluster refuses five attempts in a row.
    #[arg(long)]
    leave: bool,
    /// Name of the cluster on the hub. Default: the name in the stored identity, or else a random one.
    #[arg(
        long,
        visible_alias = "cluster-name",
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    spoke_cluster_name: String,
    /// Name of the agent in its identity on the hub. An identity with another name is replaced. Default: the
    /// name in the stored identity, or else a random one.
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// Namespace of the Secrets with the identity and the works. Default: the namespace of the pod, or else
    /// `open-cluster-management-agent`.
    #[arg(long)]
    namespace: Option<String>,
    /// Name of the Secret with the identity, in the format of OCM's agent.
    #[arg(long, value_name = "NAME", default_value = HUB_KUBECONFIG_SECRET)]
    hub_kubeconfig_secret: String,
    /// Credentials of add-ons for the API server of the hub: `csr` for a client certificate, or `token` for a
    /// token of a service account that the hub creates for each add-on.
    #[arg(long, value_name = "DRIVER", default_value = "csr", value_parser = ["csr", "token"])]
    addon_kubeclient_registration_auth: String,
    /// Lifetime in seconds that the agent requests for its certificates, at least 3600. Default: 0, which
    /// means the lifetime of the signer.
    #[arg(long, value_name = "SECONDS")]
    client_cert_expiration_seconds: Option<i32>,
    /// HTTPS URLs of the API server of the cluster, for its ManagedCluster, separated by commas.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    spoke_external_server_urls: Vec<String>,
    /// Annotations of the ManagedCluster that the agent creates, separated by commas. Keys that do not start
    /// with `agent.open-cluster-management.io/` are ignored.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    cluster_annotations: Vec<String>,
    /// Labels of the ManagedCluster that the agent creates, separated by commas. The labels of an existing
    /// cluster are not changed.
    #[arg(long, env = CLUSTER_LABELS_VARIABLE, value_name = "KEY=VALUE", value_delimiter = ',')]
    cluster_labels: Vec<String>,
    /// Maximum number of ClusterClaims that are reported in addition to the reserved ones.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    max_custom_cluster_claims: usize,
    /// Suffixes of the names of additional reserved ClusterClaims, separated by commas.
    #[arg(long, value_name = "SUFFIX", value_delimiter = ',')]
    reserved_cluster_claim_suffixes: Vec<String>,
    /// Time for which the agent keeps the objects of a work that no longer exists on the hub, such as
    /// `1h30m`. Default: 1h.
    #[arg(long, value_name = "DURATION", default_value = "", hide_default_value = true)]
    appliedmanifestwork_eviction_grace_period: String,
    /// Feature gates, as `NAME=true` or `NAME=false`, separated by commas. You can turn off ClusterClaim and
    /// AddonManagement. MultipleHubs is on if there are several bootstrap kubeconfigs. Other gates of OCM's
    /// agents have no effect.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    feature_gates: Vec<String>,
    /// Address that serves `/livez`, `/healthz`, `/readyz` and `/metrics`, such as `127.0.0.1:8080`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Serve `--listen` over HTTPS, as the probes of OCM's pods require. The agent creates the certificate
    /// when it starts.
    #[arg(long, requires = "listen")]
    listen_tls: bool,
    /// Controllers to run: `*` means all, `name` adds one, `-name` omits one.
    /// `-work-agent,-unmanaged-applied-work,*` is a registration agent that runs next to OCM's work agent.
    /// `work-agent,unmanaged-applied-work` is a work agent that uses the identity in the Secret of OCM's
    /// registration agent.
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    #[command(flatten)]
    ocm: Box<OcmArgs>,
}

pub(crate) fn run(args: &Args, _: &mut Ui) -> CommandResult {
    check(args)?;
    let gates = FeatureGates::parse(&args.feature_gates)?;
    let off = if gates.addon_management { "" } else { ",-addon-lease" };
    let chosen = format!("{}{off}", args.controllers);
    let controllers = EnabledControllers::parse(&chosen, &agent::controller_names())
        .map_err(|error| CommandError::from(anyhow!("--controllers: {error}")))?;
    args.ocm.check()?;
    block_on(async {
        let config = connect::config(args.spoke_kubeconfig.as_deref(), None).await?;
        let client_configs = client_configs(&args.spoke_external_server_urls, &config)?;
        let spoke = shell::client(config).context("cannot use the kubeconfig of the cluster")?;
        let management = match args.hosted {
            true => Some(connect::connect(args.kubeconfig.as_deref(), None).await?),
            false => None,
        };
        let home = management.as_ref().unwrap_or(&spoke);
        let secret = Key::namespaced(namespace(args), &args.hub_kubeconfig_secret);
        if args.leave {
            agent::leave(&Leaver { spoke: &spoke, home, secret: &secret }, &stop_on_signal()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let Hubs { bootstrap, other_hubs, directory } = hubs(args, &controllers)?;
        let cluster = match args.spoke_cluster_name.as_str() {
            "" => agent::cluster_name(home, &secret, directory.as_deref()).await?,
            name => name.to_owned(),
        };
        let stop = stop_on_signal();
        let options = AgentOptions {
            addon_driver: args.addon_kubeclient_registration_auth.clone().into(),
            management,
            other_hubs,
            hub_timeout: Duration::from_secs(args.hub_connection_timeout_seconds),
            agent_id: args.agent_id.clone().filter(|id| !id.is_empty()),
            secret,
            directory,
            certificate_seconds: args.client_cert_expiration_seconds.filter(|seconds| *seconds > 0),
            cluster_annotations: annotations(&args.cluster_annotations)?,
            cluster_labels: pairs("--cluster-labels", &args.cluster_labels)?,
            client_configs,
            claims: ClaimOptions {
                enabled: gates.cluster_claim,
                max_custom: args.max_custom_cluster_claims,
                reserved_suffixes: args.reserved_cluster_claim_suffixes.clone(),
            },
            eviction_grace: object::duration::parse(&args.appliedmanifestwork_eviction_grace_period),
            listen: args.listen.map(|address| Listen { address, tls: args.listen_tls }),
            controllers,
            ..AgentOptions::new(bootstrap, spoke, cluster)
        };
        agent::run(options, stop).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Checks flags whose values do not depend on other flags.
fn check(args: &Args) -> Result<(), CommandError> {
    let name = &args.spoke_cluster_name;
    if !name.is_empty() && !object::names::is_dns_label(name) {
        let error = anyhow!("--spoke-cluster-name: {name:?} is not a valid name of a namespace on the hub");
        return Err(CommandError::hinted(error, NAME_HINT));
    }
    if args.agent_id.as_ref().is_some_and(|id| !id.is_empty() && !object::names::is_dns_label(id)) {
        return Err(CommandError::hinted(anyhow!("--agent-id is not a valid name of an agent"), NAME_HINT));
    }
    if args.client_cert_expiration_seconds.is_some_and(|seconds| seconds != 0 && seconds < 3600) {
        let error = anyhow!("--client-cert-expiration-seconds is too short");
        return Err(CommandError::hinted(error, "use at least 3600, or 0 for the lifetime of the signer"));
    }
    let grace = &args.appliedmanifestwork_eviction_grace_period;
    if !grace.is_empty() && object::duration::parse(grace).is_none_or(|grace| grace.is_negative()) {
        let error = anyhow!("--appliedmanifestwork-eviction-grace-period: {grace:?} is not a valid duration");
        return Err(CommandError::hinted(error, "write it as 1h30m"));
    }
    if args.hub_connection_timeout_seconds < 180 {
        let error = anyhow!("--hub-connection-timeout-seconds is too short");
        return Err(CommandError::hinted(error, "use at least 180: a lease is renewed once a minute"));
    }
    Ok(())
}

/// The hubs, and the directory of the identity files.
struct Hubs {
    bootstrap: Bootstrap,
    other_hubs: Vec<Bootstrap>,
    directory: Option<PathBuf>,
}

fn hubs(args: &Args, controllers: &EnabledControllers) -> Result<Hubs, CommandError> {
    let is_work_agent =
        !controllers.includes("lease") && WORK_CONTROLLERS.iter().any(|name| controllers.includes(name));
    let beside = args.hub_kubeconfig.as_deref().and_then(Path::parent);
    let has_identity = beside.filter(|_| is_work_agent && args.bootstrap_kubeconfig.is_empty());
    // The kubelet may mount the files of the Secret later; the agent waits for them.
    if let (Some(directory), Some(kubeconfig)) = (has_identity, &args.hub_kubeconfig)
        && (args.hub_kubeconfig_dir.is_some() || directory.join("tls.crt").exists() || !kubeconfig.exists())
    {
        let directory = args.hub_kubeconfig_dir.clone().unwrap_or_else(|| directory.to_owned());
        return Ok(Hubs {
            bootstrap: Bootstrap::File(kubeconfig.clone()),
            other_hubs: Vec::new(),
            directory: Some(directory),
        });
    }
    let files = match args.bootstrap_kubeconfig.as_slice() {
        [] => args.hub_kubeconfig.iter().cloned().collect(),
        files => files.to_vec(),
    };
    for path in &files {
        connect::readable(path)?;
    }
    let mut hubs = files.into_iter().map(Bootstrap::File);
    let Some(bootstrap) = hubs.next() else {
        let error = anyhow!("no kubeconfig for the hub was given");
        return Err(CommandError::hinted(error, "name one with --bootstrap-kubeconfig"));
    };
    Ok(Hubs { bootstrap, other_hubs: hubs.collect(), directory: args.hub_kubeconfig_dir.clone() })
}

fn namespace(args: &Args) -> String {
    let of_pod = || std::fs::read_to_string(POD_NAMESPACE).ok().map(|name| name.trim().to_owned());
    let named = args.namespace.clone().or_else(of_pod);
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| AGENT_NAMESPACE.to_owned())
}

/// Returns a client config for each URL, with the CA bundle of the cluster's kubeconfig.
fn client_configs(urls: &[String], config: &kube::Config) -> Result<Vec<ClientConfig>, CommandError> {
    let bundle = config.root_cert.iter().flatten().map(|der| {
        let lines: Vec<String> = STANDARD
            .encode(der)
            .as_bytes()
            .chunks(64)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    });
    let bundle: String = bundle.collect();
    let ca_bundle = (!bundle.is_empty()).then(|| STANDARD.encode(&bundle));
    let mut configs = Vec::new();
    for url in urls.iter().filter(|url| !url.is_empty()) {
        if !url.starts_with("https://") {
            let error = anyhow!("--spoke-external-server-urls: {url:?} is not an https URL");
            return Err(CommandError::hinted(error, "name it as https://HOST:PORT"));
        }
        let ca_bundle = ca_bundle.clone();
        configs.push(ClientConfig { url: url.clone(), ca_bundle, ..ClientConfig::default() });
    }
    Ok(configs)
}

fn annotations(given: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut annotations = pairs("--cluster-annotations", given)?;
    annotations.retain(|key, _| key.starts_with(AGENT_ANNOTATION_PREFIX));
    Ok(annotations)
}

/// Parses the `KEY=VALUE` pairs of a flag.
fn pairs(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let mut read = BTreeMap::new();
    for pair in given.iter().filter(|pair| !pair.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            let error = anyhow!("{flag}: {pair:?} has no value");
            return Err(CommandError::hinted(error, "write KEY=VALUE"));
        };
        read.insert(key.to_owned(), value.to_owned());
    }
    Ok(read)
}

#[cfg(test)]
#[path = "tests/agent.rs"]
mod tests;
