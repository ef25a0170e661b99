//! Rollout strategies: the order and pace in which new content reaches the clusters of a placement.
//!
//! Each strategy consists of a file here, its `mod` line and its line in the list at the end of this file. The
//! file has a struct of the options and three functions: `read` parses the options, `stages` returns the order
//! of the groups as a list of [`StageRule`]s, and `limits` returns the limits for every cluster. A strategy
//! makes no decisions: the engine turns the rules into stages, classifies the clusters and fills the slots. The
//! line in the list gives the file name, which is also the name of the wire field, and the value of `type`.

mod all;
mod progressive;
mod progressive_per_group;

use jiff::SignedDuration;
use serde::Serialize;

use super::cluster::GroupKey;
use super::refused::Refused;
use super::size::Size;
use api::cluster::v1alpha1::{MandatoryDecisionGroup, RolloutStrategy, RolloutType};

/// A rule that turns groups into stages. The rules of a strategy apply in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRule<'a> {
    /// The groups of the rule: the listed ones, or all that no earlier rule selected.
    pub groups: Option<&'a [Mandatory]>,
    /// The name of the single stage that the groups form together. If absent, every group is a separate stage.
    pub together: Option<&'static str>,
    /// The maximum number of clusters in flight per stage.
    pub slots: Size,
    /// The number of clusters in a stage that may fail before no more clusters start.
    pub failures: Failures,
}

/// The number of clusters in a stage that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// All clusters may fail.
    Unlimited,
    /// A share of the clusters in the stage.
    OfStage(Size),
    /// A share of the clusters in all stages.
    OfAll(Size),
}

impl<'a> StageRule<'a> {
    /// Returns the rule for mandatory groups: each group is a stage, starts as a whole and tolerates no failure.
    fn mandatory(groups: &'a [Mandatory]) -> Self {
        Self {
            groups: Some(groups),
            together: None,
            slots: Size::ALL,
            failures: Failures::OfStage(Size::Count(0)),
        }
    }
}

/// The limits of a strategy for every cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The time that a cluster must have succeeded before it is done. With `None` it is done at once, regardless
    /// of the policy.
    pub soak: Option<SignedDuration>,
    /// The time without a success after which a cluster has timed out; `None` uses the deadline of the policy.
    pub deadline: Option<SignedDuration>,
    /// True if unreachable clusters are started too, because the strategy has no slots to protect.
    pub start_unreachable: bool,
}

/// The options of a progressive strategy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// `minSuccessTime`: the time that a cluster must have succeeded before its slot is free.
    pub soak: SignedDuration,
    /// `progressDeadline`: the time without a success after which a cluster has timed out; `None` waits
    /// indefinitely.
    pub deadline: Option<SignedDuration>,
    /// `maxFailures`: the number of clusters that may fail or time out before no more clusters start.
    pub failures: Size,
}

impl Options {
    fn limits(&self) -> Limits {
        Limits { soak: Some(self.soak), deadline: self.deadline, start_unreachable: false }
    }
}

/// A group in `mandatoryDecisionGroups`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mandatory {
    /// All groups with the name.
    Name(String),
    /// The group with the index.
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

    /// Returns true if this selects the group.
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

        /// The order and pace in which new content reaches the clusters of a placement.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "type")]
        pub enum Strategy {
            $(#[doc = $doc] $name($name),)+
        }

        impl Strategy {
            /// Parses the wire type. Absent options have their defaults, and the options of other types are
            /// ignored.
            ///
            /// `group_size` is the size of the placement's decision groups, if the placement sets one.
            ///
            /// # Errors
            /// Names the first invalid field.
            pub fn read(wire: &RolloutStrategy, group_size: Option<Size>) -> Result<Self, Refused> {
                let RolloutStrategy { r#type, $($field,)+ unknown: _ } = wire;
                match r#type {
                    $(RolloutType::$name => $name::read($field.as_ref(), group_size).map(Self::$name),)+
                    RolloutType::Other(unknown) => {
                        Err(Refused::unknown("type", unknown, RolloutType::VALUES))
                    }
                }
            }

            /// Returns the rules that turn groups into stages.
            pub fn stages(&self) -> Vec<StageRule<'_>> {
                match self {
                    $(Self::$name(strategy) => strategy.stages(),)+
                }
            }

            /// Returns the limits for every cluster.
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
    /// Returns true if failures of some clusters can prevent others from starting.
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
