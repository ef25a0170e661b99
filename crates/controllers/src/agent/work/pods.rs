//! Reads the pods of workloads that are not healthy.

use engine::health::ObjectHealth;
use engine::work::pods::{self, PodTrouble, PodsAnswer};
use engine::work::{Live, Pods};
use object::Object;
use reconcile::{PodsQuery, ReadError, View};

/// Limit of the workloads of a work whose pods are read. Each costs a request or two every five seconds while it
/// is not healthy.
const MOST_WORKLOADS: usize = 8;

/// Reads the pods of a few workloads.
#[derive(Default)]
pub(super) struct PodReader {
    workloads: usize,
}

impl PodReader {
    /// Returns what the pods of an object say. Those of a healthy workload are not read.
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

/// Returns the reason that the pods of a workload give, or their events.
fn trouble(live: &Object, selector: String, view: &impl View) -> Result<Option<PodTrouble>, ReadError> {
    let namespace = live.namespace();
    let pods = view.pods(PodsQuery { namespace: namespace.to_owned(), selector })?;
    Ok(match pods::answer(live, &pods) {
        PodsAnswer::Trouble(trouble) => Some(trouble),
        PodsAnswer::AskPod { name, uid, is_running } => {
            pods::of_pod_warnings(&name, is_running, &view.warnings(namespace, &uid)?)
        }
        // Its status has the reason why it cannot create pods.
        PodsAnswer::AskWorkload if live.kind() == "Deployment" => None,
        PodsAnswer::AskWorkload => pods::of_workload_warnings(&view.warnings(namespace, live.uid())?),
    })
}
