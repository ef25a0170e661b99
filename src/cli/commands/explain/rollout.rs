//! `wheelwright explain rollout`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::{Map, Value, json};

use crate::cli::origin::{Origin, read_by, read_by_rollouts};
use crate::cli::output::{Output, Ui};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use controllers::addon_removal::Removal;
use controllers::hub::addon_config::{self, AddOnConfigController};
use controllers::hub::replica_set::{self, ReplicaSetController};
use controllers::placement_rollout::PlacementRollout;
use engine::addon::config::Config;
use engine::plural::counted;
use engine::rollout::cluster::Hash;
use engine::rollout::removal::RemovalDecision;
use engine::rollout::simulation::{decision_json, decision_table};
use object::Key;

/// Explain the state of a rollout of an add-on or of works: what each cluster runs, what it waits for, and
/// until when.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the add-on (its ClusterManagementAddOn), or NAMESPACE/NAME of a ManifestWorkReplicaSet.
    #[arg(value_name = "ADDON|NAMESPACE/NAME")]
    name: String,
    #[command(flatten)]
    origin: Origin,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The rollouts of an add-on or a ManifestWorkReplicaSet, decided as the operator decides them.
pub(in crate::cli) struct Explained {
    /// The rollouts, one for each placement.
    pub(in crate::cli) rollouts: Vec<PlacementRollout>,
    /// The configurations of each revision hash.
    contents: BTreeMap<Hash, Vec<String>>,
    /// The removal from clusters that are no longer selected by any placement.
    pub(in crate::cli) removal: Removal,
    /// The agents' reports of why clusters are not done.
    messages: BTreeMap<String, String>,
}

impl Explained {
    /// Explains an add-on, or a ManifestWorkReplicaSet given as NAMESPACE/NAME.
    pub(in crate::cli) fn read(name: &str, origin: &Origin) -> Result<Self, CommandError> {
        match name.split_once('/') {
            Some((namespace, name)) => Self::load_set(&Key::namespaced(namespace, name), origin),
            None => Self::load_add_on(name, origin),
        }
    }

    /// Returns the display name of a revision: the names of its configurations, and its short hash.
    pub(in crate::cli) fn named(&self, revision: &Hash) -> String {
        match self.contents.get(revision) {
            Some(configs) => {
                // The revision hash covers the content hashes, so omit them.
                let names: Vec<_> = configs.iter().filter_map(|config| config.split('@').next()).collect();
                format!("{} ({})", names.join(", "), revision.short())
            }
            None => revision.short().to_owned(),
        }
    }

    /// Returns the name of a revision for a table: the name of its template, and its short hash.
    fn version(&self, revision: &Hash) -> String {
        let mut configs = self.contents.get(revision).into_iter().flatten();
        let template = configs.find_map(|config| config.strip_prefix("addontemplates/")?.split('@').next());
        template.map_or_else(
            || revision.short().to_owned(),
            |template| format!("{template} ({})", revision.short()),
        )
    }

    fn load_set(set: &Key, origin: &Origin) -> Result<Self, CommandError> {
        let caches = origin.read(&read_by::<ReplicaSetController>())?;
        let replica_set::SetRollouts { rollouts, contents, messages } =
            replica_set::explain(set, &caches, now())?.ok_or_else(|| missing(&set.to_string()))?;
        let words =
            |(hash, manifests)| (hash, vec![format!("a template of {}", counted(manifests, "manifest"))]);
        let contents = contents.into_iter().map(words).collect();
        Ok(Self { rollouts, contents, removal: Removal::default(), messages })
    }

    fn load_add_on(name: &str, origin: &Origin) -> Result<Self, CommandError> {
        let caches = origin.read(&read_by_rollouts::<AddOnConfigController>())?;
        let addon_config::AddOnRollouts { rollouts, contents, states: _, removal, messages } =
            addon_config::explain(name, &caches, now())?.ok_or_else(|| missing(name))?;
        let contents = contents.into_iter().map(|(hash, configs)| (hash, names(&configs))).collect();
        Ok(Self { rollouts, contents, removal, messages })
    }
}

/// Returns the error for an add-on, or a set given as NAMESPACE/NAME, that does not exist.
pub(in crate::cli) fn missing(name: &str) -> CommandError {
    let (kind, hint) = match name.contains('/') {
        true => ("ManifestWorkReplicaSet", "kubectl get manifestworkreplicasets --all-namespaces"),
        false => (
            "add-on",
            "kubectl get clustermanagementaddons; a ManifestWorkReplicaSet is named as NAMESPACE/NAME",
        ),
    };
    CommandError::hinted(anyhow!("there is no {kind} {name}"), hint)
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let explanation = Explained::read(&args.name, &args.origin)?;
    match args.output {
        Output::Json => ui.json(&json(&explanation))?,
        Output::Text => ui.text(text(&args.name, &explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the decisions by placement, and the configurations of their hashes.
pub(in crate::cli) fn json(explanation: &Explained) -> Value {
    let placements: Map<String, Value> = explanation
        .rollouts
        .iter()
        .map(|PlacementRollout { placement, revision, decision, input: _, failure, record: _ }| {
            let mut value = match decision {
                Ok(decision) => decision_json(decision),
                Err(error) => json!({"hold": {"reason": "NotAsked", "message": error}}),
            };
            if let Some(fields) = value.as_object_mut() {
                fields.insert("revision".into(), json!(revision));
                fields.insert("failure".into(), json!(failure));
            }
            (placement.to_string(), value)
        })
        .collect();
    let contents: Map<String, Value> =
        explanation.contents.iter().map(|(hash, words)| (hash.to_string(), json!(words))).collect();
    let RemovalDecision { removed, counted: _, approved: _, kept, approval, recheck } =
        &explanation.removal.decision;
    let removal = json!({"removed": removed, "kept": kept, "approval": approval, "until": recheck});
    json!({"placements": placements, "contents": contents, "removal": removal, "messages": explanation.messages})
}

/// Formats each placement with its stages and one line per cluster, followed by the configurations of the hashes.
fn text(name: &str, explanation: &Explained) -> String {
    let mut page = String::new();
    if explanation.rollouts.is_empty() {
        let _ = writeln!(page, "no placement rolls out {name}: its add-ons get their configuration at once");
    }
    let mut seen = BTreeSet::new();
    for PlacementRollout { placement, revision, decision, input: _, failure, record: _ } in
        &explanation.rollouts
    {
        seen.insert(revision);
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                let _ = writeln!(page, "{name} on placement {placement}: {error}");
                continue;
            }
        };
        let counts = &decision.counts;
        let _ = writeln!(
            page,
            "{name} on placement {placement}: {} of {} done with {}",
            counts.done,
            counted(counts.total, "cluster"),
            explanation.named(revision)
        );
        for stage in &decision.stages {
            let _ = writeln!(page, "  {stage}");
        }
        for correction in decision.corrections() {
            let _ = writeln!(page, "  {correction}");
        }
        if let Some(hold) = &decision.hold {
            let _ = writeln!(page, "  on hold: {hold}");
        }
        if !failure.is_empty() {
            let _ = writeln!(page, "  the revision failed on {failure}");
        }
        page += &decision_table(decision, |revision| explanation.version(revision), &explanation.messages);
        page.push('\n');
        seen.extend(decision.clusters.values().filter_map(|assignment| assignment.assigned.as_ref()));
    }
    if !explanation.removal.decision.kept.is_empty() {
        let _ = writeln!(page, "{}: {}", explanation.removal, explanation.removal.decision.kept.join(", "));
    }
    for (hash, words) in explanation.contents.iter().filter(|(hash, _)| seen.contains(hash)) {
        let _ = writeln!(page, "{}: {}", hash.short(), words.join(", "));
    }
    page
}

/// Formats configurations as `resource/[namespace/]name@hash`, with the short hash of the content.
fn names(configs: &[Config]) -> Vec<String> {
    configs
        .iter()
        .map(|Config { kind, key, hash }| format!("{}/{key}@{}", kind.resource, Hash(hash.clone()).short()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;
    use std::path::Path;

    #[test]
    fn a_rollout_that_stopped_at_its_canary_is_explained() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let name = "managed-serviceaccount".to_owned();
        let args =
            Args { name, origin: Origin::from_file(folder.join("rollout.yaml")), output: Output::Text };
        let explanation =
            Explained::read(&args.name, &args.origin).unwrap_or_else(|error| panic!("{error:?}"));
        golden::check([(folder.join("rollout.txt"), text(&args.name, &explanation))]);
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

        assert!(Explained::read("nobody", &args.origin).is_err());
    }

    #[test]
    fn a_mandatory_group_that_no_cluster_is_in_is_explained() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain");
        let hub = std::fs::read_to_string(folder.join("rollout.yaml")).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, hub.replace("- groupName: canary", "- groupName: pilot")).unwrap();
        let name = "managed-serviceaccount";
        let page = text(name, &Explained::read(name, &Origin::from_file(file.path().into())).unwrap());
        let note = "\n  mandatory group pilot: the placement has no cluster in this group, so the rollout does not wait for it\n";
        assert!(page.contains(note), "{page}");
    }
}
