//! Starts the hub, the operator, and the clusters with their agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use ssh_key::LineEnding;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::clusters;
use super::progress::{FleetProgress, cluster, explain_placement, overview};
use super::repository::ConfigRepository;
use super::screen::Screen;
use super::script::REPORTS;
use crate::agent::{self, AgentOptions, Bootstrap};
use crate::apiserver::Server;
use crate::dashboard::{self, ClusterObjects, ReadFleet};
use crate::operator::{self, LeaderCandidate, OperatorOptions};
use crate::shell::{self, ElectionOptions};
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{OPERATOR, OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL, SYSTEM_NAMESPACE};
use controllers::hub::overview::Overview;
use controllers::hub::placement::LabelChange;
use engine::placement::explain::Explanation;
use object::{Key, Object};
use store::{Patch, ResourcePath, WriteOptions};

/// The Secret with the key that signs reports.
const REPORT_KEY: &str = "report-key";
/// The duration of the operator's lease, and its renew deadline. They are longer than usual: the hub runs in the
/// same process and may be slow on a busy machine, and no other operator waits for the lease.
const LEASE: Duration = Duration::from_secs(120);
const RENEW_DEADLINE: Duration = Duration::from_secs(110);

/// The background tasks of the demo.
pub(super) struct Background {
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Background {
    /// Stops the tasks and waits for them to end.
    pub(super) async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

pub(super) struct Demo<'a> {
    pub(super) hub: Arc<Server>,
    pub(super) spokes: Vec<(String, Arc<Server>)>,
    pub(super) repository: ConfigRepository,
    pub(super) screen: Screen<'a>,
    pub(super) fleet: FleetProgress,
}

impl<'a> Demo<'a> {
    /// Starts the hub and its operator, and creates an empty repository.
    pub(super) async fn start(dir: &Path, screen: Screen<'a>, background: &Background) -> Result<Self> {
        let repository = ConfigRepository::create(dir.join("fleet.git"))?;
        let hub = Arc::new(clusters::start_hub().await?);
        clusters::run_administrator(Arc::clone(&hub), &background.tasks, background.stop.clone());
        let mut demo = Self { hub, spokes: Vec::new(), repository, screen, fleet: FleetProgress::default() };
        let (url, path) = (&demo.hub.url, demo.repository.path.display());
        demo.screen.log_file()?;
        demo.screen.heading(&format!("hub at {url}, repository at {path}"))?;
        create_namespace(&demo.hub)?;
        let config = config(demo.hub.kubeconfig(OPERATOR, &["system:masters"])?).await?;
        background.tasks.spawn(run_operator(config, dir.join("mirrors"), background.stop.clone()));
        let dashboard = dashboard::LocalDashboard::listen(0).await?;
        demo.screen.heading(&format!("dashboard at {}", dashboard.url))?;
        let reader = Arc::new(DemoFleet(Arc::clone(&demo.hub)));
        background.tasks.spawn(dashboard.serve(reader, background.stop.clone()));
        Ok(demo)
    }

    /// Starts a cluster and its agent, which requests to join the hub.
    pub(super) async fn add_cluster(&mut self, name: String, background: &Background) -> Result<()> {
        let spoke = Arc::new(clusters::start_spoke(&name).await?);
        clusters::run_nodes(Arc::clone(&spoke), &background.tasks, background.stop.clone());
        let bootstrap = self.hub.kubeconfig("bootstrap", &["system:bootstrappers:managedcluster"])?;
        let api = shell::client(config(spoke.kubeconfig("agent", &["system:masters"])?).await?)?;
        let options = AgentOptions::new(Bootstrap::Given(Box::new(bootstrap)), api, &name);
        background.tasks.spawn(agent::run(options, background.stop.clone()));
        self.spokes.push((name, spoke));
        Ok(())
    }
}

/// Runs the operator. It uses a lease for `wheelwright status` and for other operators that a user may start. If
/// it loses the lease, for example after the laptop was suspended, it starts again.
async fn run_operator(config: kube::Config, cache: PathBuf, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let lease = ElectionOptions {
            lease: LEASE,
            renew_deadline: RENEW_DEADLINE,
            ..ElectionOptions::new(SYSTEM_NAMESPACE, OPERATOR, "demo")
        };
        let started = LeaderCandidate::new(&config, lease).and_then(|candidate| {
            let hub = shell::client(config.clone())?;
            Ok(OperatorOptions { election: Some(candidate), ..OperatorOptions::new(hub, &cache) })
        });
        match started {
            Ok(options) => operator::run(options, stop.clone()).await,
            Err(error) => {
                return error!(error = shell::message(&error), "the operator cannot connect to the hub");
            }
        }
    }
}

/// The demo's fleet, read from the store of its hub.
struct DemoFleet(Arc<Server>);

impl ReadFleet for DemoFleet {
    fn overview(&self) -> Result<Overview, String> {
        Ok(self.0.with_store(|store, now| overview(store, now)))
    }

    fn placement(
        &self,
        placement: &Key,
        change: Option<&LabelChange>,
    ) -> Result<Option<Explanation>, String> {
        self.0.with_store(|store, now| explain_placement(store, placement, change, now))
    }

    fn cluster(&self, name: &str) -> Result<ClusterObjects, String> {
        self.0.with_store(|store, _| cluster(store, name))
    }
}

/// Creates the namespace for the operator's lease and the `ConfigRepo`.
fn create_namespace(hub: &Server) -> Result<()> {
    let labels = json!({OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED});
    let metadata = json!({"name": SYSTEM_NAMESPACE, "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let namespace = Object::from_value(namespace)?;
    let namespaces = ResourcePath::resource("", "v1", "namespaces");
    let options = WriteOptions::manager("demo");
    hub.with_store(|store, now| store.create(&namespaces, namespace, &options, now))
        .map_err(anyhow::Error::msg)?;
    Ok(())
}

/// Creates the `ConfigRepo` for the repository.
pub(super) fn create_config_repo(hub: &Server, repository: &ConfigRepository) -> Result<()> {
    let key = STANDARD.encode(repository.key.to_openssh(LineEnding::LF)?.as_bytes());
    let metadata = json!({"name": REPORT_KEY, "namespace": SYSTEM_NAMESPACE});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"ssh-privatekey": key}});
    let secret = Object::from_value(secret)?;
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "fleet", "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "url": repository.path, "path": "overlays/prod", "interval": "1m",
            "report": {"branch": REPORTS, "path": "/", "interval": "1s",
                "signingKeyRef": {"name": REPORT_KEY}},
        },
    });
    hub.with_store(|store, now| {
        let options = WriteOptions::manager("demo");
        let secrets = ResourcePath::resource("", "v1", "secrets").within(SYSTEM_NAMESPACE);
        store.create(&secrets, secret, &options, now).map_err(anyhow::Error::msg)?;
        let target = ResourcePath::all::<ConfigRepo>().within(SYSTEM_NAMESPACE).named("fleet");
        store.patch(&target, &Patch::Apply(repo), &options, now).map_err(anyhow::Error::msg)?;
        Ok(())
    })
}

async fn config(kubeconfig: Kubeconfig) -> Result<kube::Config> {
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}
