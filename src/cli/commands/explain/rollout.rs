//! `wheelwright explain rollout`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Map, Value};

use super::origin::{Origin, Wanted};
use crate::api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1beta1::{Placement, PlacementDecision};
use crate::api::gitops::v1alpha1::RolloutPolicy;
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult};
use crate::controllers::addon_config::explain;
use crate::engine::rollout::Wave;
use crate::object::Key;
use crate::shell::now;
use crate::sim::rollout::{wave_json, wave_table};

/// Explain where the rollout of an add-on stands: what each cluster runs, why it waits, for what and until when.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the add-on (its ClusterManagementAddOn).
    #[arg(value_name = "ADDON")]
    addon: String,
    #[command(flatten)]
    origin: Origin,
    /// How the explanation is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let caches = args.origin.read(&[
        Wanted::typed::<ClusterManagementAddOn>(),
        Wanted::typed::<ManagedClusterAddOn>(),
        Wanted::typed::<ManagedCluster>(),
        Wanted::typed::<Placement>(),
        Wanted::typed::<PlacementDecision>(),
        Wanted::typed::<RolloutPolicy>(),
        Wanted::typed::<ControllerRevision>(),
        Wanted::observed::<AddOnTemplate>(),
        Wanted::observed::<AddOnDeploymentConfig>(),
    ])?;
    let missing = || CommandError::hinted(anyhow!("there is no add-on {}", args.addon), "kubectl get clustermanagementaddons");
    let waves = explain(&args.addon, &caches, now())?.ok_or_else(missing)?;
    match args.output {
        Output::Json => {
            let waves: Map<String, Value> = waves.iter().map(|(placement, wave)| (placement.to_string(), wave_json(wave))).collect();
            ui.json(&waves)?;
        }
        Output::Text => ui.text(text(&args.addon, &waves))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A page: each placement with its stages, then a line per cluster.
fn text(addon: &str, waves: &[(Key, Wave)]) -> String {
    let mut page = String::new();
    if waves.is_empty() {
        let _ = writeln!(page, "{addon} is rolled out by no placement: its add-ons get their configuration at once");
    }
    for (placement, wave) in waves {
        let counts = &wave.counts;
        let _ = writeln!(page, "{addon} on placement {placement}: {} of {} clusters done", counts.done, counts.total);
        for stage in &wave.stages {
            let allowed = stage.allowed.map_or_else(|| "any".into(), |allowed| allowed.to_string());
            let _ = writeln!(
                page,
                "  {}: {} clusters, {} unfinished, {} of {} slots in use, {} failed ({allowed} allowed)",
                stage.name, stage.clusters, stage.unfinished, stage.busy, stage.slots, stage.failures
            );
        }
        if let Some(hold) = &wave.hold {
            let _ = writeln!(page, "  nothing starts: {hold}");
        }
        page += &wave_table(wave);
    }
    page
}
