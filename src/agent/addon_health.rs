//! The health of add-ons whose agents run on the hosting cluster next to a hosted agent. Their leases are
//! there, and the agent's shell does not watch them.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::addon_registration::AddOns;
use crate::shell::{Handle, now, with_causes};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{Conditions as _, set_condition};
use controllers::agent::addon_lease::{availability, hosting_cluster, lease_of};
use reconcile::{Caches, Query, View as _};

/// The interval between lease reads, as in OCM's agent.
const PERIOD: Duration = Duration::from_secs(30);

impl AddOns<'_> {
    /// Reports until `stop` whether hosted add-ons are available.
    pub(super) async fn report_health(&self, shell: Handle, stop: &CancellationToken) {
        let options = self.options;
        let Some(host) = options.management.as_ref().filter(|_| options.controllers.includes("addon-lease"))
        else {
            return;
        };
        while !stop.is_cancelled() {
            let caches = shell.caches();
            let addons = caches.list::<ManagedClusterAddOn>(Query::namespace(&options.cluster));
            for addon in addons.iter().flatten() {
                if let Some(cluster) = hosting_cluster(addon) {
                    self.report_lease(addon, cluster, host, &caches).await;
                }
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
    }

    /// Reports the availability of an add-on from its lease. A read error changes nothing, unless the agent
    /// lacks the permission.
    async fn report_lease(
        &self,
        addon: &ManagedClusterAddOn,
        cluster: &str,
        host: &kube::Client,
        caches: &Caches,
    ) {
        let Ok(Some(key)) = lease_of(addon, caches) else { return };
        let lease = Api::<Lease>::namespaced(host.clone(), &key.namespace).get_opt(&key.name).await;
        let (lease, refusal) = match lease {
            Ok(lease) => (lease, None),
            Err(kube::Error::Api(refusal)) if refusal.code == 403 => (None, Some(refusal.message)),
            Err(error) => {
                let error = with_causes(&error);
                warn!(addon = key.name, error, "cannot read the lease of a hosted add-on");
                return;
            }
        };
        let (mut available, _) = availability(addon, lease.as_ref(), now());
        if let Some(refusal) = refusal {
            available.message += &format!(" The agent may not read the lease {key}: {refusal}");
        } else if lease.is_none() {
            available.message += &format!(
                " No lease found on hosting cluster \"{cluster}\"; verify it matches the cluster where this \
                 managed cluster's klusterlet actually runs."
            );
        }
        let mut conditions = addon.conditions().to_vec();
        if set_condition(&mut conditions, available.clone(), now())
            && let Err(error) = self.report(&key.name, available).await
        {
            let error = with_causes(&error);
            warn!(addon = key.name, error, "cannot report whether a hosted add-on is available");
        }
    }
}
