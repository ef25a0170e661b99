//! Predicates: the labels, claims and CEL expressions that a cluster must match.

use super::ClusterAttributes;
use super::cel::{Expressions, SUBJECT, Scores, StepBudget};
use crate::placement::Misconfigured;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{ClusterCelSelector, ClusterClaimSelector, ClusterPredicate, ClusterSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use object::Selector;

const PLUGIN: &str = "Predicate";

/// The labels and claims that a cluster must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matcher {
    labels: Selector,
    claims: Selector,
}

/// One predicate of a placement.
#[derive(Debug)]
pub struct Predicate {
    matcher: Matcher,
    expressions: Expressions,
}

impl Matcher {
    /// Parses the two selectors. An absent selector matches everything.
    ///
    /// # Errors
    /// Fails if a requirement violates the syntax of labels, which also applies to claims.
    pub(crate) fn read(
        labels: Option<&LabelSelector>,
        claims: Option<&ClusterClaimSelector>,
    ) -> Result<Self, Misconfigured> {
        let refused = |e: object::selector::InvalidSelector| Misconfigured::new(PLUGIN, e.to_string());
        let labels = labels.map(Selector::parse).transpose().map_err(refused)?;
        let claims = claims
            .map(|ClusterClaimSelector { match_expressions, unknown: _ }| {
                Selector::from_expressions(match_expressions)
            })
            .transpose()
            .map_err(refused)?;
        Ok(Self { labels: labels.unwrap_or_default(), claims: claims.unwrap_or_default() })
    }

    /// Returns true if a cluster has the labels and claims.
    pub(crate) fn matches(&self, attributes: &ClusterAttributes) -> bool {
        self.labels.matches_with(|key| attributes.label(key))
            && self.claims.matches_with(|name| attributes.claim(name))
    }
}

impl Predicate {
    /// Parses the predicates of a placement.
    ///
    /// # Errors
    /// Fails if a selector is malformed or an expression does not compile.
    pub fn read(predicates: &[ClusterPredicate]) -> Result<Vec<Self>, Misconfigured> {
        predicates.iter().map(Self::read_one).collect()
    }

    fn read_one(predicate: &ClusterPredicate) -> Result<Self, Misconfigured> {
        let ClusterPredicate { required_cluster_selector, unknown: _ } = predicate;
        let Some(selector) = required_cluster_selector else {
            return Ok(Self { matcher: Matcher::default(), expressions: Expressions::default() });
        };
        let ClusterSelector { label_selector, claim_selector, cel_selector, unknown: _ } = selector;
        let matcher = Matcher::read(label_selector.as_ref(), claim_selector.as_ref())?;
        let sources = match cel_selector {
            Some(ClusterCelSelector { cel_expressions, unknown: _ }) => cel_expressions.as_slice(),
            None => &[],
        };
        let expressions = Expressions::compile(sources, &[SUBJECT])
            .map_err(|message| Misconfigured::new(PLUGIN, message))?;
        Ok(Self { matcher, expressions })
    }

    /// Returns true if the predicate matches a cluster. A failing expression does not match.
    pub fn matches(
        &self,
        cluster: &ManagedCluster,
        attributes: &ClusterAttributes,
        scores: &Scores<'_>,
        budget: &mut StepBudget,
    ) -> bool {
        self.matcher.matches(attributes) && self.expressions.matches(cluster, scores, budget).unwrap_or(false)
    }

    /// Returns true if the labels and claims match, without evaluating expressions.
    pub(crate) fn could_match(&self, attributes: &ClusterAttributes) -> bool {
        self.matcher.matches(attributes)
    }

    /// Returns the reason that the predicate does not match a cluster.
    pub(crate) fn mismatch(
        &self,
        cluster: &ManagedCluster,
        attributes: &ClusterAttributes,
        scores: &Scores<'_>,
        budget: &mut StepBudget,
    ) -> Option<String> {
        let unlike = |requirement: &&object::selector::Requirement, value| !requirement.matches(value);
        let label = self.matcher.labels.requirements.iter().find(|r| unlike(r, attributes.label(&r.key)));
        if let Some(requirement) = label {
            return Some(format!("the labels do not match {requirement}"));
        }
        let claim = self.matcher.claims.requirements.iter().find(|r| unlike(r, attributes.claim(&r.key)));
        if let Some(requirement) = claim {
            return Some(format!("the claims do not match {requirement}"));
        }
        match self.expressions.matches(cluster, scores, budget) {
            Ok(true) => None,
            Ok(false) => Some("an expression is false".into()),
            Err(error) => Some(error),
        }
    }

    /// Returns true if the result depends on more than labels and claims.
    pub(crate) fn has_expressions(&self) -> bool {
        !self.expressions.is_empty()
    }
}
