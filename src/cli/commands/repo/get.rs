//! `wheelwright repo get`.

use std::process::ExitCode;

use anyhow::anyhow;
use api::condition::find_condition;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::gitops_conditions::READY;
use object::text::{plain, short_commit};
use object::{Key, Metadata as _, Object};

use crate::cli::connect::HubArgs;
use crate::cli::output::{Ui, age, table};
use crate::cli::runtime::block_on;
use crate::cli::writer::{Format, list, print};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;

/// List ConfigRepos with their commits and states, and the directories of one with `spec.paths`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the ConfigRepo to show.
    name: Option<String>,
    /// Namespace of the ConfigRepos. Default: all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    hub: HubArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let hub = args.hub.connect().await?;
        let mut repos = list::<ConfigRepo>(&hub, args.namespace.as_deref().unwrap_or_default(), "").await?;
        if let Some(name) = &args.name {
            repos.retain(|repo| repo.name() == name);
            if repos.is_empty() {
                let error = anyhow!("there is no ConfigRepo {name}");
                return Err(CommandError::hinted(error, "wheelwright repo get lists all of them"));
            }
        }
        if args.output != Format::Text {
            print(ui, args.output, &repos.iter().map(Object::from_typed).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        if repos.is_empty() {
            ui.line("there is no ConfigRepo")?;
            return Ok(ExitCode::SUCCESS);
        }
        let header = ["NAME", "READY", "SUSPENDED", "APPLIED", "SINCE", "MESSAGE"].map(str::to_owned);
        ui.text(table([header].into_iter().chain(repos.iter().map(row))))?;
        if args.name.is_some() {
            repos.iter().try_for_each(|repo| ui.text(directories(repo)))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn row(repo: &ConfigRepo) -> [String; 6] {
    let status = repo.status.clone().unwrap_or_default();
    let ready = find_condition(&status.conditions, READY);
    let applied = status.applied.unwrap_or_default();
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [
        Key::of(repo).to_string(),
        ready.map_or("Unknown", |ready| ready.status.as_str()).to_owned(),
        if repo.spec.suspend { "True" } else { "False" }.to_owned(),
        or_dash(short_commit(&applied.commit)),
        applied.since.map_or_else(|| "-".to_owned(), |since| age(since.0, now())),
        ready.map_or("no operator has read it yet", |ready| &ready.message).replace('\n', " "),
    ]
}

/// Returns the table of the directories that match `spec.paths`; empty without such a list.
fn directories(repo: &ConfigRepo) -> String {
    let all = repo.status.as_ref().map(|status| status.paths.as_slice()).unwrap_or_default();
    if all.is_empty() {
        return String::new();
    }
    let header = ["DIRECTORY", "OBJECTS"].map(str::to_owned);
    let rows = all.iter().map(|one| [plain(&one.path, one.path.len()), one.objects.to_string()]);
    format!("\n{}", table([header].into_iter().chain(rows)))
}
