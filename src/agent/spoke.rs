//! The agent's objects on its own cluster: its credentials and its identity.

use std::path::Path;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tracing::warn;

use super::credentials::Credentials;
use super::error::{JoinError, api};
use super::hub::BootstrapHub;
use super::{AgentOptions, files};
use crate::pki;
use api::cluster::v1alpha1::ClusterClaim;
use api::names::{AGENT, AGENT_CLAIM_SUFFIX, EVICTION_ANNOTATION, SPOKE_ONLY_LABEL};
use controllers::agent_identity::{AgentIdentity, AgentSettings, EVICTION_GRACE, claim_name};
use object::{Key, Metadata as _};
use seal::Identity;

fn params() -> PatchParams {
    PatchParams::apply(AGENT).force()
}

/// Returns the stored identity, if it can be read.
pub(super) async fn load(options: &AgentOptions) -> Result<Option<Credentials>, JoinError> {
    if let Some(directory) = options.directory.as_deref().filter(|_| !options.registers()) {
        return Ok(files::load(directory));
    }
    let Key { namespace, name } = &options.secret;
    let secrets: Api<Secret> = Api::namespaced(options.home().clone(), namespace);
    let secret = secrets.get_opt(name).await.map_err(api("read the identity stored on the cluster"))?;
    Ok(secret.as_ref().and_then(Credentials::from_secret))
}

/// Returns the cluster name in the stored identity. If there is none, returns a random name, like OCM's agent.
///
/// # Errors
/// Fails if the secret cannot be read.
pub async fn cluster_name(
    home: &kube::Client,
    secret: &Key,
    directory: Option<&Path>,
) -> Result<String, JoinError> {
    if let Some(name) = directory.and_then(files::cluster) {
        return Ok(name);
    }
    let secrets: Api<Secret> = Api::namespaced(home.clone(), &secret.namespace);
    let found =
        secrets.get_opt(&secret.name).await.map_err(api("read the identity stored on the cluster"))?;
    let named = found.and_then(|secret| String::from_utf8(secret.data?.remove("cluster-name")?.0).ok());
    match named.filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => random_name(),
    }
}

/// Returns a random UUID (RFC 9562, version 4).
fn random_name() -> Result<String, JoinError> {
    let mut bytes = [0; 16];
    pki::fill_random(&mut bytes)?;
    let mut text = object::hex(bytes);
    text.replace_range(12..13, "4");
    text.replace_range(16..17, "a");
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    Ok(text)
}

/// Stores an identity: certificate and key together, in the format of OCM's agent.
pub(super) async fn store(
    options: &AgentOptions,
    credentials: &Credentials,
    hub: &BootstrapHub,
) -> Result<(), JoinError> {
    let Key { namespace: place, name } = &options.secret;
    if options.management.is_none() {
        let namespaces: Api<Namespace> = Api::all(options.spoke.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}});
        let applied = namespaces.patch(place, &params(), &Patch::Apply(namespace)).await;
        applied.map_err(api("create the agent's namespace"))?;
    }
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": place},
        "data": {
            "kubeconfig": bytes(&hub.stored_kubeconfig()?),
            "cluster-name": bytes(credentials.cluster()),
            "agent-name": bytes(&credentials.agent),
            "tls.crt": bytes(&credentials.certificate),
            "tls.key": bytes(&credentials.key),
        },
    });
    let secrets: Api<Secret> = Api::namespaced(options.home().clone(), place);
    secrets
        .patch(name, &params(), &Patch::Apply(secret))
        .await
        .map_err(api("store the identity on the cluster"))?;
    match &options.directory {
        Some(directory) => files::store(directory, credentials, &hub.stored_kubeconfig()?),
        None => Ok(()),
    }
}

/// Reads the claims of the cluster's agents; `None` if this agent may not.
///
/// # Errors
/// Fails if the cluster does not respond.
pub(super) async fn claims(options: &AgentOptions) -> Result<Option<Vec<ClusterClaim>>, JoinError> {
    let claims: Api<ClusterClaim> = Api::all(options.spoke.clone());
    match claims.list(&ListParams::default().labels(SPOKE_ONLY_LABEL)).await {
        Err(kube::Error::Api(refusal)) if refusal.code == 403 => Ok(None),
        all => Ok(Some(all.map_err(api("list the ClusterClaims of agents"))?.items)),
    }
}

/// Returns the claim of another agent of the hub, if it is older than the claim of this agent.
pub(super) fn earlier<'c>(
    claims: &'c [ClusterClaim],
    options: &AgentOptions,
    hub: &BootstrapHub,
) -> Option<&'c ClusterClaim> {
    let own = claim_name(&options.secret);
    let age = |claim: &ClusterClaim| (claim.metadata.creation_timestamp.clone(), claim.name().to_owned());
    let claimed = claims.iter().find(|claim| claim.name() == own).map(age);
    let is_of_hub = |claim: &ClusterClaim| {
        claim.name().ends_with(&format!(".{AGENT_CLAIM_SUFFIX}"))
            && AgentIdentity::parse(&claim.spec.value).is_some_and(|identity| identity.hub_hash == hub.hash())
    };
    let is_before = |claim: &ClusterClaim| claimed.as_ref().is_none_or(|claimed| age(claim) < *claimed);
    claims.iter().find(|claim| claim.name() != own && is_of_hub(claim) && is_before(claim))
}

/// Fails if another agent of the hub has claimed the cluster. Returns true if the agent may read claims; an
/// agent that may not is not refused.
///
/// # Errors
/// Fails if another agent claimed the cluster before this one.
pub(super) async fn refuse_second(options: &AgentOptions, hub: &BootstrapHub) -> Result<bool, JoinError> {
    let Some(claims) = claims(options).await? else { return Ok(false) };
    match earlier(&claims, options, hub) {
        Some(other) => Err(JoinError::OfAnotherAgent(other.name().to_owned())),
        None => Ok(true),
    }
}

/// Claims the cluster, and returns the settings of the controllers.
///
/// # Errors
/// See [`write_claim`].
pub(super) async fn settings(
    options: &AgentOptions,
    hub: &BootstrapHub,
    credentials: &Credentials,
    sealing: Vec<Identity>,
) -> Result<AgentSettings, JoinError> {
    let mut identity = AgentIdentity {
        cluster: options.cluster.clone(),
        agent_id: credentials.agent.clone(),
        hub_hash: hub.hash(),
        is_claimed: false,
    };
    identity.is_claimed = write_claim(options, hub, &identity).await?;
    Ok(AgentSettings {
        identity,
        claims: options.claims.clone(),
        eviction_grace: options.eviction_grace.unwrap_or(EVICTION_GRACE),
        is_hosted: options.management.is_some(),
        sealing,
    })
}

/// Writes the claim with the agent's identity, and returns true if the cluster is claimed. An agent that may
/// not write claims, as with the role of OCM's registration agent, runs without one.
///
/// # Errors
/// See [`refuse_second`]. Also fails if the cluster does not respond.
async fn write_claim(
    options: &AgentOptions,
    hub: &BootstrapHub,
    identity: &AgentIdentity,
) -> Result<bool, JoinError> {
    let claims: Api<ClusterClaim> = Api::all(options.spoke.clone());
    let mut claim = identity.claim(&options.secret);
    if let Some(grace) = options.eviction_grace {
        let annotation = json!({EVICTION_ANNOTATION: object::duration::format(grace)});
        claim.metadata_mut().insert("annotations".into(), annotation);
    }
    // A registration agent and a work agent share one claim. Only the work agent writes the eviction grace, and
    // the registration agent must not remove it.
    let params = match options.controllers.includes("unmanaged-applied-work") {
        true => params(),
        false => PatchParams::apply("wheelwright-registration-agent").force(),
    };
    match claims.patch(claim.name(), &params, &Patch::Apply(&claim)).await {
        Err(kube::Error::Api(refusal)) if refusal.code == 403 => {
            warn!(
                claim = claim.name(),
                "no permission to write the agent's ClusterClaim; cannot detect a second agent of this hub"
            );
            Ok(false)
        }
        written => {
            written.map_err(api("write the ClusterClaim of the agent"))?;
            refuse_second(options, hub).await
        }
    }
}

#[cfg(test)]
#[path = "tests/spoke.rs"]
pub(super) mod tests;
