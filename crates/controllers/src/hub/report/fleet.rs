//! Reads the fleet for a report: the add-ons, sets and works of a repository on their clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use crate::hub::addon_config::{self, AddOnFleets, is_config};
use crate::hub::config_repo::RepoIdentity;
use crate::hub::replica_set;
use api::Condition;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::{ConditionStatus, Conditions as _, find_condition};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, RolloutPolicy};
use api::names::addon_conditions::PROGRESSING;
use api::names::replica_set_conditions::PLACEMENT_ROLLED_OUT;
use api::names::{self, ADDON_NAME_LABEL, WORK_REPLICA_SET_LABEL, work_conditions};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::config_refs;
use engine::report::{self, ConfigRepoState, FleetReport, PlacementState, Workload};
use engine::sync::{Inventory, ObjectId, owner, recorded};
use object::{Gvk, Key, Kind, Metadata as _};
use reconcile::{Change, Index, Observes, Plan, Query, Read, View, Watches};

/// The conditions that determine whether a work is done. Such a work may still be unavailable.
const STATE_OF_WORK: [&str; 3] =
    [work_conditions::APPLIED, work_conditions::PROGRESSING, work_conditions::DEGRADED];

/// Registers the kinds from which a fleet is read. Their changes wake every repository that reports.
pub(in crate::hub) fn watches<W: Watches>(watches: &mut W) {
    watches.on::<ClusterManagementAddOn>(|change, view| {
        reporting_where(change.differs_in(|cma| &cma.status), view)
    });
    watches.on::<ManagedClusterAddOn>(|change, view| reporting_where(change.differs_in(add_on_facts), view));
    watches.on::<ManagedCluster>(|change, view| {
        reporting_where(change.differs_in(|cluster| condition_summaries(cluster.conditions())), view)
    });
    watches.on::<RolloutPolicy>(|change, view| {
        reporting_where(change.differs_in(|policy| &policy.status), view)
    });
    watches.on::<ManifestWorkReplicaSet>(|change, view| {
        reporting_where(change.differs_in(|set| condition_summaries(set.conditions())), view)
    });
    watches.on::<ManifestWork>(|change, view| {
        let is_reported =
            |work: &ManifestWork| is_plain(work) || work.label(WORK_REPLICA_SET_LABEL).is_some();
        if !change.sides().any(is_reported) {
            return Vec::new();
        }
        reporting_where(change.differs_in(work_facts), view)
    });
    watches.on::<Placement>(|change, view| reporting_where(change.differs_in(PlacementState::read), view));
    // The states of clusters also depend on these; the status of the add-on changes with them.
    watches.read::<PlacementDecision>();
    watches.read::<Namespace>();
    watches.read::<ConfigRepoInventory>();
    watches.keep::<AddOnFleets>();
    watches.keep::<PlainWorks>();
    watches.on_observed(|change, view| if is_config(change) { reporting(view) } else { Vec::new() });
}

/// Makes a plan, and observes the configurations on which the states of add-ons depend.
pub(in crate::hub) fn observing(view: &impl View, plan: impl FnOnce() -> Read<Plan>) -> Read<Plan> {
    let all = view.list::<ClusterManagementAddOn>(Query::ALL)?;
    let has_template = all.iter().any(|cma| config_refs::has_template(cma));
    addon_config::observing(has_template, view, plan)
}

/// The works that are reported individually. Most works belong to an add-on or a set, so an index avoids going
/// over all of them.
struct PlainWorks(BTreeSet<Key>);

impl Index for PlainWorks {
    fn build(view: &impl View) -> Read<Self> {
        let works = view.list_readable::<ManifestWork>(Query::ALL)?;
        Ok(Self(works.iter().filter(|work| is_plain(work)).map(|work| Key::of(work.as_ref())).collect()))
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManifestWork>(|plain, change| {
            if let Some(old) = &change.old {
                plain.0.remove(&Key::of(old.as_ref()));
            }
            if let Some(new) = change.new.as_ref().filter(|work| is_plain(work)) {
                plain.0.insert(Key::of(new.as_ref()));
            }
            Vec::new()
        });
    }
}

/// The times of the last changes to the parts of a report.
pub(in crate::hub) struct Changes {
    /// The last change overall.
    pub(in crate::hub) last: Option<Timestamp>,
    /// The last change of each add-on, set and work.
    workloads: BTreeMap<String, Timestamp>,
}

impl Changes {
    fn add(&mut self, workload: &str, at: Option<Timestamp>) {
        let Some(at) = at else { return };
        self.last = self.last.max(Some(at));
        let last = self.workloads.entry(workload.to_owned()).or_insert(at);
        *last = at.max(*last);
    }

    /// Returns the workloads that changed since a time.
    pub(in crate::hub) fn since(&self, time: Timestamp) -> BTreeSet<String> {
        let recent = self.workloads.iter().filter(|(_, at)| **at >= time);
        recent.map(|(name, _)| name.clone()).collect()
    }
}

/// The add-ons, sets and works of a repository.
pub(in crate::hub) struct Workloads<'a> {
    repo: &'a ConfigRepo,
    identity: &'a RepoIdentity,
    add_ons: Vec<Arc<ClusterManagementAddOn>>,
    sets: Vec<Arc<ManifestWorkReplicaSet>>,
    works: Vec<Arc<ManifestWork>>,
    placements: Vec<Arc<Placement>>,
    others: Vec<Arc<ConfigRepo>>,
}

impl<'a> Workloads<'a> {
    /// Reads the add-ons, sets and works of a repository.
    pub(in crate::hub) fn read(
        repo: &'a ConfigRepo,
        identity: &'a RepoIdentity,
        view: &impl View,
    ) -> Read<Self> {
        let plain = view.index(|plain: &mut PlainWorks| plain.0.clone())?;
        let works = plain
            .iter()
            .map(|work| view.get_readable::<ManifestWork>(work))
            .filter_map(Read::transpose)
            .collect::<Read<Vec<_>>>()?;
        let reported = Reported::read(repo, identity, view)?;
        Ok(Self {
            repo,
            identity,
            add_ons: reported.among(view.list(Query::ALL)?),
            sets: reported.among(view.list_readable(Query::ALL)?),
            works: reported.among(works),
            placements: reported.among(view.list_readable(Query::ALL)?),
            others: others(repo, identity, view)?,
        })
    }

    /// Returns when the conditions of the repository, of add-ons on clusters, and of works last changed.
    pub(in crate::hub) fn changes(&self, view: &impl View, now: Timestamp) -> Read<Changes> {
        let mut changes = Changes { last: report::ready_since(self.repo, now), workloads: BTreeMap::new() };
        for cma in &self.add_ons {
            changes.add(cma.name(), addon_config::last_change(cma.name(), view, now)?);
        }
        for set in &self.sets {
            let key = Key::of(set.as_ref());
            changes.add(&key.to_string(), replica_set::last_change(&key, view, now)?);
        }
        for work in &self.works {
            changes.add(work.name(), report::last_change(work.conditions(), now));
        }
        Ok(changes)
    }

    /// Returns when a cluster last finished a rollout, or a work of the repository was last applied, progressed or
    /// failed. Changes of availability and times in the future are ignored.
    pub(in crate::hub) fn last_progress(&self, fleet: &FleetReport, now: Timestamp) -> Option<Timestamp> {
        let rollouts = fleet.add_ons.iter().chain(&fleet.replica_sets);
        let ended = rollouts.flat_map(|workload| &workload.clusters).filter_map(|cluster| cluster.ended);
        let of_works = self
            .works
            .iter()
            .flat_map(|work| work.conditions())
            .filter(|condition| STATE_OF_WORK.contains(&condition.type_.as_str()))
            .map(|condition| condition.last_transition_time.0);
        ended.chain(of_works).filter(|at| *at <= now).max()
    }

    /// Reads the fleet, and wakes the plan when the state of a cluster changes without an event.
    pub(in crate::hub) fn fleet(
        &self,
        plan: &mut Plan,
        view: &impl View,
        now: Timestamp,
    ) -> Read<FleetReport> {
        let add_ons = add_on_states(&self.add_ons, plan, view, now)?;
        let replica_sets = set_states(&self.sets, plan, view, now)?;
        // The service account of a namespace may not read the fleet.
        let clusters = match self.identity {
            RepoIdentity::Operator => view.list_readable::<ManagedCluster>(Query::ALL)?,
            RepoIdentity::ServiceAccount(_) => Vec::new(),
        };
        let works = report::works(self.works.iter().map(Arc::as_ref));
        let mut placements: Vec<_> =
            self.placements.iter().map(|placement| PlacementState::read(placement)).collect();
        placements.sort_by_key(|placement| placement.satisfied);
        let mut others: Vec<_> = self.others.iter().map(|other| ConfigRepoState::read(other)).collect();
        others.sort_by_key(|other| other.ready);
        Ok(FleetReport {
            add_ons,
            replica_sets,
            works,
            placements,
            others,
            ..FleetReport::read(self.repo, &clusters)
        })
    }
}

/// Returns the other ConfigRepos in the report of a ConfigRepo.
fn others(repo: &ConfigRepo, identity: &RepoIdentity, view: &impl View) -> Read<Vec<Arc<ConfigRepo>>> {
    // The service account of a namespace may not read ConfigRepos in other namespaces.
    let query = match identity {
        RepoIdentity::Operator => Query::ALL,
        RepoIdentity::ServiceAccount(_) => Query::namespace(repo.namespace()),
    };
    let mut others = view.list_readable::<ConfigRepo>(query)?;
    others.retain(|other| Key::of(other.as_ref()) != Key::of(repo));
    Ok(others)
}

/// Returns every repository that reports, if the reported state of a ConfigRepo changed.
pub(super) fn reporting_repos(change: &Change<ConfigRepo>, view: &impl View) -> Vec<Key> {
    reporting_where(change.differs_in(ConfigRepoState::read), view)
}

/// Returns when the last rollout of an add-on or a set of a repository ended; `None` while one is in progress.
///
/// # Errors
/// Fails if the add-ons or sets have not been read.
pub(in crate::hub) fn rollouts_ended(
    repo: &ConfigRepo,
    identity: &RepoIdentity,
    view: &impl View,
) -> Read<Option<Timestamp>> {
    let reported = Reported::read(repo, identity, view)?;
    let add_ons: Vec<Arc<ClusterManagementAddOn>> = reported.among(view.list(Query::ALL)?);
    let sets: Vec<Arc<ManifestWorkReplicaSet>> = reported.among(view.list_readable(Query::ALL)?);
    let progressions =
        add_ons.iter().flat_map(|cma| cma.status.iter()).flat_map(|status| &status.install_progressions);
    let of_add_ons = progressions
        .filter_map(|it| find_condition(&it.conditions, PROGRESSING))
        .map(|condition| (condition, condition.is_true()));
    let of_sets = sets
        .iter()
        .filter_map(|set| set.condition(PLACEMENT_ROLLED_OUT))
        .map(|condition| (condition, !condition.is_true()));
    let mut ended = None;
    for (condition, goes_on) in of_add_ons.chain(of_sets) {
        if goes_on {
            return Ok(None);
        }
        ended = ended.max(Some(condition.last_transition_time.0));
    }
    Ok(ended)
}

/// The objects in the report of a ConfigRepo: the ones that it applies, or all objects if another tool applies
/// them and the ConfigRepo acts as the operator.
enum Reported {
    All,
    Listed {
        /// The annotation of the objects that the ConfigRepo applies.
        mark: String,
        /// The inventory that an earlier version recorded in the status.
        inline: Inventory,
        parts: Vec<Arc<ConfigRepoInventory>>,
    },
}

impl Reported {
    /// Reads which objects a ConfigRepo applies. The annotation of an object is not enough, because a tenant or
    /// the agent of a cluster can write it too.
    fn read(repo: &ConfigRepo, identity: &RepoIdentity, view: &impl View) -> Read<Self> {
        if repo.spec.mode == ConfigRepoMode::Observe && *identity == RepoIdentity::Operator {
            return Ok(Self::All);
        }
        let mut parts = view.list::<ConfigRepoInventory>(Query::namespace(repo.namespace()))?;
        parts.retain(|part| owner(part).map(|owner| &owner.uid) == repo.metadata.uid.as_ref());
        Ok(Self::Listed { mark: Key::of(repo).to_string(), inline: recorded(repo, []), parts })
    }

    /// Returns the objects in `all` that belong in the report.
    fn among<K: Kind>(&self, mut all: Vec<Arc<K>>) -> Vec<Arc<K>> {
        let Self::Listed { mark, inline, parts } = self else { return all };
        let is_listed = |object: &K| {
            let Gvk { group, kind, .. } = Gvk::of::<K>();
            let id = ObjectId { group, kind, key: Key::of(object) };
            let path = id.path();
            inline.contains_key(&id)
                || parts.iter().any(|part| {
                    part.spec.objects.contains_key(&path) || part.spec.requested.contains_key(&path)
                })
        };
        all.retain(|object| {
            object.annotation(names::CONFIG_REPO_ANNOTATION) == Some(mark) && is_listed(object)
        });
        all
    }
}

/// Returns true if a work is reported individually: it belongs to no add-on and no set, or the repository applies
/// it.
fn is_plain(work: &ManifestWork) -> bool {
    let has_maker =
        [ADDON_NAME_LABEL, WORK_REPLICA_SET_LABEL].iter().any(|maker| work.label(maker).is_some());
    !has_maker || work.annotation(names::CONFIG_REPO_ANNOTATION).is_some()
}

/// Reads the states of the add-ons, and wakes the plan when the state of a cluster changes without an event.
fn add_on_states(
    add_ons: &[Arc<ClusterManagementAddOn>],
    plan: &mut Plan,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Workload>> {
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    let mut read = Vec::new();
    for cma in add_ons {
        let Some(reported) = addon_config::report(cma.name(), view, now)? else { continue };
        if let Some(recheck) = reported.recheck {
            plan.wake(recheck);
        }
        read.push(Workload::read(cma, reported.clusters, &policies));
    }
    Ok(read)
}

/// Reads the states of the sets, and wakes the plan when the state of a cluster changes without an event.
fn set_states(
    sets: &[Arc<ManifestWorkReplicaSet>],
    plan: &mut Plan,
    view: &impl View,
    now: Timestamp,
) -> Read<Vec<Workload>> {
    let mut read = Vec::new();
    for set in sets {
        let Some(reported) = replica_set::report(set, view, now)? else { continue };
        if let Some(recheck) = reported.recheck {
            plan.wake(recheck);
        }
        read.push(reported.set);
    }
    Ok(read)
}

/// Returns every repository that reports, if the content of a report differs.
fn reporting_where(differs: bool, view: &impl View) -> Vec<Key> {
    if differs { reporting(view) } else { Vec::new() }
}

/// Returns every repository with a report, a commit status or notifications.
fn reporting(view: &impl View) -> Vec<Key> {
    let repos = view.readable::<ConfigRepo>(Query::ALL);
    let reports = |repo: &&Arc<ConfigRepo>| repo.spec.report.is_some() || !repo.spec.notifications.is_empty();
    repos.iter().filter(reports).map(|repo| Key::of(&**repo)).collect()
}

/// Returns the facts of a cluster's add-on that appear in a report.
fn add_on_facts(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let references = addon.status.as_ref().map(|status| &status.config_references);
    (condition_summaries(addon.conditions()), references)
}

/// Returns the facts of a work that appear in a report.
fn work_facts(work: &ManifestWork) -> impl PartialEq + '_ {
    let generations = work.conditions().iter().map(|condition| condition.observed_generation);
    let seen = is_plain(work).then(|| (work.metadata.generation, generations.collect::<Vec<_>>()));
    (seen, condition_summaries(work.conditions()), engine::work::trouble(work))
}

/// Returns a summary of conditions without the parts that change by the minute.
fn condition_summaries(conditions: &[Condition]) -> Vec<(&str, &ConditionStatus, &str)> {
    conditions.iter().map(|c| (c.type_.as_str(), &c.status, c.reason.as_str())).collect()
}
