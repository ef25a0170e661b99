//! The definitions that the agent needs on its cluster.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ObjectMeta};
use k8s_openapi::{Metadata, Resource};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use super::error::{JoinError, api};
use api::names::AGENT;

/// The interval between checks that a definition is served, and the maximum number of checks.
const POLL: Duration = Duration::from_millis(200);
const POLLS: u32 = 150;
const READ_DEFINITIONS: &str = "read the definitions of the cluster";
/// The definitions from the chart. The code that generates them would be more than 1 % of the agent.
const DEFINITIONS: [&str; 2] = [
    include_str!("../../charts/wheelwright/crds/cluster.open-cluster-management.io_clusterclaims.yaml"),
    include_str!("../../charts/wheelwright/crds/work.open-cluster-management.io_appliedmanifestworks.yaml"),
];

/// The part of a CustomResourceDefinition that the agent reads.
#[derive(Clone, Debug, Deserialize)]
struct Definition {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Names {
    plural: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    condition_type: String,
    status: String,
}

impl Resource for Definition {
    const API_VERSION: &'static str = CustomResourceDefinition::API_VERSION;
    const GROUP: &'static str = CustomResourceDefinition::GROUP;
    const KIND: &'static str = CustomResourceDefinition::KIND;
    const VERSION: &'static str = CustomResourceDefinition::VERSION;
    const URL_PATH_SEGMENT: &'static str = CustomResourceDefinition::URL_PATH_SEGMENT;
    type Scope = <CustomResourceDefinition as Resource>::Scope;
}

impl Metadata for Definition {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Installs the agent's definitions.
///
/// # Errors
/// See [`install_definitions`].
pub(super) async fn install_own(spoke: &kube::Client) -> Result<(), JoinError> {
    for text in DEFINITIONS {
        install(spoke, serde_saphyr::from_str(text).expect("the chart's files are YAML")).await?;
    }
    Ok(())
}

/// Installs definitions and waits until they are served. A definition of another client stays unchanged: it may
/// be newer, and applying ours could remove versions.
///
/// # Errors
/// Fails if the cluster rejects a definition or does not respond, or another client manages an older definition.
pub async fn install_definitions(
    spoke: &kube::Client,
    wanted: Vec<CustomResourceDefinition>,
) -> Result<(), JoinError> {
    for wanted in wanted {
        install(spoke, serde_json::to_value(wanted).expect("a definition serializes")).await?;
    }
    Ok(())
}

async fn install(spoke: &kube::Client, text: Value) -> Result<(), JoinError> {
    let wanted = Definition::deserialize(&text).expect("a definition has these fields");
    let definitions: Api<Definition> = Api::all(spoke.clone());
    let name = wanted.name_any();
    let found = match definitions.get_opt(&name).await {
        Err(kube::Error::Api(refusal)) if refusal.code == 403 && is_served(spoke, &wanted).await => {
            return Ok(());
        }
        found => found.map_err(api(READ_DEFINITIONS))?,
    };
    match found.filter(is_of_another) {
        Some(found) => serves_all(&found, &wanted)?,
        None => {
            let applied =
                definitions.patch(&name, &PatchParams::apply(AGENT).force(), &Patch::Apply(&text)).await;
            applied.map_err(api("install the definitions on the cluster"))?;
        }
    }
    established(&definitions, &name).await
}

/// Returns true if the cluster now serves every version of a definition. Any user may request this, while the
/// role of OCM's registration agent may not read definitions. Discovery in the shell requests one version, and
/// caches the answer.
async fn is_served(spoke: &kube::Client, wanted: &Definition) -> bool {
    for version in wanted.spec.versions.iter().filter(|version| version.served) {
        let version = format!("{}/{}", wanted.spec.group, version.name);
        let served = spoke.list_api_group_resources(&version).await.map(|list| list.resources);
        if !served.is_ok_and(|all| all.iter().any(|one| one.name == wanted.spec.names.plural)) {
            return false;
        }
    }
    true
}

/// Returns true if a client other than the agent owns a part of the spec.
fn is_of_another(definition: &Definition) -> bool {
    let entries = definition.metadata.managed_fields.as_deref().unwrap_or_default();
    let has_spec = |fields: &FieldsV1| fields.0.get("f:spec").is_some();
    entries.iter().any(|entry| {
        entry.manager.as_deref() != Some(AGENT) && entry.fields_v1.as_ref().is_some_and(has_spec)
    })
}

fn serves_all(installed: &Definition, wanted: &Definition) -> Result<(), JoinError> {
    let is_served =
        |name: &str| installed.spec.versions.iter().any(|version| version.name == name && version.served);
    let missing = wanted.spec.versions.iter().find(|version| version.served && !is_served(&version.name));
    match missing {
        None => Ok(()),
        Some(version) => {
            let name = installed.name_any();
            Err(JoinError::Definition { name, version: version.name.clone() })
        }
    }
}

async fn established(definitions: &Api<Definition>, name: &str) -> Result<(), JoinError> {
    for _ in 0..POLLS {
        let now = definitions.get(name).await.map_err(api(READ_DEFINITIONS))?;
        if is_established(&now) {
            return Ok(());
        }
        sleep(POLL).await;
    }
    Err(JoinError::NotEstablished(name.to_owned()))
}

/// Returns true if the API server has accepted a definition and serves its kind, or will shortly.
fn is_established(definition: &Definition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.condition_type == "Established" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use api::crds;

    use super::*;

    #[test]
    fn the_chart_has_the_definitions_of_a_spoke() {
        let own = DEFINITIONS.map(|text| serde_saphyr::from_str::<CustomResourceDefinition>(text).unwrap());
        assert_eq!(own.as_slice(), crds::spoke());
    }
}
