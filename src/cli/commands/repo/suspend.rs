//! `wheelwright repo suspend` and `wheelwright repo resume`.

use api::gitops::v1alpha1::ConfigRepo;
use object::Key;
use serde_json::json;

use super::RepoName;
use crate::cli::CommandResult;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;

/// Stop fetching, applying and reporting a repository. Rollouts in progress continue.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    repo: RepoName,
    #[command(flatten)]
    write: WriteArgs,
}

/// Resume a suspended repository.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    repo: RepoName,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    set(&args.repo, &args.write, true, ui)
}

pub(super) fn resume(args: &ResumeArgs, ui: &mut Ui) -> CommandResult {
    set(&args.repo, &args.write, false, ui)
}

fn set(repo: &RepoName, write: &WriteArgs, suspend: bool, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = write.connect().await?;
        let repo = repo.find(writer.client()).await?;
        let key = Key::of(&repo);
        writer.merge::<ConfigRepo>(&key, json!({"spec": {"suspend": suspend}})).await?;
        writer.add_line(match (repo.spec.suspend, suspend) {
            (true, true) => format!("ConfigRepo {key} was already suspended"),
            (false, false) => format!("ConfigRepo {key} was not suspended"),
            (false, true) => {
                format!("ConfigRepo {key} is suspended. Resume it with: wheelwright repo resume {key}")
            }
            (true, false) => format!("ConfigRepo {key} is resumed"),
        });
        writer.finish(ui)
    })
}
