//! The identity of an agent: its cluster, its id and its hub. A ClusterClaim on the spoke carries it to the
//! controllers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use api::cluster::v1alpha1::{ClusterClaim, ClusterClaimSpec};
use api::names::{AGENT_CLAIM, AGENT_OPTIONS_ANNOTATION, EVICTION_ANNOTATION, SPOKE_ONLY_LABEL};
use api::work::v1::AppliedManifestWorkSpec;
use jiff::SignedDuration;
use object::{Key, Metadata as _, Object};
use reconcile::{Read, Site, View};

/// The identity of the agent that runs on a spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster on the hub.
    pub cluster: String,
    /// Distinguishes two agents of one spoke.
    pub agent_id: String,
    /// SHA-256 of the hub's URL as the agent's kubeconfig has it, in hexadecimal digits.
    pub hub_hash: String,
}

impl Identity {
    /// Reads the value of the claim.
    pub fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('/').map(str::to_owned);
        let (cluster, agent_id, hub_hash) = (parts.next()?, parts.next()?, parts.next()?);
        (!cluster.is_empty() && !hub_hash.is_empty()).then_some(Self { cluster, agent_id, hub_hash })
    }

    /// Returns the value of the claim.
    pub fn value(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.agent_id, self.hub_hash)
    }

    /// Returns the claim; its label keeps it from being reported to the hub.
    pub fn claim(&self) -> Object {
        let metadata = ObjectMeta {
            name: Some(AGENT_CLAIM.into()),
            labels: Some([(SPOKE_ONLY_LABEL.to_owned(), String::new())].into()),
            ..ObjectMeta::default()
        };
        let spec = ClusterClaimSpec { value: self.value(), ..ClusterClaimSpec::default() };
        Object::from_typed(&ClusterClaim { metadata, spec, ..ClusterClaim::default() })
    }

    /// Returns the name of a ManifestWork's AppliedManifestWork.
    pub(crate) fn applied_name(&self, work: &str) -> String {
        format!("{}-{work}", self.hub_hash)
    }

    /// Returns whether an AppliedManifestWork is of this agent. One agent of a hub has the claim of the
    /// cluster, so another id is that of an earlier agent of the hub.
    pub fn has(&self, applied: &AppliedManifestWorkSpec) -> bool {
        applied.agent_id == self.agent_id || applied.hub_hash == self.hub_hash
    }

    /// Returns the ManifestWork of an AppliedManifestWork, if it belongs to this hub.
    pub fn work(&self, applied: &str) -> Option<Key> {
        let work = applied.strip_prefix(&self.hub_hash)?.strip_prefix('-')?;
        Some(Key::namespaced(&self.cluster, work))
    }
}

/// The options of an agent that its controllers read. The claim carries them, because a controller has no
/// flags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimOptions {
    /// Whether the agent reports ClusterClaims.
    pub enabled: bool,
    /// Limit of the reported claims beside the reserved ones.
    pub max_custom: usize,
    /// Ends of names that are reserved too.
    pub reserved_suffixes: Vec<String>,
}

impl Default for ClaimOptions {
    /// Returns the options of Open Cluster Management's agent.
    fn default() -> Self {
        Self { enabled: true, max_custom: 20, reserved_suffixes: Vec::new() }
    }
}

/// Returns the options in the claim of this agent; the default ones where it has none.
pub(super) fn claim_options(view: &impl View) -> Read<ClaimOptions> {
    let claim = view.get_on::<ClusterClaim>(Site::Spoke, &Key::cluster(AGENT_CLAIM))?;
    let text = claim.as_ref().and_then(|claim| claim.annotation(AGENT_OPTIONS_ANNOTATION));
    Ok(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

/// How long a work may be missing on the hub: the default of Open Cluster Management's agent.
const EVICTION_GRACE: SignedDuration = SignedDuration::from_mins(60);

/// Returns how long the agent of a claim keeps an AppliedManifestWork without a work on the hub.
pub fn eviction_grace(claim: Option<&ClusterClaim>) -> SignedDuration {
    let text = claim.and_then(|claim| claim.annotation(EVICTION_ANNOTATION));
    text.and_then(object::duration::parse).unwrap_or(EVICTION_GRACE)
}

/// Returns the identity of this agent; `None` until its claim exists.
pub(super) fn identity(view: &impl View) -> Read<Option<Identity>> {
    let claim = view.get_on::<ClusterClaim>(Site::Spoke, &Key::cluster(AGENT_CLAIM))?;
    Ok(claim.and_then(|claim| Identity::parse(&claim.spec.value)))
}
