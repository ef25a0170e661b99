//! The rollout engine: which clusters of a placement get new content now, which wait, and why.
//!
//! [`advance`] is a pure function from everything that is known ([`Input`]) to everything that follows ([`RolloutDecision`]). It compiles a
//! [`Strategy`] into a list of stages; a stage has clusters, slots and an allowance for failures. Then it judges every cluster by
//! itself, counts failures over the whole fleet, and only then walks the stages in order and fills their slots by cluster name.
//! It never looks at an outcome that is not about the hash the cluster was assigned, never starts a stage while the one before
//! has clusters to do or in flight, and never lets the order of its input decide anything.
//!
//! # For callers
//!
//! - Write [`Assignment::assigned`](decision::Assignment::assigned) where it differs from what the cluster runs, with the time; that is all there is to do.
//!   It says what a cluster is to run from now on: what it should run, what it ran before, or what it returns to.
//! - Give what was written back as [`Cluster::runs`](input::Cluster::runs) and `runs_since` at the next call, before any report arrives: a
//!   cluster that was moved and not heard of holds its slot.
//! - Leave clusters out of [`Input::groups`] that another rollout looks after; they would be waited for.
//! - Keep [`RolloutDecision::quarantine`] and the approvals people granted, and give them back. Write the quarantine before the assignments: a
//!   cluster that returned no longer counts as failed, so a crash in between would start the bad revision again.
//! - Call again at [`RolloutDecision::recheck`].
//!
//! # Differences from OCM's library
//!
//! On the same input the answer is that of `sdk-go/pkg/apis/cluster/v1alpha1` (`ClustersToRollout` is [`RolloutDecision::rolling`]), but for
//! these. `tests/ocm` asks the library itself, on thousands of random inputs, and takes no difference without a row; the tests of
//! `compat` show an example of each hazard.
//!
//! | hazard | input | OCM | here | why |
//! |---|---|---|---|---|
//! | A, R10 | failures after a cluster to do, by name or by group | the cluster starts, the breach may go unseen | failures are counted first, everywhere | the order of names must not decide safety |
//! | B, R4 | a tolerated failure before its deadline, or without one | keeps its slot, without a deadline for ever | holds no slot, stays listed | one failure starved the rollout |
//! | C, R3 | per group, a tolerated timeout | is subtracted from the clusters in flight, so two groups run at once | the group is unfinished while one of its clusters is | groups must not overlap |
//! | D, R1 | `maxFailures` above the number of clusters | becomes 0 | becomes that number | the most generous value was the strictest |
//! | R2 | clusters in flight, failed or timed out outside of the mandatory groups, or per group in a later group | the rest waits for them, for a timeout for ever | only clusters of a stage and of those before it count for it | Progressive became batches |
//! | R5 | as many clusters in flight as slots | later ones are not looked at: not listed, not counted, not timed out | every cluster is judged | a fleet in trouble must not look healthy |
//! | R6, assigned | a report older than the assignment | instant timeout, or no soak | neither begins before the assignment (`runs_since`) | the time was that of the revision before |
//! | R6, silent | a cluster assigned long ago that never reported | waits for ever | times out, if its assignment has a time | a dead agent held its slot for ever |
//! | R7 | a timeout reported by the caller | not listed; in a mandatory group not even counted | listed and counted | it is a failure |
//! | unheard | a cluster that was assigned and has not reported (`ToApply`) | after a breach or before its group's turn, not listed | listed: it is in flight | what was written is under way |
//! | to do | clusters to do that are given as `ToApply`, as the add-on manager does | listed before others and, by name, before those in flight, even beyond `maxConcurrency` | start by name into free slots | they are to do, not in flight |
//! | gap | group indexes with a gap | groups beyond it are lost, their clusters removed | every group counts | a label is not an array |
//! | twice | a cluster of two groups | to do in both | belongs to the first | it can only run once |
//! | G, R8 | `5\|`, `30mxyz`, `"5"`, `"33.5%"`, `"101%"` | an error at every pass, for every cluster (for `maxConcurrency` once its stage is reached), or a guess | refused with a hint; the last good strategy stays | a typo must not freeze a fleet silently |
//! | H | `maxConcurrency` of `"0%"` or below 0 | everybody at once | refused | it says nobody |
//! | fraction | `55%` of 20 | 12, by floating-point numbers | 11 | it is 11 |
//! | absent | no `type`; a `minSuccessTime` that is empty or below 0, or wrong where it has no effect | an error; counts backwards | All; none | so the CRD's defaults say |
//! | churn | clusters that joined the fleet after the rollout began (`joined`) | reopen their group, so a growing fleet never gets through | start in their group's turn or after it, and no other group waits for them | churn must not starve a rollout |
//! | R9 | clusters that left | all removed at once | above a budget they keep their content until approved | an empty placement must not empty a fleet |
//!
//! What OCM has no word for (unreachable clusters, pauses, freezes, approvals, rollback, quarantine, joining, superseding) is
//! governed by the [`Policy`]; its default adds nothing to the list above.

mod advance;
mod classify;
mod cron;
pub mod decision;
pub mod freeze;
pub mod input;
pub mod oracle;
pub mod policy;
pub mod refused;
pub mod simulation;
pub mod size;
mod stage;
pub mod state;
mod story;
pub mod strategy;

#[cfg(test)]
mod tests;

pub use advance::advance;
pub use classify::observe;
pub use decision::RolloutDecision;
pub use input::Input;
pub use policy::Policy;
pub use refused::Refused;
pub use size::Size;
pub use state::ClusterState;
pub use strategy::Strategy;
