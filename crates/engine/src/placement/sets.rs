//! Which clusters are in which sets.

use super::filter::Facts;
use api::cluster::v1beta2::{ManagedClusterSet, SelectorType};
use api::names::CLUSTER_SET_LABEL;
use object::Selector;

/// Which clusters are in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Those whose label names it.
    Labelled(String),
    /// Those with certain labels.
    Selected(String, Selector),
    /// None.
    Nobody(String),
    /// Nobody knows: its selector is malformed.
    Unknown(String, String),
}

impl Members {
    /// Reads who is in a set.
    pub fn of(set: &ManagedClusterSet) -> Self {
        let name = set.metadata.name.clone().unwrap_or_default();
        let selector = &set.spec.cluster_selector;
        match (&selector.selector_type, &selector.label_selector) {
            (SelectorType::ExclusiveClusterSetLabel, _) => Self::Labelled(name),
            (SelectorType::Other(other), _) if other.is_empty() => Self::Labelled(name),
            (SelectorType::Other(other), _) => {
                Self::Unknown(name, format!("selectorType is not right: {other}"))
            }
            (SelectorType::LabelSelector, None) => Self::Nobody(name),
            (SelectorType::LabelSelector, Some(labels)) => match Selector::parse(labels) {
                Ok(selector) => Self::Selected(name, selector),
                Err(e) => Self::Unknown(name, e.to_string()),
            },
        }
    }

    /// Name of the set.
    pub fn name(&self) -> &str {
        match self {
            Self::Labelled(name) | Self::Selected(name, _) | Self::Nobody(name) | Self::Unknown(name, _) => {
                name
            }
        }
    }

    /// Whether a cluster is in the set.
    pub fn contains(&self, facts: &Facts) -> bool {
        match self {
            Self::Labelled(name) => facts.label(CLUSTER_SET_LABEL) == Some(name),
            Self::Selected(_, selector) => selector.matches_with(|key| facts.label(key)),
            Self::Nobody(_) | Self::Unknown(..) => false,
        }
    }
}
