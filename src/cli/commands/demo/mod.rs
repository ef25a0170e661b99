//! `wheelwright demo`.

mod clusters;
mod progress;
mod repository;
mod screen;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{self, AgentOptions};
use crate::apiserver::Server;
use crate::cli::{CommandResult, output::Ui};
use crate::operator::{self, OperatorOptions};
use crate::shell::Selection;
use api::gitops::v1alpha1::ConfigRepo;
use object::Object;
use progress::{Fleet, State};
use repository::ConfigRepository;
use screen::Screen;
use store::{Patch, Target, WriteOptions};

const ADDON: &str = "managed-serviceaccount";
const REPORTS: &str = "wheelwright/status";
/// How long a version may take to become healthy before it counts as failed.
const DEADLINE: &str = "6s";
/// How long the canaries of a version must have worked before the others follow.
const SOAK: &str = "1s";
/// How long each commit may take altogether; on an idle machine it takes about ten seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long the rest of the fleet is watched after a version has failed, to show that it stays as it is.
const AFTERMATH: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(100);

/// Show everything on this machine: a hub, twelve clusters, three commits.
///
/// Starts an embedded hub and twelve clusters (each an API server with an agent; pods are played, nothing is pulled), makes a
/// config repository, and commits three times: an add-on, a new version of it, and a version that does not work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep everything running at the end, and print how kubectl reaches the hub and each cluster.
    #[arg(long)]
    stay: bool,
    /// Number of clusters, half of them on aws and half on gcp.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u8).range(2..=40))]
    clusters: u8,
    /// Where the repository and the kubeconfigs go; a temporary directory that is removed at the end, unless named.
    #[arg(long)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    super::block_on(async {
        let temporary = tempfile::Builder::new()
            .prefix("wheelwright-demo-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        let dir = args.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let (stop, tasks) = (super::operator::stop_on_signal(), TaskTracker::new());
        let result = tokio::select! {
            result = tell(args, &dir, Screen::new(ui), (&tasks, &stop)) => result,
            () = stop.cancelled() => Ok(ExitCode::FAILURE),
        };
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        Ok(result?)
    })
}

/// Everything that runs.
struct Stage<'a> {
    hub: Arc<Server>,
    spokes: Vec<(String, Arc<Server>)>,
    repository: ConfigRepository,
    screen: Screen<'a>,
    fleet: Fleet,
}

async fn tell(
    args: &Args,
    dir: &std::path::Path,
    screen: Screen<'_>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<ExitCode> {
    let mut stage = set(args, dir, screen, (tasks, stop)).await?;
    stage.until("every agent has joined", Fleet::is_joined).await?;

    let commit = stage.repository.commit_examples(SOAK, DEADLINE)?;
    stage.say(&format!("commit {}: {ADDON} 0.4.0 on every cluster", short(&commit)))?;
    stage.until("0.4.0 is everywhere", |fleet| fleet.runs("0.4.0")).await?;

    let commit = stage.repository.commit_upgrade()?;
    stage.say(&format!("commit {}: {ADDON} 0.4.1, the canaries first", short(&commit)))?;
    stage.until("0.4.1 is everywhere", |fleet| fleet.runs("0.4.1")).await?;

    let commit = stage.repository.commit_mistake()?;
    stage.say(&format!("commit {}: {ADDON} 0.4.2, whose image does not exist", short(&commit)))?;
    stage
        .until("0.4.2 has failed on the canaries", |fleet| fleet.at("0.4.2", State::Failed).len() == 2)
        .await?;
    let untouched = stage.fleet.at("0.4.1", State::Available).len();
    stage.say(&format!("stopped at the canaries; {untouched} clusters keep 0.4.1"))?;
    let end = Instant::now() + AFTERMATH;
    while Instant::now() < end {
        stage.look()?;
        sleep(TICK).await;
    }
    anyhow::ensure!(
        stage.fleet.at("0.4.2", State::Failed).len() == 2
            && stage.fleet.at("0.4.1", State::Available).len() + 2 == stage.spokes.len(),
        "the failed version went on beyond the canaries:\n{}",
        stage.fleet.table(false)
    );
    stage.reported(&commit).await?;
    stage.close()?;
    if args.stay {
        stage.stay(dir)?;
        stop.cancelled().await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts everything.
async fn set<'a>(
    args: &Args,
    dir: &std::path::Path,
    screen: Screen<'a>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<Stage<'a>> {
    let repository = ConfigRepository::create(dir.join("fleet.git"))?;
    let hub = Arc::new(clusters::start_hub().await?);
    clusters::run_administrator(Arc::clone(&hub), tasks, stop.clone());
    let mut stage = Stage { hub, spokes: Vec::new(), repository, screen, fleet: Fleet::default() };
    stage.say(&format!("hub at {}, repository at {}", stage.hub.url, stage.repository.path.display()))?;
    config_repo(&stage.hub, &stage.repository)?;
    let options = OperatorOptions {
        hub: client(&stage.hub.kubeconfig("wheelwright-operator", &["system:masters"])?).await?,
        controllers: Selection::default(),
        election: None,
        listen: None,
        cache: dir.join("mirrors"),
    };
    tasks.spawn(operator::run(options, stop.clone()));
    for number in 0..args.clusters {
        let name = format!("{}-{}", if number % 2 == 0 { "aws" } else { "gcp" }, number / 2 + 1);
        let spoke = Arc::new(clusters::start_spoke(&name).await?);
        clusters::run_nodes(Arc::clone(&spoke), tasks, stop.clone());
        let options = AgentOptions {
            bootstrap: stage.hub.kubeconfig("bootstrap", &["system:bootstrappers:managedcluster"])?,
            spoke: client(&spoke.kubeconfig("agent", &["system:masters"])?).await?,
            cluster: name.clone(),
        };
        tasks.spawn(agent::run(options, stop.clone()));
        stage.spokes.push((name, spoke));
    }
    stage.say(&format!("{} clusters started, each with its API server and agent", stage.spokes.len()))?;
    Ok(stage)
}

impl Stage<'_> {
    fn say(&mut self, line: &str) -> Result<()> {
        Ok(self.screen.heading(line)?)
    }

    /// Looks at the hub and shows what changed.
    fn look(&mut self) -> Result<()> {
        let now = self.hub.with_store(|store, _| Fleet::read(store, ADDON));
        for line in now.story(&self.fleet) {
            self.screen.line(&line)?;
        }
        self.screen.table(&now)?;
        self.fleet = now;
        Ok(())
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Fleet) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.look()?;
            if self.fleet.0.len() == self.spokes.len() && holds(&self.fleet) {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "after {PATIENCE:?} still not so: {what}\n{}",
                self.fleet.table(false)
            );
            sleep(TICK).await;
        }
    }

    /// Waits until a report about a commit has been pushed.
    async fn reported(&mut self, commit: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let summary = self.repository.file(REPORTS, "summary.json")?.unwrap_or_default();
            if summary.contains(commit) && summary.contains("\"state\": \"Failed\"") {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "no report about {} was pushed to {REPORTS} within {PATIENCE:?}",
                short(commit)
            );
            sleep(TICK).await;
        }
    }

    fn close(&mut self) -> Result<()> {
        self.screen.erase()?;
        self.say(&format!("git log {REPORTS}"))?;
        for commit in self.repository.log(REPORTS)? {
            self.screen.plain(&format!("{} {}", short(&commit.id), commit.subject))?;
        }
        self.say(&format!("git show {REPORTS}:README.md"))?;
        let report = self.repository.file(REPORTS, "README.md")?.unwrap_or_default();
        report.lines().try_for_each(|line| self.screen.plain(line))?;
        self.say("the fleet at the end")?;
        self.fleet.table(self.screen.is_terminal()).lines().try_for_each(|line| self.screen.plain(line))?;
        Ok(())
    }

    fn stay(&mut self, dir: &std::path::Path) -> Result<()> {
        self.say("running until Ctrl-C; kubectl reaches the hub and each cluster with")?;
        let servers = std::iter::once(("hub", &self.hub))
            .chain(self.spokes.iter().map(|(name, server)| (name.as_str(), server)));
        for (name, server) in servers {
            let file = dir.join(format!("{name}.kubeconfig"));
            std::fs::write(&file, server.admin_kubeconfig_yaml()?)
                .with_context(|| format!("cannot write {}", file.display()))?;
            self.screen.plain(&format!("export KUBECONFIG={}", file.display()))?;
        }
        Ok(())
    }
}

/// Creates the `ConfigRepo` that follows the repository.
fn config_repo(hub: &Server, repository: &ConfigRepository) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wheelwright-system"}});
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "fleet", "namespace": "wheelwright-system"},
        "spec": {
            "url": repository.path, "path": "overlays/prod", "interval": "1m",
            "report": {"branch": REPORTS, "interval": "1s"},
        },
    });
    hub.with_store(|store, now| {
        let options = WriteOptions::manager("demo");
        store
            .create(&Target::resource("", "v1", "namespaces"), Object::from_value(namespace)?, &options, now)
            .map_err(anyhow::Error::msg)?;
        let target = Target::all::<ConfigRepo>().within("wheelwright-system").named("fleet");
        store.patch(&target, &Patch::Apply(repo), &options, now).map_err(anyhow::Error::msg)?;
        Ok(())
    })
}

async fn client(kubeconfig: &kube::config::Kubeconfig) -> Result<kube::Client> {
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &kube::config::KubeConfigOptions::default())
            .await?;
    Ok(crate::shell::client(config)?)
}

fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}
