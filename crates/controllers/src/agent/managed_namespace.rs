//! Creates the namespaces that the hub's cluster sets request on the spoke, and reports them.
//!
//! A namespace that no set requests any longer stays, with its content. Its label then records that.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::agent_identity::{self, AgentIdentity};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::MANAGED_NAMESPACE_LABEL_PREFIX;
use api::names::cluster_conditions::HUB_ACCEPTED;
use object::{Key, Metadata as _, Object};
use reconcile::{
    Action, Controller, Executed, Outcome, Plan, Precondition, Query, Read, Site, StatusWrite, Subresource,
    View, Watches,
};

/// Maximum length of a label name after its prefix.
const LABEL: usize = 63;

pub(crate) struct ManagedNamespaceController;

impl Controller for ManagedNamespaceController {
    const NAME: &'static str = "managed-namespace";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<Namespace>(Site::Spoke, |change, view| {
            let Some(identity) = agent_identity::identity(view) else { return Vec::new() };
            let (label, cluster) = (label(&identity), Key::cluster(&identity.cluster));
            let is_labeled = |namespace: &Namespace| namespace.label(&label).is_some();
            let is_wanted = |name: &str| {
                let managed = view.get::<ManagedCluster>(&cluster).ok().flatten();
                managed.is_some_and(|managed| wanted(&managed).any(|wanted| wanted == name))
            };
            let concerns =
                change.sides().any(|namespace| is_labeled(namespace) || is_wanted(namespace.name()));
            if concerns { vec![cluster.clone()] } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some((cluster, identity)) = own_cluster(key, view)? else { return Ok(plan) };
        let label = label(&identity);
        let mut actions = BTreeMap::new();
        for name in wanted(&cluster) {
            let live = view.get_on::<Namespace>(Site::Spoke, &Key::cluster(name))?;
            if live.is_none_or(|live| live.label(&label) != Some("true") && !live.is_terminating()) {
                actions.insert(name.to_owned(), apply(name, &label));
            }
        }
        for namespace in view.list_on::<Namespace>(Site::Spoke, Query::ALL)? {
            if namespace.label(&label) == Some("true")
                && !wanted(&cluster).any(|name| name == namespace.name())
            {
                actions.insert(namespace.name().to_owned(), release(&namespace, &label));
            }
        }
        plan.step(actions.into_values());
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let Some((cluster, identity)) = own_cluster(key, view)? else { return Ok(None) };
        let label = label(&identity);
        let mut new = ManagedCluster::clone(&cluster);
        for namespace in &mut new.status.get_or_insert_default().managed_namespaces {
            let live = view.get_on::<Namespace>(Site::Spoke, &Key::cluster(&namespace.name))?;
            let is_applied = live.is_some_and(|live| live.label(&label) == Some("true"));
            let observed = match outcome(done, &namespace.name) {
                Some(Err(failure)) => Observation::new("NamespaceAvailable", False, "NamespaceApplyFailed")
                    .message(failure.message.clone()),
                Some(Ok(_)) => applied(),
                None if is_applied => applied(),
                // The namespace is being deleted, or its write was not attempted.
                None => continue,
            };
            set_condition(&mut namespace.conditions, observed, now);
        }
        Ok(StatusWrite::between(cluster.as_ref(), &new))
    }
}

fn applied() -> Observation {
    Observation::new("NamespaceAvailable", True, "NamespaceApplied")
        .message("Namespace successfully applied and managed")
}

/// Returns the cluster of the key, if it is accepted and belongs to this agent.
fn own_cluster(key: &Key, view: &impl View) -> Read<Option<(std::sync::Arc<ManagedCluster>, AgentIdentity)>> {
    let Some(identity) = agent_identity::identity(view).filter(|identity| identity.cluster == key.name)
    else {
        return Ok(None);
    };
    let cluster = view.get::<ManagedCluster>(key)?.filter(|cluster| cluster.holds(HUB_ACCEPTED));
    Ok(cluster.map(|cluster| (cluster, identity)))
}

/// Returns the label that records whether a set of this hub requests a namespace.
fn label(identity: &AgentIdentity) -> String {
    let hash: String = identity.hub_hash.chars().take(LABEL).collect();
    format!("{MANAGED_NAMESPACE_LABEL_PREFIX}{hash}")
}

fn wanted(cluster: &ManagedCluster) -> impl Iterator<Item = &str> {
    let namespaces = cluster.status.iter().flat_map(|status| &status.managed_namespaces);
    namespaces.map(|namespace| namespace.name.as_str())
}

fn apply(name: &str, label: &str) -> Action {
    let labels = Some([(label.to_owned(), "true".to_owned())].into());
    let metadata = ObjectMeta { name: Some(name.into()), labels, ..ObjectMeta::default() };
    let object = Object::from_typed(&Namespace { metadata, ..Namespace::default() });
    let (manager, impersonate) = (None, None);
    Action::Apply { site: Site::Spoke, object, force: true, manager, impersonate, dry_run: false }
}

fn release(namespace: &Namespace, label: &str) -> Action {
    let patch = json!({"metadata": {"labels": {label: "false"}}});
    Action::Patch {
        site: Site::Spoke,
        target: object::ObjectRef::of::<Namespace>(Key::of(namespace)),
        subresource: Subresource::None,
        patch: patch.as_object().cloned().unwrap_or_default(),
        precondition: Precondition::uid(namespace),
        impersonate: None,
    }
}

/// Returns the outcome of the write to a namespace; `None` if it was not attempted.
fn outcome<'a>(done: &'a Executed, namespace: &str) -> Option<&'a Outcome> {
    let steps = done.plan.steps.iter().zip(&done.outcomes);
    let mut actions = steps.flat_map(|(actions, outcomes)| actions.iter().zip(outcomes));
    let is_it = |action: &Action| action.target().is_some_and(|target| target.key.name == namespace);
    actions.find(|(action, _)| is_it(action)).map(|(_, outcome)| outcome)
}

#[cfg(test)]
#[path = "tests/managed_namespace.rs"]
mod tests;
