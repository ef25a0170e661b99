//! `wheelwright plan`: shows the effects of a commit before it is merged.

mod age;
mod hub;
mod markdown;
pub(super) mod report;
pub(super) mod request;
mod rewind;
mod signatures;
pub(super) mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};

use crate::cli::checkout::{HEAD, RepositoryArgs};
use crate::cli::duration::at_least;
use crate::cli::{CommandError, CommandResult, output::Ui};
use crate::shell;
use age::ReportAge;
use object::text::plain;
use object::{Key, Object};
use request::Request;
use sim::preview::{HubSnapshot, Preview, PreviewError, Verdict};

/// Say what a commit does to a hub and its fleet, before it is merged.
///
/// The command reads the hub, gives the commit to the operator's controllers on a copy of it, and lets time
/// pass. It writes nothing. Clusters that answer are assumed to succeed, and approvals of rollouts to be
/// granted at once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status:\n  0   nothing changes\n  1   there is no plan: the error says why\n  2   the arguments are wrong\n  \
    10  something changes\n  11  something changes, and a part of it waits for an approval\n  12  the commit is refused and does nothing\n  \
    13  the plan is another one than --expect names"
)]
pub(crate) struct Args {
    /// The commit: a branch, a tag or a commit id; the checked-out commit by default.
    #[arg(long, value_name = "REF", default_value = HEAD)]
    head: String,
    /// The commit to compare with. Default: the hub as it is.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// The ConfigRepo that follows the repository, where the hub has several.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = key)]
    config_repo: Option<Key>,
    /// Kubeconfig of the hub. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    #[arg(long, visible_alias = "hub", value_name = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// Read the objects of the hub from this file (YAML documents or a List, as kubectl prints it).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    /// Read the fleet from the report on this branch of the repository, which needs `report.snapshot` in the
    /// ConfigRepo. The plan is against the commit that was applied at the time of the report.
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["snapshot", "kubeconfig", "context"])]
    report: Option<String>,
    /// Directory of the report on the branch, where it has several.
    #[arg(long, value_name = "DIR", requires = "report")]
    report_path: Option<String>,
    /// The repository of the report, where it is another one (`spec.report.url` of the ConfigRepo). It gets
    /// the same credentials.
    #[arg(long, value_name = "DIR|URL", requires = "report")]
    report_repo: Option<String>,
    /// How long a cluster is assumed to take for a change. Default: 35s, or half of the shortest
    /// progressDeadline of a rollout if that deadline is not longer.
    #[arg(long, value_name = "DURATION", value_parser = at_least(SignedDuration::from_secs(1)))]
    succeeds_after: Option<SignedDuration>,
    /// The time it is, such as 2026-03-02T08:00:00Z; the clock's where absent.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// The hash of the plan that was approved. Another plan is an error.
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
    /// How the plan is printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For a pull request; at most 60,000 bytes.
    Markdown,
    /// For programs.
    Json,
}

/// A plan for programs.
#[derive(serde::Serialize)]
struct Hashed<'a> {
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<&'a ReportAge>,
    #[serde(flatten)]
    preview: &'a Preview,
}

pub(super) fn key(text: &str) -> Result<Key, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Key::namespaced(namespace, name))
        }
        Some(_) | None => Err("a ConfigRepo is named as NAMESPACE/NAME".into()),
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let now = args.now.unwrap_or_else(shell::now);
    let repository = args.repository.open()?;
    let head = repository.checkout(&args.head)?;
    let base = args.base.as_deref().map(|base| repository.checkout(base)).transpose()?;
    let request = Request { args, repository, head, base, now };
    let ((planned, unverified), age) = match (&args.snapshot, &args.report) {
        (None, Some(branch)) => request.plan_of_report(branch)?,
        (Some(file), _) => (request.plan_of_file(file)?, None),
        (None, None) => {
            let kinds = HubSnapshot::kinds_of_controllers(now)?;
            let plan = |snapshot: &HubSnapshot, secrets: &[Object]| request.plan(snapshot, secrets);
            (hub::plan(args.kubeconfig.as_deref(), args.context.as_deref(), kinds, plan)?, None)
        }
    };
    let planned = planned.map_err(hinted)?;
    for secret in unverified {
        ui.error(format!(
            "the signatures of the commits are not verified, because the Secret {secret} cannot be read"
        ))?;
    }
    let age = age.as_ref();
    match args.output {
        Format::Text => ui.text(text::page(&planned, age.map(ReportAge::line).as_deref()))?,
        Format::Markdown => ui.text(markdown::page(&planned, age.map(ReportAge::line).as_deref()))?,
        Format::Json => ui.json(&Hashed { hash: planned.hash(), report: age, preview: &planned })?,
    }
    if let Some(expected) = args.expect.as_ref().filter(|expected| **expected != planned.hash()) {
        ui.error(format!(
            "the plan is not the one that --expect names: its hash is {}, not {}",
            planned.hash(),
            plain(expected, 100)
        ))?;
        return Ok(ExitCode::from(13));
    }
    Ok(ExitCode::from(match planned.verdict {
        Verdict::NoChange => 0,
        Verdict::Change => 10,
        Verdict::NeedsApproval => 11,
        Verdict::Refused => 12,
    }))
}

fn hinted(error: PreviewError) -> CommandError {
    let hint = match &error {
        PreviewError::NoRepo(_) => "kubectl get configrepos --all-namespaces",
        PreviewError::Observes(_) => "ask the tool that applies the repository for its plan",
        PreviewError::Suspended(_) => {
            "kubectl patch configrepo NAME --type merge -p '{\"spec\":{\"suspend\":false}}' resumes it"
        }
        PreviewError::Unread(_) => "take the snapshot again, with these kinds in it",
        PreviewError::LeftOut(_) | PreviewError::NeverSettles(_) => {
            "this is a bug; please report it with the snapshot"
        }
    };
    CommandError::hinted(error, hint)
}
