//! The agent of an add-on: a process on a cluster, with an identity on the hub.
//!
//! The registration agent of the cluster stores the identity in the Secret `<add-on>-hub-kubeconfig`, which the
//! add-on's agent mounts. The agent reads it again when it changes, and renews the Lease that reports its health.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::addon::{AddOn, HealthProber};
use crate::manager::{Error, config, unusable};
use reconcile::Scope;
use shell::{Handle, Registrar, Shell, ShellOptions, now};

/// Interval between renewals of the Lease, as in OCM. Readers allow five times as long.
const RENEWAL: Duration = Duration::from_secs(60);
/// Delay before a failed renewal is retried.
const RETRY: Duration = Duration::from_secs(5);
/// Interval between checks of the identity's files. The kubelet updates a mounted Secret within a minute.
const LOOK: Duration = Duration::from_secs(2);
/// The files of an identity, in one directory.
const FILES: [&str; 4] = ["kubeconfig", "tls.crt", "tls.key", "token"];

/// The options of an agent.
#[derive(Debug)]
pub struct AddOnAgentOptions {
    /// The name of the cluster.
    pub cluster: String,
    /// The namespace of the agent and its Lease on the cluster.
    pub namespace: String,
    /// The kubeconfig in the directory where the Secret is mounted. The agent waits until it exists.
    pub hub_kubeconfig: PathBuf,
    /// The kubeconfig of the cluster. Without one, the agent uses the service account of its pod.
    pub spoke_kubeconfig: Option<PathBuf>,
}

/// Runs controllers until `stop`. They see the namespace of the cluster on the hub and the whole cluster as
/// [`Site::Spoke`](reconcile::Site). The Lease is not renewed while the controllers have an identity but cannot
/// read the objects that they watch.
///
/// # Errors
/// Fails if the kubeconfig of the cluster cannot be used.
pub async fn run<A: AddOn>(
    options: AddOnAgentOptions,
    register: impl Fn(&mut Registrar),
    stop: CancellationToken,
) -> Result<(), Error> {
    // If the program has installed a provider, that provider stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = options.spoke_kubeconfig.as_deref();
    let spoke = shell::client(config(path).await?).map_err(|error| unusable(path, &error))?;
    let running: Mutex<Option<Handle>> = Mutex::default();
    let run = async {
        while !stop.is_cancelled() {
            let files = read(&options.hub_kubeconfig);
            let hub = hub_client(&options.hub_kubeconfig).await;
            let over = stop.child_token();
            match hub {
                Ok(hub) => {
                    let shell_options = ShellOptions {
                        spoke: Some(spoke.clone()),
                        scope: Scope::OneCluster(options.cluster.clone()),
                        ..ShellOptions::new(hub)
                    };
                    let shell = Shell::new(shell_options, &register);
                    *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(shell.handle());
                    let end = async {
                        change(&options.hub_kubeconfig, &files, &over).await;
                        over.cancel();
                    };
                    tokio::join!(shell.run(over.clone()), end);
                }
                Err(error) => {
                    info!(%error, "waiting for the identity on the hub");
                    change(&options.hub_kubeconfig, &files, &over).await;
                }
            }
        }
    };
    let is_ready = || {
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().is_none_or(Handle::is_ready)
    };
    tokio::join!(run, renew_while::<A>(is_ready, &spoke, &options.namespace, &stop));
    Ok(())
}

/// Returns a client for the hub with the agent's identity, from the current kubeconfig of its Secret. [`run`]
/// makes one for its controllers, and a new one when the identity is renewed.
///
/// # Errors
/// Fails if the kubeconfig does not exist yet or cannot be used.
pub async fn hub_client(kubeconfig: &Path) -> Result<kube::Client, Error> {
    let config = config(Some(kubeconfig)).await?;
    shell::client(config).map_err(|error| unusable(Some(kubeconfig), &error))
}

/// Returns the contents of the identity's files that exist.
fn read(kubeconfig: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let file = |name| Some((name, std::fs::read(kubeconfig.with_file_name(name)).ok()?));
    FILES.into_iter().filter_map(file).collect()
}

/// Waits until the identity changes.
async fn change(kubeconfig: &Path, known: &BTreeMap<&'static str, Vec<u8>>, stop: &CancellationToken) {
    while !stop.is_cancelled() && read(kubeconfig) == *known {
        stop.run_until_cancelled(sleep(LOOK)).await;
    }
}

/// Renews the Lease of an agent on its cluster until `stop`. The registration agent reports the add-on as
/// available while the Lease is renewed. A failing [`HealthProber::AgentProbe`] suspends renewal. For an agent
/// with controllers, [`run`] does this.
pub async fn keep_lease<A: AddOn>(spoke: &kube::Client, namespace: &str, stop: &CancellationToken) {
    renew_while::<A>(|| true, spoke, namespace, stop).await;
}

/// Renews the Lease until `stop` while the agent is ready and healthy.
async fn renew_while<A: AddOn>(
    is_ready: impl Fn() -> bool,
    spoke: &kube::Client,
    namespace: &str,
    stop: &CancellationToken,
) {
    let leases: Api<Lease> = Api::namespaced(spoke.clone(), namespace);
    let mut before: Result<(), String> = Ok(());
    while let Some(renewed) = stop.run_until_cancelled(renew::<A>(&leases, is_ready())).await {
        if let Err(error) = &renewed
            && renewed != before
        {
            warn!(error, "cannot renew the lease; retrying");
        }
        let wait = if renewed.is_ok() { RENEWAL } else { RETRY };
        before = renewed;
        stop.run_until_cancelled(sleep(wait)).await;
    }
}

/// Renews the Lease once.
///
/// # Errors
/// Fails if the agent is not ready, its probe fails, or the API server rejects the write.
async fn renew<A: AddOn>(leases: &Api<Lease>, is_ready: bool) -> Result<(), String> {
    if !is_ready {
        return Err("the controllers have not read all required objects yet".to_owned());
    }
    let health = A::options().health;
    if let HealthProber::AgentProbe(probe) = health {
        // The probe may block; the controllers continue.
        spawn_blocking(probe).await.unwrap_or_else(|error| Err(error.to_string()))?;
    }
    let params = PatchParams::apply("addon-lease").force();
    let renewed = leases.patch(A::NAME, &params, &Patch::Apply(lease(A::NAME))).await;
    renewed.map(drop).map_err(|error| shell::message(&error))
}

fn lease(name: &str) -> Lease {
    Lease {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            lease_duration_seconds: Some(60),
            renew_time: Some(MicroTime(now())),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::{AddOnOptions, Installation};
    use object::Object;

    /// An add-on whose agent is healthy or unhealthy.
    struct Probed<const HEALTHY: bool>;

    impl<const HEALTHY: bool> AddOn for Probed<HEALTHY> {
        const NAME: &'static str = "probed";

        fn manifests(_: &Installation<'_>) -> Result<Vec<Object>, String> {
            Ok(Vec::new())
        }

        fn options() -> AddOnOptions {
            let probe = || if HEALTHY { Ok(()) } else { Err("the queue is stuck".to_owned()) };
            AddOnOptions { health: HealthProber::AgentProbe(probe), ..AddOnOptions::default() }
        }
    }

    #[tokio::test]
    async fn a_lease_is_renewed_only_while_the_controllers_are_ready_and_the_probe_succeeds() {
        let renewals = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&renewals);
        let spoke = tower::service_fn(move |_: Request<Body>| {
            counted.fetch_add(1, Relaxed);
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {}});
            async move { Response::builder().body(Body::from(lease.to_string().into_bytes())) }
        });
        let leases: Api<Lease> = Api::namespaced(kube::Client::new(spoke, "default"), "demo");
        let stuck = renew::<Probed<false>>(&leases, true).await;
        assert_eq!(stuck.unwrap_err(), "the queue is stuck");
        assert!(renew::<Probed<true>>(&leases, false).await.is_err(), "the controllers cannot read");
        assert_eq!(renewals.load(Relaxed), 0);
        assert_eq!(renew::<Probed<true>>(&leases, true).await, Ok(()));
        assert_eq!(renewals.load(Relaxed), 1);
    }
}
