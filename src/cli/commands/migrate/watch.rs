//! Waits for the end of a migration.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};

use super::Args;
use super::plan::{MigrationPlan, PlacementPlan, clusters};
use crate::cli::CommandError;
use crate::cli::follow::follow;
use crate::cli::output::{Output, Ui};
use crate::shell::{now, stop_on_signal};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1beta1::PlacementDecision;
use api::names::{INSTALLED_BY_ANNOTATION, PLACEMENT_LABEL, WORK_PLACEMENT_LABEL, WORK_REPLICA_SET_LABEL};
use api::work::v1::ManifestWork;
use controllers::hub::overview::{Mark, Overview};
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// The polling interval.
const TICK: Duration = Duration::from_millis(500);

/// Waits until the placements of a plan have left the cluster, and prints what is still pending.
///
/// # Errors
/// Fails if the wait times out, or the command is stopped.
pub(super) async fn to_end(args: &Args, plan: &MigrationPlan, ui: &mut Ui) -> Result<(), CommandError> {
    let shell = follow(args.origin.connect().await?);
    let handle = shell.handle();
    let stop = stop_on_signal();
    let reading = tokio::spawn(shell.run(stop.clone()));
    let tolerated =
        plan.leaving().filter_map(|planned| planned.leaves_after_seconds).max().unwrap_or_default();
    let deadline = args.wait.plus(SignedDuration::from_secs(tolerated)).deadline();
    let (mut shown, mut left) = (BTreeSet::new(), vec!["the hub has not been read".to_owned()]);
    while !left.is_empty() && Instant::now() < deadline && !stop.is_cancelled() {
        stop.run_until_cancelled(sleep(TICK)).await;
        // Skip rounds until the first lists are complete.
        let Ok(pending) = pending(plan, &handle.caches(), now()) else { continue };
        for line in pending.iter().filter(|_| args.output == Output::Text) {
            if shown.insert(line.clone()) {
                ui.line(line)?;
            }
        }
        left = pending;
    }
    stop.cancel();
    reading.await?;
    if !left.is_empty() {
        let hint = format!(
            "the migration continues without this command; to remove the taint, run wheelwright migrate {} --undo",
            plan.cluster
        );
        return Err(CommandError::hinted(anyhow!("stopped while {}", left.join("; ")), hint));
    }
    if args.output == Output::Text {
        ui.line(format!("every move off cluster {} is complete", plan.cluster))?;
    }
    Ok(())
}

/// Returns the steps that are still pending.
fn pending(plan: &MigrationPlan, view: &impl View, now: Timestamp) -> Read<Vec<String>> {
    let overview = Overview::read(view, now)?;
    let mut pending = Vec::new();
    for planned in plan.leaving() {
        pending.extend(of_placement(planned, &plan.cluster, &overview, view)?);
    }
    let placements: BTreeSet<&str> = plan.leaving().map(|planned| planned.placement.as_str()).collect();
    pending.extend(works(&plan.cluster, &placements, view)?);
    pending.extend(addons(&plan.cluster, &placements, &overview, view)?);
    Ok(pending)
}

fn of_placement(
    planned: &PlacementPlan,
    cluster: &str,
    overview: &Overview,
    view: &impl View,
) -> Read<Vec<String>> {
    let PlacementPlan { placement, to, before, .. } = planned;
    let Some((namespace, name)) = placement.split_once('/') else { return Ok(Vec::new()) };
    let decisions = view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, name).within(namespace))?;
    let decided: BTreeSet<&str> = decisions.iter().flat_map(|decision| clusters(decision)).collect();
    if decided.contains(cluster) {
        return Ok(vec![format!("placement {placement} selects {cluster}")]);
    }
    let is_new = |name: &str| decided.contains(name) && !before.contains(name);
    let arrived = decided.iter().filter(|name| is_new(name)).count();
    if arrived < to.len() {
        return Ok(vec![format!(
            "placement {placement} has selected {arrived} of {} new clusters",
            to.len()
        )]);
    }
    let mut pending = Vec::new();
    for workload in overview.workloads() {
        let groups = workload.groups.iter().filter(|group| group.placement == *placement);
        let new = groups.flat_map(|group| &group.clusters).filter(|on| is_new(&on.name));
        pending.extend(new.filter(|on| on.mark() != Mark::Good).map(|on| {
            let reason = if on.message.is_empty() { String::new() } else { format!(": {}", on.message) };
            format!("{} does not work on {} yet{reason}", workload.name, on.name)
        }));
    }
    Ok(pending)
}

/// Returns the works of ManifestWorkReplicaSets that are still on the cluster for the leaving placements.
fn works(cluster: &str, placements: &BTreeSet<&str>, view: &impl View) -> Read<Vec<String>> {
    let works = view.list_readable::<ManifestWork>(Query::namespace(cluster))?;
    let leave = works.iter().filter(|work| {
        let namespace =
            work.label(WORK_REPLICA_SET_LABEL).and_then(|set| set.split_once('.')).map(|(ns, _)| ns);
        let placement = namespace.zip(work.label(WORK_PLACEMENT_LABEL));
        placement.is_some_and(|(namespace, name)| placements.contains(format!("{namespace}/{name}").as_str()))
    });
    Ok(leave.map(|work| format!("work {} is on {cluster}", work.name())).collect())
}

/// Returns the add-ons of the leaving placements that are still on the cluster and no longer wanted there.
fn addons(
    cluster: &str,
    placements: &BTreeSet<&str>,
    overview: &Overview,
    view: &impl View,
) -> Read<Vec<String>> {
    let mut pending = Vec::new();
    for workload in &overview.add_ons {
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(&workload.name))?;
        let mut strategies = cma.iter().flat_map(|cma| &cma.spec.install_strategy.placements);
        if !strategies.any(|it| placements.contains(format!("{}/{}", it.namespace, it.name).as_str())) {
            continue;
        }
        let mut groups = workload.groups.iter().filter(|group| group.placement.is_empty());
        let addon = view.get::<ManagedClusterAddOn>(&Key::namespaced(cluster, &workload.name))?;
        let installed = addon.is_some_and(|addon| addon.annotation(INSTALLED_BY_ANNOTATION).is_some());
        if installed && groups.any(|group| group.clusters.iter().any(|on| on.name == cluster)) {
            let holds = workload.holds.iter().map(|hold| format!("; {hold}")).collect::<String>();
            pending.push(format!("add-on {} is on {cluster}{holds}", workload.name));
        }
    }
    Ok(pending)
}
