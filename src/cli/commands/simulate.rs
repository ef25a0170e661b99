//! `wheelwright simulate`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::cli::{CommandError, CommandResult, output::Ui};
use engine::rollout::advance;
use engine::rollout::simulation::{
    Outcomes, Scenario, ScenarioError, decision_json, decision_table, run as play,
};

/// Try something on paper: no hub, no cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Simulation,
}

#[derive(Debug, clap::Subcommand)]
enum Simulation {
    Rollout(Rollout),
}

/// Ask the rollout engine what it would do, once or until nothing more happens.
///
/// docs/simulate.md describes the files.
#[derive(Debug, clap::Args)]
struct Rollout {
    /// Strategy, groups and clusters, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// The time it is, such as 2026-03-02T08:00:00Z; the clock's where absent.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Play the rollout to its end.
    #[arg(long)]
    until_done: bool,
    /// The outcomes of clusters, in YAML or JSON; where absent, all succeed after 35 seconds.
    #[arg(long, value_name = "FILE", requires = "until_done")]
    outcomes: Option<PathBuf>,
    /// How to print the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table for people.
    #[default]
    Text,
    /// For programs.
    Json,
    /// A picture of the whole rollout (with --until-done).
    Svg,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.what {
        Simulation::Rollout(args) => rollout(args, ui),
    }
}

fn rollout(args: &Rollout, ui: &mut Ui) -> CommandResult {
    let input = read(&args.input, Scenario::read)?.into_input();
    let now = args.now.unwrap_or_else(crate::shell::now);
    if args.until_done {
        let outcomes =
            args.outcomes.as_deref().map(|path| read(path, Outcomes::read)).transpose()?.unwrap_or_default();
        let trace = play(input, &outcomes, now).map_err(|error| {
            let file = args.outcomes.as_deref().unwrap_or(&args.input).display();
            anyhow::Error::from(error).context(format!("cannot play {file}"))
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
        Format::Text => ui.text(decision_table(&decision))?,
        Format::Json => ui.json(&decision_json(&decision))?,
        Format::Svg => {
            return Err(CommandError::hinted(
                anyhow::anyhow!("a picture needs more than one step"),
                "add --until-done, and --outcomes FILE",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, ScenarioError>) -> Result<T, CommandError> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("cannot read {}", path.display()));
        CommandError::hinted(error, "docs/simulate.md describes the fields")
    })
}
