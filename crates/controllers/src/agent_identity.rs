//! The identity of an agent: its cluster, its id and its hub. The controllers read it from the settings of the
//! process; a ClusterClaim on the spoke shows it to other agents and to people.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use api::cluster::v1alpha1::{ClusterClaim, ClusterClaimSpec};
use api::names::{AGENT_CLAIM_SUFFIX, EVICTION_ANNOTATION, SPOKE_ONLY_LABEL};
use api::work::v1::AppliedManifestWorkSpec;
use jiff::SignedDuration;
use object::{Key, Metadata as _, Object};
use reconcile::View;
use seal::Identity;

/// Returns the name of the ClusterClaim for the agent whose identity is in a secret. A cluster may have agents of
/// several hubs.
pub fn claim_name(secret: &Key) -> String {
    format!("{}.{}.{AGENT_CLAIM_SUFFIX}", secret.namespace, secret.name)
}

/// The identity of an agent on a spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentIdentity {
    /// The name of the cluster on the hub.
    pub cluster: String,
    /// Distinguishes two agents on one spoke.
    pub agent_id: String,
    /// SHA-256 of the hub's URL from the agent's kubeconfig, in hexadecimal.
    pub hub_hash: String,
    /// True if a ClusterClaim keeps other agents of the hub off the cluster.
    pub is_claimed: bool,
}

impl AgentIdentity {
    /// Parses the value of the claim.
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('/').map(str::to_owned);
        let (cluster, agent_id, hub_hash) = (parts.next()?, parts.next()?, parts.next()?);
        (!cluster.is_empty() && !hub_hash.is_empty()).then_some(Self {
            cluster,
            agent_id,
            hub_hash,
            is_claimed: true,
        })
    }

    /// Returns the value of the claim.
    pub fn value(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.agent_id, self.hub_hash)
    }

    /// Returns the claim for the agent whose identity is in a secret. Its label prevents it from being reported to
    /// the hub.
    pub fn claim(&self, secret: &Key) -> Object {
        let metadata = ObjectMeta {
            name: Some(claim_name(secret)),
            labels: Some([(SPOKE_ONLY_LABEL.to_owned(), String::new())].into()),
            ..ObjectMeta::default()
        };
        let spec = ClusterClaimSpec { value: self.value(), ..ClusterClaimSpec::default() };
        Object::from_typed(&ClusterClaim { metadata, spec, ..ClusterClaim::default() })
    }

    /// Returns the name of the AppliedManifestWork for a ManifestWork.
    pub(crate) fn applied_name(&self, work: &str) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    /// Returns true if an AppliedManifestWork belongs to this agent. While the cluster is claimed, another id
    /// belongs to an earlier agent of the same hub.
    pub fn has(&self, applied: &AppliedManifestWorkSpec) -> bool {
        applied.agent_id == self.agent_id || self.is_claimed && applied.hub_hash == self.hub_hash
    }

    /// Returns the ManifestWork of an AppliedManifestWork, if it belongs to this hub.
    pub fn work(&self, applied: &str) -> Option<Key> {
        let work = applied.strip_prefix(&self.hub_hash)?.strip_prefix('-')?;
        Some(Key::namespaced(&self.cluster, work))
    }
}

/// The settings of an agent process, for its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// The identity of the agent.
    pub identity: AgentIdentity,
    /// The options for reporting ClusterClaims.
    pub claims: ClaimOptions,
    /// The time that a work may be missing on the hub before its objects are removed.
    pub eviction_grace: SignedDuration,
    /// True if the agent runs on a cluster other than its own.
    pub is_hosted: bool,
    /// The private keys that decrypt Secrets in works, the current one first.
    pub sealing: Vec<Identity>,
}

impl AgentSettings {
    /// Returns the settings with default options.
    pub fn new(identity: AgentIdentity) -> Self {
        Self {
            identity,
            claims: ClaimOptions::default(),
            eviction_grace: EVICTION_GRACE,
            is_hosted: false,
            sealing: Vec::new(),
        }
    }
}

/// The options of an agent for ClusterClaims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimOptions {
    /// True if the agent reports ClusterClaims.
    pub enabled: bool,
    /// Maximum number of reported claims that are not reserved.
    pub max_custom: usize,
    /// Suffixes of names that are also reserved.
    pub reserved_suffixes: Vec<String>,
}

impl Default for ClaimOptions {
    /// Returns the defaults of Open Cluster Management's agent.
    fn default() -> Self {
        Self { enabled: true, max_custom: 20, reserved_suffixes: Vec::new() }
    }
}

/// Default time that a work may be missing on the hub, as in Open Cluster Management's agent.
pub const EVICTION_GRACE: SignedDuration = SignedDuration::from_mins(60);

/// Returns how long the agent of a claim keeps an AppliedManifestWork without a work on the hub.
pub fn eviction_grace(claim: &ClusterClaim) -> SignedDuration {
    let text = claim.annotation(EVICTION_ANNOTATION);
    text.and_then(object::duration::parse).unwrap_or(EVICTION_GRACE)
}

/// Returns the ClusterClaim options, or the defaults if this process is not an agent.
pub(super) fn claim_options(view: &impl View) -> ClaimOptions {
    view.settings::<AgentSettings>().map(|settings| settings.claims.clone()).unwrap_or_default()
}

/// Returns the identity of this agent; `None` if this process is not an agent.
pub(super) fn identity(view: &impl View) -> Option<AgentIdentity> {
    view.settings::<AgentSettings>().map(|settings| settings.identity.clone())
}
