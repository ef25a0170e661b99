//! The handshake with the hub: creates the cluster, requests a certificate, and waits until the hub grants
//! both.

use std::pin::pin;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::AgentOptions;
use super::credentials::{Credentials, user};
use super::error::{JoinError, api};
use super::requests::{own_user, undecided};
use super::wait::Wait;
use crate::pki;
use api::cluster::v1::{ManagedCluster, ManagedClusterSpec};
use api::names::{
    ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER, MANAGED_CLUSTERS_GROUP, SUBJECT_PREFIX,
};
use object::hex;

/// The first wait between two reads of a pending request. It doubles each time, up to [`MAX_POLL_INTERVAL`].
const POLL: Duration = Duration::from_millis(500);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The period of the cluster's lease, OCM's default.
const LEASE_SECONDS: i32 = 60;
/// The agent creates no more requests if this many of its own are pending, as in OCM's agent.
const MAX_REQUESTS: usize = 10;

/// Creates the cluster, requests a certificate, and waits for it.
///
/// The hub may reject the cluster and then accept the request: the agents' permissions may arrive in between,
/// or only people may create clusters. If so, the agent retries creating the cluster while the request is
/// pending, and once more after it is granted. A certificate gives no access without the cluster.
pub(super) async fn join(
    hub: &kube::Client,
    options: &AgentOptions,
    name: AgentName<'_>,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let mut is_there = create_cluster(hub, options).await?;
    let mut requested = pin!(request(hub, name, stop));
    let mut wait = Wait::new(POLL, MAX_POLL_INTERVAL);
    let credentials = loop {
        tokio::select! {
            credentials = &mut requested => break credentials?,
            () = sleep(wait.take()), if !is_there => {
                is_there = matches!(create_cluster(hub, options).await, Ok(true));
            }
        }
    };
    if !is_there {
        create_cluster(hub, options).await?;
    }
    Ok(credentials)
}

/// Creates the cluster on the hub, and returns true if it exists. A rejection is not an error, because a hub
/// also rejects agents that may no longer change clusters.
pub(super) async fn create_cluster(hub: &kube::Client, options: &AgentOptions) -> Result<bool, JoinError> {
    let (annotations, labels) = (options.cluster_annotations.clone(), options.cluster_labels.clone());
    let metadata = ObjectMeta {
        name: Some(options.cluster.clone()),
        annotations: (!annotations.is_empty()).then_some(annotations),
        labels: (!labels.is_empty()).then_some(labels),
        ..ObjectMeta::default()
    };
    let spec = ManagedClusterSpec {
        lease_duration_seconds: LEASE_SECONDS,
        managed_cluster_client_configs: options.client_configs.clone(),
        ..ManagedClusterSpec::default()
    };
    let cluster = ManagedCluster { metadata, spec, ..ManagedCluster::default() };
    match Api::<ManagedCluster>::all(hub.clone()).create(&PostParams::default(), &cluster).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 409) => Ok(status.code == 409),
        Err(error) => Err(api("create the ManagedCluster")(error)),
    }
}

/// Adds the cluster addresses that are missing in its ManagedCluster.
pub(super) async fn write_addresses(hub: &kube::Client, options: &AgentOptions) -> Result<(), JoinError> {
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let attempt = "write the addresses of the cluster to its ManagedCluster";
    let mut cluster = clusters.get(&options.cluster).await.map_err(api(attempt))?;
    let configs = &mut cluster.spec.managed_cluster_client_configs;
    let before = configs.len();
    for config in &options.client_configs {
        if !configs.iter().any(|present| present.url == config.url) {
            configs.push(config.clone());
        }
    }
    if configs.len() > before {
        clusters.replace(&options.cluster, &PostParams::default(), &cluster).await.map_err(api(attempt))?;
    }
    Ok(())
}

/// The names in the subject of a certificate, and its lifetime.
#[derive(Clone, Copy)]
pub(super) struct AgentName<'a> {
    pub(super) cluster: &'a str,
    /// The name of the agent, which a renewal keeps. `None` means a random name.
    pub(super) agent: Option<&'a str>,
    /// The lifetime of the certificate. `None` means the signer's default.
    pub(super) seconds: Option<i32>,
}

/// Requests a certificate and waits for it.
///
/// Generates the key, which leaves the process only after the certificate is issued.
pub(super) async fn request(
    hub: &kube::Client,
    AgentName { cluster, agent, seconds }: AgentName<'_>,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let key = pki::KeyPair::generate()?;
    let agent = match agent {
        Some(agent) => agent.to_owned(),
        None => hex(Sha256::digest(key.to_pem())).chars().take(8).collect(),
    };
    let group = format!("{SUBJECT_PREFIX}{cluster}");
    let subject = pki::Subject::new(user(cluster, &agent), &[&group, MANAGED_CLUSTERS_GROUP]);
    let text = pki::request(&key, &subject, &[])?;
    let owner = CertificateOwner { cluster, addon: None, signer: KUBE_CLIENT_SIGNER, seconds };
    let certificate = certify(hub, owner, text, stop).await?;
    Credentials::read(certificate, key.to_pem(), String::new())
}

/// The identity to request a certificate for.
#[derive(Clone, Copy)]
pub(super) struct CertificateOwner<'a> {
    pub(super) cluster: &'a str,
    /// The add-on; `None` for the agent itself.
    pub(super) addon: Option<&'a str>,
    pub(super) signer: &'a str,
    /// The lifetime. `None` means the signer's default.
    pub(super) seconds: Option<i32>,
}

/// Sends a request and waits for its certificate, in PEM.
pub(super) async fn certify(
    hub: &kube::Client,
    owner: CertificateOwner<'_>,
    request: String,
    stop: &CancellationToken,
) -> Result<String, JoinError> {
    let CertificateOwner { cluster, addon, signer: _, seconds: _ } = owner;
    let requests: Api<CertificateSigningRequest> = Api::all(hub.clone());
    let of = addon.map_or(format!("!{ADDON_NAME_LABEL}"), |addon| format!("{ADDON_NAME_LABEL}={addon}"));
    let mine = ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={cluster},{of}"));
    let count = undecided(&requests, mine, own_user(hub).await.as_deref())
        .await
        .map_err(api("list certificate requests"))?;
    if count >= MAX_REQUESTS {
        return Err(JoinError::TooManyRequests(count));
    }
    let created = requests.create(&PostParams::default(), &signing_request(owner, request)).await;
    let name = created.map_err(api("create a certificate request"))?.metadata.name.unwrap_or_default();
    info!(cluster, addon, request = name, "waiting for the certificate request to be approved and signed");
    issued(&requests, &name, stop).await
}

fn signing_request(
    CertificateOwner { cluster, addon, signer, seconds }: CertificateOwner<'_>,
    request: String,
) -> CertificateSigningRequest {
    let labels = [(CLUSTER_NAME_LABEL, Some(cluster)), (ADDON_NAME_LABEL, addon)]
        .into_iter()
        .filter_map(|(label, value)| Some((label.to_owned(), value?.to_owned())));
    let prefix = addon.map_or(format!("{cluster}-"), |addon| format!("addon-{cluster}-{addon}-"));
    let metadata =
        ObjectMeta { generate_name: Some(prefix), labels: Some(labels.collect()), ..ObjectMeta::default() };
    let usages = ["digital signature", "key encipherment", "client auth"].map(str::to_owned);
    let spec = CertificateSigningRequestSpec {
        request: ByteString(request.into_bytes()),
        signer_name: signer.into(),
        usages: Some(usages.into()),
        expiration_seconds: seconds,
        ..CertificateSigningRequestSpec::default()
    };
    CertificateSigningRequest { metadata, spec, ..CertificateSigningRequest::default() }
}

/// Returns true if the hub rejected the request permanently. A hub that is unreachable or too busy has not
/// decided.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404))
}

/// Waits for the certificate of a request. The key belongs to the request, so errors reading the hub do not end
/// the wait.
async fn issued(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    stop: &CancellationToken,
) -> Result<String, JoinError> {
    let mut wait = Wait::new(POLL, MAX_POLL_INTERVAL);
    loop {
        let request = match requests.get(name).await {
            Ok(request) => request,
            Err(error) if is_refusal(&error) => return Err(api("read the certificate request")(error)),
            Err(error) => {
                let error = crate::shell::message(&error);
                warn!(request = name, error, "cannot read the certificate request; retrying");
                CertificateSigningRequest::default()
            }
        };
        let status = request.status.unwrap_or_default();
        if let Some(certificate) = status.certificate {
            return String::from_utf8(certificate.0)
                .map_err(|error| JoinError::Certificate(error.to_string()));
        }
        let denied = status
            .conditions
            .into_iter()
            .flatten()
            .find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed"));
        if let Some(denied) = denied {
            return Err(JoinError::Denied {
                name: name.to_owned(),
                message: denied.message.unwrap_or_default(),
            });
        }
        stop.run_until_cancelled(sleep(wait.take())).await.ok_or(JoinError::Stopped)?;
    }
}
