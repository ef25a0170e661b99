//! The rollout engine decides which clusters of a placement get new content now, and why the others wait.
//!
//! [`advance`] is a pure function from the facts ([`Input`]) to the decision ([`RolloutDecision`]). It compiles
//! a [`Strategy`] into a list of stages, each with clusters, slots and a failure allowance. It classifies every
//! cluster individually and counts failures over the whole fleet. Only then does it walk the stages in order and
//! fill their slots by cluster name. A report counts only for the hash that the cluster was assigned. A stage
//! starts after all earlier stages have finished. The order of the input does not matter. [`oracle`] states
//! these promises and checks decisions against them. [`IncrementalRollout`] gives the same results at a cost
//! proportional to the changes.
//!
//! # Instructions for callers
//!
//! - Write [`Assignment::assigned`](decision::Assignment::assigned) if it differs from the hash that the cluster
//!   runs, with the time. It is the hash that a cluster runs from now on: the wanted one, the previous one, or
//!   the one that it returns to. No other write is needed.
//! - Pass the written hash as [`Cluster::runs`](cluster::Cluster::runs) and `runs_since` in the next call,
//!   before any report arrives. A cluster with a new assignment holds its slot until it reports.
//! - Exclude the clusters of other rollouts from [`Input::groups`]. The engine waits for every cluster in a
//!   group.
//! - Store [`RolloutDecision::quarantine`] and the granted approvals, and pass them in the next call. Write the
//!   quarantine before the assignments: a cluster that returned no longer counts as failed, so a crash in
//!   between would start the bad revision again.
//! - Call again at [`RolloutDecision::recheck`].
//!
//! # Differences from OCM's library
//!
//! The results equal those of `sdk-go/pkg/apis/cluster/v1alpha1` on the same input (`ClustersToRollout` is
//! [`RolloutDecision::rolling`]), except for the rows below. `tests/ocm` compares with the library itself on
//! thousands of random inputs and accepts no difference without a row. `tests/compat.rs` has an example for each
//! row.
//!
//! | row | input | OCM | here | why |
//! |---|---|---|---|---|
//! | failures first | failures that sort after a waiting cluster, by name or by group | starts the cluster, and may not see the breach | counts failures first, everywhere | the order of names must not decide safety |
//! | failed slot | a tolerated failure before its deadline, or without one | keeps its slot, forever without a deadline | frees its slot and stays listed | one failure starved the rollout |
//! | overlap | per group, a tolerated timeout | subtracts it from the clusters in flight, so two groups run at once | the group is unfinished while one of its clusters is | groups must not overlap |
//! | generous | `maxFailures` above the number of clusters | treats it as 0 | treats it as the number of clusters | the most generous value was the strictest |
//! | batches | clusters in flight, failed or timed out outside of the mandatory groups, or per group in a later group | makes the rest wait for them, forever after a timeout | a stage waits only for its own clusters and earlier stages | Progressive became batches |
//! | slot limit | as many clusters in flight as slots | ignores later clusters: they are not listed, not counted, not timed out | classifies every cluster | a fleet in trouble must not look healthy |
//! | assigned | a report older than the assignment | times out at once, or does not soak | deadline and soak never begin before the assignment (`runs_since`) | the time belonged to the previous revision |
//! | silent | a cluster assigned long ago that never reported | waits forever | times out, if its assignment has a time | a dead agent held its slot forever |
//! | timeout | a timeout that the caller reports | does not list it, and in a mandatory group does not count it | lists and counts it | it is a failure |
//! | unheard | a cluster that was assigned and has not reported (`ToApply`) | does not list it after a breach or before its group's turn | lists it as in flight | the assignment is already written |
//! | to do | waiting clusters that are given as `ToApply`, as the add-on manager does | lists them before others and, by name, before those in flight, even beyond `maxConcurrency` | starts them by name in free slots | they wait to start and are not in flight |
//! | gap | group indexes with a gap | loses the groups after the gap, and removes their clusters | every group counts | a label is not an array |
//! | twice | a cluster in two groups | it waits in both | it belongs to the first | it can run only once |
//! | typo | `5\|`, `30mxyz`, `"5"`, `"33.5%"`, `"101%"` | an error at every pass, for every cluster (for `maxConcurrency` once its stage is reached), or a guess | refuses it with a hint; the last good strategy stays | a typo must not freeze a fleet silently |
//! | nobody | `maxConcurrency` of `"0%"` or below 0 | starts all clusters at once | refuses it | it says no cluster |
//! | fraction | `55%` of 20 | 12, by floating-point numbers | 11 | 11 is exact |
//! | absent | no `type`; a `minSuccessTime` that is empty or below 0, or wrong where it has no effect | an error; counts backwards | treats them as All and as none | the CRD's defaults say so |
//! | churn | clusters that joined the fleet after the rollout began (`joined`) | reopens their group, so a rollout in a growing fleet never completes | starts them in their group's turn or after it, and no other group waits for them | churn must not starve a rollout |
//! | removal | clusters that left | removes all of them at once | above a budget they keep their content until the removal is approved | an empty placement must not empty a fleet |
//!
//! The [`Policy`] governs what OCM does not cover: unreachable clusters, pauses, freezes, approvals, rollback,
//! quarantine, joining, superseding. Its default adds no difference to the list above.

mod advance;
mod breach;
mod classify;
pub mod cluster;
mod cron;
pub mod decision;
mod display;
mod freeze;
mod incremental;
mod input;
pub mod oracle;
pub mod policy;
pub mod refused;
pub mod removal;
mod rules;
pub mod simulation;
pub mod size;
mod stage;
pub mod state;
pub mod strategy;

#[cfg(test)]
mod tests;

pub use advance::{advance, undone};
pub use classify::observe;
pub use decision::RolloutDecision;
pub use freeze::{ApplyWait, ApplyWindows};
pub use incremental::IncrementalRollout;
pub use input::Input;
pub use policy::Policy;
pub use refused::Refused;
pub use size::Size;
pub use state::ClusterState;
pub use strategy::Strategy;
