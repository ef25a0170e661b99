//! The status of an add-on's works, as it matters for a rollout.

/// The state of an add-on's works relative to the assigned configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorksStatus {
    /// There are no works.
    NoWorks,
    /// At least one work was rendered from other configurations.
    OtherConfig,
    /// The agent has not reported on a work or workload; the text names it.
    Unreported(String),
    /// The Secrets of a work cannot be encrypted for its cluster; the text says which and why.
    Unsealed(String),
    /// Not every work is applied, or not every object exists; the text says which and why.
    NotReady(String),
    /// The API server of the cluster rejects an object; the text is the agent's message.
    Refused(String),
    /// All objects exist, but one is not healthy yet with this configuration; the text says which and why.
    NotHealthy(String),
    /// All objects exist, but one has failed with this configuration; the text says which and why.
    Failed(String),
    /// Every object is healthy with exactly these configurations.
    Done,
}
