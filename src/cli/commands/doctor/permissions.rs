//! Checks each permission of the operator's service account with a SubjectAccessReview.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::Api;
use kube::api::PostParams;
use object::{Key, Malformed, Metadata as _, Object};

use super::finding::{Finding, few};
use super::hub::ExaminedHub;
use super::operator::arguments;
use super::repositories::secrets;
use crate::cli::CommandError;
use crate::cli::installation::manifests;
use crate::cli::writer::{failed, find};
use api::names::{OPERATOR, WEBHOOK};
use engine::installation::{CONFIG_SECRETS, InstallationOptions};

const CHECK: &str = "permissions";

pub(super) async fn examine(hub: &ExaminedHub) -> Result<Vec<Finding>, CommandError> {
    match find::<ServiceAccount>(&hub.client, &Key::namespaced(&hub.namespace, OPERATOR)).await {
        Ok(Some(_)) => {}
        // An operator outside the hub has the permissions of its kubeconfig.
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Ok(vec![Finding::unknown(CHECK, error)]),
    }
    let write_roles = format!("{}, which writes its roles", hub.upgrade("wheelwright upgrade"));
    let operator = hub.operator.as_ref().ok().and_then(Option::as_ref);
    let converts =
        operator.is_some_and(|operator| arguments(operator).any(|one| one.starts_with("--webhook-listen")));
    let mut needed = Vec::new();
    for object in manifests(&hub.namespace, &InstallationOptions::default())? {
        if object.name() != WEBHOOK || converts {
            needed.push((of_role(&object)?, write_roles.as_str()));
        }
    }
    let allow_secrets = match hub.is_helm() {
        true => "add its namespace to configNamespaces and its name to configSecrets in the chart values"
            .to_owned(),
        false => format!(
            "wheelwright upgrade --namespace {} --config-namespaces, with all namespaces that contain ConfigRepos",
            hub.namespace
        ),
    };
    needed.push((of_repositories(hub), &allow_secrets));
    let (mut findings, mut count) = (Vec::new(), 0);
    for (asked, advice) in needed {
        count += asked.len();
        match refused(hub, &asked).await {
            Ok(refused) if refused.is_empty() => {}
            Ok(refused) => {
                let message = format!("the operator may not {}", few(refused.iter().map(String::as_str)));
                findings.push(Finding::bad(CHECK, message, advice));
            }
            Err(error) => return Ok(vec![Finding::unknown(CHECK, error)]),
        }
    }
    if findings.is_empty() {
        findings.push(Finding::good(CHECK, format!("the operator has all {count} required permissions")));
    }
    Ok(findings)
}

/// Returns the permissions that the operator lacks.
async fn refused(hub: &ExaminedHub, asked: &[ResourceAttributes]) -> Result<Vec<String>, CommandError> {
    let mut refused = Vec::new();
    for attributes in asked {
        if !may(hub, attributes).await? {
            refused.push(name(attributes));
        }
    }
    Ok(refused)
}

/// Returns an access review for each permission of a role of the operator; empty for other objects. The role for
/// Secrets is skipped, because the chart may restrict it to the Secrets of the ConfigRepos.
fn of_role(object: &Object) -> Result<Vec<ResourceAttributes>, Malformed> {
    let rules = match object.kind() {
        "ClusterRole" if object.name() == OPERATOR => object.to_typed::<ClusterRole>()?.rules,
        "Role" if object.name() != CONFIG_SECRETS => object.to_typed::<Role>()?.rules,
        _ => None,
    };
    let namespace = Some(object.namespace()).filter(|namespace| !namespace.is_empty()).map(str::to_owned);
    let reviews = rules.iter().flatten().flat_map(reviews);
    Ok(reviews.map(|review| ResourceAttributes { namespace: namespace.clone(), ..review }).collect())
}

/// Returns an access review for each Secret of a ConfigRepo.
fn of_repositories(hub: &ExaminedHub) -> Vec<ResourceAttributes> {
    // The check of the repositories reports read errors.
    let repos = hub.repositories.iter().flatten();
    let named = repos.flat_map(|repo| secrets(repo).map(move |secret| secret.key(repo.namespace())));
    named.collect::<BTreeSet<Key>>().into_iter().map(of_secret).collect()
}

fn of_secret(Key { namespace, name }: Key) -> ResourceAttributes {
    ResourceAttributes {
        resource: Some("secrets".into()),
        verb: Some("get".into()),
        namespace: Some(namespace),
        name: Some(name),
        ..ResourceAttributes::default()
    }
}

fn reviews(rule: &PolicyRule) -> Vec<ResourceAttributes> {
    let names =
        rule.resource_names.clone().filter(|names| !names.is_empty()).unwrap_or_else(|| vec![String::new()]);
    let mut reviews = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for (verb, object) in
                rule.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, name)))
            {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                reviews.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.into()),
                    subresource: Some(subresource.into()),
                    verb: Some(verb.clone()),
                    name: Some(object.clone()),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    reviews
}

async fn may(hub: &ExaminedHub, attributes: &ResourceAttributes) -> Result<bool, CommandError> {
    let user = format!("system:serviceaccount:{}:{OPERATOR}", hub.namespace);
    let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec();
    let spec = SubjectAccessReviewSpec {
        user: Some(user),
        groups: Some(groups),
        resource_attributes: Some(attributes.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(hub.client.clone());
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = reviews
        .create(&PostParams::default(), &review)
        .await
        .map_err(failed("ask what the operator may do".into()))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn name(attributes: &ResourceAttributes) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let subresource = text(&attributes.subresource);
    let slash = if subresource.is_empty() { "" } else { "/" };
    let dot = if text(&attributes.group).is_empty() { "" } else { "." };
    let after = |word: &str, field: &Option<String>| match text(field).as_str() {
        "" => String::new(),
        field => format!("{word}{field}"),
    };
    format!(
        "{} {}{slash}{subresource}{dot}{}{}{}",
        text(&attributes.verb),
        text(&attributes.resource),
        text(&attributes.group),
        after(" ", &attributes.name),
        after(" in ", &attributes.namespace)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_of_all_roles_of_the_operator_are_reviewed_in_their_namespaces() {
        let wanted = manifests("hub", &InstallationOptions::default()).unwrap();
        let asked: Vec<String> =
            wanted.iter().flat_map(|object| of_role(object).unwrap()).map(|review| name(&review)).collect();
        for one in [
            "get managedclusters.cluster.open-cluster-management.io",
            "approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client",
            "update leases.coordination.k8s.io wheelwright-operator in hub",
            "create secrets in hub",
            "update secrets wheelwright-webhook in hub",
        ] {
            assert!(asked.iter().any(|asked| asked == one), "{one}: {asked:?}");
        }
        assert!(!asked.iter().any(|one| one == "get secrets in hub"), "a chart may narrow it");
        assert_eq!(name(&of_secret(Key::namespaced("hub", "read"))), "get secrets read in hub");
    }
}
