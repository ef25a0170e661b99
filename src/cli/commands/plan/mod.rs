//! `wheelwright plan`: previews the effects of a commit before it is merged.

mod age;
mod charts;
mod decryption;
mod hub;
mod markdown;
mod random_values;
pub(super) mod report;
pub(super) mod request;
mod rewind;
mod signatures;
pub(super) mod text;

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};

use crate::cli::charts::Charts;
use crate::cli::checkout::{HEAD, RepositoryArgs};
use crate::cli::duration::at_least;
use crate::cli::{CommandError, CommandResult, output::Ui};
use crate::shell;
use age::ReportAge;
use object::text::plain;
use object::{Key, Object};
use preview::{HubSnapshot, Preview, PreviewError, Verdict};
use request::Request;

/// Show what a commit would do to a hub and its fleet, before you merge it.
///
/// The command reads the hub, lets the operator's controllers apply the commit to a copy, and lets time pass
/// there. It writes nothing. It assumes that clusters that answer succeed, and that approvals of rollouts are
/// given immediately.
///
/// Files that are encrypted with SOPS are decrypted with the keys in the Secret that the ConfigRepo names, if
/// you may read it, or else with the age keys in the environment variables `SOPS_AGE_KEY` and
/// `SOPS_AGE_KEY_FILE`.
///
/// The exit status is 0 if nothing changes, 10 if something changes, 11 if part of the change waits for an
/// approval, 12 if the commit is refused, 13 if the plan does not match `--expect`, 1 if there is no plan,
/// and 2 if the arguments are wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Commit to plan: a branch, a tag or a commit hash.
    #[arg(long, value_name = "REF", default_value = HEAD)]
    head: String,
    /// Commit to compare with. Default: the current state of the hub.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// ConfigRepo that follows the repository. Default: the one with the URL of the repository.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = key)]
    config_repo: Option<Key>,
    /// Kubeconfig of the hub. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    #[arg(long, visible_alias = "hub", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig. Default: the current context.
    #[arg(long)]
    context: Option<String>,
    /// Read the objects of the hub from this file. It contains YAML documents or a List, as kubectl prints
    /// it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    /// Read the fleet from the report on this branch of the repository, which requires `report.snapshot` in
    /// the ConfigRepo. The plan compares with the commit that was applied at the time of the report.
    #[arg(long, value_name = "BRANCH", conflicts_with_all = ["snapshot", "kubeconfig", "context"])]
    report: Option<String>,
    /// Directory of the report on the branch, if the branch has several.
    #[arg(long, value_name = "DIR", requires = "report")]
    report_path: Option<String>,
    /// Directory or URL of the repository with the report, if it is another one (`spec.report.url` of the
    /// ConfigRepo). The credentials are the same.
    #[arg(long, value_name = "DIR|URL", requires = "report")]
    report_repo: Option<String>,
    /// Time that a cluster is assumed to need for a change, at least 1s. Default: 35s, or half of the
    /// shortest `progressDeadline` if that deadline is 35s or less.
    #[arg(long, value_name = "DURATION", value_parser = at_least(SignedDuration::from_secs(1)))]
    succeeds_after: Option<SignedDuration>,
    /// Time at which the plan starts, such as `2026-03-02T08:00:00Z`. Default: now.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Hash of the approved plan. If the plan has another hash, the exit status is 13.
    #[arg(long, value_name = "HASH")]
    expect: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// For a pull request, at most 60,000 bytes.
    Markdown,
    /// For programs.
    Json,
}

/// The JSON output of a plan.
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
    let charts = RefCell::new(Charts::new(args.repository.credentials()?));
    let request = Request { args, repository, head, base, charts, now };
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
            "the plan does not match --expect: its hash is {}, not {}",
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
        PreviewError::Unread(_) => "take the snapshot again and include these kinds",
        PreviewError::LeftOut(_) | PreviewError::NeverSettles(_) => {
            "this is a bug; please report it with the snapshot"
        }
    };
    CommandError::hinted(error, hint)
}
