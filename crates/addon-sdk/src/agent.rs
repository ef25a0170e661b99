//! The agent of an add-on: a process on a cluster, with an identity on the hub.
//!
//! The registration agent of the cluster keeps the identity in the Secret `<add-on>-hub-kubeconfig`, which
//! the agent mounts. The agent reads it again when it changes, and renews the Lease that says that it is
//! healthy.

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

/// Time between two renewals of the Lease, as in OCM. Its readers allow five times as much.
const RENEWAL: Duration = Duration::from_secs(60);
/// Time until a renewal that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Time between two looks at the files of the identity. The kubelet writes changes of a Secret within a
/// minute.
const LOOK: Duration = Duration::from_secs(2);
/// The files of an identity, beside each other.
const FILES: [&str; 4] = ["kubeconfig", "tls.crt", "tls.key", "token"];

/// The options of an agent.
#[derive(Debug)]
pub struct AddOnAgentOptions {
    /// Name of the cluster.
    pub cluster: String,
    /// The namespace of the Lease on the cluster: that of the agent.
    pub namespace: String,
    /// The kubeconfig in the directory that the Secret is mounted at. The agent waits until it exists.
    pub hub_kubeconfig: PathBuf,
    /// Kubeconfig of the cluster; without one, the service account of the pod.
    pub spoke_kubeconfig: Option<PathBuf>,
}

/// Runs controllers until `stop`. They see the namespace of the cluster on the hub and, as
/// [`Site::Spoke`](reconcile::Site), all of the cluster. The Lease is not renewed while they have an identity
/// and cannot read what they watch.
///
/// # Errors
/// The kubeconfig of the cluster cannot be used.
pub async fn run<A: AddOn>(
    options: AddOnAgentOptions,
    register: impl Fn(&mut Registrar),
    stop: CancellationToken,
) -> Result<(), Error> {
    // A program may have installed a provider before; then that one counts.
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

/// Returns a client for the hub with the identity of the agent, as the kubeconfig of its Secret has it now.
/// [`run`] makes one for its controllers, and a new one when the identity is renewed.
///
/// # Errors
/// The kubeconfig does not exist yet, or cannot be used.
pub async fn hub_client(kubeconfig: &Path) -> Result<kube::Client, Error> {
    let config = config(Some(kubeconfig)).await?;
    shell::client(config).map_err(|error| unusable(Some(kubeconfig), &error))
}

/// Returns the contents of those files of an identity that exist.
fn read(kubeconfig: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let file = |name| Some((name, std::fs::read(kubeconfig.with_file_name(name)).ok()?));
    FILES.into_iter().filter_map(file).collect()
}

/// Waits until the identity is another one.
async fn change(kubeconfig: &Path, known: &BTreeMap<&'static str, Vec<u8>>, stop: &CancellationToken) {
    while !stop.is_cancelled() && read(kubeconfig) == *known {
        stop.run_until_cancelled(sleep(LOOK)).await;
    }
}

/// Renews the Lease of an agent on its cluster until `stop`; the registration agent reports the add-on as
/// available while it is renewed. [`HealthProber::AgentProbe`] holds the renewal back. [`run`] does this for
/// an agent with controllers.
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
            warn!(error, "cannot renew the lease; the agent tries again");
        }
        let wait = if renewed.is_ok() { RENEWAL } else { RETRY };
        before = renewed;
        stop.run_until_cancelled(sleep(wait)).await;
    }
}

/// Renews the Lease once.
///
/// # Errors
/// Says why it is not renewed: the agent is not ready, its probe fails, or the API server refuses.
async fn renew<A: AddOn>(leases: &Api<Lease>, is_ready: bool) -> Result<(), String> {
    if !is_ready {
        return Err("not everything that the controllers need has been read yet".to_owned());
    }
    let health = A::options().health;
    if let HealthProber::AgentProbe(probe) = health {
        // It may wait, and the controllers go on meanwhile.
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

    /// An add-on whose agent is healthy or not.
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
