//! The three commits of the demo, and the fleet's reaction to each.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::Args;
use super::progress::FleetProgress;
use super::screen::Screen;
use super::setup::{Background, Demo, create_config_repo};
use crate::apiserver::write_private;
use crate::cli::output::Style;
use crate::shell::with_causes;

const ADDON: &str = "managed-serviceaccount";
/// The branch for reports.
pub(super) const REPORTS: &str = "wheelwright/status";
/// The progress deadline of a version. It is longer than the 10 seconds after which the operator reports what a
/// cluster is waiting for.
const DEADLINE: &str = "12s";
/// The soak time of the canaries.
const SOAK: &str = "1s";
/// The timeout for everything that a commit causes. It takes about ten seconds on an idle machine, minutes on a
/// busy one.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);
/// The time for which the demo watches the fleet after the canaries have returned, to show that nothing else
/// changes.
const SETTLE_TIME: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// Runs the demo. With `--stay`, keeps it running afterwards.
pub(super) async fn run(args: &Args, dir: &Path, screen: Screen<'_>, background: &Background) -> Result<()> {
    let mut demo = Demo::start(dir, screen, background).await?;
    let played = demo.play(args.clusters, background).await;
    if args.stay {
        if let Err(error) = &played {
            let error = with_causes(error.as_ref());
            demo.heading(&format!("the demo failed; its processes keep running: {error}"))?;
        }
        demo.print_kubeconfigs(dir)?;
        demo.stay(background).await?;
    }
    played
}

impl Demo<'_> {
    /// Starts the clusters and makes the commits. Each step waits for the fleet to finish the previous one.
    async fn play(&mut self, clusters: u8, background: &Background) -> Result<()> {
        for number in 0..clusters {
            let cloud = if number % 2 == 0 { "aws" } else { "gcp" };
            self.add_cluster(format!("{cloud}-{}", number / 2 + 1), background).await?;
        }
        self.heading(&format!("{} clusters started, each with its API server and agent", self.spokes.len()))?;
        self.until("every agent has joined", FleetProgress::is_joined).await?;

        let commit = self.repository.commit_examples(SOAK, DEADLINE)?;
        create_config_repo(&self.hub, &self.repository)?;
        self.heading(&format!("commit {}: {ADDON} 0.9.0 on every cluster", short(&commit)))?;
        self.until("0.9.0 is everywhere", |fleet| fleet.runs("0.9.0")).await?;

        self.plan_upgrade().await?;
        let commit = self.repository.commit_upgrade()?;
        self.heading(&format!("commit {}: {ADDON} 0.10.0, the canaries first", short(&commit)))?;
        self.until("0.10.0 is everywhere", |fleet| fleet.runs("0.10.0")).await?;

        let commit = self.repository.commit_mistake()?;
        self.heading(&format!("commit {}: {ADDON} 0.10.1, whose image does not exist", short(&commit)))?;
        self.returns_from_the_canaries().await?;
        self.reported(&commit).await?;
        self.close()
    }

    fn heading(&mut self, line: &str) -> Result<()> {
        Ok(self.screen.heading(line)?)
    }

    /// Reads the hub and prints the changes.
    fn refresh(&mut self) -> Result<()> {
        let now = self.hub.with_store(|store, now| FleetProgress::read(store, ADDON, now));
        for line in now.changes_since(&self.fleet) {
            self.screen.line(&line)?;
        }
        self.screen.table(&now, ADDON)?;
        self.fleet = now;
        Ok(())
    }

    async fn stay(&mut self, background: &Background) -> Result<()> {
        while background.stop.run_until_cancelled(sleep(TICK)).await.is_some() {
            self.refresh()?;
        }
        Ok(self.screen.erase()?)
    }

    /// Waits until the fleet is in an expected state.
    async fn until(&mut self, state: &str, holds: impl Fn(&FleetProgress) -> bool) -> Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            self.refresh()?;
            if self.fleet.clusters.len() == self.spokes.len() && holds(&self.fleet) {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "this did not happen within {STEP_TIMEOUT:?}: {state}; the machine may be too busy; see the log
{}",
                self.fleet.table(ADDON, Style::PLAIN)
            );
            sleep(TICK).await;
        }
    }

    /// Waits until the two canaries have failed with 0.10.1 and returned, and checks that no other cluster gets
    /// 0.10.1.
    async fn returns_from_the_canaries(&mut self) -> Result<()> {
        self.until("0.10.1 has reached the canaries", |fleet| fleet.with("0.10.1") > 0).await?;
        let has_returned = |fleet: &FleetProgress| fleet.has_returned("0.10.0");
        self.until("the canaries run 0.10.0 again", has_returned).await?;
        self.heading("0.10.1 failed on the canaries and is quarantined; every cluster runs 0.10.0")?;
        let end = Instant::now() + SETTLE_TIME;
        while Instant::now() < end {
            self.refresh()?;
            sleep(TICK).await;
        }
        anyhow::ensure!(
            has_returned(&self.fleet),
            "the quarantined version was rolled out again:\n{}",
            self.fleet.table(ADDON, Style::PLAIN)
        );
        Ok(())
    }

    /// Waits until a report about a commit is pushed.
    async fn reported(&mut self, commit: &str) -> Result<()> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let summary = self.repository.file(REPORTS, "summary.json")?.unwrap_or_default();
            if summary.contains(commit) && summary.contains("\"quarantined\": true") {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < deadline,
                "no report about {} was pushed to {REPORTS} within {STEP_TIMEOUT:?}",
                short(commit)
            );
            sleep(TICK).await;
        }
    }

    /// Prints the reports and the fleet.
    fn close(&mut self) -> Result<()> {
        self.screen.erase()?;
        self.heading(&format!("git log {REPORTS}"))?;
        let reports = self.repository.log(REPORTS)?;
        for commit in &reports {
            self.screen.plain(&format!("{} {}", short(&commit.id), commit.subject))?;
        }
        if let Some(newest) = reports.first() {
            self.heading(&format!("git verify-commit {REPORTS}"))?;
            self.screen.plain(&self.repository.verify(&newest.id)?)?;
        }
        self.heading(&format!("git show {REPORTS}:README.md"))?;
        for line in self.repository.file(REPORTS, "README.md")?.unwrap_or_default().lines() {
            self.screen.plain(line)?;
        }
        self.heading("the fleet at the end")?;
        for line in self.fleet.table(ADDON, self.screen.style()).lines() {
            self.screen.plain(line)?;
        }
        Ok(())
    }

    /// Writes a kubeconfig for the hub and for each cluster, and prints how to use them.
    fn print_kubeconfigs(&mut self, dir: &Path) -> Result<()> {
        self.heading("running until Ctrl-C; use kubectl on the hub and each cluster with")?;
        let spokes = self.spokes.iter().map(|(name, server)| (name.as_str(), server));
        for (name, server) in std::iter::once(("hub", &self.hub)).chain(spokes) {
            let file = dir.join(format!("{name}.kubeconfig"));
            write_private(&file, &server.admin_kubeconfig_yaml()?)
                .with_context(|| format!("cannot write {}", file.display()))?;
            self.screen.plain(&format!("export KUBECONFIG={}", file.display()))?;
        }
        self.screen.plain(&format!("git clone {}", self.repository.path.display()))?;
        self.screen.plain("try, on the hub: wheelwright get clusters, get addons, get works, taint, clusterset, work create")?;
        Ok(())
    }
}

fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}
