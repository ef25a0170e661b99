//! `wheelwright doctor`: checks a hub, and says what is wrong and what to do.
//!
//! A check that could not be made is a finding too.

mod certificates;
mod definitions;
pub(super) mod finding;
mod fleet;
mod git_server;
mod neighbours;
pub(super) mod operator;
mod permissions;
mod repositories;

use std::process::ExitCode;

use api::names::{OPERATOR, SYSTEM_NAMESPACE};
use engine::installation::MANAGED_BY;
use finding::{Finding, Health};
use k8s_openapi::api::apps::v1::Deployment;
use object::{Key, Metadata as _};

use crate::cli::connect::HubArgs;
use crate::cli::origin::serves_ours;
use crate::cli::output::{Output, Ui};
use crate::cli::runtime::block_on;
use crate::cli::writer::find;
use crate::cli::{CommandError, CommandResult};

/// Check a hub, and say what is wrong and what to do.
///
/// It checks definitions, the operator and its permissions, admission policies, certificates, clocks,
/// repositories, clusters, and looks for other controllers that decide the same: Open Cluster Management's
/// and Argo CD. It asks the git server of each ConfigRepo for the reference that it follows, from this
/// machine and with the credentials of its Secret. It writes nothing. The exit code is 1 when something is
/// wrong or could not be checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Namespace of the operator.
    #[arg(short, long, default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// How the findings are printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The input of the checks.
struct ExaminedHub {
    client: kube::Client,
    /// Namespace of the operator.
    namespace: String,
    /// Whether the hub has definitions of ours; a hub with the programs of OCM alone has none.
    has_ours: bool,
    /// The Deployment of the operator, or why it cannot be read.
    operator: Result<Option<Deployment>, Finding>,
}

impl ExaminedHub {
    /// Returns the command that writes roles and policies again: `without_helm`, or helm's.
    fn upgrade(&self, without_helm: &'static str) -> &'static str {
        if self.is_helm() { "helm upgrade" } else { without_helm }
    }

    /// Returns the command that writes the definitions again, which helm writes once only.
    fn upgrade_definitions(&self, without_helm: &'static str) -> &'static str {
        match self.is_helm() {
            true => "wheelwright crds | kubectl apply --server-side --force-conflicts -f -",
            false => without_helm,
        }
    }

    fn is_helm(&self) -> bool {
        matches!(&self.operator, Ok(Some(operator)) if is_of_helm(operator))
    }
}

/// Returns whether helm installed an operator: `wheelwright install` and `upgrade` leave such a hub to it.
fn is_of_helm(operator: &Deployment) -> bool {
    operator.label(MANAGED_BY) == Some("Helm")
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let findings = block_on(async {
        let client = args.hub.connect().await?;
        let has_ours = serves_ours(&client).await?;
        let namespace = args.namespace.clone();
        let operator = find::<Deployment>(&client, &Key::namespaced(&*namespace, OPERATOR)).await;
        let operator = operator.map_err(|error| Finding::unknown(operator::NAME, error));
        let hub = ExaminedHub { client, namespace, has_ours, operator };
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
    findings.extend(definitions::examine(hub).await);
    findings.extend(operator::examine(hub).await);
    findings.extend(certificates::examine(hub).await);
    findings.extend(permissions::examine(hub).await?);
    findings.extend(neighbours::examine(hub).await);
    if hub.has_ours {
        findings.extend(repositories::examine(hub).await);
    }
    findings.extend(fleet::examine(hub).await);
    Ok(findings)
}
