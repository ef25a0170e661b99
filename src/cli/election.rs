//! The flags for leader election.

use anyhow::Context as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use tokio::time::timeout;
use tracing::warn;

use super::CommandError;
use super::connect::{ANSWER, HubArgs};
use crate::operator::LeaderCandidate;
use crate::shell::{self, ElectionOptions};

/// The hint for a lease that cannot be used.
const ADVICE: &str = "name another namespace with --namespace, grant get, create and update of leases there, \
                      or run the only operator with --leader-elect=false";

/// Leader election of a command.
#[derive(Debug, clap::Args)]
pub(super) struct ElectionArgs {
    /// Write only while elected as leader, which holds a Lease. With `--leader-elect=false`, no other
    /// operator may run, and no Lease shows that this one is alive.
    #[arg(
        long,
        value_name = "BOOL",
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    leader_elect: bool,
}

impl ElectionArgs {
    /// Returns the candidate for a lease; `None` if leader election is off. Creates the namespace of the lease if
    /// it is missing and the API server answers.
    ///
    /// # Errors
    /// Fails if the lease may not be read, or its namespace is missing and cannot be created.
    pub(super) async fn candidate(
        &self,
        hub: &HubArgs,
        namespace: &str,
        lease: &str,
    ) -> Result<Option<LeaderCandidate>, CommandError> {
        if !self.leader_elect {
            warn!("no election: this operator must be the only one");
            return Ok(None);
        }
        let config = hub.config().await?;
        let client = shell::client(config.clone()).context("cannot use the kubeconfig")?;
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        match timeout(ANSWER, leases.get_opt(lease)).await {
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                let reason = status.message;
                let error =
                    anyhow::anyhow!("cannot read the lease {namespace}/{lease} of the election: {reason}");
                return Err(CommandError::hinted(error, ADVICE));
            }
            Ok(Ok(_) | Err(kube::Error::Api(_))) => create_namespace(client, namespace).await?,
            // The API server does not respond. The election retries.
            Ok(Err(_)) | Err(_) => {}
        }
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "wheelwright".into());
        let options = ElectionOptions::new(namespace, lease, &host);
        let candidate = LeaderCandidate::new(&config, options);
        Ok(Some(candidate.context("cannot use the kubeconfig")?))
    }
}

/// Creates the namespace of the lease if it is missing. If the namespace may not be read, the election reports
/// that.
async fn create_namespace(client: kube::Client, name: &str) -> Result<(), CommandError> {
    let namespaces: Api<Namespace> = Api::all(client);
    if !matches!(namespaces.get_opt(name).await, Ok(None)) {
        return Ok(());
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => {
            let reason = shell::message(&error);
            let error =
                anyhow::anyhow!("cannot create the namespace {name} for the lease of the election: {reason}");
            Err(CommandError::hinted(error, ADVICE))
        }
        Ok(_) => Ok(()),
    }
}
