//! Checks the API server, the operator, its lease and its policies.

use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use object::{Key, Metadata as _};

use super::ExaminedHub;
use super::finding::{Finding, all, few};
use crate::cli::installation::manifests;
use crate::cli::writer::find;
use crate::shell::now;
use engine::installation::{InstallationOptions, OPERATOR};
use engine::plural::counted;

const LEADER: &str = "leader";
/// The first minor version of Kubernetes with ValidatingAdmissionPolicies in v1.
const OLDEST_MINOR: u32 = 30;
/// Age of a lease that no leader renews. A leader renews it every two seconds, and another operator takes it
/// after twelve.
const LEASE: SignedDuration = SignedDuration::from_secs(15);
/// Difference of clocks that harms neither certificates nor leases.
const SKEW: SignedDuration = SignedDuration::from_secs(10);

pub(super) async fn api_server(hub: &ExaminedHub) -> Vec<Finding> {
    const CHECK: &str = "api server";
    let version = match hub.client.apiserver_version().await {
        Ok(version) => version,
        Err(error) => return vec![Finding::unknown(CHECK, error.into())],
    };
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let message = format!("Kubernetes {}", version.git_version);
    if minor.parse().is_ok_and(|minor: u32| minor < OLDEST_MINOR) {
        let advice = format!("the admission policies need Kubernetes 1.{OLDEST_MINOR}; upgrade the hub");
        return vec![Finding::bad(CHECK, message, advice)];
    }
    vec![Finding::good(CHECK, message)]
}

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let ExaminedHub { client, namespace, has_ours: _ } = hub;
    let found = find::<Deployment>(client, &Key::namespaced(namespace, OPERATOR)).await;
    let is_installed = !matches!(found, Ok(None));
    let operator = match found {
        Ok(Some(deployment)) => running(&deployment),
        Ok(None) => Finding::warning(
            "operator",
            format!("there is no Deployment {namespace}/{OPERATOR}"),
            "wheelwright install; or nothing, if wheelwright operator runs outside of the hub",
        ),
        Err(error) => Finding::unknown("operator", error),
    };
    let mut findings = vec![operator];
    // An operator outside of the hub may run alone, without an election.
    findings.extend(lease(hub, is_installed).await);
    findings.push(policies(hub, is_installed).await);
    findings
}

fn running(deployment: &Deployment) -> Finding {
    const CHECK: &str = "operator";
    let namespace = deployment.namespace();
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let available =
        deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
    let pod = deployment.spec.template.spec.as_ref();
    let image = pod.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
    let message = format!("{available} of {} available, image {image}", counted(wanted, "operator"));
    match available {
        0 => {
            let logs = format!("kubectl logs -n {namespace} deploy/{OPERATOR}");
            Finding::bad(CHECK, message, format!("kubectl describe pods -n {namespace}, and {logs}"))
        }
        some if some < wanted => Finding::warning(CHECK, message, format!("kubectl get pods -n {namespace}")),
        _ => Finding::good(CHECK, message),
    }
}

/// Checks by the lease of the election whether a leader is alive, and whether its clock agrees with this one.
async fn lease(hub: &ExaminedHub, is_installed: bool) -> Option<Finding> {
    let lease = match find::<Lease>(&hub.client, &Key::namespaced(&hub.namespace, OPERATOR)).await {
        Ok(None) if !is_installed => return None,
        Ok(lease) => lease.and_then(|lease| lease.spec).unwrap_or_default(),
        Err(error) => return Some(Finding::unknown(LEADER, error)),
    };
    let holder = lease.holder_identity.filter(|holder| !holder.is_empty());
    let age = lease.renew_time.map_or(SignedDuration::MAX, |renewed| now().duration_since(renewed.0));
    Some(leader(holder.as_deref(), age))
}

fn leader(holder: Option<&str>, age: SignedDuration) -> Finding {
    let Some(holder) = holder else {
        return Finding::bad(
            LEADER,
            "no operator leads",
            "wait a few seconds; then read the log of the operators",
        );
    };
    let seconds = age.as_secs();
    if age < -SKEW {
        let message = format!("{holder} renewed its lease {} s in the future", -seconds);
        return Finding::warning(
            LEADER,
            message,
            "set the clocks of this machine and of the hub's nodes by NTP",
        );
    }
    if age > LEASE {
        let message = format!("{holder} leads, and renewed its lease {seconds} s ago");
        return Finding::bad(
            LEADER,
            message,
            "no operator is alive, or a clock is wrong: check the operators and NTP",
        );
    }
    Finding::good(LEADER, format!("{holder} leads, and renewed its lease {} s ago", seconds.max(0)))
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
    // One of the policies is about the service account of an installed operator.
    let is_needed = |name: &&str| is_installed || *name != OPERATOR;
    let wanted: Vec<&str> = wanted.map(object::Object::name).filter(is_needed).collect();
    let missing: Vec<&str> =
        wanted.iter().copied().filter(|name| !present.iter().any(|policy| policy.name() == *name)).collect();
    if missing.is_empty() {
        return Finding::good(CHECK, format!("{} admission policies guard the hub", wanted.len()));
    }
    let message = format!("admission policies are missing: {}", few(missing));
    Finding::warning(
        CHECK,
        message,
        "wheelwright install; without them roles are all that guards (docs/security.md)",
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_lease_tells_of_dead_leaders_and_of_wrong_clocks() {
        for (holder, seconds, health) in [
            (Some("a"), 1, Health::Good),
            (Some("a"), -3, Health::Good),
            (Some("a"), 60, Health::Bad),
            (Some("a"), -60, Health::Warning),
            (None, 1, Health::Bad),
        ] {
            assert_eq!(
                leader(holder, SignedDuration::from_secs(seconds)).health,
                health,
                "{holder:?} {seconds}"
            );
        }
    }
}
