//! Removes an agent from its cluster.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::credentials::Credentials;
use super::error::{JoinError, api};
use super::run::{FIRST_WAIT, LONGEST_WAIT};
use super::wait::Wait;
use crate::shell::{list_all, with_causes};
use api::cluster::v1alpha1::ClusterClaim;
use api::names::{APPLIED_WORK_FINALIZER, SEALING_IDENTITY_SUFFIX};
use api::work::v1::{AppliedManifestWork, AppliedManifestWorkSpec};
use controllers::agent_identity::{AgentIdentity, claim_name};
use object::{Key, Metadata as _};

const LIST_APPLIED: &str = "list the AppliedManifestWorks of the cluster";
const READ_CLAIM: &str = "read the ClusterClaim with the identity of the agent";
const FREE_APPLIED: &str = "remove the finalizer of an AppliedManifestWork";

/// The number of rejections in a row after which the agent gives up. Permissions may be only seconds old.
const REFUSALS: u32 = 5;

/// An agent that leaves its cluster.
pub struct Leaver<'a> {
    /// The managed cluster.
    pub spoke: &'a kube::Client,
    /// The cluster that stores the identity.
    pub home: &'a kube::Client,
    /// The secret that stores the identity.
    pub secret: &'a Key,
}

/// Removes an agent's finalizers and claim from its cluster, then its identity, and waits until `stop`. Retries
/// failed attempts. Objects of works stay.
///
/// The agent must have stopped, because it would write them again.
///
/// # Errors
/// Fails if the cluster has rejected several attempts in a row.
pub async fn leave(leaver: &Leaver<'_>, stop: &CancellationToken) -> Result<(), JoinError> {
    let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT);
    let mut refusals = 0;
    while let Err(error) = leaver.attempt().await {
        refusals = if is_refused(&error) { refusals + 1 } else { 0 };
        if refusals >= REFUSALS {
            return Err(error);
        }
        warn!(error = with_causes(&error), "cannot leave the cluster; retrying");
        if stop.run_until_cancelled(sleep(wait.take())).await.is_none() {
            return Ok(());
        }
    }
    info!(secret = %leaver.secret, "the agent has left the cluster; its identity is deleted");
    stop.cancelled().await;
    Ok(())
}

fn is_refused(error: &JoinError) -> bool {
    let JoinError::Api { source: kube::Error::Api(status), .. } = error else { return false };
    matches!(status.code, 401 | 403)
}

impl Leaver<'_> {
    async fn attempt(&self) -> Result<(), JoinError> {
        let secrets: Api<Secret> = Api::namespaced(self.home.clone(), &self.secret.namespace);
        let secret = secrets.get_opt(&self.secret.name).await.map_err(api("read the identity"))?;
        let claim = self.claim().await?;
        let agent = secret.as_ref().and_then(Credentials::from_secret).map(|credentials| credentials.agent);
        // If the secret is gone, the claim still identifies the finalizers.
        let claimed = claim.as_ref().and_then(|claim| AgentIdentity::parse(&claim.spec.value));
        let is_ours = |spec: &AppliedManifestWorkSpec| {
            agent.as_ref() == Some(&spec.agent_id)
                || claimed.as_ref().is_some_and(|identity| identity.has(spec))
        };
        if agent.is_some() || claimed.is_some() {
            self.free_applied_works(is_ours).await?;
        }
        if let Some(claim) = claim {
            self.delete_claim(&claim).await?;
        }
        let keys = format!("{}{SEALING_IDENTITY_SUFFIX}", self.secret.name);
        let deleted = secrets.delete(&keys, &DeleteParams::default()).await;
        deleted.map(|_| ()).or_else(gone).map_err(api("delete the key that decrypts Secrets"))?;
        if secret.is_some() {
            let deleted = secrets.delete(&self.secret.name, &DeleteParams::default()).await;
            deleted.map(|_| ()).or_else(gone).map_err(api("delete the identity"))?;
        }
        Ok(())
    }

    async fn free_applied_works(
        &self,
        is_ours: impl Fn(&AppliedManifestWorkSpec) -> bool,
    ) -> Result<(), JoinError> {
        let works: Api<AppliedManifestWork> = Api::all(self.spoke.clone());
        let all = list_all(&works, ListParams::default()).await;
        // A cluster without the definition has no such works.
        let all = all.or_else(gone).map_err(api(LIST_APPLIED))?;
        for work in all.into_iter().filter(|work| is_ours(&work.spec)) {
            if !work.has_finalizer(APPLIED_WORK_FINALIZER) {
                continue;
            }
            let finalizers: Vec<_> =
                work.finalizers().iter().filter(|one| *one != APPLIED_WORK_FINALIZER).collect();
            let patch =
                json!({"metadata": {"finalizers": finalizers, "resourceVersion": work.resource_version()}});
            let patched = works.patch(&work.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map(|_| ()).or_else(gone).map_err(api(FREE_APPLIED))?;
        }
        Ok(())
    }

    async fn claim(&self) -> Result<Option<ClusterClaim>, JoinError> {
        let claims: Api<ClusterClaim> = Api::all(self.spoke.clone());
        claims.get_opt(&claim_name(self.secret)).await.or_else(gone).map_err(api(READ_CLAIM))
    }

    async fn delete_claim(&self, claim: &ClusterClaim) -> Result<(), JoinError> {
        let claims: Api<ClusterClaim> = Api::all(self.spoke.clone());
        let precondition = Preconditions { uid: claim.metadata.uid.clone(), ..Preconditions::default() };
        let params = DeleteParams::default().preconditions(precondition);
        let deleted = claims.delete(claim.name(), &params).await.map(|_| ()).or_else(gone);
        deleted.map_err(api("delete the ClusterClaim with the identity of the agent"))
    }
}

/// Treats a missing object or kind as empty.
fn gone<T: Default>(error: kube::Error) -> Result<T, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(T::default()),
        error => Err(error),
    }
}

#[cfg(test)]
#[path = "tests/leave.rs"]
mod tests;
