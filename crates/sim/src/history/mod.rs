//! Random histories: the events that people, other clients and the network cause, drawn from a seed.
//!
//! The same seed gives the same history; the state of the world does not change it.
//! `crates/sim/tests/it/seeds.txt` lists the seeds that once broke an invariant, and `cargo run -p
//! wheelwright-sim --example seeds -- FROM TO` plays any others.

mod content;
mod draw;
mod play;
mod set;

pub use content::Content;
pub use play::{HistoryResult, play};
pub use set::SetContent;

use object::Random;

use crate::Faults;

/// One event of a history.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryEvent {
    /// A cluster joins.
    Join {
        /// Its number.
        cluster: u8,
        /// It is a canary.
        canary: bool,
        /// It is in production.
        prod: bool,
        /// The versions of the add-on that work there, a bit each.
        works: u8,
        /// How many seconds its pods take.
        ready_after: u8,
    },
    /// A cluster leaves.
    Leave(u8),
    /// The labels of a cluster change.
    Label {
        /// Its number.
        cluster: u8,
        /// It is a canary.
        canary: bool,
        /// It is in production.
        prod: bool,
    },
    /// The agent of a cluster reaches the hub, or does not.
    Network {
        /// Its number.
        cluster: u8,
        /// The agent reaches the hub.
        connected: bool,
    },
    /// A commit is fetched. A force push to older content looks the same.
    Commit(Content),
    /// A fetch fails.
    FetchFails,
    /// A person approves the deletions that wait.
    ApproveDeletions,
    /// A person suspends the repository, or resumes it.
    Suspend(bool),
    /// A person deletes the repository.
    DeleteRepo,
    /// A person applies a rollout policy by hand, or deletes it.
    Policy(Option<u8>),
    /// A person deletes the placement.
    DeletePlacement,
    /// A person applies a work with these config maps to a cluster; without any, the work is deleted.
    Work {
        /// The number of the cluster.
        cluster: u8,
        /// The config maps, a bit each.
        maps: u8,
        /// Their content.
        value: u8,
    },
    /// A person applies the set, or deletes it.
    Set(Option<SetContent>),
    /// Another client edits an object.
    ExternalEdit(Edit),
    /// The operator crashes after this number of further writes.
    KillOperator(u8),
    /// The operator restarts.
    RestartOperator,
    /// The agent of a cluster restarts.
    RestartAgent(u8),
    /// A cluster is cut off from the hub, and its agent restarts from the works that it kept.
    RestartAgentAlone(u8),
    /// A person backs up the hub.
    BackUpHub,
    /// The hub is restored from its last backup.
    RestoreHub,
    /// The network changes.
    Faults(Faults),
    /// A wall clock jumps.
    Clock {
        /// The number of the cluster; absent for the clock of the operator.
        cluster: Option<u8>,
        /// How many seconds it is ahead of the clock of the hub's API server from now on.
        ahead: i16,
    },
    /// Seconds pass.
    Wait(u16),
}

/// An edit by another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Writes another value into a config map of the hub, or creates it.
    WriteMap(u8),
    /// Deletes a config map of the hub.
    DeleteMap(u8),
    /// Removes the mark of the repository from a config map of the hub.
    UnmarkMap(u8),
    /// Deletes a decision of the placement.
    DeleteDecision,
    /// Deletes the add-on of a cluster.
    DeleteAddOn(u8),
    /// Deletes the works of a cluster.
    DeleteWorks(u8),
    /// Deletes a deployment of a cluster.
    DeleteDeployment(u8),
    /// Scales a deployment of a cluster.
    ScaleDeployment(u8),
    /// Writes another value into a config map of a cluster, or creates it.
    WriteSpokeMap(u8, u8),
}

/// Draws the events of a history. In one of eight, clocks jump.
pub fn draw(seed: u64) -> Vec<HistoryEvent> {
    if seed % 8 == 5 { draw_with_jumps(seed) } else { draw::history(&mut Random::new(seed ^ 0x5157_0000)) }
}

/// Draws the events of a history in which clocks jump.
pub fn draw_with_jumps(seed: u64) -> Vec<HistoryEvent> {
    let mut random = Random::new(seed ^ 0x5157_0000);
    let mut events = draw::history(&mut random);
    draw::jumps(&mut random, &mut events);
    events
}

/// Draws the events of a history in which the placement asks for a list and for secrets for Argo CD: those of
/// [`draw`].
pub fn draw_with_argo_cd(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    for event in &mut events {
        if let HistoryEvent::Commit(content) = event {
            content.argo_cd = true;
        }
    }
    events
}

/// Draws the events of a history with a ManifestWorkReplicaSet: those of [`draw`], and among them those of
/// the set. They come from a generator of their own, so that a seed has the same other events in both.
pub fn draw_with_sets(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    draw::sets(&mut Random::new(seed ^ 0x5e75_0000), &mut events);
    events
}

/// Draws the events of a history with outages: those of [`draw`], and among them lists that fail, decisions
/// that panic, agents that start without the hub, and a hub that is restored from a backup. They come from a
/// generator of their own.
pub fn draw_with_outages(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    draw::outages(&mut Random::new(seed ^ 0x007a_0000), &mut events);
    events
}
