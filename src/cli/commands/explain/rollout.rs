//! `wheelwright explain rollout`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::{Map, Value, json};

use crate::cli::origin::{Origin, Wanted, read_by};
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate};
use controllers::hub::addon_config::{AddonConfigController, Explanation, PlacementRollout, explain};
use engine::addon::config::Config;
use engine::rollout::input::Hash;
use engine::rollout::simulation::{decision_json, decision_table};

/// Explain where the rollout of an add-on stands: what each cluster runs, why it waits, for what and until
/// when.
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

impl Args {
    fn explain(&self) -> Result<Explanation, CommandError> {
        let mut kinds = read_by::<AddonConfigController>();
        kinds.extend([Wanted::observed::<AddOnTemplate>(), Wanted::observed::<AddOnDeploymentConfig>()]);
        let caches = self.origin.read(&kinds)?;
        let missing = || {
            CommandError::hinted(
                anyhow!("there is no add-on {}", self.addon),
                "kubectl get clustermanagementaddons",
            )
        };
        explain(&self.addon, &caches, now())?.ok_or_else(missing)
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let explanation = args.explain()?;
    match args.output {
        Output::Json => ui.json(&json(&explanation))?,
        Output::Text => ui.text(text(&args.addon, &explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The decisions by placement, and the configurations behind their hashes.
fn json(explanation: &Explanation) -> Value {
    let placements: Map<String, Value> = explanation
        .rollouts
        .iter()
        .map(|PlacementRollout { placement, revision, decision, input: _ }| {
            let mut value = match decision {
                Ok(decision) => decision_json(decision),
                Err(why) => json!({"hold": {"reason": "NotAsked", "message": why}}),
            };
            if let Some(fields) = value.as_object_mut() {
                fields.insert("revision".into(), json!(revision));
            }
            (placement.to_string(), value)
        })
        .collect();
    let contents: Map<String, Value> = explanation
        .contents
        .iter()
        .map(|(hash, configs)| (hash.to_string(), json!(names(configs))))
        .collect();
    json!({"placements": placements, "contents": contents})
}

/// A page: each placement with its stages and a line per cluster, then what the hashes stand for.
fn text(addon: &str, explanation: &Explanation) -> String {
    let mut page = String::new();
    if explanation.rollouts.is_empty() {
        let _ = writeln!(
            page,
            "{addon} is rolled out by no placement: its add-ons get their configuration at once"
        );
    }
    let mut seen = BTreeSet::new();
    for PlacementRollout { placement, revision, decision, input: _ } in &explanation.rollouts {
        seen.insert(revision);
        let decision = match decision {
            Ok(decision) => decision,
            Err(why) => {
                let _ = writeln!(page, "{addon} on placement {placement}: {why}");
                continue;
            }
        };
        let counts = &decision.counts;
        let _ = writeln!(
            page,
            "{addon} on placement {placement}: {} of {} clusters done with {}",
            counts.done,
            counts.total,
            revision.short()
        );
        for stage in &decision.stages {
            let allowed = stage.allowed.map_or_else(|| "any".into(), |allowed| allowed.to_string());
            let _ = writeln!(
                page,
                "  {}: {} clusters, {} unfinished, {} of {} slots in use, {} failed ({allowed} allowed)",
                stage.name, stage.clusters, stage.unfinished, stage.busy, stage.slots, stage.failures
            );
        }
        if let Some(hold) = &decision.hold {
            let _ = writeln!(page, "  nothing starts: {hold}");
        }
        page += &decision_table(decision);
        page.push('\n');
        seen.extend(decision.clusters.values().filter_map(|assignment| assignment.assigned.as_ref()));
    }
    for (hash, configs) in explanation.contents.iter().filter(|(hash, _)| seen.contains(hash)) {
        let _ = writeln!(page, "{}: {}", hash.short(), names(configs).join(", "));
    }
    page
}

/// Configurations as `resource/[namespace/]name`, and after an @ the start of the hash of their content.
fn names(configs: &[Config]) -> Vec<String> {
    configs
        .iter()
        .map(|Config { kind, key, hash }| format!("{}/{key}@{}", kind.resource, Hash(hash.clone()).short()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_rollout_that_stopped_at_its_canary_is_explained() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let addon = "managed-serviceaccount".to_owned();
        let args = Args { addon, origin: Origin::of_file(golden.join("rollout.yaml")), output: Output::Text };
        let explanation = args.explain().unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(
            text(&args.addon, &explanation),
            std::fs::read_to_string(golden.join("rollout.txt")).unwrap()
        );
        let json = json(&explanation);
        assert_eq!(json["placements"]["fleet/aws"]["clusters"]["aws-1"]["state"], "TimedOut");
        let revision = json["placements"]["fleet/aws"]["revision"].as_str().unwrap();
        assert!(
            json["contents"][revision][1]
                .as_str()
                .unwrap()
                .starts_with("addontemplates/managed-serviceaccount-0.4.2@"),
            "{json}"
        );

        let args = Args { addon: "nobody".into(), ..args };
        assert!(args.explain().is_err());
    }
}
