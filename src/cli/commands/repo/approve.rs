//! `wheelwright repo approve`.

use std::fmt;

use anyhow::anyhow;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use api::names::gitops_conditions::READY;
use api::names::{ACCEPT_REVISION_ANNOTATION, APPROVE_DELETION_ANNOTATION, APPROVE_PLAN_ANNOTATION};
use engine::plural::counted;
use object::Key;
use serde_json::{Map, Value, json};

use super::RepoName;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};

/// Approve what a repository waits for: the plan of a commit, deletions, or a rewound branch.
///
/// Without a value, the command gives the one approval that waits. An approval is valid only for exactly what
/// it names.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    /// Value to approve, such as the hash of a plan, as `wheelwright status` prints it.
    value: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

/// A pending approval.
struct Pending {
    annotation: &'static str,
    value: String,
    about: String,
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.value, self.about)
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = args.write.connect().await?;
        let repo = args.repo.find(writer.client()).await?;
        let key = Key::of(&repo);
        let approved = choose(&key, pending(&repo.status.unwrap_or_default()), args.value.as_deref())?;
        let annotations = Map::from_iter([(approved.annotation.to_owned(), Value::from(approved.value))]);
        writer.merge::<ConfigRepo>(&key, json!({"metadata": {"annotations": annotations}})).await?;
        writer.add_line(format!("approved for ConfigRepo {key}: {}", approved.about));
        writer.finish(ui)
    })
}

/// Returns the pending approvals.
fn pending(status: &ConfigRepoStatus) -> Vec<Pending> {
    let plan = (!status.held_plan.is_empty()).then(|| Pending {
        annotation: APPROVE_PLAN_ANNOTATION,
        value: status.held_plan.clone(),
        about: "the plan of the commit".to_owned(),
    });
    let deletions = status.held_deletions.as_ref().map(|held| Pending {
        annotation: APPROVE_DELETION_ANNOTATION,
        value: held.approval.clone(),
        about: counted(usize::try_from(held.total).unwrap_or_default(), "deletion"),
    });
    [plan, deletions, rewind(status)].into_iter().flatten().collect()
}

/// Returns the pending approval of a commit that does not descend from the accepted one, as far as known. Its
/// value is read from the message of the condition Ready.
fn rewind(status: &ConfigRepoStatus) -> Option<Pending> {
    let ready = find_condition(&status.conditions, READY)?;
    let (_, value) = ready.message.split_once(&format!("{ACCEPT_REVISION_ANNOTATION}="))?;
    let value = value.split([';', ' ']).next().unwrap_or_default();
    let (from, to) = value.split_once("..")?;
    let about = format!("the move from {from} to {to}, which is not known to follow it");
    Some(Pending { annotation: ACCEPT_REVISION_ANNOTATION, value: value.to_owned(), about })
}

fn choose(key: &Key, mut pending: Vec<Pending>, value: Option<&str>) -> Result<Pending, CommandError> {
    let listed = pending.iter().map(|one| format!("\n  {one}")).collect::<String>();
    let chosen = match value {
        Some(value) => pending.iter().position(|one| one.value == value),
        None if pending.len() > 1 => {
            let error = anyhow!("ConfigRepo {key} waits for {} approvals", pending.len());
            return Err(CommandError::hinted(error, format!("name the value of one:{listed}")));
        }
        None => pending.len().checked_sub(1),
    };
    match (chosen, value) {
        (Some(at), _) => Ok(pending.swap_remove(at)),
        (None, Some(value)) if !pending.is_empty() => {
            let error = anyhow!("ConfigRepo {key} does not wait for the approval of {value}");
            Err(CommandError::hinted(error, format!("it waits for:{listed}")))
        }
        (None, _) => {
            let error = anyhow!("ConfigRepo {key} is not waiting for approval");
            Err(CommandError::hinted(error, "wheelwright status shows what it does"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Condition;
    use api::condition::ConditionStatus;
    use api::gitops::v1alpha1::HeldDeletions;

    fn waits() -> ConfigRepoStatus {
        let message = format!(
            "the branch was rewritten. To accept, annotate the ConfigRepo: {ACCEPT_REVISION_ANNOTATION}=aa..bb"
        );
        let condition = Condition { message, ..Condition::default() };
        ConfigRepoStatus {
            conditions: vec![Condition { type_: READY.into(), status: ConditionStatus::False, ..condition }],
            held_plan: "cafe".into(),
            held_deletions: Some(HeldDeletions {
                approval: "f00d".into(),
                total: 2,
                ..HeldDeletions::default()
            }),
            ..ConfigRepoStatus::default()
        }
    }

    #[test]
    fn a_plan_deletions_and_a_rewind_are_approved_by_their_own_annotations() {
        let key = Key::namespaced("n", "fleet");
        for (value, annotation) in [
            ("cafe", APPROVE_PLAN_ANNOTATION),
            ("f00d", APPROVE_DELETION_ANNOTATION),
            ("aa..bb", ACCEPT_REVISION_ANNOTATION),
        ] {
            let chosen = choose(&key, pending(&waits()), Some(value)).unwrap();
            assert_eq!((chosen.annotation, chosen.value.as_str()), (annotation, value));
        }
    }

    #[test]
    fn a_version_that_moved_is_approved_with_its_digests() {
        let mut status = waits();
        let moved = "1.1.0-rc.1@sha256:aa..1.1.0-rc.1@sha256:bb";
        status.conditions[0].message = format!(
            "it moved. To accept, annotate the ConfigRepo: {ACCEPT_REVISION_ANNOTATION}={moved}; aa stays applied"
        );
        assert_eq!(rewind(&status).unwrap().value, moved);
    }

    #[test]
    fn several_approvals_an_unknown_value_and_none_at_all_are_refused_with_what_waits() {
        let key = Key::namespaced("n", "fleet");
        let refused = |status: &ConfigRepoStatus, value: Option<&str>| {
            let error = choose(&key, pending(status), value).err().unwrap();
            format!("{}; {}", error.error, error.hint.unwrap())
        };
        let all = refused(&waits(), None);
        assert!(
            all.starts_with(
                "ConfigRepo n/fleet waits for 3 approvals; name the value of one:\n  cafe  the plan"
            ),
            "{all}"
        );
        assert!(all.contains("\n  f00d  2 deletions\n  aa..bb  the move from aa to bb"), "{all}");
        let unknown = refused(&waits(), Some("beef"));
        assert!(
            unknown.starts_with("ConfigRepo n/fleet does not wait for the approval of beef"),
            "{unknown}"
        );
        let none = refused(&ConfigRepoStatus::default(), None);
        assert!(none.starts_with("ConfigRepo n/fleet is not waiting for approval"), "{none}");
    }
}
