//! Rollout strategies: the order and the pace in which new content reaches the clusters of a placement.
//!
//! A strategy is one file here, its `mod` line and its line in the list at the end of this file. The file has
//! a struct of the options and three functions: `read` reads them from the wire, `stages` returns the order
//! of the groups as a list of [`StageRule`]s, and `limits` returns the limits of every cluster. The engine
//! turns the rules into stages, judges the clusters and fills the slots; a strategy decides nothing by
//! itself. The line in the list names the file, which is also the name of the wire field, and the value of
//! `type`.

mod all;
mod progressive;
mod progressive_per_group;

use jiff::SignedDuration;
use serde::Serialize;

use super::cluster::GroupKey;
use super::refused::Refused;
use super::size::Size;
use api::cluster::v1alpha1::{MandatoryDecisionGroup, RolloutStrategy, RolloutType};

/// A rule that makes stages of groups. The rules of a strategy apply in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRule<'a> {
    /// The groups of the rule: those of the list, or all that no earlier rule took.
    pub groups: Option<&'a [Mandatory]>,
    /// The name of the one stage that they form together; if absent, every group is a stage of its own.
    pub together: Option<&'static str>,
    /// How many clusters of a stage may be in flight.
    pub slots: Size,
    /// How many clusters of a stage may fail before no more clusters start.
    pub failures: Failures,
}

/// How many clusters of a stage may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// All of them.
    Unlimited,
    /// A share of the clusters of the stage.
    OfStage(Size),
    /// A share of the clusters of all stages.
    OfAll(Size),
}

impl<'a> StageRule<'a> {
    /// Returns the rule of mandatory groups: they go one after the other, each as a whole, and tolerate no
    /// failure.
    fn mandatory(groups: &'a [Mandatory]) -> Self {
        Self {
            groups: Some(groups),
            together: None,
            slots: Size::ALL,
            failures: Failures::OfStage(Size::Count(0)),
        }
    }
}

/// The limits of a strategy on every cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How long a cluster must have succeeded before it is done; with `None` it is done at once, whatever the
    /// policy says.
    pub soak: Option<SignedDuration>,
    /// Time without a success after which a cluster has timed out; `None` leaves it to the policy.
    pub deadline: Option<SignedDuration>,
    /// Whether clusters that do not answer are started too: the strategy has no slots to protect.
    pub start_unreachable: bool,
}

/// The limits of a progressive strategy on every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// `minSuccessTime`: how long a cluster must have succeeded before its slot is free.
    pub soak: SignedDuration,
    /// `progressDeadline`: time without a success after which a cluster has timed out; `None` waits without
    /// end.
    pub deadline: Option<SignedDuration>,
    /// `maxFailures`: how many clusters may fail or time out before no more clusters start.
    pub failures: Size,
}

impl Options {
    fn limits(&self) -> Limits {
        Limits { soak: Some(self.soak), deadline: self.deadline, start_unreachable: false }
    }
}

/// A group of `mandatoryDecisionGroups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mandatory {
    /// Every group of that name.
    Name(String),
    /// The group of that index.
    Index(i32),
}

impl Mandatory {
    fn read(groups: &[MandatoryDecisionGroup]) -> Vec<Self> {
        let read = |group: &MandatoryDecisionGroup| {
            let MandatoryDecisionGroup { group_name, group_index, unknown: _ } = group;
            match group_name.as_str() {
                "" => Self::Index(group_index.unwrap_or_default()),
                name => Self::Name(name.into()),
            }
        };
        groups.iter().map(read).collect()
    }

    /// Returns whether it selects a group.
    pub fn selects(&self, group: &GroupKey) -> bool {
        match self {
            Self::Name(name) => *name == group.name,
            Self::Index(index) => *index == group.index,
        }
    }
}

impl std::fmt::Display for Mandatory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Index(index) => write!(f, "#{index}"),
        }
    }
}

macro_rules! strategies {
    ($($field:ident: $name:ident, $doc:literal;)+) => {
        $(pub use $field::$name;)+

        /// How new content goes out across the clusters of a placement.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "type")]
        pub enum Strategy {
            $(#[doc = $doc] $name($name),)+
        }

        impl Strategy {
            /// Reads the wire type. An option that is absent has its default, and the options of other types
            /// have no effect.
            ///
            /// `group_size` is the size of the placement's decision groups, where it sets one.
            ///
            /// # Errors
            /// Names the first field that cannot be used.
            pub fn read(wire: &RolloutStrategy, group_size: Option<Size>) -> Result<Self, Refused> {
                let RolloutStrategy { r#type, $($field,)+ unknown: _ } = wire;
                match r#type {
                    $(RolloutType::$name => $name::read($field.as_ref(), group_size).map(Self::$name),)+
                    RolloutType::Other(unknown) => {
                        Err(Refused::unknown("type", unknown, RolloutType::VALUES))
                    }
                }
            }

            /// Returns the rules that make stages out of groups.
            pub fn stages(&self) -> Vec<StageRule<'_>> {
                match self {
                    $(Self::$name(strategy) => strategy.stages(),)+
                }
            }

            /// Returns the limits on every cluster.
            pub fn limits(&self) -> Limits {
                match self {
                    $(Self::$name(strategy) => strategy.limits(),)+
                }
            }
        }
    };
}

strategies! {
    all: All, "Every cluster at once; no failure stops it.";
    progressive: Progressive, "Mandatory groups one after the other, then the rest by cluster name, a few at a time.";
    progressive_per_group: ProgressivePerGroup, "Mandatory groups one after the other, then every other group one after the other.";
}

impl Strategy {
    /// Returns whether failures of some clusters can keep others from starting.
    pub fn stops_on_failures(&self) -> bool {
        self.stages().iter().any(|rule| rule.failures != Failures::Unlimited)
    }

    /// Returns the groups that go first.
    pub fn mandatory(&self) -> Vec<Mandatory> {
        self.stages().into_iter().filter_map(|rule| rule.groups).flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
