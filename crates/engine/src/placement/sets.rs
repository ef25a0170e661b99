//! The members of cluster sets.

use super::filter::ClusterAttributes;
use api::cluster::v1beta2::{ClusterSelector, ManagedClusterSet, ManagedClusterSetSpec, SelectorType};
use api::names::CLUSTER_SET_LABEL;
use object::{Metadata as _, Selector};

/// The rule that determines the members of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetMembers {
    /// The label that names the set.
    Labeled(String),
    /// A label selector.
    Selected(String, Selector),
    /// The set has no members.
    Empty(String),
    /// The selector is malformed, so the members are unknown. The second text is the reason.
    Unknown(String, String),
}

impl SetMembers {
    /// Parses the membership rule of a set.
    pub fn from_set(set: &ManagedClusterSet) -> Self {
        let name = set.name().to_owned();
        // The namespaces that a set manages do not affect its members.
        let ManagedClusterSetSpec { cluster_selector, managed_namespaces: _, unknown: _ } = &set.spec;
        let ClusterSelector { selector_type, label_selector, unknown: _ } = cluster_selector;
        match (selector_type, label_selector) {
            (SelectorType::ExclusiveClusterSetLabel, _) => Self::Labeled(name),
            (SelectorType::Other(other), _) if other.is_empty() => Self::Labeled(name),
            (SelectorType::Other(other), _) => {
                Self::Unknown(name, format!("selectorType is not right: {other}"))
            }
            (SelectorType::LabelSelector, None) => Self::Empty(name),
            (SelectorType::LabelSelector, Some(labels)) => match Selector::parse(labels) {
                Ok(selector) => Self::Selected(name, selector),
                Err(e) => Self::Unknown(name, e.to_string()),
            },
        }
    }

    /// Returns the name of the set.
    pub fn name(&self) -> &str {
        match self {
            Self::Labeled(name) | Self::Selected(name, _) | Self::Empty(name) | Self::Unknown(name, _) => {
                name
            }
        }
    }

    /// Returns true if a cluster is in the set.
    pub fn contains(&self, attributes: &ClusterAttributes) -> bool {
        match self {
            Self::Labeled(name) => attributes.label(CLUSTER_SET_LABEL) == Some(name),
            Self::Selected(_, selector) => selector.matches_with(|key| attributes.label(key)),
            Self::Empty(_) | Self::Unknown(..) => false,
        }
    }

    /// Returns true if a cluster is in the set, or its membership is unknown. Such clusters keep their
    /// decisions.
    pub(super) fn may_contain(&self, attributes: &ClusterAttributes) -> bool {
        matches!(self, Self::Unknown(..)) || self.contains(attributes)
    }
}
