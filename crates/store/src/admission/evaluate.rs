//! Evaluates admission policies for a request.

use std::sync::Arc;

use kube_cel::cel::{Context, Value as Cel};
use serde_json::{Value, json};

use object::{Key, Object};

use super::authorizer::{self, Question};
use super::expression::{Bounded, with_functions};
use super::matching::{Admission, AdmissionOperation, Constraints};
use super::policy::{Binding, Check, Policy};
use crate::cost::Meter;
use crate::rbac::Attributes;
use crate::write_request::WriteRequest;
use crate::{ApiError, GroupResource, Propagation, ResourcePath, Store, User};
use cel::{map, value};

/// The denial of a request by a policy.
struct Denial {
    message: String,
    reason: String,
}

impl Store {
    /// Evaluates the admission policies and collects their warnings.
    pub(crate) fn evaluate_policies(
        &self,
        request: &mut WriteRequest<'_>,
        target: &ResourcePath,
        old: Option<&Object>,
        new: &Object,
    ) -> Result<(), ApiError> {
        let warnings = self.admit(&Admission {
            operation: if old.is_some() { AdmissionOperation::Update } else { AdmissionOperation::Create },
            target,
            scope: &request.scope,
            user: &request.options.user,
            dry_run: request.options.dry_run,
            object: Some(new),
            old,
            propagation: None,
        })?;
        request.warnings.extend(warnings);
        Ok(())
    }

    /// Evaluates every policy bound to the request; returns the messages of those that only warn.
    ///
    /// # Errors
    /// Returns the error of the first policy that denies, with its message, reason and code.
    pub(crate) fn admit(&self, request: &Admission<'_>) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        // As in kube-apiserver, policies do not apply to policies, so that a broken one can be removed.
        if self.admission.bindings.is_empty() || request.target.group == "admissionregistration.k8s.io" {
            return Ok(warnings);
        }
        let namespace = self.namespace_of(request);
        for binding in self.admission.bindings.values() {
            let Some(policy) = self.admission.policies.get(&binding.policy) else { continue };
            let bound = |constraints: &Constraints| constraints.version_of(request, namespace.as_deref());
            let Some(version) = bound(&policy.constraints) else { continue };
            if binding.constraints.as_ref().is_some_and(|constraints| bound(constraints).is_none()) {
                continue;
            }
            let denials = self.evaluate_policy(policy, request, &version, namespace.as_deref())?;
            if binding.warns {
                warnings.extend(denials.iter().map(|denial| {
                    format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, denial.message
                    )
                }));
            }
            if let (Some(denial), true) = (denials.first(), binding.denies) {
                return Err(refusal(request.target, policy, binding, denial));
            }
        }
        Ok(warnings)
    }

    /// Returns the namespace of the object, or the object itself if it is a namespace.
    fn namespace_of(&self, request: &Admission<'_>) -> Option<Arc<Object>> {
        if (request.target.group.as_str(), request.target.resource.as_str()) == ("", "namespaces") {
            return request.object.or(request.old).map(|object| Arc::new(object.clone()));
        }
        let namespaces = self.collections.get(&GroupResource::namespaces())?;
        namespaces.objects.get(&Key::cluster(request.target.namespace.as_str())).cloned()
    }

    fn evaluate_policy(
        &self,
        policy: &Policy,
        request: &Admission<'_>,
        version: &str,
        namespace: Option<&Object>,
    ) -> Result<Vec<Denial>, ApiError> {
        let api_version = request.scope.resource().api_version(version);
        let shown = |object: Option<&Object>| -> Result<Value, ApiError> {
            let converted =
                object.cloned().map(|object| self.convert(object, request.scope.resource(), &api_version));
            Ok(converted.transpose()?.map_or(Value::Null, |object| Value::Object(object.0)))
        };
        let is_namespaced = request.scope.resource().namespaced;
        let namespace = namespace.filter(|_| is_namespaced);
        let variables = [
            ("object", shown(request.object)?),
            ("oldObject", shown(request.old)?),
            ("request", about(request, version)),
            ("namespaceObject", namespace.map_or(Value::Null, |found| Value::Object(found.0.clone()))),
        ];
        let meter = Meter::new(variables.iter().map(|(_, value)| value));
        let variables = variables.map(|(name, json)| (name, value(&json)));
        let authorizer = ("authorizer", authorizer::variable(request.target));
        let evaluate = || {
            with_functions(|root| {
                let mut context = root.new_inner_scope();
                for (name, value) in variables.iter().chain([&authorizer]) {
                    context.add_variable_from_value(*name, value.clone());
                }
                judge(policy, &mut context, meter)
            })
        };
        Ok(authorizer::answered(evaluate, |question| self.answer(request.user, question)))
    }

    fn answer(&self, user: &User, question: &Question) -> bool {
        let attributes = match &question.on {
            authorizer::On::Objects(target) => Attributes::objects(question.verb.as_str(), target.clone()),
            authorizer::On::Path(path) => Attributes::path(question.verb.as_str(), path.as_str()),
        };
        let account = question.service_account.as_ref().map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            ..User::default()
        });
        self.allows(account.as_ref().unwrap_or(user), &attributes)
    }
}

/// Returns the denials of a policy; none if the policy does not match or admits the request.
fn judge(policy: &Policy, context: &mut Context<'_>, mut meter: Meter) -> Vec<Denial> {
    let failed =
        |message: String| policy.fails_closed.then(|| Denial { message, reason: "Invalid".to_owned() });
    let mut failure = None;
    for (name, condition) in &policy.conditions {
        match condition.evaluate(context, &mut meter).map(|evaluated| evaluated.value) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => return Vec::new(),
            Ok(_) => failure = failure.or(Some(format!("match condition '{name}' is not a boolean"))),
            Err(error) => {
                let message = format!("expression '{}' resulted in error: {error}", condition.source);
                failure = failure.or(Some(message));
            }
        }
    }
    // A condition that is false takes precedence over one that failed.
    if let Some(message) = failure {
        return failed(message).into_iter().collect();
    }
    // A failed variable is absent, so expressions that need it fail.
    let mut variables = Vec::new();
    let mut broken = Vec::new();
    for (name, variable) in &policy.variables {
        match variable.evaluate(context, &mut meter) {
            Ok(Bounded { value, bound }) => {
                meter.know(bound);
                variables.push((name.as_str(), value));
            }
            Err(error) => broken.push(format!("; variable '{name}': {error}")),
        }
        context.add_variable_from_value("variables", map(variables.clone()));
    }
    let value = |evaluated: Bounded| evaluated.value;
    let denials = policy.validations.iter().filter_map(|check| {
        match check.expression.evaluate(context, &mut meter).map(value) {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => Some(denial(check, context, &mut meter)),
            Ok(_) => failed(format!("expression '{}' is not a boolean", check.expression.source)),
            Err(error) => failed(format!(
                "expression '{}' resulted in error: {error}{}",
                check.expression.source,
                broken.concat()
            )),
        }
    });
    denials.collect()
}

fn denial(check: &Check, context: &Context<'_>, meter: &mut Meter) -> Denial {
    let evaluated = check.message_expression.as_ref().map(|message| message.evaluate(context, meter));
    let computed = evaluated.and_then(|message| match message.map(|message| message.value) {
        Ok(Cel::String(text)) if !text.trim().is_empty() && !text.contains('\n') => {
            Some(text.as_str().to_owned())
        }
        Ok(_) | Err(_) => None,
    });
    let message = computed
        .or_else(|| check.message.clone().filter(|message| !message.is_empty()))
        .unwrap_or_else(|| format!("failed expression: {}", check.expression.source.trim()));
    Denial { message, reason: check.reason.clone().unwrap_or_else(|| "Invalid".into()) }
}

fn refusal(target: &ResourcePath, policy: &Policy, binding: &Binding, denial: &Denial) -> ApiError {
    let detail = format!(
        "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
        policy.name, binding.name, denial.message
    );
    ApiError::denied_by_policy(target, &detail, &denial.reason)
}

/// Returns the variable `request`.
fn about(request: &Admission<'_>, version: &str) -> Value {
    let ResourcePath { group, version: asked, resource, namespace, name, subresource } = request.target;
    let kind = &request.scope.resource().kind;
    // As in kube-apiserver, a namespace counts as inside itself.
    let namespace = if group.is_empty() && resource == "namespaces" { name } else { namespace };
    let User { name: username, uid, groups, extra } = request.user;
    let options = request.propagation.map(|propagation| match propagation {
        Propagation::Background => json!({"propagationPolicy": "Background"}),
        Propagation::Foreground => json!({"propagationPolicy": "Foreground"}),
        Propagation::Orphan => json!({"propagationPolicy": "Orphan"}),
    });
    let mut about = json!({
        "kind": { "group": group, "version": version, "kind": kind },
        "resource": { "group": group, "version": version, "resource": resource },
        "subResource": subresource,
        "requestKind": { "group": group, "version": asked, "kind": kind },
        "requestResource": { "group": group, "version": asked, "resource": resource },
        "requestSubResource": subresource,
        "name": name,
        "namespace": namespace,
        "operation": request.operation.as_str(),
        "userInfo": { "username": username, "uid": uid, "groups": groups, "extra": extra },
        "dryRun": request.dry_run,
        "options": options.unwrap_or_else(|| json!({})),
    });
    // Fields without a value are absent, so expressions that read them fail.
    if let Some(fields) = about.as_object_mut() {
        fields.retain(|_, value| value.as_str() != Some(""));
    }
    about
}
