//! Waits until the installed operator works.

use std::time::Duration;

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use object::ObjectRef;
use tokio::time::{Instant, sleep};

use super::Installer;
use crate::cli::CommandError;
use crate::cli::duration::Wait;
use crate::cli::writer::failed;
use api::crds;
use api::names::OPERATOR;
use engine::plural::counted;

/// The polling interval.
const POLL: Duration = Duration::from_millis(500);

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Deadline(Instant);

impl Deadline {
    /// Returns the end of a wait that starts now.
    pub(in crate::cli) fn new(wait: Wait) -> Self {
        Self(wait.deadline())
    }

    pub(in crate::cli) fn from_seconds(seconds: u64) -> Self {
        Self(Instant::now() + Duration::from_secs(seconds))
    }

    /// Sleeps until the next check; returns `false` after the deadline.
    pub(in crate::cli) async fn next(self) -> bool {
        let is_left = Instant::now() < self.0;
        if is_left {
            sleep(POLL).await;
        }
        is_left
    }
}

/// Waits until the CRDs are served.
pub(in crate::cli) async fn definitions_served(
    hub: &kube::Client,
    names: &[String],
    deadline: Deadline,
) -> Result<(), CommandError> {
    for name in names {
        while !is_served(hub, name).await? {
            if !deadline.next().await {
                let error = anyhow!("the API server does not serve {name} yet");
                return Err(CommandError::hinted(
                    error,
                    format!("kubectl describe customresourcedefinition {name}"),
                ));
            }
        }
    }
    Ok(())
}

/// Returns true if the API server serves the objects of a CRD, which happens shortly after the CRD is established.
async fn is_served(hub: &kube::Client, name: &str) -> Result<bool, CommandError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.clone());
    let definition = definitions.get(name).await.map_err(failed(format!("read the definition {name}")))?;
    if !crds::is_established(&definition) {
        return Ok(false);
    }
    let spec = definition.spec;
    let Some(version) = spec.versions.iter().find(|version| version.storage) else { return Ok(false) };
    let kind = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let access: Api<DynamicObject> = Api::all_with(hub.clone(), &resource);
    match access.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if [404, 429].contains(&status.code) => Ok(false),
        found => {
            found.map_err(failed(format!("list {}", spec.names.plural)))?;
            Ok(true)
        }
    }
}

/// Waits until every replica of the operator is available.
pub(in crate::cli) async fn deployment_available(
    hub: &kube::Client,
    namespace: &str,
    deadline: Deadline,
) -> Result<i32, CommandError> {
    let deployments: Api<Deployment> = Api::namespaced(hub.clone(), namespace);
    loop {
        let read = deployments.get(OPERATOR).await;
        let deployment = read.map_err(failed(format!("read the Deployment {namespace}/{OPERATOR}")))?;
        let wanted = deployment.spec.replicas.unwrap_or(1);
        let status = deployment.status.unwrap_or_default();
        let is_seen = status.observed_generation >= deployment.metadata.generation;
        let available = status.available_replicas.unwrap_or_default();
        let are_new = status.updated_replicas.unwrap_or_default() == wanted;
        if is_seen && are_new && available >= wanted && status.replicas.unwrap_or_default() == wanted {
            return Ok(available);
        }
        if !deadline.next().await {
            let mut message = format!("{available} of {} available", counted(wanted, "operator"));
            for reason in waiting(hub, namespace).await? {
                message = format!("{message}; {reason}");
            }
            let hint = format!(
                "kubectl describe pods -n {namespace}; an image that cannot be pulled is named with --image"
            );
            return Err(CommandError::hinted(anyhow!(message), hint));
        }
    }
}

/// Returns the distinct reasons why containers of the operator are waiting.
async fn waiting(hub: &kube::Client, namespace: &str) -> Result<Vec<String>, CommandError> {
    let pods: Api<Pod> = Api::namespaced(hub.clone(), namespace);
    let params = ListParams::default().labels("app.kubernetes.io/name=wheelwright");
    let pods = pods.list(&params).await.map_err(failed(format!("list the pods of {namespace}")))?;
    let statuses = pods.items.into_iter().flat_map(|pod| pod.status.unwrap_or_default().container_statuses);
    let states = statuses.flatten().filter_map(|status| status.state?.waiting);
    let mut reasons: Vec<String> = states
        .map(|state| format!("{}: {}", state.reason.unwrap_or_default(), state.message.unwrap_or_default()))
        .collect();
    reasons.sort();
    reasons.dedup();
    Ok(reasons)
}

/// Waits until an object has been deleted.
pub(in crate::cli) async fn gone(
    installer: &Installer,
    target: &ObjectRef,
    deadline: Deadline,
) -> Result<(), CommandError> {
    while installer.find(target).await?.is_some() {
        if !deadline.next().await {
            let error = anyhow!("{target} is still being deleted");
            return Err(CommandError::hinted(
                error,
                "look at its finalizers and its pods, and run the command again",
            ));
        }
    }
    Ok(())
}
