//! `wheelwright demo`.

mod clusters;
mod plan;
mod progress;
mod repository;
mod screen;
mod script;
mod setup;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio_util::task::TaskTracker;

use crate::cli::runtime::block_on;
use crate::cli::{CommandResult, output::Ui};
use crate::shell::stop_on_signal;
use screen::Screen;
use setup::Background;

/// Show everything on this machine: a hub, twelve clusters, three commits.
///
/// The demo starts an embedded hub and twelve clusters. Each cluster is an API server with an agent; its pods
/// are played, and no image is pulled. It makes a config repository and commits three times: an add-on, a new
/// version of it, and a version that does not work and is rolled back.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep everything running at the end, and print how kubectl reaches the hub and each cluster.
    #[arg(long)]
    stay: bool,
    /// Number of clusters, half of them on aws and half on gcp.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u8).range(2..=40))]
    clusters: u8,
    /// Directory for the repository, the kubeconfigs and the log. Default: a temporary directory, removed at the end, and a log that stays.
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Args {
    /// Makes the file that the log lines of all parts go to.
    pub(crate) fn log_file(&self) -> anyhow::Result<(File, PathBuf)> {
        match &self.dir {
            Some(dir) => {
                let path = dir.join("demo.log");
                std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
                let file = File::create(&path);
                Ok((file.with_context(|| format!("cannot create {}", path.display()))?, path))
            }
            None => {
                let file = tempfile::Builder::new().prefix("wheelwright-demo-").suffix(".log").tempfile();
                file.and_then(|file| Ok(file.keep()?)).context("cannot create a temporary file for the log")
            }
        }
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let temporary = tempfile::Builder::new()
            .prefix("wheelwright-demo-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let dir = args.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let background = Background { tasks: TaskTracker::new(), stop: stop_on_signal() };
        let result = tokio::select! {
            // The signal ends a demo that stays, which then removes its table.
            biased;
            result = script::run(args, &dir, Screen::new(ui), &background) => {
                result.map(|()| ExitCode::SUCCESS)
            }
            () = background.stop.cancelled() => Ok(ExitCode::FAILURE),
        };
        background.end().await;
        Ok(result?)
    })
}
