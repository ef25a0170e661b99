//! `wheelwright get token`.

use std::process::ExitCode;

use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::cli::bootstrap::{Bootstrap, ca_data};
use crate::cli::connect::{HubArgs, is_embedded};
use crate::cli::duration::at_least;
use crate::cli::output::Ui;
use crate::cli::writer::{WriteArgs, failed, find};
use crate::cli::{CommandError, CommandResult};
use crate::git::is_loopback;
use api::names::{OCM_NAMESPACE, OPERATOR, SYSTEM_NAMESPACE};
use engine::installation::agent_image;
use engine::registration::rbac::{BOOTSTRAP_ROLE, bootstrap_role};
use object::Key;

/// The name of OCM's bootstrap identity in the namespace [`OCM_NAMESPACE`].
const ACCOUNT: &str = "agent-registration-bootstrap";
/// The shortest token lifetime that Kubernetes accepts.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
const BINDING: &str = "open-cluster-management:bootstrap:agent-registration";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Lifetime of the token, such as `24h`, at least 10m.
    #[arg(long, default_value = "24h", value_parser = at_least(SHORTEST))]
    duration: SignedDuration,
    /// URL at which clusters reach the hub. Its certificate must be valid for this host [default: the URL in
    /// the kubeconfig].
    #[arg(long, value_name = "URL")]
    hub_apiserver: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: TokenFormat,
    #[command(flatten)]
    hub: HubArgs,
}

/// `--output` of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TokenFormat {
    /// The token, and the command to run on a cluster.
    #[default]
    Text,
    /// The token, the URL and the certificate authorities of the hub.
    Json,
    /// A bootstrap kubeconfig for `wheelwright agent`.
    Kubeconfig,
}

pub(super) async fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let config = args.hub.config().await?;
    let client = args.hub.connect().await?;
    prepare(&client, &args.hub).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), OCM_NAMESPACE);
    let seconds = args.duration.as_secs();
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
        .map_err(failed(format!("get a token of {OCM_NAMESPACE}/{ACCOUNT}")))?;
    let url = args.hub_apiserver.clone().unwrap_or_else(|| config.cluster_url.to_string());
    // The clusters of an embedded hub are usually agents on this machine.
    if leads_to_this_machine(&url) && !is_embedded(&client).await? {
        ui.error(format!(
            "warning: {url} is an address of this machine, which pods of other clusters do not reach; \
             name the address of the hub: --hub-apiserver"
        ))?;
    }
    let bootstrap = Bootstrap {
        hub_token: answer.status.and_then(|status| status.token).unwrap_or_default(),
        hub_apiserver: url.trim_end_matches('/').to_owned(),
        hub_ca_data: ca_data(config.root_cert.as_deref().unwrap_or_default()),
    };
    match args.output {
        TokenFormat::Json => ui.json(&bootstrap)?,
        TokenFormat::Kubeconfig => ui.text(serde_saphyr::to_string(&bootstrap.kubeconfig(None))?)?,
        TokenFormat::Text => ui.text(text(&bootstrap, installed_image(&client).await.as_deref()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if the host of a URL is a loopback address, as for kind and minikube.
fn leads_to_this_machine(url: &str) -> bool {
    let parsed = url.parse::<http::Uri>().ok();
    let host = parsed.as_ref().and_then(http::Uri::host).unwrap_or_default();
    is_loopback(host.trim_matches(['[', ']']))
}

fn text(bootstrap: &Bootstrap, image: Option<&str>) -> String {
    let Bootstrap { hub_token, hub_apiserver, hub_ca_data } = bootstrap;
    let ca = if hub_ca_data.is_empty() { String::new() } else { format!(" --hub-ca-data {hub_ca_data}") };
    let image = image.map(|image| format!(" --image {image}")).unwrap_or_default();
    format!(
        "token={hub_token}\nplease log on spoke and run:\n\
         wheelwright join --hub-token {hub_token} --hub-apiserver {hub_apiserver}{ca}{image} --cluster-name <cluster_name>\n"
    )
}

/// Returns the image of agents next to the operator's; `None` if no operator is installed or the user may not read
/// it.
async fn installed_image(client: &kube::Client) -> Option<String> {
    let operator = Key::namespaced(SYSTEM_NAMESPACE, OPERATOR);
    let deployment = find::<Deployment>(client, &operator).await.ok()??;
    let container = deployment.spec.template.spec?.containers.into_iter().next()?;
    container.image.as_deref().map(agent_image)
}

/// Creates the identity and, if no operator has created it, the role. Existing objects are left unchanged.
async fn prepare(client: &kube::Client, hub: &HubArgs) -> Result<(), CommandError> {
    let named = |namespace: Option<&str>, name: &str| ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let account = Key::namespaced(OCM_NAMESPACE, ACCOUNT);
    let mut writer = WriteArgs::new(hub.clone()).connect().await?;
    if find::<ServiceAccount>(client, &account).await?.is_none() {
        writer.create(&Namespace { metadata: named(None, OCM_NAMESPACE), ..Namespace::default() }).await?;
        let metadata = named(Some(OCM_NAMESPACE), ACCOUNT);
        writer.create(&ServiceAccount { metadata, ..ServiceAccount::default() }).await?;
    }
    if find::<ClusterRole>(client, &Key::cluster(BOOTSTRAP_ROLE)).await?.is_none() {
        writer.create(&bootstrap_role()).await?;
    }
    if find::<ClusterRoleBinding>(client, &Key::cluster(BINDING)).await?.is_none() {
        let subject = Subject {
            kind: "ServiceAccount".into(),
            name: ACCOUNT.into(),
            namespace: Some(OCM_NAMESPACE.into()),
            ..Subject::default()
        };
        let role_ref = RoleRef {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "ClusterRole".into(),
            name: BOOTSTRAP_ROLE.into(),
        };
        let metadata = named(None, BINDING);
        writer.create(&ClusterRoleBinding { metadata, role_ref, subjects: Some(vec![subject]) }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_not_an_address_for_other_clusters() {
        for (url, is) in [
            ("https://127.0.0.1:6443", true),
            ("https://[::1]:6443/", true),
            ("https://localhost:6443", true),
            ("https://hub.example.com", false),
            ("https://10.0.0.1:6443", false),
        ] {
            assert_eq!(leads_to_this_machine(url), is, "{url}");
        }
    }
}
