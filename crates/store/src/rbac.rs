//! Authorizes requests by roles and their bindings, like kube-apiserver's RBAC authorizer.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use object::{Key, Object, Selector};

use super::collection::Collection;
use super::{ApiError, GroupResource, ResourcePath, Store, User};

const GROUP: &str = <ClusterRole as k8s_openapi::Resource>::GROUP;
/// The maximum number of comparisons between granted rules and the rules of a user: about 100 ms. A rule with a
/// few hundred verbs, groups, resources and names stands for billions of single rules.
const COMPARISONS: usize = 10_000_000;
/// The group whose members may do everything, regardless of roles.
pub const MASTERS: &str = "system:masters";

/// The attributes of a request for the authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The verb, such as `get`, `list` or `create`, or one without a request, such as `approve`.
    pub verb: String,
    /// The object or path.
    pub on: On,
}

/// The object or path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Objects.
    Objects(ResourcePath),
    /// A path without objects, such as `/healthz`.
    Path(String),
}

impl Attributes {
    /// Returns the attributes of a request for objects.
    pub fn objects(verb: impl Into<String>, target: ResourcePath) -> Self {
        Self { verb: verb.into(), on: On::Objects(target) }
    }

    /// Returns the attributes of a request for a path without objects.
    pub fn path(verb: impl Into<String>, path: impl Into<String>) -> Self {
        Self { verb: verb.into(), on: On::Path(path.into()) }
    }
}

impl Store {
    /// Returns true if the roles bound to a user, or to one of its groups, allow a request.
    pub fn allows(&self, user: &User, wanted: &Attributes) -> bool {
        let namespace = match &wanted.on {
            On::Objects(target) => target.namespace.as_str(),
            On::Path(_) => "",
        };
        is_master(user) || self.rules_of(user, namespace).any(|rule| covers(&rule, wanted))
    }

    /// Returns the rules of a user in a namespace, including cluster-wide rules.
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        let everything = is_master(user).then(|| {
            let all = || Some(vec!["*".to_owned()]);
            let objects = PolicyRule {
                api_groups: all(),
                resources: all(),
                verbs: vec!["*".into()],
                ..PolicyRule::default()
            };
            [
                objects,
                PolicyRule { non_resource_urls: all(), verbs: vec!["*".into()], ..PolicyRule::default() },
            ]
        });
        everything.into_iter().flatten().chain(self.rules_of(user, namespace)).collect()
    }

    fn rules_of<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = PolicyRule> + 'a {
        let everywhere = self.bindings("clusterrolebindings", "");
        let here = (!namespace.is_empty()).then(|| self.bindings("rolebindings", namespace));
        let bindings = everywhere.chain(here.into_iter().flatten());
        // Many bindings may refer to one role, whose rules may be long.
        let mut seen = BTreeSet::new();
        bindings
            .filter(|binding| names(binding, user))
            .filter_map(|binding| role_key(&binding))
            .filter(move |role| seen.insert(role.clone()))
            .flat_map(|(resource, key)| self.rules_named(resource, &key))
    }

    fn bindings<'a>(
        &'a self,
        resource: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = Arc<Object>> + use<'a> {
        self.collection_of(resource)
            .into_iter()
            .flat_map(move |collection| collection.within(namespace))
            .map(|(_, object)| object.clone())
    }

    fn collection_of(&self, resource: &str) -> Option<&Collection> {
        self.collections.get(&GroupResource::new(GROUP, resource))
    }

    /// Returns the rules of the role that a binding refers to; none if the role does not exist.
    fn rules_bound(&self, binding: &Object) -> Vec<PolicyRule> {
        role_key(binding).map(|(resource, key)| self.rules_named(resource, &key)).unwrap_or_default()
    }

    fn rules_named(&self, resource: &str, key: &Key) -> Vec<PolicyRule> {
        let role = self.collection_of(resource).and_then(|collection| collection.objects.get(key));
        role.map(|role| self.rules_in(role)).unwrap_or_default()
    }

    /// Returns the rules of a role, including the roles that it aggregates, directly or indirectly. (In a real
    /// cluster, a controller copies them.)
    fn rules_in(&self, role: &Object) -> Vec<PolicyRule> {
        let (mut rules, mut seen, mut pending) = (Vec::new(), BTreeSet::new(), vec![role]);
        while let Some(role) = pending.pop() {
            if seen.insert(role.name()) {
                rules.extend(read::<Vec<PolicyRule>>(role, "rules").unwrap_or_default());
                pending.extend(self.aggregated(role));
            }
        }
        rules
    }

    /// Returns the roles that a role selects by label.
    fn aggregated<'a>(&'a self, role: &Object) -> impl Iterator<Item = &'a Object> + use<'a> {
        let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
        let selectors: Vec<Selector> = selectors
            .into_iter()
            .flatten()
            .filter_map(|selector| LabelSelector::deserialize(selector).ok())
            .filter_map(|selector| Selector::parse(&selector).ok())
            .collect();
        let roles = self.collection_of("clusterroles").into_iter().flat_map(|roles| roles.objects.values());
        roles
            .map(|role| &**role)
            .filter(move |role| selectors.iter().any(|selector| selector.matches_with(|key| role.label(key))))
    }

    /// Checks that only a user with all permissions writes a role that aggregates others, because such a role may
    /// come to contain any rule.
    fn check_aggregation(
        &self,
        user: &User,
        target: &ResourcePath,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        let gathers = |object: &Object| object.0.contains_key("aggregationRule");
        if !(gathers(new) || old.is_some_and(gathers)) {
            return Ok(());
        }
        let all = || Some(vec!["*".to_owned()]);
        let everything = [
            PolicyRule {
                verbs: vec!["*".into()],
                api_groups: all(),
                resources: all(),
                ..PolicyRule::default()
            },
            PolicyRule { verbs: vec!["*".into()], non_resource_urls: all(), ..PolicyRule::default() },
        ];
        let own_rules: Vec<PolicyRule> = self.rules_of(user, &target.namespace).collect();
        if everything.iter().all(|one| own_rules.iter().any(|rule| encloses(rule, one))) {
            return Ok(());
        }
        let detail = "must have cluster-admin privileges to use an aggregationRule";
        Err(ApiError::forbidden(&target.clone().named(new.name()), detail))
    }

    /// Rejects a request for objects unless a role of the user allows it.
    ///
    /// # Errors
    /// Returns 403 with the user, the verb and the resource.
    pub fn authorize(&self, user: &User, verb: &str, target: &ResourcePath) -> Result<(), ApiError> {
        if self.allows(user, &Attributes::objects(verb, target.clone())) {
            return Ok(());
        }
        let resource = match target.subresource.as_str() {
            "" => target.resource.clone(),
            subresource => format!("{}/{subresource}", target.resource),
        };
        let place = match target.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let detail = format!(
            "User {:?} cannot {verb} resource {resource:?} in API group {:?} {place}",
            user.name, target.group
        );
        Err(ApiError::forbidden(target, &detail))
    }

    /// Rejects roles and bindings that would grant permissions that the user does not have.
    pub(super) fn check_grant(
        &self,
        user: &User,
        target: &ResourcePath,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        if target.group != GROUP || is_master(user) || old.is_some_and(|old| only_releases(old, new)) {
            return Ok(());
        }
        let (verb, on) = match target.resource.as_str() {
            "roles" | "clusterroles" => ("escalate", target.clone().named(new.name())),
            "rolebindings" | "clusterrolebindings" => ("bind", role_bound(target, new)),
            _ => return Ok(()),
        };
        if self.allows(user, &Attributes::objects(verb, on.clone())) {
            return Ok(());
        }
        let granted = if verb == "bind" {
            // If the role does not exist, its rules are unknown.
            self.get(&on).map_err(|_| ApiError::not_found(&target.clone().named(&on.name)))?;
            self.rules_bound(new)
        } else {
            self.check_aggregation(user, target, old, new)?;
            self.rules_in(new)
        };
        let own_rules: Vec<PolicyRule> = self.rules_of(user, &target.namespace).collect();
        let sum = |rules: &[PolicyRule], size: fn(&PolicyRule) -> usize| {
            rules.iter().map(size).fold(0, usize::saturating_add)
        };
        if sum(&granted, single_count).saturating_mul(sum(&own_rules, length)) > COMPARISONS {
            let detail = format!(
                "cannot compare the rules with the permissions of {:?} within {COMPARISONS} steps; split the role, or request the verb {verb:?} on it",
                user.name
            );
            return Err(ApiError::forbidden(&target.clone().named(new.name()), &detail));
        }
        let missing: Vec<String> = granted
            .iter()
            .flat_map(single_rules)
            .filter(|one| !own_rules.iter().any(|rule| encloses(rule, one)))
            .map(|r| text(&r))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let groups = user.groups.iter().map(|g| format!("{g:?}")).collect::<Vec<_>>().join(" ");
        let who = format!("user {:?} (groups=[{groups}])", user.name);
        let detail = format!(
            "{who} is attempting to grant RBAC permissions not currently held:\n{}",
            missing.join("\n")
        );
        Err(ApiError::forbidden(&target.clone().named(new.name()), &detail))
    }
}

/// Returns true if an update only changes finalizers and owners, which a client that deletes the object must be
/// able to do.
fn only_releases(old: &Object, new: &Object) -> bool {
    let rest = |object: &Object| {
        let mut object = object.clone();
        for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion"] {
            object.metadata_mut().remove(field);
        }
        object
    };
    rest(old) == rest(new)
}

/// Returns the path of the role that a binding refers to.
fn role_bound(target: &ResourcePath, binding: &Object) -> ResourcePath {
    let role = read::<RoleRef>(binding, "roleRef").unwrap_or_default();
    let path = ResourcePath { name: role.name, ..target.clone() };
    if role.kind == "ClusterRole" {
        ResourcePath { resource: "clusterroles".into(), namespace: String::new(), ..path }
    } else {
        ResourcePath { resource: "roles".into(), ..path }
    }
}

pub(super) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

fn read<T: serde::de::DeserializeOwned>(object: &Object, field: &str) -> Option<T> {
    T::deserialize(object.0.get(field)?).ok()
}

/// Returns the resource and key of the role that a binding refers to.
fn role_key(binding: &Object) -> Option<(&'static str, Key)> {
    let role = read::<RoleRef>(binding, "roleRef")?;
    Some(match role.kind.as_str() {
        "ClusterRole" => ("clusterroles", Key::cluster(role.name)),
        _ => ("roles", Key::namespaced(binding.namespace(), role.name)),
    })
}

/// Returns true if a binding applies to a user, by name or group. It copies no subjects, because each request
/// inspects all bindings.
fn names(binding: &Object, user: &User) -> bool {
    let subjects = binding.0.get("subjects").and_then(Value::as_array);
    subjects.into_iter().flatten().any(|subject| {
        let field = |name: &str| subject.get(name).and_then(Value::as_str);
        let Some(name) = field("name") else { return false };
        match field("kind") {
            Some("User") => user.name == name,
            Some("Group") => user.groups.iter().any(|group| group == name),
            Some("ServiceAccount") => {
                let namespace = field("namespace").unwrap_or(binding.namespace());
                user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
                    == Some((namespace, name))
            }
            _ => false,
        }
    })
}

fn holds(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

fn list(of: &Option<Vec<String>>) -> &[String] {
    of.as_deref().unwrap_or_default()
}

/// Returns true if a rule allows a request.
fn covers(rule: &PolicyRule, wanted: &Attributes) -> bool {
    holds(&rule.verbs, &wanted.verb)
        && match &wanted.on {
            On::Path(path) => list(&rule.non_resource_urls).iter().any(|url| matches_path(url, path)),
            On::Objects(target) => {
                let resource = match target.subresource.as_str() {
                    "" => target.resource.clone(),
                    subresource => format!("{}/{subresource}", target.resource),
                };
                let names = list(&rule.resource_names);
                holds(list(&rule.api_groups), &target.group)
                    && list(&rule.resources).iter().any(|r| matches_resource(r, &resource))
                    && (names.is_empty() || names.contains(&target.name))
            }
        }
}

fn matches_path(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}

/// Returns true if a pattern matches a resource. `*` matches every resource, `*/status` that subresource of every
/// resource.
fn matches_resource(rule: &str, resource: &str) -> bool {
    let subresource = resource.split_once('/').map(|(_, subresource)| subresource);
    rule == "*" || rule == resource || rule.strip_prefix("*/").is_some_and(|of| Some(of) == subresource)
}

/// Splits a rule into rules with one verb, group, resource and name each.
fn single_rules(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut singles = Vec::new();
    let one = |text: &String| Some(vec![text.clone()]);
    for verb in &rule.verbs {
        for url in list(&rule.non_resource_urls) {
            singles.push(PolicyRule {
                verbs: vec![verb.clone()],
                non_resource_urls: one(url),
                ..PolicyRule::default()
            });
        }
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                let single = PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: one(group),
                    resources: one(resource),
                    ..PolicyRule::default()
                };
                match list(&rule.resource_names) {
                    [] => singles.push(single),
                    names => singles.extend(
                        names.iter().map(|name| PolicyRule { resource_names: one(name), ..single.clone() }),
                    ),
                }
            }
        }
    }
    singles
}

/// Returns how many [`single_rules`] a rule has.
fn single_count(rule: &PolicyRule) -> usize {
    let of_names = list(&rule.resource_names).len().max(1);
    let of_groups = list(&rule.api_groups).len().saturating_mul(list(&rule.resources).len());
    let on = list(&rule.non_resource_urls).len().saturating_add(of_groups.saturating_mul(of_names));
    rule.verbs.len().saturating_mul(on)
}

/// Returns the number of strings in a rule.
fn length(rule: &PolicyRule) -> usize {
    let lists = [&rule.non_resource_urls, &rule.api_groups, &rule.resources, &rule.resource_names];
    rule.verbs.len() + lists.into_iter().map(|texts| list(texts).len()).sum::<usize>()
}

/// Returns true if a rule allows everything that a single rule does.
fn encloses(rule: &PolicyRule, single: &PolicyRule) -> bool {
    let all = |of: &[String], by: &dyn Fn(&str) -> bool| of.iter().all(|one| by(one));
    let names = list(&rule.resource_names);
    let urls = list(&rule.non_resource_urls);
    all(&single.verbs, &|verb| holds(&rule.verbs, verb))
        && all(list(&single.non_resource_urls), &|url| urls.iter().any(|allowed| matches_path(allowed, url)))
        && all(list(&single.api_groups), &|group| holds(list(&rule.api_groups), group))
        && all(list(&single.resources), &|resource| {
            list(&rule.resources).iter().any(|allowed| matches_resource(allowed, resource))
        })
        && (names.is_empty()
            || (!list(&single.resource_names).is_empty()
                && all(list(&single.resource_names), &|name| names.iter().any(|n| n == name))))
}

/// Formats a rule as kube-apiserver does for missing rules: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
fn text(rule: &PolicyRule) -> String {
    let fields = [
        ("NonResourceURLs", list(&rule.non_resource_urls)),
        ("APIGroups", list(&rule.api_groups)),
        ("Resources", list(&rule.resources)),
        ("ResourceNames", list(&rule.resource_names)),
        ("Verbs", &rule.verbs),
    ];
    let quoted = |values: &[String]| values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ");
    let fields = fields
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| format!("{name}:[{}]", quoted(values)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
