//! Random histories: events caused by people, other clients and the network, drawn from a seed.
//!
//! The same seed gives the same history, regardless of the state of the world. `crates/sim/tests/it/seeds.txt`
//! lists the seeds that once broke an invariant. `cargo run -p wheelwright-sim --example seeds -- FROM TO` plays
//! any other seeds.

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
        /// The number of the cluster.
        cluster: u8,
        /// True for a canary.
        canary: bool,
        /// True for a production cluster.
        prod: bool,
        /// The add-on versions that work there, one bit each.
        works: u8,
        /// The seconds that its pods take to become ready.
        ready_after: u8,
    },
    /// A cluster leaves.
    Leave(u8),
    /// The labels of a cluster change.
    Label {
        /// The number of the cluster.
        cluster: u8,
        /// True for a canary.
        canary: bool,
        /// True for a production cluster.
        prod: bool,
    },
    /// The agent of a cluster loses or regains its connection to the hub.
    Network {
        /// The number of the cluster.
        cluster: u8,
        /// True if the agent can reach the hub.
        connected: bool,
    },
    /// A commit is fetched. A force push to older content looks the same.
    Commit(Content),
    /// A fetch fails.
    FetchFails,
    /// A person approves the held deletions.
    ApproveDeletions,
    /// A person suspends or resumes the repository.
    Suspend(bool),
    /// A person deletes the repository.
    DeleteRepo,
    /// A person applies or deletes a rollout policy by hand.
    Policy(Option<u8>),
    /// A person deletes the placement.
    DeletePlacement,
    /// A person applies a work with these config maps to a cluster, or deletes the work if there are none.
    Work {
        /// The number of the cluster.
        cluster: u8,
        /// The config maps, one bit each.
        maps: u8,
        value: u8,
    },
    /// A person applies or deletes the replica set.
    Set(Option<SetContent>),
    /// Another client edits an object.
    ExternalEdit(Edit),
    /// The operator crashes after this many further writes.
    KillOperator(u8),
    /// The operator restarts.
    RestartOperator,
    /// The agent of a cluster restarts.
    RestartAgent(u8),
    /// A cluster is cut off from the hub, and its agent restarts with the works that it cached.
    RestartAgentAlone(u8),
    /// A person backs up the hub.
    BackUpHub,
    /// The hub is restored from its last backup.
    RestoreHub,
    /// The faults of the network change.
    Faults(Faults),
    /// A wall clock jumps.
    Clock {
        /// The number of the cluster; `None` for the operator's clock.
        cluster: Option<u8>,
        /// The seconds by which it is now ahead of the hub API server's clock.
        ahead: i16,
    },
    /// Seconds pass.
    Wait(u16),
}

/// An edit by another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Writes another value to a config map on the hub, or creates the config map.
    WriteMap(u8),
    /// Deletes a config map on the hub.
    DeleteMap(u8),
    /// Removes the repository's ownership mark from a config map on the hub.
    UnmarkMap(u8),
    /// Deletes a PlacementDecision of the placement.
    DeleteDecision,
    /// Deletes the add-on of a cluster.
    DeleteAddOn(u8),
    /// Deletes the works of a cluster.
    DeleteWorks(u8),
    /// Deletes a deployment on a cluster.
    DeleteDeployment(u8),
    /// Scales a deployment on a cluster.
    ScaleDeployment(u8),
    /// Writes another value to a config map on a cluster, or creates the config map.
    WriteSpokeMap(u8, u8),
}

/// Draws the events of a history. In one history out of eight, clocks jump.
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

/// Draws the events of [`draw`], with a placement that requests a list and secrets for Argo CD.
pub fn draw_with_argo_cd(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    for event in &mut events {
        if let HistoryEvent::Commit(content) = event {
            content.argo_cd = true;
        }
    }
    events
}

/// Draws the events of [`draw`], mixed with events of a ManifestWorkReplicaSet. The latter come from a separate
/// generator, so that a seed gives the same other events in both functions.
pub fn draw_with_sets(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    draw::sets(&mut Random::new(seed ^ 0x5e75_0000), &mut events);
    events
}

/// Draws the events of [`draw`], mixed with outages: failing lists, panicking decisions, agents that start without
/// the hub, and a hub restored from a backup. The outages come from a separate generator.
pub fn draw_with_outages(seed: u64) -> Vec<HistoryEvent> {
    let mut events = draw(seed);
    draw::outages(&mut Random::new(seed ^ 0x007a_0000), &mut events);
    events
}
