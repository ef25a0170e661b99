//! The agent of an add-on: a process on a cluster, with an identity on the hub.
//!
//! The registration agent of the cluster keeps the identity in the Secret `<add-on>-hub-kubeconfig`, which
//! the agent mounts. The agent reads it again when it changes, and renews the Lease that says that it is
//! alive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::{Patch, PatchParams};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::manager::{Error, config, unusable};
use reconcile::Scope;
use shell::{Registrar, Shell, ShellOptions, now};

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
    /// Name of the add-on, and of the Lease.
    pub addon: String,
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
/// [`Site::Spoke`](reconcile::Site), all of the cluster.
///
/// # Errors
/// The kubeconfig of the cluster cannot be used.
pub async fn run(
    options: AddOnAgentOptions,
    register: impl Fn(&mut Registrar),
    stop: CancellationToken,
) -> Result<(), Error> {
    // A program may have installed a provider before; then that one counts.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = options.spoke_kubeconfig.as_deref();
    let spoke = shell::client(config(path).await?).map_err(|error| unusable(path, &error))?;
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
    tokio::join!(run, keep_lease(&spoke, &options.namespace, &options.addon, &stop));
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
/// available while it is renewed. [`run`] does this for an agent with controllers.
pub async fn keep_lease(spoke: &kube::Client, namespace: &str, addon: &str, stop: &CancellationToken) {
    let leases: Api<Lease> = Api::namespaced(spoke.clone(), namespace);
    while !stop.is_cancelled() {
        let lease = lease(addon);
        let params = PatchParams::apply("addon-lease").force();
        let wait = match leases.patch(addon, &params, &Patch::Apply(&lease)).await {
            Ok(_) => RENEWAL,
            Err(error) => {
                warn!(error = shell::message(&error), "cannot renew the lease; the agent tries again");
                RETRY
            }
        };
        stop.run_until_cancelled(sleep(wait)).await;
    }
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
