//! Matches requests with the constraints of policies and bindings.

use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use object::{Object, Selector};

use crate::request_scope::RequestScope;
use crate::{Propagation, ResourcePath, User};

/// The operation of a request on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
}

impl AdmissionOperation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A request for admission.
pub(crate) struct Admission<'a> {
    pub(crate) operation: AdmissionOperation,
    /// The path, including the name of the object.
    pub(crate) target: &'a ResourcePath,
    pub(crate) scope: &'a RequestScope,
    pub(crate) user: &'a User,
    pub(crate) dry_run: bool,
    /// The object after the request; `None` for a deletion.
    pub(crate) object: Option<&'a Object>,
    /// The object before the request; `None` for a creation.
    pub(crate) old: Option<&'a Object>,
    /// The propagation policy of a deletion, if it sets one.
    pub(crate) propagation: Option<Propagation>,
}

/// The match constraints of a policy or a binding.
#[derive(Debug)]
pub(super) struct Constraints {
    include: Option<Vec<NamedRuleWithOperations>>,
    exclude: Vec<NamedRuleWithOperations>,
    /// True if a rule for one version of a kind also matches other versions.
    equivalent: bool,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
}

impl Constraints {
    pub(super) fn read(resources: MatchResources) -> Self {
        let MatchResources {
            exclude_resource_rules,
            match_policy,
            namespace_selector,
            object_selector,
            resource_rules,
        } = resources;
        let selector = |selector: Option<LabelSelector>| {
            Selector::parse(&selector.unwrap_or_default()).map_err(|e| e.to_string())
        };
        Self {
            include: resource_rules.filter(|rules| !rules.is_empty()),
            exclude: exclude_resource_rules.unwrap_or_default(),
            equivalent: match_policy.as_deref() != Some("Exact"),
            namespaces: selector(namespace_selector),
            objects: selector(object_selector),
        }
    }

    /// Returns the version in which the request matches; `None` if it does not match.
    ///
    /// An invalid selector matches everything, so that the policy fails closed.
    pub(super) fn version_of(&self, request: &Admission<'_>, namespace: Option<&Object>) -> Option<String> {
        let selects = |selector: &Result<Selector, String>, object: &Object| match selector {
            Ok(selector) => selector.matches_with(|key| object.label(key)),
            Err(_) => true,
        };
        let mut objects = request.object.into_iter().chain(request.old);
        if namespace.is_some_and(|namespace| !selects(&self.namespaces, namespace))
            || !objects.any(|object| selects(&self.objects, object))
        {
            return None;
        }
        let asked = &request.target.version;
        let others = request
            .scope
            .resource()
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| &version.name)
            .filter(|name| self.equivalent && *name != asked);
        let versions: Vec<&String> = std::iter::once(asked).chain(others).collect();
        let matches = |rules: &[NamedRuleWithOperations], version: &str| {
            rules.iter().any(|rule| is_about(rule, request, version))
        };
        if versions.iter().any(|version| matches(&self.exclude, version)) {
            return None;
        }
        match &self.include {
            None => Some(asked.clone()),
            Some(rules) => versions.into_iter().find(|version| matches(rules, version)).cloned(),
        }
    }
}

/// Returns true if a rule matches a request, like the `Matcher` of kube-apiserver's admission rules.
fn is_about(rule: &NamedRuleWithOperations, request: &Admission<'_>, version: &str) -> bool {
    let NamedRuleWithOperations { api_groups, api_versions, operations, resource_names, resources, scope } =
        rule;
    let has =
        |list: &Option<Vec<String>>, value: &str| list.iter().flatten().any(|one| one == "*" || one == value);
    let target = request.target;
    let named = resource_names.as_ref().is_none_or(|names| names.is_empty() || names.contains(&target.name));
    let in_scope = match scope.as_deref() {
        Some("Cluster") => !request.scope.resource().namespaced,
        Some("Namespaced") => request.scope.resource().namespaced,
        _ => true,
    };
    has(operations, request.operation.as_str())
        && has(api_groups, &target.group)
        && has(api_versions, version)
        && resources.iter().flatten().any(|resource| is_resource(resource, target))
        && named
        && in_scope
}

/// Returns true if a pattern matches the resource: `pods`, `pods/status`, `*`, `*/status`, `pods/*`, `*/*`.
fn is_resource(pattern: &str, target: &ResourcePath) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == target.resource)
        && (subresource == "*" || subresource == target.subresource)
}
