//! The agent's errors: why it has no identity on the hub yet, or why a task outside the controllers failed.

use std::path::PathBuf;

use crate::pki;
use object::Key;

/// The reason why the agent has no identity on the hub yet.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The bootstrap kubeconfig is unusable.
    #[error("invalid kubeconfig for the hub: {0}")]
    Kubeconfig(String),
    /// An API server rejected a request or could not be reached.
    #[error("cannot {attempt}")]
    Api { attempt: &'static str, source: kube::Error },
    /// Creating or reading a key or certificate failed.
    #[error("cannot create a certificate request")]
    Pki(#[from] pki::Error),
    /// The certificate does not belong to the key.
    #[error("the hub did not issue a certificate: {0}")]
    Certificate(String),
    /// The request was denied, or signing failed.
    #[error("the certificate request {name} was denied: {message}")]
    Denied { name: String, message: String },
    /// The hub has too many pending requests of the cluster.
    #[error("this cluster already has {0} pending certificate requests on the hub; approve or delete them")]
    TooManyRequests(usize),
    /// The hub was lost before it issued a certificate.
    #[error("lost the hub before it issued a certificate: {0}")]
    Lost(String),
    /// The registration agent creates the identity, and has not finished.
    #[error("the secret {0} has no identity for this cluster yet; the registration agent creates it")]
    NoIdentity(Key),
    /// Another agent of the hub runs on the cluster.
    #[error(
        "another agent of this hub manages this cluster; to let this agent take over, stop the other one and \
         delete the ClusterClaim {0}"
    )]
    OfAnotherAgent(String),
    /// The secret for a hosted add-on's credentials belongs to another cluster.
    #[error(
        "the Secret {secret} next to this agent contains the credentials of the add-on for the cluster {cluster}; \
         give the add-on another install namespace on one of the clusters, or delete the secret if that \
         cluster is gone"
    )]
    OfAnotherCluster { secret: Key, cluster: String },
    /// Another client manages a definition, without the version that the agent needs.
    #[error("another client manages the definition {name}, which does not serve version {version}")]
    Definition { name: String, version: String },
    /// A definition was not served in time.
    #[error("the definition {0} is not established")]
    NotEstablished(String),
    /// Writing the identity to its directory failed.
    #[error("cannot write the identity to {directory}")]
    Files { directory: PathBuf, source: std::io::Error },
    /// The bootstrap kubeconfig changed while the agent was joining.
    #[error("the bootstrap kubeconfig has changed")]
    Moved,
    /// The agent is stopping.
    #[error("stopped while waiting for a certificate")]
    Stopped,
}

impl JoinError {
    /// Returns true if the API server rejected a write because the object had changed since it was read.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.code == 409)
    }
}

/// Creates the error of an attempt from an API server's response.
pub(super) fn api(attempt: &'static str) -> impl FnOnce(kube::Error) -> JoinError {
    move |source| JoinError::Api { attempt, source }
}
