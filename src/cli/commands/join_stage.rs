//! Waits for a cluster in `wheelwright join`, based on its state on the hub.

use std::time::Duration;

use anyhow::anyhow;
use kube::Api;
use tokio::time::{Instant, sleep};

use crate::cli::CommandError;
use crate::cli::duration::Wait;
use crate::cli::output::Ui;
use crate::cli::writer::failed;
use crate::shell::is_away;
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::names::AGENT;
use api::names::cluster_conditions::{AVAILABLE, HUB_ACCEPTED, JOINED};

/// The interval at which the hub is polled.
const POLL: Duration = Duration::from_secs(1);

/// The cluster to wait for, the namespace of its agent, and the timeout.
#[derive(Clone, Copy)]
pub(super) struct AwaitedCluster<'a> {
    pub(super) cluster: &'a str,
    pub(super) namespace: &'a str,
    pub(super) wait: Wait,
}

/// The progress of a cluster that joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum JoinStage {
    /// The agent has not sent a request, so the hub does not have the cluster.
    Unknown,
    /// A person has to accept the cluster.
    Asks,
    /// The agent is waiting for its certificate.
    Accepted,
    /// The agent has not reported yet, or has stopped reporting.
    Joined,
    /// The agent reports that it works.
    Available,
}

impl JoinStage {
    fn from_cluster(cluster: Option<&ManagedCluster>) -> Self {
        let Some(cluster) = cluster else { return Self::Unknown };
        let missing = [(HUB_ACCEPTED, Self::Asks), (JOINED, Self::Accepted), (AVAILABLE, Self::Joined)];
        let first = missing.into_iter().find(|(condition, _)| !cluster.holds(condition));
        first.map_or(Self::Available, |(_, stage)| stage)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Unknown => "has not asked the hub to join",
            Self::Asks => "has asked to join, but the hub has not accepted it",
            Self::Accepted => "is accepted, and has not joined",
            Self::Joined => "has joined, and is not available",
            Self::Available => "is available",
        }
    }

    /// Returns the next step for the user.
    fn hint(self, AwaitedCluster { cluster, namespace, wait: _ }: AwaitedCluster<'_>) -> String {
        match self {
            Self::Unknown => {
                format!("read the log of the agent: kubectl logs -n {namespace} deployment/{AGENT}")
            }
            Self::Asks | Self::Accepted => {
                format!("on the hub: wheelwright accept --clusters {cluster} --wait 1m")
            }
            Self::Joined | Self::Available => format!("on the hub: wheelwright get clusters {cluster}"),
        }
    }
}

/// Waits until a cluster is available, and prints its progress. If the hub is unreachable, retries.
pub(super) async fn until_available(
    hub: &kube::Client,
    awaited: AwaitedCluster<'_>,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let AwaitedCluster { cluster: name, namespace: _, wait } = awaited;
    let deadline = wait.deadline();
    let clusters: Api<ManagedCluster> = Api::all(hub.clone());
    let mut stage = JoinStage::Unknown;
    loop {
        match clusters.get_opt(name).await {
            Ok(cluster) => {
                let before = std::mem::replace(&mut stage, JoinStage::from_cluster(cluster.as_ref()));
                if stage == JoinStage::Available {
                    return Ok(());
                }
                if stage > before {
                    ui.error(format!("Cluster {name} {}", stage.text()))?;
                }
            }
            Err(error) if is_away(&error) => {}
            Err(error) => return Err(failed(format!("read cluster {name} on its hub"))(error)),
        }
        if Instant::now() >= deadline {
            let error = anyhow!("cluster {name} {} after {wait}", stage.text());
            return Err(CommandError::hinted(error, stage.hint(awaited)));
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
#[path = "tests/join_stage.rs"]
mod tests;
