//! Predicates: labels, claims and expressions a cluster must match.

use super::Facts;
use super::cel::{Budget, Expressions, Scores};
use crate::placement::Misconfigured;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{ClusterClaimSelector, ClusterPredicate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use object::Selector;

const PLUGIN: &str = "Predicate";

/// Labels and claims a cluster must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    labels: Selector,
    claims: Selector,
}

/// One of the things a cluster may be like.
#[derive(Debug)]
pub struct Predicate {
    matcher: Matcher,
    expressions: Expressions,
}

impl Matcher {
    /// Reads the two selectors; absent ones match everything.
    ///
    /// # Errors
    /// The first requirement label syntax does not allow; claims are held to it too.
    pub fn read(
        labels: Option<&LabelSelector>,
        claims: Option<&ClusterClaimSelector>,
    ) -> Result<Self, Misconfigured> {
        let refused = |e: object::selector::InvalidSelector| Misconfigured::new(PLUGIN, e.to_string());
        let labels = labels.map(Selector::parse).transpose().map_err(refused)?;
        let claims = claims
            .map(|claims| Selector::from_expressions(&claims.match_expressions))
            .transpose()
            .map_err(refused)?;
        Ok(Self { labels: labels.unwrap_or_default(), claims: claims.unwrap_or_default() })
    }

    /// Whether a cluster has the labels and the claims.
    pub fn matches(&self, facts: &Facts) -> bool {
        self.labels.matches_with(|key| facts.label(key)) && self.claims.matches_with(|name| facts.claim(name))
    }
}

impl Predicate {
    /// Reads the predicates of a placement.
    ///
    /// # Errors
    /// The first selector that is malformed or expression that does not compile.
    pub fn read(predicates: &[ClusterPredicate]) -> Result<Vec<Self>, Misconfigured> {
        predicates.iter().map(Self::read_one).collect()
    }

    fn read_one(predicate: &ClusterPredicate) -> Result<Self, Misconfigured> {
        let Some(selector) = &predicate.required_cluster_selector else {
            return Ok(Self { matcher: Matcher::default(), expressions: Expressions::default() });
        };
        let matcher = Matcher::read(selector.label_selector.as_ref(), selector.claim_selector.as_ref())?;
        let sources =
            selector.cel_selector.as_ref().map(|cel| cel.cel_expressions.as_slice()).unwrap_or_default();
        let expressions =
            Expressions::compile(sources).map_err(|message| Misconfigured::new(PLUGIN, message))?;
        Ok(Self { matcher, expressions })
    }

    /// Whether a cluster is like this; a failing expression means no.
    pub fn matches(
        &self,
        (cluster, facts): (&ManagedCluster, &Facts),
        scores: &Scores<'_>,
        budget: &mut Budget,
    ) -> bool {
        self.matcher.matches(facts) && self.expressions.matches(cluster, scores, budget).unwrap_or(false)
    }

    /// Whether a cluster is like this as far as labels and claims tell.
    pub fn could_match(&self, facts: &Facts) -> bool {
        self.matcher.matches(facts)
    }

    /// Why a cluster is not like this.
    pub fn mismatch(
        &self,
        (cluster, facts): (&ManagedCluster, &Facts),
        scores: &Scores<'_>,
        budget: &mut Budget,
    ) -> Option<String> {
        let unlike = |requirement: &&object::selector::Requirement, value| !requirement.matches(value);
        let label = self.matcher.labels.requirements.iter().find(|r| unlike(r, facts.label(&r.key)));
        if let Some(requirement) = label {
            return Some(format!("label {requirement} does not hold"));
        }
        let claim = self.matcher.claims.requirements.iter().find(|r| unlike(r, facts.claim(&r.key)));
        if let Some(requirement) = claim {
            return Some(format!("claim {requirement} does not hold"));
        }
        match self.expressions.matches(cluster, scores, budget) {
            Ok(true) => None,
            Ok(false) => Some("an expression is false".into()),
            Err(why) => Some(why),
        }
    }

    /// Whether the result depends on more than labels and claims.
    pub fn reads_everything(&self) -> bool {
        !self.expressions.is_empty()
    }
}
