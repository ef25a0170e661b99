//! The rollout engine: decides which clusters of a placement get new content now, and why the others wait.
//!
//! [`advance`] is a pure function from the facts ([`Input`]) to the decision ([`RolloutDecision`]). It
//! compiles a [`Strategy`] into a list of stages; a stage has clusters, slots and an allowance for failures.
//! It judges every cluster by itself, counts failures over the whole fleet, and only then walks the stages in
//! order and fills their slots by cluster name. A report counts only for the hash that the cluster was
//! assigned. A stage starts after the stages before it are finished. The order of the input decides nothing.
//! [`oracle`] states these promises and checks decisions against them. [`IncrementalRollout`] gives the same
//! answers at the cost of what changed.
//!
//! # For callers
//!
//! - Write [`Assignment::assigned`](decision::Assignment::assigned) where it differs from the hash that the
//!   cluster runs, with the time. It is the hash that a cluster runs from now on: the one it should run, the
//!   one it ran before, or the one it returns to. No other write is needed.
//! - Pass the written hash as [`Cluster::runs`](cluster::Cluster::runs) and `runs_since` at the next call,
//!   before any report arrives. A cluster that was moved and has not reported holds its slot.
//! - Leave out of [`Input::groups`] the clusters of another rollout. The engine waits for every cluster of a
//!   group.
//! - Keep [`RolloutDecision::quarantine`] and the approvals that people granted, and pass them at the next
//!   call. Write the quarantine before the assignments: a cluster that returned no longer counts as failed,
//!   so a crash in between would start the bad revision again.
//! - Call again at [`RolloutDecision::recheck`].
//!
//! # Differences from OCM's library
//!
//! On the same input the answer is that of `sdk-go/pkg/apis/cluster/v1alpha1` (`ClustersToRollout` is
//! [`RolloutDecision::rolling`]), except for these rows. `tests/ocm` asks the library itself, on thousands of
//! random inputs, and accepts no difference without a row. `tests/compat.rs` shows an example of each row.
//!
//! | row | input | OCM | here | why |
//! |---|---|---|---|---|
//! | failures first | failures after a cluster to do, by name or by group | starts the cluster, and may not see the breach | counts failures first, everywhere | the order of names must not decide safety |
//! | failed slot | a tolerated failure before its deadline, or without one | keeps its slot, without a deadline for ever | gives its slot back and stays listed | one failure starved the rollout |
//! | overlap | per group, a tolerated timeout | subtracts it from the clusters in flight, so two groups run at once | the group is unfinished while one of its clusters is | groups must not overlap |
//! | generous | `maxFailures` above the number of clusters | takes it for 0 | takes it for that number | the most generous value was the strictest |
//! | batches | clusters in flight, failed or timed out outside of the mandatory groups, or per group in a later group | makes the rest wait for them, for a timeout for ever | only clusters of a stage and of those before it count for it | Progressive became batches |
//! | slot limit | as many clusters in flight as slots | does not look at later ones: they are not listed, not counted, not timed out | judges every cluster | a fleet in trouble must not look healthy |
//! | assigned | a report older than the assignment | times out at once, or does not soak | neither begins before the assignment (`runs_since`) | the time was that of the revision before |
//! | silent | a cluster assigned long ago that never reported | waits for ever | times out, if its assignment has a time | a dead agent held its slot for ever |
//! | timeout | a timeout that the caller reports | does not list it, and in a mandatory group does not count it | lists and counts it | it is a failure |
//! | unheard | a cluster that was assigned and has not reported (`ToApply`) | does not list it after a breach or before its group's turn | lists it: it is in flight | what was written is under way |
//! | to do | clusters to do that are given as `ToApply`, as the add-on manager does | lists them before others and, by name, before those in flight, even beyond `maxConcurrency` | starts them by name into free slots | they are to do, not in flight |
//! | gap | group indexes with a gap | loses the groups beyond it, and removes their clusters | every group counts | a label is not an array |
//! | twice | a cluster of two groups | it is to do in both | it belongs to the first | it can only run once |
//! | typo | `5\|`, `30mxyz`, `"5"`, `"33.5%"`, `"101%"` | an error at every pass, for every cluster (for `maxConcurrency` once its stage is reached), or a guess | refuses it with a hint; the last good strategy stays | a typo must not freeze a fleet silently |
//! | nobody | `maxConcurrency` of `"0%"` or below 0 | takes it for everybody at once | refuses it | it says nobody |
//! | fraction | `55%` of 20 | 12, by floating-point numbers | 11 | it is 11 |
//! | absent | no `type`; a `minSuccessTime` that is empty or below 0, or wrong where it has no effect | an error; counts backwards | takes them for All and for none | the CRD's defaults say so |
//! | churn | clusters that joined the fleet after the rollout began (`joined`) | reopens their group, so a growing fleet never gets through | starts them in their group's turn or after it, and no other group waits for them | churn must not starve a rollout |
//! | removal | clusters that left | removes all of them at once | above a budget they keep their content until the removal is approved | an empty placement must not empty a fleet |
//!
//! The [`Policy`] governs what OCM has no word for: unreachable clusters, pauses, freezes, approvals,
//! rollback, quarantine, joining, superseding. Its default adds nothing to the list above.

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
