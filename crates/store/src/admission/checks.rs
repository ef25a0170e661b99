//! Rejects the parts of policies and bindings that kube-apiserver rejects, or that cannot be evaluated here.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec, Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use object::names::{is_dns_subdomain, qualified_name_fault};
use object::{Object, Selector};

use super::expression::Expression;
use super::policy::{Policy, spec};
use crate::FieldError;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Reports the errors of a policy.
pub(crate) fn check_policy(_: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
    let spec = spec::<ValidatingAdmissionPolicySpec>(new);
    if spec.param_kind.is_some() {
        let detail = "this API server does not support policies with parameters";
        errors.push(FieldError::forbidden("spec.paramKind", detail));
    }
    if spec.audit_annotations.as_ref().is_some_and(|annotations| !annotations.is_empty()) {
        let detail = "this API server does not keep an audit log";
        errors.push(FieldError::forbidden("spec.auditAnnotations", detail));
    }
    if spec.validations.as_ref().is_none_or(Vec::is_empty) && spec.audit_annotations.is_none() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required("spec.validations", detail));
        errors.push(FieldError::required("spec.auditAnnotations", detail));
    }
    known("spec.failurePolicy", spec.failure_policy.as_deref(), &["Fail", "Ignore"], errors);
    match &spec.match_constraints {
        None => errors.push(FieldError::required("spec.matchConstraints", "")),
        Some(constraints) => {
            if constraints.resource_rules.as_ref().is_none_or(Vec::is_empty) {
                errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
            }
            check_resources("spec.matchConstraints", constraints, errors);
        }
    }
    let policy = Policy::read(new);
    for (index, (name, expression)) in policy.conditions.iter().enumerate() {
        let field = format!("spec.matchConditions[{index}]");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if let Some(detail) = qualified_name_fault(name) {
            errors.push(FieldError::invalid(format!("{field}.name"), &text(name), detail));
        }
        if policy.conditions.iter().take(index).any(|(other, _)| other == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), &text(name)));
        }
        check_expression(format!("{field}.expression"), expression, errors);
    }
    for (index, (name, expression)) in policy.variables.iter().enumerate() {
        let field = format!("spec.variables[{index}]");
        let is_identifier = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), "name is not specified"));
        } else if !is_identifier {
            let detail = "name is not a valid CEL identifier";
            errors.push(FieldError::invalid(format!("{field}.name"), &text(name), detail));
        }
        check_expression(format!("{field}.expression"), expression, errors);
    }
    for (index, validation) in spec.validations.iter().flatten().enumerate() {
        check_validation(&format!("spec.validations[{index}]"), validation, errors);
    }
}

fn check_validation(field: &str, validation: &Validation, errors: &mut Vec<FieldError>) {
    let Validation { expression, message, message_expression, reason } = validation;
    check_expression(format!("{field}.expression"), &Expression::compile(expression), errors);
    if let Some(message) = message {
        let detail = match message.trim() {
            "" => Some("message must be non-empty if specified"),
            message if message.contains('\n') => Some("message must not contain line breaks"),
            _ => None,
        };
        errors.extend(
            detail.map(|detail| FieldError::invalid(format!("{field}.message"), &text(message), detail)),
        );
    }
    if let Some(message) = message_expression {
        check_expression(format!("{field}.messageExpression"), &Expression::compile(message), errors);
    }
    known(&format!("{field}.reason"), reason.as_deref(), REASONS, errors);
}

/// Reports the errors of a binding.
pub(crate) fn check_binding(_: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
    let spec = spec::<ValidatingAdmissionPolicyBindingSpec>(new);
    if spec.policy_name.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else if !is_dns_subdomain(&spec.policy_name) {
        let detail = "a lowercase RFC 1123 subdomain is required";
        errors.push(FieldError::invalid("spec.policyName", &text(&spec.policy_name), detail));
    }
    if spec.param_ref.is_some() {
        let detail = "this API server does not support policies with parameters";
        errors.push(FieldError::forbidden("spec.paramRef", detail));
    }
    if let Some(resources) = &spec.match_resources {
        check_resources("spec.matchResources", resources, errors);
    }
    let (field, actions) = ("spec.validationActions", spec.validation_actions);
    if actions.is_empty() {
        errors.push(FieldError::required(field, "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        known(&format!("{field}[{index}]"), Some(action), ACTIONS, errors);
        if actions.iter().take(index).any(|other| other == action) {
            errors.push(FieldError::duplicate(format!("{field}[{index}]"), &text(action)));
        }
    }
    if ["Deny", "Warn"].iter().all(|action| actions.iter().any(|other| other == action)) {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in \
            the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(field, &actions.into(), detail));
    }
}

fn check_resources(field: &str, resources: &MatchResources, errors: &mut Vec<FieldError>) {
    let MatchResources {
        exclude_resource_rules,
        match_policy,
        namespace_selector,
        object_selector,
        resource_rules,
    } = resources;
    known(&format!("{field}.matchPolicy"), match_policy.as_deref(), &["Equivalent", "Exact"], errors);
    check_selector(&format!("{field}.namespaceSelector"), namespace_selector.as_ref(), errors);
    check_selector(&format!("{field}.objectSelector"), object_selector.as_ref(), errors);
    for (name, rules) in [("resourceRules", resource_rules), ("excludeResourceRules", exclude_resource_rules)]
    {
        for (index, rule) in rules.iter().flatten().enumerate() {
            check_rule(&format!("{field}.{name}[{index}]"), rule, errors);
        }
    }
}

fn check_rule(field: &str, rule: &NamedRuleWithOperations, errors: &mut Vec<FieldError>) {
    let NamedRuleWithOperations {
        api_groups: groups,
        api_versions: versions,
        operations,
        resource_names: _,
        resources,
        scope,
    } = rule;
    let lists = [
        ("apiGroups", groups),
        ("apiVersions", versions),
        ("operations", operations),
        ("resources", resources),
    ];
    for (name, list) in lists {
        let list = list.as_deref().unwrap_or_default();
        if list.is_empty() {
            errors.push(FieldError::required(format!("{field}.{name}"), ""));
        } else if list.len() > 1 && list.iter().any(|one| one == "*") {
            let detail = "if '*' is present, must not specify others";
            errors.push(FieldError::invalid(format!("{field}.{name}"), &list.into(), detail));
        }
    }
    for (index, operation) in operations.iter().flatten().enumerate() {
        known(&format!("{field}.operations[{index}]"), Some(operation), OPERATIONS, errors);
    }
    known(&format!("{field}.scope"), scope.as_deref(), &["*", "Cluster", "Namespaced"], errors);
}

fn check_selector(field: &str, selector: Option<&LabelSelector>, errors: &mut Vec<FieldError>) {
    let Some(selector) = selector else { return };
    let known = |operator: &str| matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist");
    let expressions = selector.match_expressions.iter().flatten().enumerate();
    let before = errors.len();
    for (index, one) in expressions.filter(|(_, one)| !known(&one.operator)) {
        let field = format!("{field}.matchExpressions[{index}].operator");
        errors.push(FieldError::invalid(field, &text(&one.operator), "not a valid selector operator"));
    }
    if let (Err(detail), true) = (Selector::parse(selector), errors.len() == before) {
        errors.push(FieldError::invalid(field, &Value::Null, detail));
    }
}

fn check_expression(field: String, expression: &Expression, errors: &mut Vec<FieldError>) {
    if expression.source.trim().is_empty() {
        // The schema has rejected absent expressions.
        errors.push(FieldError::required(field, "expression is not specified"));
    } else if let Some(detail) = expression.error() {
        errors.push(FieldError::invalid(field, &text(&expression.source), detail));
    }
}

/// Reports a value that is not supported.
fn known(field: &str, value: Option<&str>, supported: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(value) = value.filter(|value| !supported.contains(value)) {
        errors.push(FieldError::unsupported(field, &text(value), supported.iter().copied()));
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}
