//! `wheelwright status`.

use std::process::ExitCode;
use std::time::Duration;

use kube::Client;

use super::doctor::finding::Finding;
use super::doctor::operator;
use crate::cli::follow::follow;
use crate::cli::origin::{Origin, read_by_rollouts, serves_ours};
use crate::cli::output::{Output, Style, Ui};
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult, fleet};
use crate::shell::now;
use crate::shell::stop_on_signal;
use api::names::SYSTEM_NAMESPACE;
use controllers::hub::overview::{Overview, OverviewController};
use object::Gvk;

/// The interval at which `--watch` checks for changes.
const TICK: Duration = Duration::from_millis(500);

/// The number of ticks after which `--watch` checks the operator's lease again.
const LEASE_TICKS: usize = 10;

/// Show the fleet: repositories, clusters, placements, and each add-on cluster by cluster.
///
/// The states are the same as in `wheelwright explain rollout`. The command reads them with the permissions
/// of the kubeconfig, so the operator does not need to run. If no operator leads, the first line says so.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    origin: Origin,
    /// Namespace of the repositories, placements and sets to show. Add-ons of the fleet are then omitted.
    /// Kinds that you can list only in this namespace are read there. Default: all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    operator_namespace: String,
    /// Keep running until Ctrl-C, and show each change.
    #[arg(short, long, conflicts_with_all = ["snapshot", "output"])]
    watch: bool,
    /// Also show the last results of the commits of each ConfigRepo.
    #[arg(long)]
    history: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The JSON output.
#[derive(serde::Serialize)]
struct FleetStatus<'a> {
    /// The problem with the operator; absent if one leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Finding>,
    /// The kinds that the user may not list. Everything that depends on them is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<&'a str>,
    #[serde(flatten)]
    overview: &'a Overview,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if args.watch {
        return block_on(watch(args, ui));
    }
    let (overview, unread) = read(&args.origin, args.namespace.as_deref())?;
    let overview = only(overview, args.namespace.as_deref());
    let operator = match args.origin.is_file() {
        true => None,
        false => block_on(async {
            let hub = args.origin.connect().await?;
            Ok(dead_operator(&hub, serves_ours(&hub).await?, &args.operator_namespace).await)
        })?,
    };
    match args.output {
        Output::Json => ui.json(&FleetStatus { operator, unread: kinds(&unread), overview: &overview })?,
        Output::Text => ui.text(page(args, operator.as_ref(), &overview, &unread, ui.style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn page(
    args: &Args,
    operator: Option<&Finding>,
    overview: &Overview,
    unread: &[Gvk],
    style: Style,
) -> String {
    let rights = (!unread.is_empty()).then(|| rights(unread));
    let findings: String = rights.iter().chain(operator).map(|finding| finding.text(style) + "\n").collect();
    findings + &fleet::page(overview, style, args.history, unread)
}

/// Returns a warning about the kinds that the user may not list.
fn rights(unread: &[Gvk]) -> Finding {
    let message = format!(
        "you are not allowed to list {}, so the objects that depend on them are not shown",
        kinds(unread).join(", ")
    );
    Finding::warning(
        "rights",
        message,
        "use a kubeconfig with this permission, or ask an administrator for it",
    )
}

fn kinds(unread: &[Gvk]) -> Vec<&str> {
    unread.iter().map(|gvk| gvk.kind.as_str()).collect()
}

/// Reads the fleet with the user's permissions, and returns the kinds that the user may not list. If there are
/// any, no rollout can be decided.
fn read(origin: &Origin, namespace: Option<&str>) -> Result<(Overview, Vec<Gvk>), CommandError> {
    let (caches, unread) = origin.read_permitted(&read_by_rollouts::<OverviewController>(), namespace)?;
    let mut overview = Overview::read(&caches, now())?;
    if !unread.is_empty() {
        overview.add_ons.clear();
        overview.replica_sets.clear();
    }
    Ok((overview, unread))
}

/// Keeps the objects of a namespace, and the clusters; everything if `namespace` is `None`.
fn only(mut overview: Overview, namespace: Option<&str>) -> Overview {
    let Some(namespace) = namespace else { return overview };
    let is_inside = |name: &str| name.split_once('/').is_some_and(|(one, _)| one == namespace);
    overview.repositories.retain(|repository| is_inside(&repository.name));
    overview.placements.retain(|placement| is_inside(&placement.name));
    overview.replica_sets.retain(|set| is_inside(&set.name));
    overview.add_ons.clear();
    overview
}

/// Returns a finding if no operator leads, unless only OCM runs the hub.
async fn dead_operator(hub: &Client, has_ours: bool, namespace: &str) -> Option<Finding> {
    if has_ours { operator::no_leader(hub, namespace).await } else { None }
}

/// Watches the fleet, and prints it whenever it changes.
async fn watch(args: &Args, ui: &mut Ui) -> CommandResult {
    let hub = args.origin.connect().await?;
    let has_ours = serves_ours(&hub).await?;
    let shell = follow(hub.clone());
    let handle = shell.handle();
    let stop = stop_on_signal();
    let reading = tokio::spawn(shell.run(stop.clone()));
    let mut operator = None;
    for tick in 0_usize.. {
        if stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_none() {
            break;
        }
        if tick.is_multiple_of(LEASE_TICKS) {
            operator = dead_operator(&hub, has_ours, &args.operator_namespace).await;
        }
        let page = match Overview::read(&handle.caches(), now()) {
            Ok(overview) => {
                let overview = only(overview, args.namespace.as_deref());
                page(args, operator.as_ref(), &overview, &[], ui.style())
            }
            Err(unread) => format!("reading the hub: {unread}\n"),
        };
        ui.draw(&page)?;
    }
    reading.await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use std::path::Path;

    #[test]
    fn a_fleet_whose_rollout_stopped_at_its_canary_is_shown() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let origin = Origin::from_file(folder.join("rollout.yaml"));
        let overview = read(&origin, None).unwrap_or_else(|error| panic!("{error:?}")).0;
        golden::check([(folder.join("status.txt"), fleet::page(&overview, Style::PLAIN, false, &[]))]);
    }

    #[test]
    fn a_namespace_shows_its_own_objects_and_not_the_add_ons_of_the_fleet() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let origin = Origin::from_file(folder.join("rollout.yaml"));
        let all = read(&origin, None).unwrap().0;
        assert!(!all.add_ons.is_empty() && !all.placements.is_empty());
        let inside = only(all.clone(), Some("fleet"));
        assert_eq!((inside.placements.len(), inside.add_ons.len()), (all.placements.len(), 0));
        assert_eq!(inside.clusters, all.clusters);
        assert!(only(all, Some("elsewhere")).placements.is_empty());
    }

    #[test]
    fn a_mandatory_group_that_no_cluster_is_in_is_named() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let hub = std::fs::read_to_string(folder.join("rollout.yaml")).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, hub.replace("- groupName: canary", "- groupName: pilot")).unwrap();
        let overview = read(&Origin::from_file(file.path().into()), None).unwrap().0;
        let page = fleet::page(&overview, Style::PLAIN, false, &[]);
        let note = "\n  fleet/aws: mandatory group pilot: the placement has no cluster in this group, so the rollout does not wait for it\n";
        assert!(page.contains(note), "{page}");
    }
}
