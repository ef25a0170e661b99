//! The permissions that an agent needs on its cluster for the objects of its works.

use std::collections::{BTreeMap, BTreeSet};

use api::Manifest;
use api::work::v1::ManifestWork;
use k8s_openapi::api::rbac::v1::PolicyRule;
use object::{Gvk, Object};

use super::executor::Executor;
use crate::registration::rbac::RBAC;
use crate::resource::{is_name, plural};

/// The verbs that the agent uses on objects of works. It watches the metadata of the whole kind.
const VERBS: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// Returns ClusterRole rules for the objects of works: one for each API group, `escalate` for contained roles,
/// and `bind` for the roles in contained bindings (Kubernetes prevents privilege escalation). `impersonate` is
/// for the executors of works, because the agent writes as them.
///
/// Objects that were previously in a work and are not yet removed are included from the work's status. A
/// resource that no status names is derived from the kind, as by [`plural`].
pub fn rules(works: &[ManifestWork]) -> Vec<PolicyRule> {
    let mut resources: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut bound: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut impersonated: BTreeSet<String> = BTreeSet::new();
    for work in works {
        if let Executor::ServiceAccount { namespace: _, name } =
            Executor::from_spec(work.spec.executor.as_ref())
        {
            impersonated.insert(name);
        }
        let reported: Vec<_> = work
            .status
            .iter()
            .flat_map(|status| &status.resource_status.manifests)
            .map(|condition| &condition.resource_meta)
            .collect();
        // The agent writes the status, and must not grant itself rules for everything.
        let applied = reported.iter().filter(|meta| is_name(&meta.resource) && !meta.group.contains('*'));
        for meta in applied {
            resources.entry(meta.group.clone()).or_default().insert(meta.resource.clone());
        }
        for manifest in &work.spec.workload.manifests {
            let object = Object(Manifest::clone(manifest));
            let Gvk { group, kind, .. } = object.gvk();
            let is_named = reported
                .iter()
                .any(|meta| meta.group == group && meta.kind == kind && is_name(&meta.resource));
            if !is_named {
                resources.entry(group).or_default().insert(plural(&kind));
            }
            let role = |field: &str| object.at(&["roleRef", field]).and_then(|value| value.as_str());
            if let (Some(kind), Some(name)) = (role("kind"), role("name")) {
                bound.entry(plural(kind)).or_default().insert(name.to_owned());
            }
        }
    }
    let mut rules = Vec::new();
    for (group, resources) in resources {
        let is_role = |resource: &&String| group == RBAC && resource.ends_with("roles");
        let roles: Vec<String> = resources.iter().filter(is_role).cloned().collect();
        rules.push(rule(&group, resources.into_iter().collect(), &VERBS));
        if !roles.is_empty() {
            rules.push(rule(&group, roles, &["escalate"]));
        }
    }
    for (roles, names) in bound {
        let names = Some(names.into_iter().collect());
        rules.push(PolicyRule { resource_names: names, ..rule(RBAC, vec![roles], &["bind"]) });
    }
    if !impersonated.is_empty() {
        let names = Some(impersonated.into_iter().collect());
        let rule = rule("", vec!["serviceaccounts".to_owned()], &["impersonate"]);
        rules.push(PolicyRule { resource_names: names, ..rule });
    }
    rules
}

fn rule(group: &str, resources: Vec<String>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    }
}
