//! What a report tells, read from wire types.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::addon::progress;
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ConfigSpecHash, InstallProgression, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use api::names::addon_conditions::{AVAILABLE, PROGRESSING};
use api::names::{cluster_conditions, gitops_conditions};

/// How a cluster's add-on stands, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Its configuration could not be applied, or took too long.
    Failed,
    /// It has its configuration and does not work.
    Unavailable,
    /// Its configuration is on its way.
    Progressing,
    /// It keeps an older configuration until its turn comes.
    Waiting,
    /// It has its configuration and works.
    Done,
}

impl Standing {
    /// All of them, the worst first.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Unavailable, Self::Progressing, Self::Waiting, Self::Done];

    /// The word for it in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::Progressing => "progressing",
            Self::Waiting => "waiting",
            Self::Done => "done",
        }
    }
}

/// A cluster's add-on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    /// How it stands.
    pub standing: Standing,
    /// Name of the cluster.
    pub name: String,
    /// What it said; not safe to show as it is.
    pub message: String,
    /// The configuration it should run.
    pub runs: String,
}

/// An add-on on all its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddOn {
    /// Its name.
    pub name: String,
    /// Placement, reason and message of each of its rollouts.
    pub rollouts: Vec<(String, String, String)>,
    /// What holds a rollout, and what it waits for.
    pub holds: Vec<String>,
    /// Its clusters, the worst first.
    pub clusters: Vec<Cluster>,
}

impl AddOn {
    /// Reads an add-on and what it is on its clusters.
    pub fn read(
        cma: &ClusterManagementAddOn,
        on: &[std::sync::Arc<ManagedClusterAddOn>],
        policies: &[std::sync::Arc<RolloutPolicy>],
    ) -> Self {
        let name = cma.metadata.name.clone().unwrap_or_default();
        let progressions: Vec<_> =
            cma.status.iter().flat_map(|status| &status.install_progressions).collect();
        let version_of = |p: &InstallProgression| {
            version(p.config_references.iter().map(|r| (r.resource.as_str(), r.desired_config.as_ref())))
        };
        let wanted: BTreeSet<String> =
            progressions.iter().map(|progression| version_of(progression)).collect();
        let has_stopped = |p: &&&InstallProgression| {
            find_condition(&p.conditions, PROGRESSING).is_some_and(|c| c.reason == progress::FAILED)
        };
        let stopped: BTreeSet<String> =
            progressions.iter().filter(has_stopped).map(|progression| version_of(progression)).collect();
        let mut clusters: Vec<_> = on.iter().map(|addon| cluster(addon, &wanted, &stopped)).collect();
        clusters.sort();
        let rollouts = progressions.iter().map(|progression| {
            let (reason, message) = find_condition(&progression.conditions, PROGRESSING)
                .map(|c| (c.reason.clone(), c.message.clone()))
                .unwrap_or_default();
            (format!("{}/{}", progression.namespace, progression.name), reason, message)
        });
        let statuses =
            policies.iter().flat_map(|policy| policy.status.iter().flat_map(|status| &status.rollouts));
        let holds = statuses.filter(|rollout| rollout.add_on == name).flat_map(|rollout| {
            let approvals =
                rollout.waiting_approvals.iter().map(|token| format!("waits for the approval {token}"));
            let quarantined = Some(&rollout.quarantined)
                .filter(|hash| !hash.is_empty())
                .map(|hash| format!("{hash} failed and is quarantined"));
            Some(rollout.hold.clone())
                .filter(|hold| !hold.is_empty())
                .into_iter()
                .chain(quarantined)
                .chain(approvals)
        });
        Self { holds: holds.collect(), rollouts: rollouts.collect(), clusters, name }
    }

    /// How many clusters stand how.
    pub fn count(&self, standing: Standing) -> usize {
        self.clusters.iter().filter(|cluster| cluster.standing == standing).count()
    }

    /// How many clusters run which configuration.
    pub fn versions(&self) -> BTreeMap<&str, usize> {
        let mut versions = BTreeMap::new();
        for cluster in &self.clusters {
            *versions.entry(cluster.runs.as_str()).or_default() += 1;
        }
        versions
    }
}

/// Everything a report tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Namespace and name of the repository.
    pub repo: String,
    /// The commit that was fetched last.
    pub seen: String,
    /// The commit that was applied last.
    pub applied: String,
    /// Whether the hub is as the repository says.
    pub ready: bool,
    /// Reason and message of the condition that says most.
    pub condition: (String, String),
    /// Clusters there are.
    pub clusters: usize,
    /// Clusters that can be reached and work.
    pub available: usize,
    /// The add-ons, by name.
    pub add_ons: Vec<AddOn>,
    /// When anything of this last changed.
    pub changed: Option<Timestamp>,
}

impl Fleet {
    /// Reads the state of a fleet; `add_ons` pairs each add-on with what it is on its clusters.
    pub fn read(
        repo: &ConfigRepo,
        clusters: &[std::sync::Arc<ManagedCluster>],
        add_ons: &[(std::sync::Arc<ClusterManagementAddOn>, Vec<std::sync::Arc<ManagedClusterAddOn>>)],
        policies: &[std::sync::Arc<RolloutPolicy>],
    ) -> Self {
        let status = repo.status.clone().unwrap_or_default();
        let commit = |revision: Option<api::gitops::v1alpha1::Revision>| {
            revision.map(|r| r.commit).unwrap_or_default()
        };
        let ready = find_condition(&status.conditions, gitops_conditions::READY);
        let works = |cluster: &&std::sync::Arc<ManagedCluster>| {
            let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|c| c.type_ == cluster_conditions::AVAILABLE && c.is_true())
        };
        let mut changed: BTreeSet<Timestamp> =
            ready.iter().map(|condition| condition.last_transition_time.0).collect();
        let told = add_ons
            .iter()
            .flat_map(|(_, on)| on)
            .flat_map(|addon| addon.status.iter().flat_map(|status| &status.conditions));
        changed.extend(told.map(|condition| condition.last_transition_time.0));
        let namespace = repo.metadata.namespace.as_deref().unwrap_or_default();
        Self {
            repo: format!("{namespace}/{}", repo.metadata.name.as_deref().unwrap_or_default()),
            seen: commit(status.seen),
            applied: commit(status.applied),
            ready: ready.is_some_and(|condition| condition.is_true()),
            condition: ready
                .map(|condition| (condition.reason.clone(), condition.message.clone()))
                .unwrap_or_default(),
            clusters: clusters.len(),
            available: clusters.iter().filter(works).count(),
            add_ons: add_ons.iter().map(|(cma, on)| AddOn::read(cma, on, policies)).collect(),
            changed: changed.last().copied(),
        }
    }
}

/// A rollout that has stopped waits for nobody: what is still on its way to a version it stopped at has failed.
fn cluster(addon: &ManagedClusterAddOn, wanted: &BTreeSet<String>, stopped: &BTreeSet<String>) -> Cluster {
    let status = addon.status.clone().unwrap_or_default();
    let condition = |condition: &str| find_condition(&status.conditions, condition);
    let references = status.config_references.iter();
    let runs = version(
        references.clone().map(|reference| (reference.resource.as_str(), reference.desired_config.as_ref())),
    );
    let has = references.clone().all(|reference| {
        reference.last_applied_config.is_some() && reference.last_applied_config == reference.desired_config
    });
    let reason = condition(PROGRESSING).map(|progressing| progressing.reason.as_str()).unwrap_or_default();
    let available = condition(AVAILABLE).is_some_and(Condition::is_true);
    let (standing, said) = match reason {
        progress::FAILED => (Standing::Failed, condition(PROGRESSING)),
        _ if !has && stopped.contains(&runs) => (Standing::Failed, condition(PROGRESSING)),
        _ if !has || reason == progress::UNDER_WAY => (Standing::Progressing, condition(PROGRESSING)),
        _ if !available => (Standing::Unavailable, condition(AVAILABLE)),
        _ if !wanted.is_empty() && !wanted.contains(&runs) => (Standing::Waiting, None),
        _ => (Standing::Done, None),
    };
    let message = said.map(|condition| condition.message.clone()).unwrap_or_default();
    Cluster { standing, name: addon.metadata.namespace.clone().unwrap_or_default(), message, runs }
}

/// Names configurations as people do: those that carry templates by name, each with the first digits of its hash.
fn version<'a>(configs: impl Iterator<Item = (&'a str, Option<&'a ConfigSpecHash>)>) -> String {
    let mut names: Vec<(bool, String)> = configs
        .filter_map(|(resource, hash)| {
            let hash = hash?;
            let short = hash.spec_hash.get(..8).unwrap_or(&hash.spec_hash);
            let name = if hash.name.is_empty() { resource } else { hash.name.as_str() };
            Some((resource != "addontemplates", format!("{name}@{short}")))
        })
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}
