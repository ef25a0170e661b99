//! `wheelwright status`.

use std::process::ExitCode;
use std::time::Duration;

use crate::cli::follow::follow;
use crate::cli::origin::{Origin, read_by_rollouts};
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult, fleet};
use crate::shell::now;
use crate::shell::stop_on_signal;
use controllers::hub::overview::{Overview, OverviewController};

/// Interval in which `--watch` checks for changes.
const TICK: Duration = Duration::from_millis(500);

/// Show the fleet: repositories, clusters, placements, and each add-on cluster by cluster.
///
/// The states are those of `wheelwright explain rollout`, read with the rights of the kubeconfig; the operator need not run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    origin: Origin,
    /// Go on until Ctrl-C, and show each change.
    #[arg(short, long, conflicts_with_all = ["snapshot", "output"])]
    watch: bool,
    /// How the fleet is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if args.watch {
        return super::block_on(watch(args, ui));
    }
    let overview = read(&args.origin)?;
    match args.output {
        Output::Json => ui.json(&overview)?,
        Output::Text => ui.text(fleet::page(&overview, ui.style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(origin: &Origin) -> Result<Overview, CommandError> {
    Ok(Overview::read(&origin.read(&read_by_rollouts::<OverviewController>())?, now())?)
}

/// Watches the objects of an overview, and prints it again when it differs.
async fn watch(args: &Args, ui: &mut Ui) -> CommandResult {
    let shell = follow(args.origin.connect().await?);
    let handle = shell.handle();
    let stop = stop_on_signal();
    let reading = tokio::spawn(shell.run(stop.clone()));
    let mut shown = String::new();
    while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
        let page = match Overview::read(&handle.caches(), now()) {
            Ok(overview) => fleet::page(&overview, ui.style()),
            Err(unread) => format!("reading the hub: {unread}\n"),
        };
        if page != shown {
            ui.redraw(&page)?;
            shown = page;
        }
    }
    reading.await?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Style;
    use crate::golden;
    use std::path::Path;

    #[test]
    fn a_fleet_whose_rollout_stopped_at_its_canary_is_shown() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let origin = Origin::of_file(folder.join("rollout.yaml"));
        let overview = read(&origin).unwrap_or_else(|error| panic!("{error:?}"));
        golden::check([(folder.join("status.txt"), fleet::page(&overview, Style::PLAIN))]);
    }

    #[test]
    fn a_mandatory_group_that_no_cluster_is_in_is_named() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let hub = std::fs::read_to_string(folder.join("rollout.yaml")).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, hub.replace("- groupName: canary", "- groupName: pilot")).unwrap();
        let overview = read(&Origin::of_file(file.path().into())).unwrap();
        let page = fleet::page(&overview, Style::PLAIN);
        let note = "\n  fleet/aws: mandatory group pilot: the placement has no such decision group, so nothing waits for it\n";
        assert!(page.contains(note), "{page}");
    }
}
