//! `wheelwright rollout status`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use jiff::SignedDuration;

use api::names::DEFAULT_ROLLOUT_POLICY;
use controllers::hub::overview::{ClusterSummary, Overview, OverviewController, WorkloadSummary};
use engine::report::quarantine_remedy;
use engine::rollout::ClusterState;
use engine::rollout::state::Wait;

use super::RolloutName;
use super::approve::waiting;
use crate::cli::commands::explain::rollout::{Explained, json, missing};
use crate::cli::duration::at_least;
use crate::cli::follow::follow;
use crate::cli::origin::{Origin, read_by_rollouts};
use crate::cli::output::{Output, Style, Ui};
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult, fleet};
use crate::shell::now;
use crate::shell::stop_on_signal;

/// The interval at which `--watch` checks for changes.
const TICK: Duration = Duration::from_millis(500);

/// Show a rollout group by group: the version and state of each cluster, what blocks it, and what to do.
///
/// If a cluster reports an error, the error is shown before the deadline of the cluster. With `--watch`, the
/// command ends when every cluster is done (exit status 0), when failures have stopped the rollout (1), or
/// after `--timeout` (2).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    #[command(flatten)]
    origin: Origin,
    /// Follow the rollout until it is done or stopped by failures.
    #[arg(short, long, conflicts_with_all = ["snapshot", "output"])]
    watch: bool,
    /// Time to follow the rollout, such as `30m` [default: no limit].
    #[arg(long, value_name = "DURATION", requires = "watch", value_parser = at_least(SignedDuration::ZERO))]
    timeout: Option<SignedDuration>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The result of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnd {
    /// Every cluster is done, or the user has ended the command.
    Done,
    /// No cluster makes progress until a person acts.
    Stopped,
    /// The timeout has passed.
    TimedOut,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    if args.watch {
        let end = block_on(watch(args, ui))?;
        let code = match end {
            WatchEnd::Done => return Ok(ExitCode::SUCCESS),
            WatchEnd::Stopped => ExitCode::FAILURE,
            WatchEnd::TimedOut => {
                ui.error(format!("{name} is not done, and --timeout has expired"))?;
                ExitCode::from(2)
            }
        };
        ui.text(next(name, &Explained::read(name, &args.origin)?))?;
        return Ok(code);
    }
    let explained = Explained::read(name, &args.origin)?;
    match args.output {
        Output::Json => ui.json(&json(&explained))?,
        Output::Text => {
            let overview =
                Overview::read(&args.origin.read(&read_by_rollouts::<OverviewController>())?, now())?;
            // The text below gives the hold of each placement.
            let summary = WorkloadSummary { holds: Vec::new(), ..find(&overview, name)?.clone() };
            ui.text(fleet::workload(&summary, ui.style()) + &next(name, &explained))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find<'o>(overview: &'o Overview, name: &str) -> Result<&'o WorkloadSummary, CommandError> {
    let mut all = overview.workloads();
    all.find(|workload| workload.name == name).ok_or_else(|| missing(name))
}

/// Describes why placements start no clusters, and what to do about it.
fn next(name: &str, explained: &Explained) -> String {
    let mut page = String::new();
    let mut remedies = BTreeSet::new();
    for rollout in &explained.rollouts {
        let (placement, Ok(decision)) = (&rollout.placement, &rollout.decision) else { continue };
        let Some(hold) = &decision.hold else { continue };
        let revision = explained.named(&rollout.revision);
        let _ = writeln!(page, "{placement} is on hold: {hold}\n  the revision is {revision}");
        if !rollout.failure.is_empty() {
            let _ = writeln!(page, "  it failed on {}", rollout.failure);
        }
        remedies.extend(release(hold, name).remedy);
    }
    for remedy in remedies {
        let _ = writeln!(page, "  {remedy}");
    }
    page + &approvals(name, &waiting(explained))
}

/// Lists the pending approvals, each with the command that approves it.
fn approvals(name: &str, waiting: &BTreeMap<String, String>) -> String {
    let mut page = String::new();
    for (token, about) in waiting {
        let _ =
            writeln!(page, "waits for an approval of {about}\n  wheelwright rollout approve {name} {token}");
    }
    page
}

/// Returns the page of `--watch`: the rollout, and the commands that let it continue.
fn watched(summary: &WorkloadSummary, style: Style) -> String {
    let WorkloadSummary { name, paused_by, approvals: waiting, .. } = summary;
    let resume = match paused_by.as_slice() {
        [] => String::new(),
        policies => format!("  wheelwright rollout {}\n", resume(policies, name)),
    };
    fleet::workload(summary, style) + &resume + &approvals(name, waiting)
}

/// Returns the command that ends the pauses of these policies.
fn resume(policies: &[String], name: &str) -> String {
    match policies {
        [policy] if policy == DEFAULT_ROLLOUT_POLICY => "resume --all".to_owned(),
        _ => format!("resume {name}"),
    }
}

/// The end of a hold.
struct Release {
    /// True if the hold was caused by failures or a mistake and lasts until a person acts.
    is_stopped: bool,
    /// The command that ends the hold, if there is one.
    remedy: Option<String>,
}

fn release(hold: &Wait, name: &str) -> Release {
    let command = |arguments: String| Some(format!("wheelwright rollout {arguments}"));
    let (is_stopped, remedy) = match hold {
        Wait::Refused | Wait::Unassigned => (true, None),
        Wait::Breach(breach) => (breach.reports_until.is_none(), command(format!("undo {name}"))),
        Wait::Quarantine { .. } => (true, Some(quarantine_remedy(name))),
        Wait::Paused { policies } => (false, command(resume(policies, name))),
        Wait::Frozen { .. }
        | Wait::Unreachable { .. }
        | Wait::Superseded { .. }
        | Wait::Stage { .. }
        | Wait::StageSoak { .. }
        | Wait::Approval { .. }
        | Wait::Slot { .. } => (false, None),
    };
    Release { is_stopped, remedy }
}

/// Watches a rollout until it ends.
async fn watch(args: &Args, ui: &mut Ui) -> Result<WatchEnd, CommandError> {
    let name = &args.subject.name;
    let shell = follow(args.origin.connect().await?);
    let handle = shell.handle();
    let stop = stop_on_signal();
    let reading = tokio::spawn(shell.run(stop.clone()));
    let mut end = WatchEnd::Done;
    let mut over = pin!(async {
        match args.timeout {
            Some(timeout) => tokio::time::sleep(timeout.unsigned_abs()).await,
            None => std::future::pending().await,
        }
    });
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(TICK) => {}
            () = &mut over => {
                end = WatchEnd::TimedOut;
                break;
            }
        }
        // Skip rounds until the first lists are complete.
        let Ok(overview) = Overview::read(&handle.caches(), now()) else { continue };
        let summary = find(&overview, name)?;
        ui.draw(&watched(summary, ui.style()))?;
        if let Some(now) = self::end(summary) {
            end = now;
            break;
        }
    }
    stop.cancel();
    reading.await?;
    Ok(end)
}

/// Returns the result of a rollout; `None` while it is in progress. Once every placement is decided, clusters
/// without an assigned revision do not keep the rollout in progress.
fn end(summary: &WorkloadSummary) -> Option<WatchEnd> {
    let WorkloadSummary { settled, total, unselected, holds, .. } = summary;
    let unassigned = summary.clusters().filter(|one| one.state == ClusterState::Waiting(Wait::Unassigned));
    let is_done = match unassigned.count() {
        0 => settled == total,
        unassigned => *settled > 0 && settled + unassigned == *total && holds.is_empty(),
    };
    if is_done && *unselected == 0 {
        return Some(WatchEnd::Done);
    }
    let has_failed = summary.failed + summary.returned + summary.quarantined > 0;
    let stands_still = summary.groups.iter().all(|group| {
        let is_stopped = summary.stopped.contains(&group.placement);
        group.clusters.iter().all(|cluster| stands_still(cluster, is_stopped))
    });
    (has_failed && stands_still).then_some(WatchEnd::Stopped)
}

/// Returns true if the state of a cluster lasts until a person acts. If too many failures have stopped its
/// rollout, this includes clusters that report an error before their deadline.
fn stands_still(cluster: &ClusterSummary, is_stopped: bool) -> bool {
    match &cluster.state {
        ClusterState::Done
        | ClusterState::Skipped
        | ClusterState::TimedOut
        | ClusterState::Failed { deadline: None }
        | ClusterState::Unreachable { .. }
        | ClusterState::Returned { .. }
        | ClusterState::Quarantined => true,
        ClusterState::Failed { deadline: Some(_) } => is_stopped,
        ClusterState::Progressing { .. } => is_stopped && cluster.reports_error,
        ClusterState::Waiting(hold) => release(hold, "").is_stopped,
        ClusterState::Returning { .. } | ClusterState::Starting | ClusterState::Soaking { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::hub::overview::GroupSummary;
    use engine::rollout::state::Breach;
    use jiff::Timestamp;

    #[test]
    fn a_watched_rollout_shows_the_command_that_resumes_it() {
        let summary = WorkloadSummary { name: "msa".into(), total: 2, ..WorkloadSummary::default() };
        assert!(!watched(&summary, Style::PLAIN).contains("wheelwright rollout"));
        let approvals = [("token".to_owned(), "the start of #1".to_owned())].into();
        let waiting = WorkloadSummary { approvals, ..summary.clone() };
        let page = watched(&waiting, Style::PLAIN);
        let command = "waits for an approval of the start of #1\n  wheelwright rollout approve msa token\n";
        assert!(page.ends_with(command), "{page}");
        for (policies, command) in [
            (&["msa"][..], "resume msa"),
            (&["wheelwright-default"], "resume --all"),
            (&["msa", "wheelwright-default"], "resume msa"),
        ] {
            let paused_by = policies.iter().map(|&policy| policy.to_owned()).collect();
            let paused = watched(&WorkloadSummary { paused_by, ..summary.clone() }, Style::PLAIN);
            assert!(paused.ends_with(&format!("\n  wheelwright rollout {command}\n")), "{paused}");
        }
    }

    /// Returns the result of a watch for the clusters of one placement.
    fn end_of(states: &[ClusterState], is_stopped: bool) -> Option<WatchEnd> {
        let cluster = |state: &ClusterState| ClusterSummary {
            name: "c".into(),
            runs: String::new(),
            state: state.clone(),
            available: true,
            reports_error: false,
            message: String::new(),
            since: None,
        };
        let clusters = states.iter().map(cluster).collect();
        let group = GroupSummary { placement: "fleet/aws".into(), name: "all".into(), clusters };
        let stopped = if is_stopped { ["fleet/aws".to_owned()].into() } else { BTreeSet::new() };
        end(&WorkloadSummary { stopped, ..WorkloadSummary::of(vec![group]) })
    }

    #[test]
    fn a_watch_ends_when_failures_have_stopped_the_rollout_and_not_while_clusters_wait() {
        let until = Timestamp::UNIX_EPOCH;
        let failed = ClusterState::Failed { deadline: Some(until) };
        let breach = Breach {
            stage: "canary".into(),
            failures: 1,
            allowed: 0,
            first: "c".into(),
            reports_until: None,
        };
        let late = Wait::Breach(Breach { reports_until: Some(until), ..breach.clone() });
        let waiting = ClusterState::Waiting;
        assert_eq!(end_of(&[failed.clone(), ClusterState::Done], true), Some(WatchEnd::Stopped));
        assert_eq!(end_of(&[failed.clone(), ClusterState::Done], false), None, "its failures are tolerated");
        for (state, end) in [
            (waiting(Wait::Breach(breach)), Some(WatchEnd::Stopped)),
            (waiting(Wait::Unassigned), Some(WatchEnd::Stopped)),
            (waiting(late), None),
            (waiting(Wait::Approval { token: "t".into() }), None),
            (waiting(Wait::StageSoak { stage: "canary".into(), until }), None),
            (waiting(Wait::Frozen { window: "night".into(), until }), None),
            (ClusterState::Progressing { deadline: None, reported: true }, None),
            (ClusterState::Soaking { until }, None),
        ] {
            assert_eq!(end_of(&[failed.clone(), state.clone()], true), end, "{state:?}");
        }
    }

    #[test]
    fn a_cluster_to_which_no_rollout_assigns_anything_keeps_no_watch_open() {
        let unassigned = ClusterState::Waiting(Wait::Unassigned);
        assert_eq!(end_of(&[ClusterState::Done, unassigned.clone()], false), Some(WatchEnd::Done));
        assert_eq!(end_of(std::slice::from_ref(&unassigned), false), None, "nothing has been rolled out yet");
        let soaking = ClusterState::Soaking { until: Timestamp::UNIX_EPOCH };
        assert_eq!(end_of(&[soaking, unassigned], false), None);
    }
}
