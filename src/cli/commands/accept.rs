//! `wheelwright accept`.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cli::duration::{Wait, wait};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, Writer, failed, find, list, retry_on_conflict};
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1::ManagedCluster;
use api::names::{ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, SUBJECT_PREFIX};
use engine::registration::csr::{RequestedCertificate, requested};
use object::{Key, Metadata as _};

/// The polling interval while waiting for a cluster.
const POLL: Duration = Duration::from_secs(1);

/// Accept clusters that ask to join: approve their certificate requests, and let them in.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names of the clusters, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    clusters: Vec<String>,
    /// Users whose requests are approved, separated by commas. Required if several users ask for a cluster,
    /// or if the cluster has joined before.
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    requesters: Vec<String>,
    /// Time to wait for clusters that have not asked to join yet, such as `1m`. 0 does not wait.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = wait)]
    wait: Wait,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let mut writer = args.write.connect().await?;
        let deadline = args.wait.deadline();
        for cluster in &args.clusters {
            accept(&mut writer, cluster, &args.requesters, deadline).await?;
        }
        writer.finish(ui)
    })
}

/// Accepts a cluster. The command is idempotent: a cluster that has joined does not change.
async fn accept(
    writer: &mut Writer,
    name: &str,
    requesters: &[String],
    deadline: Instant,
) -> Result<(), CommandError> {
    let (cluster, requests) = loop {
        let cluster = find::<ManagedCluster>(writer.client(), &Key::cluster(name)).await?;
        let mut requests = requests(writer.client(), name).await?;
        if requesters.is_empty() {
            check(name, &requests, cluster.as_ref().is_some_and(has_joined))?;
        } else {
            requests.retain(|request| requesters.iter().any(|user| user == requester(request)));
        }
        let is_joined = cluster.as_ref().is_some_and(has_joined);
        match cluster {
            Some(cluster) if is_joined || !requests.is_empty() => break (cluster, requests),
            Some(_) | None if Instant::now() < deadline => sleep(POLL).await,
            Some(_) => {
                let error = anyhow!("cluster {name} has sent no certificate request");
                return Err(CommandError::hinted(
                    error,
                    "start its agent, or read its log; --wait 2m waits for the request",
                ));
            }
            None => {
                let error = anyhow!("cluster {name} has not asked to join");
                let hint = "run `wheelwright join` on the cluster, or read its agent's log; --wait 2m waits for the request";
                return Err(CommandError::hinted(error, hint));
            }
        }
    };
    for request in &requests {
        approve(writer, request).await?;
    }
    if cluster.spec.hub_accepts_client {
        writer.add_line(format!("hubAcceptsClient already set for managed cluster {name}"));
        return Ok(());
    }
    let patch = json!({"spec": {"hubAcceptsClient": true}});
    writer.merge::<ManagedCluster>(&Key::cluster(name), patch).await?;
    writer.add_line(format!("set hubAcceptsClient to true for managed cluster {name}"));
    Ok(())
}

fn has_joined(cluster: &ManagedCluster) -> bool {
    use api::condition::Conditions as _;
    cluster.holds(api::names::cluster_conditions::JOINED)
}

/// Returns an error instead of choosing between requests: the owner of a cluster's certificate receives its works
/// with their secrets. See docs/hazards-clusters.md#accepted-for-another.
fn check(name: &str, requests: &[CertificateSigningRequest], is_joined: bool) -> Result<(), CommandError> {
    let users: BTreeSet<&str> = requests.iter().map(requester).collect();
    let error = match users.len() {
        0 => return Ok(()),
        1 if !is_joined => return Ok(()),
        1 => anyhow!("cluster {name} has already joined, but a user requests a first certificate for it"),
        _ => anyhow!("several users ask to be the agent of cluster {name}"),
    };
    let named = |request: &CertificateSigningRequest| format!("{} by {}", request.name(), requester(request));
    let listed = requests.iter().map(named).collect::<Vec<_>>().join(", ");
    Err(CommandError::hinted(
        error,
        format!("name the right one with --requesters USER; requested: {listed}"),
    ))
}

fn requester(request: &CertificateSigningRequest) -> &str {
    request.spec.username.as_deref().unwrap_or_default()
}

/// Returns the pending requests for the first certificate of a cluster. The command approves no other requests.
async fn requests(
    client: &kube::Client,
    cluster: &str,
) -> Result<Vec<CertificateSigningRequest>, CommandError> {
    let selector = format!("{CLUSTER_NAME_LABEL}={cluster},!{ADDON_NAME_LABEL}");
    let mut requests = list::<CertificateSigningRequest>(client, "", &selector).await?;
    requests.retain(|request| {
        let asks = requested(request).is_some_and(|certificate| match certificate {
            RequestedCertificate::Cluster { cluster: named, renewal: false } => named == cluster,
            RequestedCertificate::Cluster { .. }
            | RequestedCertificate::AddOn { .. }
            | RequestedCertificate::Custom { .. } => false,
        });
        // The agent of another cluster could also request this name.
        let is_agent = request.spec.username.iter().any(|user| user.starts_with(SUBJECT_PREFIX));
        is_open(request) && asks && !is_agent
    });
    Ok(requests)
}

async fn approve(writer: &mut Writer, request: &CertificateSigningRequest) -> Result<(), CommandError> {
    let name = request.name();
    let condition = CertificateSigningRequestCondition {
        type_: "Approved".into(),
        status: "True".into(),
        reason: Some("WheelwrightAccept".into()),
        message: Some("This CSR was approved by wheelwright accept.".into()),
        ..CertificateSigningRequestCondition::default()
    };
    let api: Api<CertificateSigningRequest> = Api::all(writer.client().clone());
    let params = PatchParams { dry_run: writer.is_dry_run(), ..PatchParams::default() };
    let approved = retry_on_conflict(async || {
        let now = find::<CertificateSigningRequest>(writer.client(), &Key::cluster(name)).await?;
        // If another client has approved or denied the request in between, keep that answer.
        let Some(version) = now.filter(is_open).and_then(|now| now.metadata.resource_version) else {
            return Ok(Ok(false));
        };
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": [&condition]}});
        Ok(api.patch_approval(name, &params, &Patch::Merge(patch)).await.map(|_| true))
    });
    let approved = approved.await?.map_err(failed(format!("approve the certificate request {name}")))?;
    let user = requester(request);
    match approved {
        true => writer.add_line(format!("CSR {name}, requested by {user}, approved")),
        false => writer.add_line(format!(
            "CSR {name}, requested by {user}, was already approved or denied by another client"
        )),
    }
    Ok(())
}

/// Returns true if a request is neither approved nor denied.
fn is_open(request: &CertificateSigningRequest) -> bool {
    request.status.iter().flat_map(|status| status.conditions.iter().flatten()).next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(user: &str) -> CertificateSigningRequest {
        let mut request = CertificateSigningRequest::default();
        request.metadata.name = Some(format!("csr-of-{user}"));
        request.spec.username = Some(user.into());
        request
    }

    #[test]
    fn ambiguous_requests_are_approved_only_for_a_named_user() {
        let check = |users: &[&str], is_joined| {
            let requests: Vec<_> = users.iter().map(|user| request(user)).collect();
            let refused = check("c1", &requests, is_joined).err()?;
            Some((refused.error.to_string(), refused.hint.unwrap_or_default()))
        };
        assert_eq!(check(&[], true), None);
        assert_eq!(check(&["a", "a"], false), None);
        let (message, hint) = check(&["a", "b"], false).unwrap();
        assert_eq!(message, "several users ask to be the agent of cluster c1");
        assert!(hint.ends_with("csr-of-a by a, csr-of-b by b"), "{hint}");
        let (message, _) = check(&["a"], true).unwrap();
        assert_eq!(message, "cluster c1 has already joined, but a user requests a first certificate for it");
    }
}
