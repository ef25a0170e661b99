//! The status of a Klusterlet, with the conditions and reasons of OCM's registration operator.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use api::condition::ConditionStatus::{False, True};
use api::condition::Observation;
use api::operator::v1::{GenerationStatus, RelatedResource};
use object::Object;

use super::deployment::number;
use super::{KlusterletSettings, MANAGED_SECRET, is_available};
use crate::resource::plural;

/// The live objects of an installation.
pub struct InstalledObjects<'a> {
    /// The Deployment of the registration agent, or of the combined agent.
    pub registration: Option<&'a Object>,
    /// The Deployment of the work agent, or of the combined agent.
    pub work: Option<&'a Object>,
    pub secrets: Secrets<'a>,
}

/// The live secrets of an agent.
#[derive(Clone, Default)]
pub struct Secrets<'a> {
    /// The names of the bootstrap secrets, with the secrets.
    pub bootstrap: Vec<(String, Option<&'a Object>)>,
    /// The secret with the hub identity.
    pub hub: Option<&'a Object>,
    /// The kubeconfig of the managed cluster of a hosted agent.
    pub managed: Option<&'a Object>,
}

impl Secrets<'_> {
    /// Returns true if the registration agent has created an identity.
    pub fn has_identity(&self) -> bool {
        self.hub_fault().is_none()
    }

    /// Returns the name of the agent in its identity.
    pub fn agent_name(&self) -> Option<String> {
        value_of(self.hub?, "agent-name")
    }

    fn bootstrap_fault(&self) -> Option<(&'static str, String)> {
        self.bootstrap.iter().find_map(|(name, secret)| match secret {
            None => Some(("BootstrapSecretMissing", format!("the secret {name} does not exist"))),
            Some(secret) if !has("kubeconfig")(secret) => {
                Some(("BootstrapSecretError", format!("the secret {name} has no key kubeconfig")))
            }
            Some(secret) if !names_hub(secret) => {
                let message = format!("the kubeconfig in the secret {name} has no cluster with a server");
                Some(("BootstrapSecretError", message))
            }
            Some(_) => None,
        })
    }

    fn hub_fault(&self) -> Option<(&'static str, &'static str)> {
        match self.hub {
            None => Some(("HubKubeConfigSecretMissing", "the agent has not joined the hub yet")),
            Some(secret) if !has("kubeconfig")(secret) => {
                Some(("HubKubeConfigMissing", "the identity of the agent has no kubeconfig"))
            }
            Some(secret) if !has("cluster-name")(secret) => {
                Some(("ClusterNameMissing", "the identity of the agent has no cluster name"))
            }
            Some(_) => None,
        }
    }
}

/// Returns a value of a secret as a string.
fn value_of(secret: &Object, key: &str) -> Option<String> {
    let encoded = secret.at(&["data", key])?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

fn has(key: &str) -> impl Fn(&Object) -> bool {
    move |secret| {
        secret.at(&["data", key]).and_then(|text| text.as_str()).is_some_and(|text| !text.is_empty())
    }
}

/// Returns true if a kubeconfig contains the address of a hub.
fn names_hub(secret: &Object) -> bool {
    let text = value_of(secret, "kubeconfig").unwrap_or_default();
    let documents = serde_saphyr::from_multiple::<Value>(&text).unwrap_or_default();
    let mut clusters =
        documents.iter().filter_map(|one| one.get("clusters").and_then(Value::as_array)).flatten();
    clusters.any(|one| {
        one.pointer("/cluster/server").and_then(Value::as_str).is_some_and(|server| !server.is_empty())
    })
}

/// Returns the condition ReadyToApply: everything that the agent needs before its start exists.
pub fn prepared(settings: &KlusterletSettings, secrets: &Secrets<'_>) -> Observation {
    const TYPE: &str = "ReadyToApply";
    if settings.is_hosted && !secrets.managed.is_some_and(has("kubeconfig")) {
        let message = format!(
            "the secret {MANAGED_SECRET} with the key kubeconfig does not exist in the namespace {}",
            settings.namespace
        );
        return Observation::new(TYPE, False, "KlusterletPrepareFailed").message(message);
    }
    Observation::new(TYPE, True, "KlusterletPrepared").message("Klusterlet is ready to apply")
}

/// Returns the conditions of an installation except Applied and ReadyToApply.
pub fn conditions(settings: &KlusterletSettings, installed: &InstalledObjects<'_>) -> Vec<Observation> {
    let InstalledObjects { registration, work, secrets } = installed;
    vec![
        valid_gates(&settings.unknown_gates),
        available(&[*registration, *work]),
        degraded("RegistrationDesiredDegraded", *registration),
        degraded("WorkDesiredDegraded", *work),
        hub_connection(secrets, *registration),
        fields_ignored(&settings.ignored),
    ]
}

/// Returns the condition ValidFeatureGates: all feature gates exist.
pub(crate) fn valid_gates(unknown: &[String]) -> Observation {
    const TYPE: &str = "ValidFeatureGates";
    match unknown {
        [] => Observation::new(TYPE, True, "FeatureGatesAllValid").message("Feature gates are all valid"),
        unknown => Observation::new(TYPE, False, "InvalidFeatureGatesExisting")
            .message(format!("these feature gates do not exist: {}", unknown.join(", "))),
    }
}

/// Returns the condition FieldsIgnored: some fields are set but have no effect.
pub(crate) fn fields_ignored(ignored: &[String]) -> Observation {
    const TYPE: &str = "FieldsIgnored";
    match ignored {
        [] => Observation::new(TYPE, False, "AllFieldsHonored")
            .message("all fields that are set have an effect"),
        ignored => Observation::new(TYPE, True, "FieldsWithoutEffect").message(ignored.join("; ")),
    }
}

fn available(deployments: &[Option<&Object>]) -> Observation {
    if deployments.iter().any(Option::is_none) {
        return Observation::new("Available", False, "GetDeploymentFailed")
            .message("a Deployment of the agent does not exist");
    }
    let mut missing: Vec<_> = deployments
        .iter()
        .flatten()
        .filter(|deployment| !is_available(deployment))
        .map(|deployment| deployment.key().to_string())
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Observation::new("Available", True, "KlusterletAvailable").message("deployments are ready");
    }
    Observation::new("Available", False, "NoAvailablePods")
        .message(format!("no pod of these Deployments is available: {}", missing.join(", ")))
}

fn degraded(type_: &str, deployment: Option<&Object>) -> Observation {
    let Some(deployment) = deployment else {
        return Observation::new(type_, True, "GetDeploymentFailed")
            .message("the Deployment of the agent does not exist");
    };
    let wanted = number(deployment, &["spec", "replicas"]);
    let ready = number(deployment, &["status", "readyReplicas"]);
    if ready < wanted {
        let message = format!("{} of {wanted} pods of {} are not ready", wanted - ready, deployment.key());
        return Observation::new(type_, True, "UnavailablePods").message(message);
    }
    Observation::new(type_, False, "DeploymentsFunctional")
        .message(format!("deployments replicas are desired: {wanted}"))
}

/// Returns the condition HubConnectionDegraded. An agent's pod is ready once the agent has joined, so the
/// operator does not need to connect to a hub itself.
fn hub_connection(secrets: &Secrets<'_>, registration: Option<&Object>) -> Observation {
    const TYPE: &str = "HubConnectionDegraded";
    let Some((reason, message)) = secrets.hub_fault() else {
        if registration.is_some_and(is_available) {
            return Observation::new(TYPE, False, "HubConnectionFunctional")
                .message("the agent has an identity, and its pod is ready");
        }
        return Observation::new(TYPE, True, "HubKubeConfigError")
            .message("the agent has an identity, but none of its pods is ready");
    };
    let (bootstrap, detail) = secrets
        .bootstrap_fault()
        .unwrap_or_else(|| ("BootstrapSecretFunctional", "the bootstrap secret exists".to_owned()));
    Observation::new(TYPE, True, &format!("{bootstrap},{reason}")).message(format!("{detail}; {message}"))
}

/// Returns the generations of the Deployments.
pub fn generations(deployments: &[&Object]) -> Vec<GenerationStatus> {
    let of = |deployment: &&Object| GenerationStatus {
        group: "apps".into(),
        version: "v1".into(),
        resource: "deployments".into(),
        namespace: deployment.namespace().into(),
        name: deployment.name().into(),
        last_generation: deployment.generation(),
        ..GenerationStatus::default()
    };
    deployments.iter().map(of).collect()
}

/// Returns the status reference of an installed object.
pub fn related(object: &Object) -> RelatedResource {
    let gvk = object.gvk();
    RelatedResource {
        resource: plural(&gvk.kind),
        group: gvk.group,
        version: gvk.version,
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        ..RelatedResource::default()
    }
}
