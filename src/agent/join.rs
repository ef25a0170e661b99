//! The handshake with the hub: creates the cluster, asks for a certificate, and waits until both are granted.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::AgentOptions;
use super::hub::Hub;
use super::requests::{own_user, undecided};
use super::wait::Wait;
use crate::pki;
use api::cluster::v1::{ManagedCluster, ManagedClusterSpec};
use api::names::{
    ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER, MANAGED_CLUSTERS_GROUP, SUBJECT_PREFIX,
};
use object::{Key, hex};

/// The first wait between two reads of a pending request; it doubles each time, up to
/// [`MAX_POLL_INTERVAL`].
const POLL: Duration = Duration::from_millis(500);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The period of the cluster's lease; OCM's default.
const LEASE_SECONDS: i32 = 60;
/// The number of own undecided requests on the hub at which the agent makes no more; that of OCM's agent.
const MAX_REQUESTS: usize = 10;

/// The reason why the agent has no identity on the hub yet.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The bootstrap kubeconfig is unusable.
    #[error("the kubeconfig of the hub cannot be used: {0}")]
    Kubeconfig(String),
    /// An API server refused or could not be reached.
    #[error("cannot {attempt}")]
    Api {
        /// The attempt.
        attempt: &'static str,
        /// The error.
        source: kube::Error,
    },
    /// A key or certificate could not be made or read.
    #[error("cannot make a certificate request")]
    Pki(#[from] pki::Error),
    /// The certificate is not for the key.
    #[error("the hub did not issue a certificate: {0}")]
    Certificate(String),
    /// The request was denied, or signing failed.
    #[error("the certificate request {name} was denied: {message}")]
    Denied {
        /// The request.
        name: String,
        /// The reason.
        message: String,
    },
    /// The hub has too many open requests of the cluster.
    #[error("there are {0} certificate requests of this cluster on the hub already; approve or delete them")]
    TooManyRequests(usize),
    /// The hub is lost before it issued a certificate.
    #[error("the hub is lost before it issued a certificate: {0}")]
    Lost(String),
    /// Another agent makes the identity, and has not finished.
    #[error("there is no identity of this cluster in the secret {0}; the registration agent makes it")]
    NoIdentity(Key),
    /// Another agent of the hub runs on the cluster.
    #[error(
        "another agent of this hub has this cluster; stop it and delete the ClusterClaim {0} to let this one \
         have it"
    )]
    OfAnotherAgent(String),
    /// The secret for the credentials of a hosted add-on is that of another cluster.
    #[error(
        "the secret {secret} beside this agent has the credentials of the add-on for the cluster {cluster}; \
         give the add-on another install namespace on one of the clusters, or delete the secret if that \
         cluster is gone"
    )]
    OfAnotherCluster {
        /// The secret.
        secret: Key,
        /// The cluster.
        cluster: String,
    },
    /// Another client keeps a definition, without the version that the agent needs.
    #[error("the definition {name} is kept by another client and does not serve the version {version}")]
    Definition {
        /// The definition.
        name: String,
        /// The version.
        version: String,
    },
    /// A definition is not served in time.
    #[error("the definition {0} is not established")]
    NotEstablished(String),
    /// The directory of the identity cannot be written.
    #[error("cannot write the identity to {directory}")]
    Files {
        /// The directory.
        directory: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The bootstrap kubeconfig changed while the agent was joining.
    #[error("the bootstrap kubeconfig has changed")]
    Moved,
    /// The agent stops.
    #[error("stopped while waiting for a certificate")]
    Stopped,
}

/// Makes the error of an attempt from an API server's answer.
pub(super) fn api(attempt: &'static str) -> impl FnOnce(kube::Error) -> JoinError {
    move |source| JoinError::Api { attempt, source }
}

/// The identity of an agent: certificate and key, in PEM.
#[derive(Clone)]
pub(super) struct Credentials {
    /// Distinguishes two agents of one cluster.
    pub(super) agent: String,
    /// The certificate.
    pub(super) certificate: String,
    /// The key; never logged.
    pub(super) key: String,
    /// The kubeconfig that it was stored with; empty if it is new.
    pub(super) kubeconfig: String,
    pub(super) subject: pki::Subject,
    from: Timestamp,
    pub(super) until: Timestamp,
}

impl Credentials {
    /// Reads a certificate with its key.
    pub(super) fn read(certificate: String, key: String, kubeconfig: String) -> Result<Self, JoinError> {
        let pki::Certificate { subject, names: _, not_before: from, not_after: until } =
            pki::Certificate::from_pem(&certificate)?;
        let agent = subject.common_name.rsplit(':').next().unwrap_or_default().to_owned();
        Ok(Self { agent, certificate, key, kubeconfig, subject, from, until })
    }

    /// Reads the identity in a secret; `None` where there is none.
    pub(super) fn of_secret(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        Self::read(text("tls.crt")?, text("tls.key")?, text("kubeconfig")?).ok()
    }

    /// Reads a certificate that is no identity on the hub; `None` where there is none.
    pub(super) fn of_certificate(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
        Self::read(text("tls.crt")?, text("tls.key")?, String::new()).ok()
    }

    /// Returns whether this is an identity of this cluster on this hub.
    pub(super) fn is_for(&self, cluster: &str, hub: &Hub) -> bool {
        let named = self.subject.common_name == user(cluster, &self.agent) && !self.agent.is_empty();
        named && hub.has_name_of(&self.kubeconfig)
    }

    /// Returns the cluster that it is for.
    pub(super) fn cluster(&self) -> &str {
        let named = self.subject.common_name.strip_prefix(SUBJECT_PREFIX).unwrap_or_default();
        named.split(':').next().unwrap_or_default()
    }

    /// Returns the start and the end of its validity.
    pub(super) fn validity(&self) -> (Timestamp, Timestamp) {
        (self.from, self.until)
    }

    /// Returns the time at which it expires.
    pub(super) fn expires(&self) -> Timestamp {
        self.until
    }

    /// Returns the time to renew it: 20 to 25 % of its life before the end, different for each agent.
    pub(super) fn renew_at(&self) -> Timestamp {
        let life = self.from.duration_until(self.until);
        let spread = self.agent.bytes().fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 50);
        let left = SignedDuration::from_millis_i128(
            life.as_millis().saturating_mul(i128::from(200 + spread)) / 1000,
        );
        self.until.saturating_sub(left).unwrap_or(self.until)
    }
}

fn user(cluster: &str, agent: &str) -> String {
    format!("{SUBJECT_PREFIX}{cluster}:{agent}")
}

/// Creates the cluster, asks for a certificate, and waits for it.
///
/// The hub may refuse the cluster and then take the request: the permissions of agents arrive between the
/// two, or only people create clusters. So a cluster that was refused is created again while the request
/// waits, and once more when it is granted. A certificate for a cluster that is not there opens nothing.
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

/// Creates the cluster on the hub; returns whether it is there. The hub also refuses it where the agent may
/// not change clusters any more, so that is no error.
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

/// Adds the addresses of the cluster that its ManagedCluster lacks.
pub(super) async fn write_addresses(hub: &kube::Client, options: &AgentOptions) -> Result<(), JoinError> {
    if options.client_configs.is_empty() {
        return Ok(());
    }
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let attempt = "write the addresses of the cluster to its ManagedCluster";
    let mut cluster = clusters.get(&options.cluster).await.map_err(api(attempt))?;
    let configs = &mut cluster.spec.managed_cluster_client_configs;
    let before = configs.len();
    for config in &options.client_configs {
        if !configs.iter().any(|held| held.url == config.url) {
            configs.push(config.clone());
        }
    }
    if configs.len() > before {
        clusters.replace(&options.cluster, &PostParams::default(), &cluster).await.map_err(api(attempt))?;
    }
    Ok(())
}

/// The names in the subject of a certificate, and how long it is to be valid.
#[derive(Clone, Copy)]
pub(super) struct AgentName<'a> {
    pub(super) cluster: &'a str,
    /// The name of the agent, which a renewal keeps; a random one where absent.
    pub(super) agent: Option<&'a str>,
    /// The lifetime of the certificate; the signer's own where absent.
    pub(super) seconds: Option<i32>,
}

/// Asks for a certificate and waits for it.
///
/// The key is made here. It leaves the process only after its certificate was issued.
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

/// The identity that a certificate is asked for.
#[derive(Clone, Copy)]
pub(super) struct CertificateOwner<'a> {
    pub(super) cluster: &'a str,
    /// The add-on; `None` for the agent of the cluster.
    pub(super) addon: Option<&'a str>,
    /// The signer.
    pub(super) signer: &'a str,
    /// How long it is to be valid; as long as the signer wants where absent.
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
    let listed = requests.list(&mine).await.map_err(api("list certificate requests"))?.items;
    let count = undecided(&listed, own_user(hub).await.as_deref());
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
    let labels = [(CLUSTER_NAME_LABEL, Some(cluster)), (ADDON_NAME_LABEL, addon)];
    let labels = labels.into_iter().filter_map(|(label, value)| Some((label.to_owned(), value?.to_owned())));
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

/// Returns whether the hub refused the request permanently. A hub that cannot be reached, or is too busy, has
/// not decided about the request.
pub(super) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404))
}

/// Waits for the certificate of a request. The key belongs to the request, so both stay in use while the hub
/// cannot be read.
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
                warn!(request = name, %error, "cannot read the certificate request; it will be tried again");
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
