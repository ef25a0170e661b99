//! Checks each permission of the operator's service account by a SubjectAccessReview.

use anyhow::Context as _;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::Api;
use kube::api::PostParams;
use object::{Key, Object};

use super::ExaminedHub;
use super::finding::{Finding, few};
use crate::cli::CommandError;
use crate::cli::installation::manifests;
use crate::cli::writer::{failed, find};
use engine::installation::{InstallationOptions, OPERATOR};

const CHECK: &str = "permissions";

pub(super) async fn examine(hub: &ExaminedHub) -> Result<Vec<Finding>, CommandError> {
    match find::<ServiceAccount>(&hub.client, &Key::namespaced(&hub.namespace, OPERATOR)).await {
        Ok(Some(_)) => {}
        // An operator outside of the hub has the permissions of its kubeconfig.
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Ok(vec![Finding::unknown(CHECK, error)]),
    }
    let wanted = manifests(&hub.namespace, &InstallationOptions::default())?;
    let role = wanted.iter().find(|object| object.kind() == "ClusterRole" && object.name() == OPERATOR);
    let role: ClusterRole =
        role.map(Object::to_typed).transpose()?.context("the chart has no role of the operator")?;
    let asked: Vec<ResourceAttributes> = role.rules.iter().flatten().flat_map(reviews).collect();
    let mut refused = Vec::new();
    for attributes in &asked {
        match may(hub, attributes).await {
            Ok(true) => {}
            Ok(false) => refused.push(name(attributes)),
            Err(error) => return Ok(vec![Finding::unknown(CHECK, error)]),
        }
    }
    if refused.is_empty() {
        return Ok(vec![Finding::good(
            CHECK,
            format!("the operator may do all {} things that its role names", asked.len()),
        )]);
    }
    let message = format!("the operator may not {}", few(refused.iter().map(String::as_str)));
    Ok(vec![Finding::bad(
        CHECK,
        message,
        format!("{}, which writes its roles", hub.upgrade("wheelwright upgrade")),
    )])
}

/// Returns an access review for each permission of a rule.
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
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(failed("ask what the operator may do".into()))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn name(attributes: &ResourceAttributes) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let subresource = text(&attributes.subresource);
    let slash = if subresource.is_empty() { "" } else { "/" };
    let dot = if text(&attributes.group).is_empty() { "" } else { "." };
    format!(
        "{} {}{slash}{subresource}{dot}{}",
        text(&attributes.verb),
        text(&attributes.resource),
        text(&attributes.group)
    )
}
