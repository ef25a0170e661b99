//! The creation of an add-on on a cluster: immediately if a placement selects the cluster, or at the cluster's
//! turn in a rollout.
//!
//! The API server may reject it, for example because of an admission webhook, a quota or a namespace that is being
//! deleted. The status of the RolloutPolicy records the rejection, so that the deadline of the cluster passes and
//! the creation is retried on a separate schedule: a failed write delays the next plan of its key. Without a
//! policy, the placement reports it. See docs/hazards.md#refused-creation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use crate::placement_reads::Selections;
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOn, InstallStrategyType, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::True;
use api::condition::{Condition, Observation, set_condition};
use api::gitops::v1alpha1::{RefusedAddOn, RolloutPolicy};
use api::names::addon_conditions::DEGRADED;
use api::names::{ADDON_ANNOTATION_PREFIX, COPIED_ANNOTATIONS_ANNOTATION, INSTALLED_BY_ANNOTATION};
use engine::plural::counted;
use object::duration::later;
use object::text::plain;
use object::{Gvk, Key, Metadata as _, Object};
use reconcile::{Action, Executed, Failure, Read, StatusWrite, View, Watches};

/// Minimum age of a cluster before a rejection is recorded. The namespace of a newer cluster may not exist yet.
const NEW_CLUSTER: SignedDuration = SignedDuration::from_secs(10);
/// Delay before the first retry; it doubles. It is also the minimum interval between plans of an add-on that retry
/// on any cluster. A plan in between succeeds: it writes the status, makes due removals, and resets the backoff of
/// the key, which may be 16 s by the time a rejection is recorded, after the tries on a new cluster.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(30);
/// The longest delay between retries.
const LAST_RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Maximum number of records in a policy, over all add-ons. 500 records of 500 bytes are a sixth of etcd's limit.
const MAX_REFUSED: usize = 500;
/// Maximum number of characters of an API server's message.
const MESSAGE: usize = 240;
/// Reason of the condition of a placement with clusters on which the add-on cannot be created.
const REFUSED: &str = "CreationRefused";

/// Returns true if placements decide which clusters get the add-on.
pub(super) fn is_by_placements(cma: &ClusterManagementAddOn) -> bool {
    cma.spec.install_strategy.r#type == InstallStrategyType::Placements
}

/// Creates the add-on on a cluster, unless the cluster does not exist or is being deleted.
pub(super) fn install(cma: &ClusterManagementAddOn, cluster: &str, view: &impl View) -> Read<Option<Action>> {
    let managed = view.get::<ManagedCluster>(&Key::cluster(cluster))?;
    let living = managed.filter(|managed| !managed.is_terminating());
    Ok(living.map(|managed| Action::create(Object::from_typed(&new_addon(cma, &managed)))))
}

fn new_addon(cma: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let mut annotations = annotations_of_addons(cluster);
    let record = record_of(&annotations).map(|record| (COPIED_ANNOTATIONS_ANNOTATION.to_owned(), record));
    annotations.extend(record);
    annotations.insert(INSTALLED_BY_ANNOTATION.into(), "true".into());
    let metadata = ObjectMeta {
        namespace: cluster.metadata.name.clone(),
        name: cma.metadata.name.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![cma.controller_reference(), cluster.owner_reference()]),
        ..ObjectMeta::default()
    };
    ManagedClusterAddOn { metadata, ..ManagedClusterAddOn::default() }
}

/// Returns the annotations of a cluster that its add-ons also get.
pub(super) fn annotations_of_addons(cluster: &ManagedCluster) -> BTreeMap<String, String> {
    let annotations = cluster.metadata.annotations.iter().flatten();
    let of_addons = annotations.filter(|(name, _)| name.starts_with(ADDON_ANNOTATION_PREFIX));
    of_addons.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the record of the annotations that an add-on inherits from its cluster; `None` if there are none.
pub(super) fn record_of(copied: &BTreeMap<String, String>) -> Option<String> {
    (!copied.is_empty()).then(|| json!(copied).to_string())
}

/// Wakes the add-ons for which a cluster's rejection is recorded or cleared.
pub(super) fn wake_on_refused<W: Watches>(watches: &mut W) {
    watches.on::<RolloutPolicy>(|change, _| {
        if !change.differs_in(rollout_policy::all_refused) {
            return Vec::new();
        }
        let add_ons: BTreeSet<&str> = change
            .sides()
            .flat_map(rollout_policy::all_refused)
            .map(|refused| refused.add_on.as_str())
            .collect();
        let differs =
            |add_on: &&str| change.differs_in(|policy| rollout_policy::refused_of(Some(policy), add_on));
        add_ons.into_iter().filter(differs).map(Key::cluster).collect()
    });
}

/// Returns the time before which a rejected creation on a cluster is not retried; `None` if it is due.
pub(super) fn retry_at(
    refused: &BTreeMap<String, RefusedAddOn>,
    cluster: &str,
    now: Timestamp,
) -> Option<Timestamp> {
    let record = refused.get(cluster)?;
    let (since, tried) = (record.since.0, record.tried.0);
    // A time in the future comes from a clock that was ahead.
    if now < tried {
        return None;
    }
    let own = later(tried, tried.duration_since(since).clamp(FIRST_RETRY, LAST_RETRY));
    let last = refused.values().map(|record| record.tried.0).filter(|tried| *tried <= now).max()?;
    let at = own.max(later(last, FIRST_RETRY));
    (now < at).then_some(at)
}

/// Records the clusters on which the API server has just rejected the add-on; `None` if there are none, or if no
/// policy keeps records. A server that cannot answer does not count as rejecting.
pub(super) fn record_refused(
    add_on: &str,
    done: &Executed,
    view: &impl View,
    now: Timestamp,
) -> Read<Option<StatusWrite>> {
    let refused: Vec<(&str, &Failure)> = refused_creations(done).collect();
    if refused.is_empty() {
        return Ok(None);
    }
    let Some(policy) = rollout_policy::object_for(RolloutOwner::AddOn(add_on), view)? else {
        return Ok(None);
    };
    let mut status = policy.status.clone().unwrap_or_default();
    let records = &mut status.refused;
    let before = records.len();
    let mut is_complete = true;
    for (cluster, failure) in refused {
        let known = records.iter_mut().find(|known| known.add_on == add_on && known.cluster == cluster);
        if let Some(known) = known {
            known.tried = Time(now);
        } else if records.len() < MAX_REFUSED && !is_new(cluster, view, now)? {
            records.push(RefusedAddOn {
                add_on: add_on.to_owned(),
                cluster: cluster.to_owned(),
                since: Time(now),
                tried: Time(now),
                message: plain(&failure.message, MESSAGE),
                revision: String::new(),
                turn: None,
                unknown: Default::default(),
            });
        } else {
            is_complete = false;
        }
    }
    // While a rejection is not recorded, each plan fails. The status of the add-on must not wait for that.
    if !is_complete && records.len() == before {
        return Ok(None);
    }
    rollout_policy::sort_refused(records);
    Ok(StatusWrite::from_status(policy.as_ref(), policy.status.as_ref(), &status))
}

/// Reports on the placements the clusters on which the API server has just rejected the add-on, if no policy keeps
/// records. The next successful plan clears this.
pub(super) fn report_refused(
    add_on: &str,
    done: &Executed,
    view: &impl View,
    now: Timestamp,
) -> Read<Option<StatusWrite>> {
    let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(add_on))? else { return Ok(None) };
    let mut refused = Vec::new();
    for (cluster, failure) in refused_creations(done) {
        if !is_new(cluster, view, now)? {
            refused.push((cluster, failure));
        }
    }
    let mut progressions = cma.status.iter().flat_map(|status| &status.install_progressions);
    let stays = if refused.is_empty() {
        !done.is_success() || !progressions.any(|progression| progression.conditions.iter().any(is_refusal))
    } else {
        rollout_policy::object_for(RolloutOwner::AddOn(add_on), view)?.is_some()
    };
    if stays {
        return Ok(None);
    }
    let mut new = ClusterManagementAddOn::clone(&cma);
    for progression in new.status.iter_mut().flat_map(|status| &mut status.install_progressions) {
        let placement = Key::namespaced(&progression.namespace, &progression.name);
        let selection = Selections::default().of(&placement, view, now)?;
        let selected: BTreeSet<&str> = selection.clusters().collect();
        let mut own = refused.iter().filter(|(cluster, _)| selected.contains(cluster));
        let Some((_, first)) = own.next() else {
            progression.conditions.retain(|condition| !is_refusal(condition));
            continue;
        };
        let (clusters, reason) = (counted(1 + own.count(), "cluster"), plain(&first.message, MESSAGE));
        let message = format!("the add-on cannot be created on {clusters}: {reason}");
        let observed = Observation::new(DEGRADED, True, REFUSED).message(message);
        set_condition(&mut progression.conditions, observed, now);
    }
    Ok(StatusWrite::between(cma.as_ref(), &new))
}

/// Returns true if a condition of a placement was set by [`report_refused`].
fn is_refusal(condition: &Condition) -> bool {
    condition.type_ == DEGRADED && condition.reason == REFUSED
}

/// Returns the clusters on which the API server rejected the add-on, with its answers.
fn refused_creations(done: &Executed) -> impl Iterator<Item = (&str, &Failure)> {
    done.failures().filter_map(|(action, failure)| refused_creation(action, failure))
}

/// Returns the cluster on which the API server rejected the add-on.
fn refused_creation<'a>(action: &'a Action, failure: &'a Failure) -> Option<(&'a str, &'a Failure)> {
    let Action::Create { object, .. } = action else { return None };
    let is_addon = object.gvk() == Gvk::of::<ManagedClusterAddOn>();
    (failure.is_refusal() && is_addon).then(|| (object.namespace(), failure))
}

fn is_new(cluster: &str, view: &impl View, now: Timestamp) -> Read<bool> {
    let cluster = view.get_readable::<ManagedCluster>(&Key::cluster(cluster))?;
    let created = cluster.and_then(|cluster| cluster.metadata.creation_timestamp.clone());
    Ok(created.is_some_and(|created| now < later(created.0, NEW_CLUSTER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused(since: i64, tried: i64) -> RefusedAddOn {
        RefusedAddOn {
            add_on: "a".into(),
            cluster: "c".into(),
            since: Time(at(since)),
            tried: Time(at(tried)),
            message: String::new(),
            revision: String::new(),
            turn: None,
            unknown: Default::default(),
        }
    }

    #[test]
    fn a_refused_creation_is_retried_after_waits_that_double_to_a_minute() {
        let next = |tried: i64| {
            let records = BTreeMap::from([("c".to_owned(), refused(100, tried))]);
            let before = retry_at(&records, "c", at(tried - 1));
            assert_eq!(before, None, "the clock was ahead");
            let next = retry_at(&records, "c", at(tried)).unwrap();
            assert_eq!(retry_at(&records, "c", next), None);
            next.as_second() - tried
        };
        assert_eq!([100, 110, 130, 140, 150, 200].map(next), [30, 30, 30, 40, 50, 60]);
    }

    #[test]
    fn a_plan_without_retries_comes_between_two_with_retries() {
        let records =
            BTreeMap::from([("c".to_owned(), refused(100, 140)), ("d".to_owned(), refused(100, 179))]);
        assert_eq!(retry_at(&records, "c", at(180)), Some(at(209)), "d was tried a second ago");
        assert_eq!(retry_at(&records, "c", at(209)), None);
    }
}
