//! Checks the names and versions of a definition, by the rules of apiextensions.k8s.io/v1. A real API server
//! accepts every definition that passes.

use std::collections::BTreeSet;

use serde_json::Value;

use object::Object;

use super::definition::{flag, list, spec, text, texts};
use super::structural::check_schemas;
use crate::FieldError;
use object::names::{is_dns_label, is_dns_subdomain};

/// Returns the errors of a definition, or of its change from `old`.
pub(crate) fn check(old: Option<&Object>, definition: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = spec(definition);
    let names = spec.get("names").cloned().unwrap_or_default();
    check_names(definition, &mut errors);
    let scope = text(spec, "scope");
    if !matches!(scope, "" | "Cluster" | "Namespaced") {
        errors.push(FieldError::unsupported(
            "spec.scope",
            &scope.into(),
            ["Cluster", "Namespaced"].into_iter(),
        ));
    }
    check_versions(spec, &mut errors);
    check_schemas(spec, &mut errors);
    let group = text(spec, "group");
    let protected = group == "k8s.io"
        || group.ends_with(".k8s.io")
        || group == "kubernetes.io"
        || group.ends_with(".kubernetes.io");
    if protected && old.is_none() && !definition.annotations().contains_key("api-approved.kubernetes.io") {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required("metadata.annotations[api-approved.kubernetes.io]", detail));
    }
    if let Some(old) = old {
        let before = super::definition::spec(old);
        for (path, same) in [
            ("spec.group", before.get("group") == spec.get("group")),
            ("spec.scope", before.get("scope") == spec.get("scope")),
            ("spec.names.plural", before.pointer("/names/plural") == names.get("plural")),
            ("spec.names.kind", before.pointer("/names/kind") == names.get("kind")),
        ] {
            if !same {
                let pointer = format!("/{}", path.trim_start_matches("spec.").replace('.', "/"));
                errors.push(FieldError::invalid(
                    path,
                    spec.pointer(&pointer).unwrap_or(&Value::Null),
                    "field is immutable",
                ));
            }
        }
    }
    errors
}

fn check_names(definition: &Object, errors: &mut Vec<FieldError>) {
    let spec = spec(definition);
    let (group, names) = (text(spec, "group"), spec.get("names").cloned().unwrap_or_default());
    if definition.name() != format!("{}.{group}", text(&names, "plural")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &definition.name().into(), detail));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !is_dns_subdomain(group) || !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            &group.into(),
            "should be a domain with at least one dot",
        ));
    }
    for field in ["plural", "singular"] {
        let name = text(&names, field);
        if name.is_empty() && field == "plural" {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        } else if !name.is_empty() && !is_dns_label(name) {
            let detail = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
            errors.push(FieldError::invalid(format!("spec.names.{field}"), &name.into(), detail));
        }
    }
    let kind = text(&names, "kind");
    if kind.is_empty() {
        for field in ["kind", "listKind", "singular"] {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    } else if !is_dns_label(&kind.to_lowercase()) {
        errors.push(FieldError::invalid(
            "spec.names.kind",
            &kind.into(),
            "may have mixed case, but should otherwise match: a DNS-1035 label",
        ));
    }
    if !kind.is_empty() && kind == text(&names, "listKind") {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            &kind.into(),
            "kind and listKind may not be the same",
        ));
    }
    for (i, name) in texts(&names, "shortNames").iter().enumerate().filter(|(_, name)| !is_dns_label(name)) {
        errors.push(FieldError::invalid(
            format!("spec.names.shortNames[{i}]"),
            &name.clone().into(),
            "must be a DNS-1035 label",
        ));
    }
}

fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = list(spec, "versions");
    if versions.is_empty() {
        for (path, detail) in [
            ("spec.versions", "must have exactly one version marked as storage version"),
            ("status.storedVersions", "must have at least one stored version"),
        ] {
            errors.push(FieldError::invalid(path, &Value::Array(Vec::new()), detail));
        }
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = text(version, "name");
        if !seen.insert(name) {
            let detail = "must contain unique version names";
            errors.push(FieldError::invalid("spec.versions", &name.into(), detail));
        }
        check_version(version, &path, errors);
        // The errors of an only version are reported for the whole spec.
        let path = if versions.len() == 1 { "spec".to_owned() } else { path };
        check_columns(version, &path, errors);
        check_scale(version, &path, errors);
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let names: Vec<_> = versions.iter().map(|version| text(version, "name")).collect();
        errors.push(FieldError::invalid(
            "spec.versions",
            &names.into(),
            "must have exactly one version marked as storage version",
        ));
        let detail = "must have the storage version";
        errors.push(FieldError::invalid("status.storedVersions", &Value::Array(Vec::new()), detail));
    }
    if flag(spec, "preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    let strategy = spec.pointer("/conversion/strategy").and_then(Value::as_str).unwrap_or("None");
    if !matches!(strategy, "None" | "Webhook") {
        errors.push(FieldError::unsupported(
            "spec.conversion.strategy",
            &strategy.into(),
            ["None", "Webhook"].into_iter(),
        ));
    }
    if strategy == "Webhook" && spec.pointer("/conversion/webhook/clientConfig").is_none() {
        errors.push(FieldError::required(
            "spec.conversion.webhook.clientConfig",
            "required when strategy is set to Webhook",
        ));
    }
}

fn check_version(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(version, "name");
    if !is_dns_label(name) {
        let detail = "must be a DNS-1035 label";
        errors.push(FieldError::invalid(format!("{path}.name"), &name.into(), detail));
        if path == "spec.versions[0]" {
            errors.push(FieldError::invalid("spec.version", &name.into(), detail));
        }
    }
    for word in ["served", "storage"] {
        if version.get(word).and_then(Value::as_bool).is_none() {
            errors.push(FieldError::required(format!("{path}.{word}"), ""));
        }
    }
    if version.pointer("/schema/openAPIV3Schema").is_none() {
        errors.push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), ""));
    }
    if version.get("deprecationWarning").is_some() && !flag(version, "deprecated") {
        let detail = "can only be set for deprecated versions";
        errors.push(FieldError::invalid(
            format!("{path}.deprecationWarning"),
            &text(version, "deprecationWarning").into(),
            detail,
        ));
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (i, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{i}]");
        let type_ = text(column, "type");
        let types = ["integer", "number", "string", "boolean", "date"];
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if !types.contains(&type_) {
            errors.push(FieldError::invalid(
                format!("{path}.type"),
                &type_.into(),
                "must be one of boolean,date,integer,number,string",
            ));
        }
        if !text(column, "jsonPath").starts_with('.') {
            errors.push(FieldError::invalid(
                format!("{path}.JSONPath"),
                &text(column, "jsonPath").into(),
                "must be a simple json path starting with .",
            ));
        }
    }
}

fn check_scale(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.pointer("/subresources/scale") else { return };
    for (field, start) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let value = text(scale, field);
        if !value.starts_with(start) {
            let detail = format!("should be a json path under {}", start.trim_end_matches('.'));
            errors.push(FieldError::invalid(
                format!("{path}.subresources.scale.{field}"),
                &value.into(),
                detail,
            ));
        }
    }
}
