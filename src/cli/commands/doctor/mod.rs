//! `wheelwright doctor`: checks a hub, and reports problems and what to do about them.
//!
//! A check that fails to run is a finding too.

mod certificates;
mod definitions;
pub(super) mod finding;
mod fleet;
mod git_server;
mod hub;
mod neighbors;
pub(super) mod operator;
mod permissions;
mod profile;
mod repositories;
mod rollouts;
mod secrets;

use std::process::ExitCode;

use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy};
use api::names::{OPERATOR, SYSTEM_NAMESPACE};
use finding::{Finding, Health, all};
use hub::ExaminedHub;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use object::Key;

use crate::cli::connect::HubArgs;
use crate::cli::origin::serves_ours;
use crate::cli::output::{Output, Ui};
use crate::cli::runtime::block_on;
use crate::cli::writer::find;
use crate::cli::{CommandError, CommandResult};

/// Check a hub, and show what is wrong and what to do.
///
/// The command checks definitions, the operator and its permissions, admission policies, certificates,
/// clocks, repositories, clusters and rollouts. It looks for other controllers that make the same decisions:
/// OCM's, and Argo CD. It asks the git server of each ConfigRepo for the reference that it follows, from this
/// machine and with the credentials in its Secret. It writes nothing. The exit status is 1 if something is
/// wrong or could not be checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    operator_namespace: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let findings = block_on(async {
        let client = args.hub.connect().await?;
        let has_ours = serves_ours(&client).await?;
        let namespace = args.operator_namespace.clone();
        let operator = find::<Deployment>(&client, &Key::namespaced(&*namespace, OPERATOR)).await;
        let operator = operator.map_err(|error| Finding::unknown(operator::NAME, error));
        let definitions = all::<CustomResourceDefinition>(definitions::CHECK, &client, "").await;
        let repositories = Ok(Vec::new());
        let mut hub = ExaminedHub { client, namespace, has_ours, operator, definitions, repositories };
        if hub.serves_repositories() {
            hub.repositories = all::<ConfigRepo>(repositories::CHECK, &hub.client, "").await;
        }
        examine(&hub).await
    })?;
    let is_well = findings.iter().all(|finding| matches!(finding.health, Health::Good | Health::Warning));
    match args.output {
        Output::Json => ui.json(&findings)?,
        Output::Text => {
            for finding in &findings {
                ui.text(finding.text(ui.style()))?;
            }
        }
    }
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(hub: &ExaminedHub) -> Result<Vec<Finding>, CommandError> {
    let mut findings = operator::api_server(hub).await;
    findings.extend(definitions::examine(hub));
    findings.extend(operator::examine(hub).await);
    findings.extend(certificates::examine(hub).await);
    findings.extend(permissions::examine(hub).await?);
    findings.extend(neighbors::examine(hub).await);
    if hub.serves_repositories() {
        findings.extend(repositories::examine(hub).await);
    }
    if hub.serves::<ManagedCluster>() {
        findings.extend(fleet::examine(hub).await);
    }
    if hub.serves::<RolloutPolicy>() {
        findings.extend(profile::examine(hub).await);
    }
    findings.extend(secrets::examine(hub).await);
    if hub.serves_fleet() {
        findings.extend(rollouts::examine(hub).await);
    }
    Ok(findings)
}
