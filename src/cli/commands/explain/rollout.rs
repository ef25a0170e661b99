//! `wheelwright explain rollout`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Map, Value};

use crate::api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1beta1::{Placement, PlacementDecision};
use crate::api::gitops::v1alpha1::RolloutPolicy;
use crate::cli::commands::{block_on, operator::connect};
use crate::cli::output::{Output, Ui};
use crate::cli::snapshot::Snapshot;
use crate::cli::{CommandError, CommandResult};
use crate::controllers::addon_config::{config_gvks, explain};
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
    /// Read the objects from this file (YAML documents or a List, as kubectl prints it) instead of from a hub.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    /// The hub's kubeconfig; without it `KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context.
    #[arg(long)]
    context: Option<String>,
    /// How the explanation is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let snapshot = match &args.snapshot {
        Some(file) => Snapshot::of_file(file)?,
        None => block_on(async {
            let hub = connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
            let mut snapshot = Snapshot::default();
            snapshot.fetch::<ClusterManagementAddOn>(&hub).await?;
            snapshot.fetch::<ManagedClusterAddOn>(&hub).await?;
            snapshot.fetch::<ManagedCluster>(&hub).await?;
            snapshot.fetch::<Placement>(&hub).await?;
            snapshot.fetch::<PlacementDecision>(&hub).await?;
            snapshot.fetch::<RolloutPolicy>(&hub).await?;
            snapshot.fetch::<ControllerRevision>(&hub).await?;
            snapshot.fetch::<AddOnTemplate>(&hub).await?;
            snapshot.fetch::<AddOnDeploymentConfig>(&hub).await?;
            Ok(snapshot)
        })?,
    };
    let mut caches = crate::reconcile::Caches::default();
    snapshot.load::<ClusterManagementAddOn>(&mut caches)?;
    snapshot.load::<ManagedClusterAddOn>(&mut caches)?;
    snapshot.load::<ManagedCluster>(&mut caches)?;
    snapshot.load::<Placement>(&mut caches)?;
    snapshot.load::<PlacementDecision>(&mut caches)?;
    snapshot.load::<RolloutPolicy>(&mut caches)?;
    snapshot.load::<ControllerRevision>(&mut caches)?;
    config_gvks().iter().for_each(|gvk| snapshot.load_observed(gvk, &mut caches));
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
