//! The end of an agent on its cluster.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::join::{Credentials, JoinError, api};
use super::wait::Wait;
use super::{FIRST_WAIT, LONGEST_WAIT};
use api::cluster::v1alpha1::ClusterClaim;
use api::names::{AGENT_CLAIM, AGENT_SECRET_ANNOTATION, APPLIED_WORK_FINALIZER};
use api::work::v1::AppliedManifestWork;
use object::text::with_causes;
use object::{Key, Metadata as _};

const LIST_APPLIED: &str = "list the AppliedManifestWorks of the cluster";
const READ_CLAIM: &str = "read the ClusterClaim with the identity of the agent";
const FREE_APPLIED: &str = "remove the finalizer of an AppliedManifestWork";

/// An agent that leaves its cluster.
pub struct Leaver<'a> {
    /// The managed cluster.
    pub spoke: &'a kube::Client,
    /// The cluster that keeps the identity.
    pub home: &'a kube::Client,
    /// The secret that keeps the identity.
    pub secret: &'a Key,
}

/// Removes the finalizers and the claim of an agent from its cluster and then its identity, and waits until `stop`.
/// Failed attempts are repeated. The objects of works stay.
///
/// The agent itself must have ended: it would write them again.
pub async fn leave(leaver: &Leaver<'_>, stop: &CancellationToken) {
    let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT);
    while let Err(error) = leaver.attempt().await {
        warn!(error = with_causes(&error), "cannot leave the cluster yet; the agent tries again");
        if stop.run_until_cancelled(sleep(wait.take())).await.is_none() {
            return;
        }
    }
    info!(secret = %leaver.secret, "the agent has left the cluster; its identity is deleted");
    stop.cancelled().await;
}

impl Leaver<'_> {
    async fn attempt(&self) -> Result<(), JoinError> {
        let secrets: Api<Secret> = Api::namespaced(self.home.clone(), &self.secret.namespace);
        let held = secrets.get_opt(&self.secret.name).await;
        let Some(held) = held.map_err(api("read the identity"))? else { return Ok(()) };
        if let Some(credentials) = Credentials::of_secret(&held) {
            self.free_applied_works(&credentials.agent).await?;
        }
        self.delete_claim().await?;
        let deleted = secrets.delete(&self.secret.name, &DeleteParams::default()).await;
        deleted.map(|_| ()).or_else(gone).map_err(api("delete the identity"))
    }

    async fn free_applied_works(&self, agent: &str) -> Result<(), JoinError> {
        let works: Api<AppliedManifestWork> = Api::all(self.spoke.clone());
        let all = works.list(&ListParams::default()).await;
        // A cluster without the definition has no such works.
        let all = all.map(|list| list.items).or_else(gone).map_err(api(LIST_APPLIED))?;
        for work in all.into_iter().filter(|work| work.spec.agent_id == agent) {
            if !work.has_finalizer(APPLIED_WORK_FINALIZER) {
                continue;
            }
            let kept: Vec<_> =
                work.finalizers().iter().filter(|one| *one != APPLIED_WORK_FINALIZER).collect();
            let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": work.resource_version()}});
            let patched = works.patch(&work.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map(|_| ()).or_else(gone).map_err(api(FREE_APPLIED))?;
        }
        Ok(())
    }

    async fn delete_claim(&self) -> Result<(), JoinError> {
        let claims: Api<ClusterClaim> = Api::all(self.spoke.clone());
        let held = claims.get_opt(AGENT_CLAIM).await.map_err(api(READ_CLAIM))?;
        let secret = self.secret.to_string();
        let Some(held) = held.filter(|claim| claim.annotation(AGENT_SECRET_ANNOTATION) == Some(&secret))
        else {
            return Ok(());
        };
        let precondition = Preconditions { uid: held.metadata.uid, ..Preconditions::default() };
        let deleted = claims.delete(AGENT_CLAIM, &DeleteParams::default().preconditions(precondition)).await;
        let deleted = deleted.map(|_| ()).or_else(gone);
        deleted.map_err(api("delete the ClusterClaim with the identity of the agent"))
    }
}

/// Takes an object or a kind that does not exist for nothing.
fn gone<T: Default>(error: kube::Error) -> Result<T, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(T::default()),
        error => Err(error),
    }
}
