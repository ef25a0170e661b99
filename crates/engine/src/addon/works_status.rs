//! What the status of the works of an add-on says about its rollout.

/// The state of the works of an add-on, compared with the configurations that are assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorksStatus {
    /// There are no works.
    NoWorks,
    /// At least one was made from other configurations.
    OtherConfig,
    /// The agent has not reported about these works or their workloads; the text says about which.
    Unreported(String),
    /// The agent has not applied every work, or not every object exists; the text says which and why.
    NotReady(String),
    /// The API server of the cluster rejects an object; the text is the agent's.
    Refused(String),
    /// All objects exist, but one is not healthy with this configuration yet; the text says which and why.
    NotHealthy(String),
    /// All objects exist, but one has failed with this configuration; the text says which and why.
    Failed(String),
    /// Every object is healthy with exactly these configurations.
    Done,
}
