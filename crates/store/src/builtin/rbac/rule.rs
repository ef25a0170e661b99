//! The rules of roles.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use crate::FieldError;
use object::names::{label_value_fault, qualified_name_fault};
use object::{Object, Selector};

/// Checks the selectors of an aggregated role.
pub(super) fn check_selectors(role: &Object, errors: &mut Vec<FieldError>) {
    let selectors = role
        .at(&["aggregationRule", "clusterRoleSelectors"])
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if selectors.is_empty() && role.at(&["aggregationRule"]).is_some() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required("aggregationRule.clusterRoleSelectors", detail));
    }
    for (i, selector) in selectors.iter().enumerate() {
        let path = format!("aggregationRule.clusterRoleSelectors[{i}]");
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let value_fault = label_value_fault(value.as_str().unwrap_or_default());
            for fault in qualified_name_fault(key).into_iter().chain(value_fault) {
                let found = key.clone().into();
                errors.push(FieldError::invalid(format!("{path}.matchLabels"), &found, fault));
            }
        }
        let parsed = LabelSelector::deserialize(selector)
            .map_err(|e| e.to_string())
            .and_then(|selector| Selector::parse(&selector).map_err(|e| e.to_string()));
        if let Err(detail) = parsed {
            errors.push(FieldError::invalid(path, selector, detail));
        }
    }
}

/// Sets the rules of a role without rules to null.
pub(super) fn fill(role: &mut Object) {
    role.0.entry("rules").or_insert(Value::Null);
}

/// Checks that every rule has verbs, and either paths or resources.
pub(super) fn check(role: &Object, of_the_cluster: bool, errors: &mut Vec<FieldError>) {
    let rules = role.0.get("rules").and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let has =
            |field: &str| rule.get(field).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        let urls = rule.get("nonResourceURLs").unwrap_or(&Value::Null);
        let mut missing = |field: &str, detail: &str| {
            errors.push(FieldError::required(format!("rules[{i}].{field}"), detail));
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
        let detail = if !of_the_cluster {
            "namespaced rules cannot apply to non-resource URLs"
        } else if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            "rules cannot apply to both regular resources and non-resource URLs"
        } else {
            continue;
        };
        errors.push(FieldError::invalid(format!("rules[{i}].nonResourceURLs"), urls, detail));
    }
}
