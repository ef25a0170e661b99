//! Reads the pods of unhealthy workloads.

use engine::health::ObjectHealth;
use engine::work::pods::{self, PodTrouble, PodsAnswer};
use engine::work::{Live, Pods};
use object::Object;
use reconcile::{PodsQuery, ReadError, View};

/// Maximum number of workloads per work whose pods are read. While a workload is unhealthy, each costs one or two
/// requests every five seconds.
const MOST_WORKLOADS: usize = 8;

/// Reads the pods of a limited number of workloads.
#[derive(Default)]
pub(super) struct PodReader {
    workloads: usize,
}

impl PodReader {
    /// Returns the state of an object's pods. Pods of a healthy workload are not read.
    pub(super) fn read(&mut self, live: &Live<'_>, view: &impl View) -> Pods {
        let live = match live {
            Live::Read(Some(live)) => live,
            Live::Read(None) => return Pods::Fine,
            Live::Unread | Live::Refused(_) => return Pods::Unread,
        };
        let is_workload = pods::selector(live).is_some() || live.gvk().kind == "Pod";
        if !is_workload || ObjectHealth::of(live) == ObjectHealth::Current {
            return Pods::Fine;
        }
        if let Some(trouble) = pods::own(live) {
            return Pods::Trouble(trouble);
        }
        let Some(selector) = pods::selector(live).filter(|_| self.workloads < MOST_WORKLOADS) else {
            return Pods::Fine;
        };
        self.workloads += 1;
        match trouble(live, selector, view) {
            Ok(Some(trouble)) => Pods::Trouble(trouble),
            Ok(None) => Pods::Fine,
            Err(_) => Pods::Unread,
        }
    }
}

/// Returns the reason from the pods of a workload or from their events.
fn trouble(live: &Object, selector: String, view: &impl View) -> Result<Option<PodTrouble>, ReadError> {
    let namespace = live.namespace();
    let pods = view.pods(PodsQuery { namespace: namespace.to_owned(), selector })?;
    Ok(match pods::answer(live, &pods) {
        PodsAnswer::Trouble(trouble) => Some(trouble),
        PodsAnswer::AskPod { name, uid, is_running } => {
            pods::of_pod_warnings(&name, is_running, &view.warnings(namespace, &uid)?)
        }
        // The status of a Deployment has the reason that it cannot create pods.
        PodsAnswer::AskWorkload if live.kind() == "Deployment" => None,
        PodsAnswer::AskWorkload => pods::of_workload_warnings(&view.warnings(namespace, live.uid())?),
    })
}
