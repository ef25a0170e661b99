//! Policies and bindings, parsed for evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
};

use object::Object;

use super::expression::Expression;
use super::matching::Constraints;
use crate::GroupResource;

const GROUP: &str = "admissionregistration.k8s.io";

/// All policies and bindings of a store by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(super) policies: BTreeMap<String, Arc<Policy>>,
    pub(super) bindings: BTreeMap<String, Arc<Binding>>,
}

impl Policies {
    /// Updates the policies after an object was written or deleted.
    pub(crate) fn note(&mut self, id: &GroupResource, name: &str, object: Option<&Object>) {
        if id.group != GROUP {
            return;
        }
        match (id.resource.as_str(), object) {
            ("validatingadmissionpolicies", Some(object)) => {
                self.policies.insert(name.to_owned(), Arc::new(Policy::read(object)));
            }
            ("validatingadmissionpolicies", None) => {
                self.policies.remove(name);
            }
            ("validatingadmissionpolicybindings", Some(object)) => {
                self.bindings.insert(name.to_owned(), Arc::new(Binding::read(object)));
            }
            ("validatingadmissionpolicybindings", None) => {
                self.bindings.remove(name);
            }
            _ => {}
        }
    }
}

/// One policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    /// True if evaluation errors deny the request.
    pub(super) fails_closed: bool,
    pub(super) conditions: Vec<(String, Expression)>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) validations: Vec<Check>,
}

/// One validation of a policy.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) expression: Expression,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: Option<String>,
}

/// One binding.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) constraints: Option<Constraints>,
    pub(super) denies: bool,
    pub(super) warns: bool,
}

impl Policy {
    pub(super) fn read(object: &Object) -> Self {
        let spec = spec::<ValidatingAdmissionPolicySpec>(object);
        let conditions = spec.match_conditions.into_iter().flatten();
        let variables = spec.variables.into_iter().flatten();
        Self {
            name: object.name().to_owned(),
            constraints: Constraints::read(spec.match_constraints.unwrap_or_default()),
            fails_closed: spec.failure_policy.as_deref() != Some("Ignore"),
            conditions: conditions.map(|one| (one.name, Expression::compile(&one.expression))).collect(),
            variables: variables.map(|one| (one.name, Expression::compile(&one.expression))).collect(),
            validations: spec.validations.into_iter().flatten().map(Check::read).collect(),
        }
    }
}

impl Check {
    fn read(validation: Validation) -> Self {
        let Validation { expression, message, message_expression, reason } = validation;
        Self {
            expression: Expression::compile(&expression),
            message,
            message_expression: message_expression.as_deref().map(Expression::compile),
            reason,
        }
    }
}

impl Binding {
    fn read(object: &Object) -> Self {
        let spec = spec::<ValidatingAdmissionPolicyBindingSpec>(object);
        let does = |action: &str| spec.validation_actions.iter().any(|one| one == action);
        Self {
            name: object.name().to_owned(),
            denies: does("Deny"),
            warns: does("Warn"),
            policy: spec.policy_name,
            constraints: spec.match_resources.map(Constraints::read),
        }
    }
}

/// Returns the spec of an object that the schema of its kind has accepted.
pub(super) fn spec<T: serde::de::DeserializeOwned + Default>(object: &Object) -> T {
    object.0.get("spec").and_then(|spec| T::deserialize(spec).ok()).unwrap_or_default()
}
