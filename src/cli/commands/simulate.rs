//! `wheelwright simulate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;

use super::explain::rollout::Explained;
use super::plan::report::AppliedCommits;
use super::plan::request::config_repo;
use super::plan::{key, report};
use crate::cli::checkout::RepositoryArgs;
use crate::cli::origin::Origin;
use crate::cli::{CommandError, CommandResult, output::Ui};
use controllers::placement_rollout::PlacementRollout;
use engine::report::SnapshotReader;
use engine::rollout::simulation::{
    Outcomes, Scenario, ScenarioError, decision_json, decision_table, run as play, strategy,
};
use engine::rollout::{Input, advance};
use object::Key;
use preview::{ReportedHub, of_report, with_commits};

/// Simulate decisions of the operator, without a hub or clusters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Simulation,
}

#[derive(Debug, clap::Subcommand)]
enum Simulation {
    Rollout(Rollout),
}

/// Simulate a rollout: show what the rollout engine decides, once or until nothing more happens.
///
/// docs/simulate.md describes the files.
#[derive(Debug, clap::Args)]
struct Rollout {
    /// File with the strategy, groups and clusters, in YAML or JSON.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["snapshot", "report"])]
    input: Option<PathBuf>,
    #[command(flatten)]
    recorded: Recorded,
    /// Time at which the simulation starts, such as `2026-03-02T08:00:00Z`. Default: now.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Simulate the rollout until its end.
    #[arg(long)]
    until_done: bool,
    /// File with the outcomes of clusters, in YAML or JSON. Default: every cluster succeeds after 35 seconds.
    #[arg(long, value_name = "FILE", requires = "until_done")]
    outcomes: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A fleet as it was recorded, instead of an input.
#[derive(Debug, clap::Args)]
struct Recorded {
    /// Read groups, clusters and policies from the objects of a hub in this file. It contains YAML documents
    /// or a List, as kubectl prints it.
    #[arg(long, value_name = "FILE", group = "fleet", conflicts_with = "input", requires = "name")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    reported: Reported,
    /// Rollout to simulate: the name of an add-on, or NAMESPACE/NAME of a ManifestWorkReplicaSet.
    #[arg(long = "rollout", value_name = "ADDON|NAMESPACE/NAME", requires = "fleet")]
    name: Option<String>,
    /// Placement, as NAMESPACE/NAME, if the rollout has several.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "fleet")]
    placement: Option<String>,
    /// File with the strategy to simulate instead of the recorded one, in YAML or JSON.
    #[arg(long, value_name = "FILE", requires = "fleet")]
    strategy: Option<PathBuf>,
    /// Revision to roll out, which can have any name. Default: the recorded rollout continues.
    #[arg(long, value_name = "REVISION", requires = "fleet")]
    revision: Option<String>,
}

/// A fleet as a report has it.
#[derive(Debug, clap::Args)]
struct Reported {
    /// Read groups, clusters and policies from the report on this branch of the repository, as `wheelwright
    /// plan --report` does.
    #[arg(long, value_name = "BRANCH", group = "fleet", conflicts_with = "input", requires = "name")]
    report: Option<String>,
    /// Commit on the branch of the report, for an earlier moment. Default: the newest one.
    #[arg(long, value_name = "COMMIT", requires = "report")]
    at: Option<String>,
    /// Directory of the report on the branch, if the branch has several.
    #[arg(long, value_name = "DIR", requires = "report")]
    report_path: Option<String>,
    /// ConfigRepo that follows the repository, if the hub has several.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = key, requires = "report")]
    config_repo: Option<Key>,
    #[command(flatten)]
    repository: RepositoryArgs,
}

impl Reported {
    /// Returns the hub's objects at the time of the report: the reported objects, and those that only exist in the
    /// commit that was applied then.
    fn read(&self, branch: &str, now: Timestamp) -> Result<Origin, CommandError> {
        let Self { report: _, at, report_path, config_repo: named, repository } = self;
        let repository = repository.open()?;
        let tip = at.as_deref().unwrap_or(branch);
        let reported = report::read(&repository, tip, report_path.as_deref(), SnapshotReader::read)?.objects;
        let repo = config_repo(named.as_ref(), &repository.urls(), reported.iter())?;
        // These warnings are about fields of other managers, which do not affect rollouts.
        let ReportedHub { snapshot, applied, warnings: _ } = of_report(reported, &repo, now);
        let objects = match applied.is_empty() {
            true => snapshot.objects,
            false => {
                // These warnings are about missing commits that were replaced by one with the same objects.
                let (commits, _) = AppliedCommits::read(&repository, applied)?.base(&repo, &snapshot, now)?;
                with_commits(&snapshot, &commits, now)?
            }
        };
        Ok(Origin::from_objects(objects.into_iter().map(Arc::unwrap_or_clone).collect()))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// A picture of the whole rollout, with `--until-done`.
    Svg,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.what {
        Simulation::Rollout(args) => rollout(args, ui),
    }
}

fn rollout(args: &Rollout, ui: &mut Ui) -> CommandResult {
    let now = args.now.unwrap_or_else(crate::shell::now);
    let Recorded { snapshot, reported, .. } = &args.recorded;
    let (source, input) = match (&args.input, snapshot, &reported.report) {
        (Some(file), _, _) => (file.display().to_string(), read(file, Scenario::read)?.into_input()),
        (None, Some(file), _) => {
            let origin = Origin::from_file(file.clone());
            (file.display().to_string(), recorded(&args.recorded, &origin)?)
        }
        (None, None, Some(branch)) => {
            let origin = reported.read(branch, now)?;
            (format!("the report on {branch}"), recorded(&args.recorded, &origin)?)
        }
        (None, None, None) => return Err(anyhow!("name an --input, a --snapshot or a --report").into()),
    };
    if args.until_done {
        let outcomes =
            args.outcomes.as_deref().map(|path| read(path, Outcomes::read)).transpose()?.unwrap_or_default();
        let trace = play(input, &outcomes, now).map_err(|error| {
            let source = args.outcomes.as_ref().map_or(source, |file| file.display().to_string());
            anyhow::Error::from(error).context(format!("cannot play {source}"))
        })?;
        match args.output {
            Format::Text => ui.text(trace.table())?,
            Format::Json => ui.json(&trace)?,
            Format::Svg => ui.text(trace.svg())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let decision = advance(&input, now);
    match args.output {
        Format::Text => {
            ui.text(decision_table(&decision, |revision| revision.short().to_owned(), &BTreeMap::new()))?;
        }
        Format::Json => ui.json(&decision_json(&decision))?,
        Format::Svg => {
            return Err(CommandError::hinted(
                anyhow!("a picture needs more than one step"),
                "add --until-done, and --outcomes FILE",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a rollout of a recorded fleet, with a different strategy or revision.
fn recorded(args: &Recorded, origin: &Origin) -> Result<Input, CommandError> {
    let Recorded { snapshot: _, reported: _, name, placement, strategy: file, revision } = args;
    let name = name.as_deref().unwrap_or_default();
    let rollouts = Explained::read(name, origin)?.rollouts;
    let names: Vec<String> = rollouts.iter().map(|rollout| rollout.placement.to_string()).collect();
    let is_meant = |one: &PlacementRollout| {
        placement.as_ref().map_or(names.len() == 1, |placement| one.placement.to_string() == *placement)
    };
    let Some(rollout) = rollouts.into_iter().find(is_meant) else {
        let hint = format!("name one with --placement: {}", names.join(", "));
        return Err(CommandError::hinted(anyhow!("{name} has {} rollouts", names.len()), hint));
    };
    let mut input = match (rollout.input, rollout.decision) {
        (Some(input), _) => Arc::unwrap_or_clone(input),
        (None, Err(reason)) => return Err(anyhow!("{name} is not rolled out: {reason}").into()),
        (None, Ok(_)) => return Err(anyhow!("{name} is not rolled out").into()),
    };
    if let Some(file) = file {
        input.strategy = read(file, strategy)?;
        input.last_strategy = None;
    }
    if let Some(revision) = revision {
        let old = std::mem::replace(&mut input.revision, revision.as_str().into());
        for cluster in input.clusters.iter_mut().filter(|cluster| cluster.wants == old) {
            cluster.wants = input.revision.clone();
        }
        (input.began, input.late_since) = (None, None);
    }
    Ok(input)
}

fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, ScenarioError>) -> Result<T, CommandError> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("cannot read {}", path.display()));
        CommandError::hinted(error, "docs/simulate.md describes the fields")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Rollout,
    }

    fn recorded_fleet(strategy: &str, revision: Option<&str>) -> String {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain/rollout.yaml");
        let dir = tempfile::tempdir().unwrap();
        let strategy_file = dir.path().join("strategy.yaml");
        std::fs::write(&strategy_file, strategy).unwrap();
        let [snapshot, strategy] = [&file, &strategy_file].map(|path| path.to_str().unwrap());
        let mut line = vec!["rollout", "--snapshot", snapshot, "--strategy", strategy];
        line.extend(["--rollout", "managed-serviceaccount"]);
        line.extend(revision.into_iter().flat_map(|revision| ["--revision", revision]));
        let args = Line::parse_from(line).args.recorded;
        let input = recorded(&args, &Origin::from_file(file.clone()))
            .unwrap_or_else(|error| panic!("{:?}", error.error));
        let now = "2026-11-21T16:00:00Z".parse().unwrap();
        play(input, &Outcomes::default(), now).unwrap().table()
    }

    #[test]
    fn a_recorded_fleet_is_played_against_another_strategy() {
        let all = recorded_fleet("type: All\n", Some("v9"));
        let one = "type: Progressive\nprogressive: {maxConcurrency: 1}\n";
        let one_by_one = recorded_fleet(one, Some("v9"));
        let starts = |table: &str| table.lines().filter(|line| line.contains("start ")).count();
        assert_eq!(starts(&all), 1, "{all}");
        assert!(starts(&one_by_one) > 1, "{one_by_one}");
    }

    #[test]
    fn a_strategy_with_a_misspelled_field_is_refused() {
        let refused = strategy("type: Progressive\nprogressive: {maxConcurency: 1}\n").unwrap_err();
        assert_eq!(refused.to_string(), "strategy.progressive: unknown field \"maxConcurency\"");
    }
}
