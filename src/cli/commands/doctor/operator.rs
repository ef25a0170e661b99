//! Checks the API server, the operator, its lease and its policies.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use object::{Key, Metadata as _};

use super::finding::{Finding, Health, all, few};
use super::hub::ExaminedHub;
use crate::cli::CommandError;
use crate::cli::connect::{OLDEST_MINOR, is_too_old};
use crate::cli::installation::manifests;
use crate::cli::writer::find;
use crate::shell::now;
use api::names::OPERATOR;
use engine::installation::InstallationOptions;
use engine::plural::counted;

/// The name of the check of the operator's Deployment.
pub(super) const NAME: &str = "operator";
const LEADER: &str = "leader";
/// The age at which an unrenewed lease counts as abandoned. A leader renews it every two seconds, and another
/// operator takes over after twelve.
const LEASE: SignedDuration = SignedDuration::from_secs(15);
/// The largest clock difference that is harmless for certificates and leases.
const SKEW: SignedDuration = SignedDuration::from_secs(10);

pub(super) async fn api_server(hub: &ExaminedHub) -> Vec<Finding> {
    const CHECK: &str = "api server";
    let version = match hub.client.apiserver_version().await {
        Ok(version) => version,
        Err(error) => return vec![Finding::unknown(CHECK, error.into())],
    };
    let message = format!("Kubernetes {}", version.git_version);
    if is_too_old(&version) {
        let advice = format!("the admission policies need Kubernetes 1.{OLDEST_MINOR}; upgrade the hub");
        return vec![Finding::bad(CHECK, message, advice)];
    }
    vec![Finding::good(CHECK, message)]
}

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let ExaminedHub { client, namespace, has_ours: _, operator, definitions: _, repositories: _ } = hub;
    let is_installed = !matches!(operator, Ok(None));
    let lease = lease(client, namespace).await;
    let is_led = matches!(&lease, Ok(Some(leader)) if leader.health == Health::Good);
    let operator = match operator {
        Ok(Some(deployment)) => running(deployment),
        Ok(None) if is_led => Finding::good(NAME, "it runs outside of the hub"),
        Ok(None) => Finding::warning(
            NAME,
            format!("there is no Deployment {namespace}/{OPERATOR}"),
            "wheelwright install; or start wheelwright operator outside of the hub",
        ),
        Err(unread) => unread.clone(),
    };
    let mut findings = vec![operator];
    findings.push(match lease {
        Ok(Some(leader)) => leader,
        Ok(None) if is_installed => not_led("no operator leads".into()),
        // An operator outside the hub may run without leader election.
        Ok(None) => no_lease(namespace),
        Err(error) => Finding::unknown(LEADER, error),
    });
    findings.push(policies(hub, is_installed).await);
    findings
}

/// Returns the container arguments of an operator.
pub(super) fn arguments(operator: &Deployment) -> impl Iterator<Item = &str> {
    let containers = operator.spec.template.spec.iter().flat_map(|pod| &pod.containers);
    containers.flat_map(|container| container.args.iter().flatten()).map(String::as_str)
}

fn running(deployment: &Deployment) -> Finding {
    let namespace = deployment.namespace();
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let available =
        deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
    let pod = deployment.spec.template.spec.as_ref();
    let image = pod.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
    let message = format!("{available} of {} available, image {image}", counted(wanted, "operator"));
    match available {
        _ if wanted == 0 => {
            let scale = format!("kubectl scale -n {namespace} deploy/{OPERATOR} --replicas 2");
            Finding::bad(NAME, message, scale)
        }
        0 => {
            let logs = format!("kubectl logs -n {namespace} deploy/{OPERATOR}");
            Finding::bad(NAME, message, format!("kubectl describe pods -n {namespace}, and {logs}"))
        }
        some if some < wanted => Finding::warning(NAME, message, format!("kubectl get pods -n {namespace}")),
        _ => Finding::good(NAME, message),
    }
}

/// Returns a finding if no operator leads. Returns `None` if one leads, or if the lease cannot be read.
pub(in crate::cli::commands) async fn no_leader(hub: &kube::Client, namespace: &str) -> Option<Finding> {
    let leader = lease(hub, namespace).await.ok()?.unwrap_or_else(|| no_lease(namespace));
    (leader.health != Health::Good).then_some(leader)
}

/// Checks that the lease has a live leader whose clock agrees with this machine's; `None` if there is no lease.
async fn lease(hub: &kube::Client, namespace: &str) -> Result<Option<Finding>, CommandError> {
    let lease = find::<Lease>(hub, &Key::namespaced(namespace, OPERATOR)).await?;
    Ok(lease.map(|lease| leader(lease.spec.unwrap_or_default(), now())))
}

/// Returns the finding for a hub without a lease. The operator may still run outside the hub.
fn no_lease(namespace: &str) -> Finding {
    Finding::warning(
        LEADER,
        format!("no operator has a lease in namespace {namespace}"),
        "start the operator; --operator-namespace names another namespace, and one with --leader-elect=false is not seen",
    )
}

fn leader(lease: LeaseSpec, now: Timestamp) -> Finding {
    let Some(renewed) = lease.renew_time.map(|renewed| renewed.0) else {
        return not_led("no operator leads".into());
    };
    let dead = format!("no operator has renewed its lease since {renewed:.0}");
    let age = now.duration_since(renewed);
    let Some(holder) = lease.holder_identity.filter(|holder| !holder.is_empty()) else {
        if age > LEASE {
            return not_led(dead);
        }
        let message = format!("the previous leader released its lease {} s ago", age.as_secs().max(0));
        return Finding::warning(
            LEADER,
            message,
            "a new leader takes over within seconds; run the command again",
        );
    };
    if age > LEASE {
        return not_led(format!("{dead}, when {holder} led"));
    }
    let seconds = age.as_secs();
    if age < -SKEW {
        let message = format!("{holder} renewed its lease {} s in the future", -seconds);
        return Finding::warning(
            LEADER,
            message,
            "synchronize the clocks of this machine and of the hub's nodes with NTP",
        );
    }
    Finding::good(LEADER, format!("{holder} leads, and renewed its lease {} s ago", seconds.max(0)))
}

fn not_led(message: String) -> Finding {
    let advice = "nothing is reconciled until an operator leads: start it or read its log, and check that NTP keeps the clocks in sync";
    Finding::bad(LEADER, message, advice)
}

async fn policies(hub: &ExaminedHub, is_installed: bool) -> Finding {
    const CHECK: &str = "admission";
    let wanted = match manifests(&hub.namespace, &InstallationOptions::default()) {
        Ok(wanted) => wanted,
        Err(error) => return Finding::unknown(CHECK, error.into()),
    };
    let present = match all::<ValidatingAdmissionPolicy>(CHECK, &hub.client, "").await {
        Ok(present) => present,
        Err(unread) => return unread,
    };
    let wanted = wanted.iter().filter(|object| object.kind() == "ValidatingAdmissionPolicy");
    // One policy is about the service account of an installed operator.
    let is_needed = |name: &&str| is_installed || *name != OPERATOR;
    let wanted: Vec<&str> = wanted.map(object::Object::name).filter(is_needed).collect();
    let missing: Vec<&str> =
        wanted.iter().copied().filter(|name| !present.iter().any(|policy| policy.name() == *name)).collect();
    if missing.is_empty() {
        return Finding::good(CHECK, format!("{} admission policies guard the hub", wanted.len()));
    }
    let message = format!("admission policies are missing: {}", few(missing));
    let write = hub.upgrade("wheelwright install");
    let advice = format!("{write}; without them, only RBAC protects the hub (docs/security.md)");
    Finding::warning(CHECK, message, advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    #[test]
    fn an_operator_without_replicas_needs_some_and_one_without_pods_has_a_reason() {
        let advice = |replicas: i32| {
            let metadata = serde_json::json!({"name": OPERATOR, "namespace": "system"});
            let spec = serde_json::json!({"replicas": replicas, "selector": {}, "template": {}});
            let deployment = serde_json::json!({"metadata": metadata, "spec": spec});
            running(&serde_json::from_value(deployment).unwrap()).advice
        };
        assert_eq!(advice(0), "kubectl scale -n system deploy/wheelwright-operator --replicas 2");
        assert!(advice(2).starts_with("kubectl describe pods -n system"), "{}", advice(2));
    }

    #[test]
    fn a_lease_reveals_dead_leaders_and_wrong_clocks() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let dead = "no operator has renewed its lease since 2026-01-02T03:03:05Z";
        for (holder, seconds, health, message) in [
            (Some("a"), Some(1), Health::Good, "a leads, and renewed its lease 1 s ago"),
            (Some("a"), Some(-3), Health::Good, "a leads, and renewed its lease 0 s ago"),
            (Some("a"), Some(60), Health::Bad, &format!("{dead}, when a led")),
            (Some("a"), Some(-60), Health::Warning, "a renewed its lease 60 s in the future"),
            (None, Some(2), Health::Warning, "the previous leader released its lease 2 s ago"),
            (None, Some(60), Health::Bad, dead),
            (Some(""), Some(60), Health::Bad, dead),
            (None, None, Health::Bad, "no operator leads"),
        ] {
            let renewed = seconds.map(|seconds| MicroTime(now - SignedDuration::from_secs(seconds)));
            let holder_identity = holder.map(str::to_owned);
            let lease = LeaseSpec { holder_identity, renew_time: renewed, ..LeaseSpec::default() };
            let found = leader(lease, now);
            assert_eq!((found.health, found.message.as_str()), (health, message));
        }
    }
}
