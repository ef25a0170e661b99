//! Rules of roles.

use serde_json::Value;

use crate::FieldError;
use object::Object;

/// Checks that every rule is about paths or about objects, and about something.
pub(super) fn check(role: &Object, of_the_cluster: bool, errors: &mut Vec<FieldError>) {
    let rules = role.0.get("rules").and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let has =
            |field: &str| rule.get(field).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        let urls = rule.get("nonResourceURLs").unwrap_or(&Value::Null);
        let mut missing = |field: &str, why: &str| {
            errors.push(FieldError::required(format!("rules[{i}].{field}"), why));
        };
        if !has("verbs") {
            missing("verbs", "verbs must contain at least one value");
        }
        if !has("nonResourceURLs") {
            if !has("apiGroups") {
                missing("apiGroups", "resource rules must supply at least one api group");
            }
            if !has("resources") {
                missing("resources", "resource rules must supply at least one resource");
            }
            continue;
        }
        let why = if !of_the_cluster {
            "namespaced rules cannot apply to non-resource URLs"
        } else if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            "rules cannot apply to both regular resources and non-resource URLs"
        } else {
            continue;
        };
        errors.push(FieldError::invalid(format!("rules[{i}].nonResourceURLs"), urls, why));
    }
}
