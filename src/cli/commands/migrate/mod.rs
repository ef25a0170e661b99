//! `wheelwright migrate`.

mod page;
mod plan;
mod watch;

use std::process::ExitCode;

use anyhow::anyhow;

use self::page::text;
use self::plan::MigrationPlan;
use super::taint::{self, TaintChange};
use crate::cli::duration::{Wait, wait};
use crate::cli::origin::{Origin, read_by};
use crate::cli::output::{Output, Ui};
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use api::cluster::v1::TaintEffect;
use api::names::MIGRATE_TAINT;
use controllers::hub::placement::PlacementController;

/// Move workloads off a cluster: show which placements leave it and where their decisions go, and with
/// `--yes` move them.
///
/// The plan is what the scheduler decides if the cluster has one more taint. With `--yes`, the command sets
/// the taint. It watches until the decisions have moved, the add-ons and ManifestWorkReplicaSets work on the
/// new clusters, and they are gone from the old cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster.
    cluster: String,
    /// Set the taint, and watch the moves.
    #[arg(long, conflicts_with = "snapshot")]
    yes: bool,
    /// Change nothing. Without `--undo`, the command prints the plan, as without `--yes`.
    #[arg(long)]
    dry_run: bool,
    /// Remove the taint, so that placements can select the cluster again.
    #[arg(long, conflicts_with_all = ["yes", "snapshot", "output"])]
    undo: bool,
    /// Time to wait for the moves after the last toleration of the taint has ended, such as `10m`.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = wait)]
    wait: Wait,
    #[command(flatten)]
    origin: Origin,
    /// Output format of the plan. With `--yes`, `json` is printed after the moves.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Returns the change that adds the taint.
fn tainted() -> TaintChange {
    TaintChange::Set { key: MIGRATE_TAINT.into(), value: String::new(), effect: TaintEffect::NoSelect }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let Args { cluster, yes, dry_run, undo, wait: _, origin, output } = args;
    if *undo {
        return undo_taint(args, ui);
    }
    let caches = origin.read(&read_by::<PlacementController>())?;
    let missing =
        || CommandError::hinted(anyhow!("there is no ManagedCluster {cluster}"), "wheelwright get clusters");
    let mut plan = MigrationPlan::read(cluster, &caches, now())?.ok_or_else(missing)?;
    let is_done = *yes && !dry_run;
    if *output == Output::Text {
        ui.text(text(&plan))?;
        if !is_done {
            ui.line(format!("do it with: wheelwright migrate {cluster} --yes"))?;
        }
    }
    if is_done {
        block_on(async {
            let mut writer = WriteArgs::new(origin.hub()).connect().await?;
            taint::write(&mut writer, cluster, &[tainted()]).await?;
            watch::to_end(args, &plan, ui).await
        })?;
        plan.done = true;
    }
    if *output == Output::Json {
        ui.json(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn undo_taint(args: &Args, ui: &mut Ui) -> CommandResult {
    let Args { cluster, dry_run, origin, .. } = args;
    block_on(async {
        let mut write = WriteArgs::new(origin.hub());
        write.dry_run = *dry_run;
        let mut writer = write.connect().await?;
        let removed = TaintChange::Remove { key: MIGRATE_TAINT.into(), effect: None };
        taint::write(&mut writer, cluster, &[removed]).await?;
        writer.add_line(format!("cluster {cluster} has no taint {MIGRATE_TAINT}"));
        writer.finish(ui)
    })
}

#[cfg(test)]
#[path = "../tests/migrate.rs"]
mod tests;
