//! `wheelwright repo diff`.

use std::fmt::Write as _;
use std::process::ExitCode;

use controllers::hub::overview::{HeldChange, HeldField, HeldFields, ObjectList, Repository};
use engine::plural::counted;
use object::text::short_commit;

use super::RepoName;
use crate::cli::CommandResult;
use crate::cli::connect::HubArgs;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;

/// Show what a commit that waits for an approval changes on the hub.
///
/// The operator has compared the commit with the hub, so you need no clone. It lists the first objects and
/// fields, without the values of Secrets. `wheelwright plan` shows all of them, and what happens on the clusters.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    #[command(flatten)]
    hub: HubArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let repo = args.repo.find(&args.hub.connect().await?).await?;
        ui.text(text(&Repository::from_config_repo(&repo)))?;
        Ok(ExitCode::SUCCESS)
    })
}

fn text(repository: &Repository) -> String {
    let Repository { name, seen, held_plan, held_changes, held_fields, held_deletions, .. } = repository;
    let mut text = String::new();
    if held_plan.is_empty() && held_deletions.is_none() {
        return format!("ConfigRepo {name} does not wait for an approval\n");
    }
    let commit = short_commit(seen);
    if !held_plan.is_empty() {
        let _ = writeln!(text, "The plan {held_plan} of {commit} waits for approval:");
        for ObjectList { what, objects, more } in held_changes {
            let _ = writeln!(text, "  {what}: {}", listed(objects, *more));
        }
        fields(&mut text, held_fields);
    }
    if let Some(held) = held_deletions {
        let _ = writeln!(text, "{}:", held.summary());
        let _ = writeln!(text, "  - {}", listed(&held.objects, held.more));
    }
    let _ = writeln!(text, "To approve: wheelwright repo approve {name}");
    text
}

/// Writes the fields that a plan changes, once for objects with the same change.
fn fields(text: &mut String, HeldFields { changes, unlisted }: &HeldFields) {
    for HeldChange { is_new, objects, more, fields, more_fields } in changes {
        let sign = if *is_new { '+' } else { '~' };
        let _ = writeln!(text, "  {sign} {}", listed(objects, *more));
        for HeldField { path, before, after } in fields {
            let _ = match (before.as_str(), after.as_str()) {
                ("", after) => writeln!(text, "      {path}: {after}"),
                (before, "") => writeln!(text, "      {path}: {before} is removed"),
                (before, after) => writeln!(text, "      {path}: {before} to {after}"),
            };
        }
        if *more_fields > 0 {
            let _ = writeln!(text, "      and {}", counted(*more_fields, "more field"));
        }
    }
    if *unlisted > 0 {
        let _ = writeln!(text, "  The fields of {} are not listed.", counted(*unlisted, "more object"));
    }
}

fn listed(objects: &[String], more: usize) -> String {
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    objects.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use controllers::hub::overview::HeldObjects;

    #[test]
    fn equal_changes_are_shown_once_with_their_fields() {
        let field = |path: &str, before: &str, after: &str| HeldField {
            path: path.into(),
            before: before.into(),
            after: after.into(),
        };
        let mut repository = Repository {
            name: "config/fleet".into(),
            seen: "22222222222222222222".into(),
            ..Repository::default()
        };
        assert_eq!(text(&repository), "ConfigRepo config/fleet does not wait for an approval\n");

        repository.held_plan = "cafe".into();
        repository.held_changes = vec![ObjectList {
            what: "3 objects to change".into(),
            objects: vec!["ConfigMap config/a".into()],
            more: 2,
        }];
        let fields = vec![
            field("data.k", "\"1\"", "\"2\""),
            field("data.l", "", "\"3\""),
            field("data.m", "\"4\"", ""),
        ];
        let objects = vec!["ConfigMap config/a".to_owned(), "ConfigMap config/b".to_owned()];
        repository.held_fields = HeldFields {
            changes: vec![HeldChange { is_new: false, objects, more: 0, fields, more_fields: 1 }],
            unlisted: 1,
        };
        repository.held_deletions = Some(HeldObjects {
            approval: "f00d".into(),
            objects: vec!["ConfigMap config/z".into()],
            ..HeldObjects::default()
        });
        assert_eq!(
            text(&repository),
            "The plan cafe of 222222222222 waits for approval:
  3 objects to change: ConfigMap config/a and 2 more
  ~ ConfigMap config/a, ConfigMap config/b
      data.k: \"1\" to \"2\"
      data.l: \"3\"
      data.m: \"4\" is removed
      and 1 more field
  The fields of 1 more object are not listed.
1 deletion waits for the annotation gitops.wheelwright.dev/approve-deletions=f00d:
  - ConfigMap config/z
To approve: wheelwright repo approve config/fleet
"
        );
    }
}
