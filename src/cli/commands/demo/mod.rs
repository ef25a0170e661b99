//! `wheelwright demo`.

mod clusters;
mod plan;
mod progress;
mod repository;
mod screen;
mod script;
mod setup;

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use tokio_util::task::TaskTracker;

use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult, output::Ui};
use crate::shell::stop_on_signal;
use screen::Screen;
use setup::Background;

/// Run a demo on this machine: a hub, twelve clusters, three commits.
///
/// The demo starts an embedded hub and twelve clusters. Each cluster is an API server with an agent. Its pods
/// are simulated, and no image is pulled. The demo creates a config repository and commits three times: an
/// add-on, a new version of it, and a broken version that is rolled back. Only the images of the first two exist:
/// a pod with another image never becomes ready.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep everything running at the end, even after a failure, and print how kubectl reaches the hub and
    /// each cluster.
    #[arg(long)]
    stay: bool,
    /// Number of clusters, from 2 to 40, half of them on aws and half on gcp.
    #[arg(long, value_name = "NUMBER", default_value_t = 12, value_parser = clap::value_parser!(u8).range(2..=40))]
    clusters: u8,
    /// Directory for the repository, the kubeconfigs and the log. Default: a temporary directory that is
    /// removed at the end, and a log that is kept.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Args {
    /// Creates the log file of all parts. In a directory that the user names, a lock on the file prevents a second
    /// demo; the operating system releases the lock when the process ends.
    pub(crate) fn log_file(&self) -> Result<(File, PathBuf), CommandError> {
        let Some(dir) = &self.dir else {
            let file = tempfile::Builder::new().prefix("wheelwright-demo-").suffix(".log").tempfile();
            let persisted = file.and_then(|file| Ok(file.keep()?));
            return Ok(persisted.context("cannot create a temporary file for the log")?);
        };
        let path = dir.join("demo.log");
        let refused = || format!("cannot use {}", path.display());
        std::fs::create_dir_all(dir).with_context(refused)?;
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).with_context(refused)?;
        match file.try_lock() {
            Ok(()) => file.set_len(0).with_context(refused)?,
            Err(TryLockError::WouldBlock) => {
                let error = anyhow!("another demo runs in {}", dir.display());
                return Err(CommandError::hinted(error, "stop it, or name another directory with --dir"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(anyhow::Error::new(error).context(refused()).into());
            }
        }
        Ok((file, path))
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let temporary = tempfile::Builder::new()
            .prefix("wheelwright-demo-")
            .tempdir()
            .context("cannot create a temporary directory")?;
        let dir = args.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let background = Background { tasks: TaskTracker::new(), stop: stop_on_signal() };
        let result = tokio::select! {
            // With `--stay`, the signal ends the demo, which then erases its table.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_second_demo_in_a_directory_is_refused_and_leaves_the_log_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let args = Args { stay: false, clusters: 2, dir: Some(dir.path().join("demo")) };
        let (mut log, path) = args.log_file().unwrap();
        log.write_all(b"first").unwrap();
        let refused = args.log_file().unwrap_err();
        assert!(refused.error.to_string().starts_with("another demo runs in "), "{}", refused.error);
        assert!(refused.hint.unwrap().contains("--dir"));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "first");
    }
}
