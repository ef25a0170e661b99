//! The objects that the agent keeps on its own cluster: the definitions it needs, its credentials and its
//! identity.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::AgentOptions;
use super::hub::Hub;
use super::join::{Credentials, JoinError, api};
use api::cluster::v1alpha1::ClusterClaim;
use api::crds;
use api::names::KUBERNETES_VERSION_CLAIM;
use controllers::agent_identity::Identity;
use object::Key;

const MANAGER: &str = "wheelwright-agent";
/// The interval of checks whether a definition is served, and their time limit.
const POLL: Duration = Duration::from_millis(200);
const POLLS: u32 = 150;

fn params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// Installs the definitions of the agent's own kinds and waits until they are served.
pub(super) async fn prepare(spoke: &kube::Client) -> Result<(), JoinError> {
    let definitions: Api<CustomResourceDefinition> = Api::all(spoke.clone());
    for definition in crds::spoke() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let applied = definitions.patch(&name, &params(), &Patch::Apply(&definition)).await;
        applied.map_err(api("install the definitions on the cluster"))?;
        for _ in 0..POLLS {
            let now = definitions.get(&name).await.map_err(api("read the definitions of the cluster"))?;
            let conditions = now.status.into_iter().flat_map(|status| status.conditions.unwrap_or_default());
            if conditions
                .into_iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True")
            {
                break;
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// The kept identity, where it can be read.
pub(super) async fn load(options: &AgentOptions) -> Result<Option<Credentials>, JoinError> {
    let Key { namespace, name } = &options.secret;
    let secrets: Api<Secret> = Api::namespaced(options.spoke.clone(), namespace);
    let secret = secrets.get_opt(name).await.map_err(api("read the identity kept on the cluster"))?;
    Ok(secret.as_ref().and_then(Credentials::of_secret))
}

/// Keeps an identity: certificate and key together, in the form that OCM's agent keeps them.
pub(super) async fn store(
    options: &AgentOptions,
    credentials: &Credentials,
    hub: &Hub,
) -> Result<(), JoinError> {
    let Key { namespace: place, name } = &options.secret;
    let spoke = &options.spoke;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(spoke.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}});
    namespaces
        .patch(place, &params(), &Patch::Apply(namespace))
        .await
        .map_err(api("create the agent's namespace"))?;
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "namespace": place},
        "data": {
            "kubeconfig": bytes(&hub.stored_kubeconfig()?),
            "cluster-name": bytes(credentials.cluster()),
            "agent-name": bytes(&credentials.agent),
            "tls.crt": bytes(&credentials.certificate),
            "tls.key": bytes(&credentials.key),
        },
    });
    let secrets: Api<Secret> = Api::namespaced(spoke.clone(), place);
    secrets
        .patch(name, &params(), &Patch::Apply(secret))
        .await
        .map_err(api("keep the identity on the cluster"))?;
    Ok(())
}

/// Writes the claims with the identity of the agent and the version of Kubernetes.
pub(super) async fn write_claims(spoke: &kube::Client, identity: &Identity) -> Result<(), JoinError> {
    let claims: Api<ClusterClaim> = Api::all(spoke.clone());
    let claim = identity.claim();
    claims
        .patch(claim.name(), &params(), &Patch::Apply(&claim))
        .await
        .map_err(api("write the ClusterClaim with the identity of the agent"))?;
    let version =
        spoke.apiserver_version().await.map_err(api("read the version of the cluster"))?.git_version;
    let claim = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
        "metadata": {"name": KUBERNETES_VERSION_CLAIM}, "spec": {"value": version},
    });
    claims
        .patch(KUBERNETES_VERSION_CLAIM, &params(), &Patch::Apply(claim))
        .await
        .map_err(api("write the ClusterClaim with the version of Kubernetes"))?;
    Ok(())
}
