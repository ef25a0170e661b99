//! `wheelwright version`.

use std::process::ExitCode;

use k8s_openapi::api::apps::v1::Deployment;
use object::Key;
use serde::Serialize;

use crate::cli::connect::{HubArgs, answering};
use crate::cli::output::{Output, Ui};
use crate::cli::runtime::block_on;
use crate::cli::writer::find;
use crate::cli::{CommandError, CommandResult};
use api::names::{OPERATOR, SYSTEM_NAMESPACE};

/// Print the version of this program and, if there is a kubeconfig, of the hub and its operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print only the version of this program, without connecting to a hub.
    #[arg(long)]
    client: bool,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    operator_namespace: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    /// The version of this program.
    client: &'static str,
    /// The version of the hub's API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
    /// The image of the operator that is installed on the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_image: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let mut versions = Versions { client: env!("CARGO_PKG_VERSION"), hub: None, operator_image: None };
    let asked = if args.client { Ok(()) } else { block_on(ask(args, &mut versions, ui)) };
    match args.output {
        Output::Json => ui.json(&versions)?,
        Output::Text => {
            ui.line(format!("client: {}", versions.client))?;
            for (what, version) in [("hub", &versions.hub), ("operator image", &versions.operator_image)] {
                if let Some(version) = version {
                    ui.line(format!("{what}: {version}"))?;
                }
            }
        }
    }
    asked.map(|()| ExitCode::SUCCESS)
}

/// Reads the version of the hub and the image of the operator.
async fn ask(args: &Args, versions: &mut Versions, ui: &mut Ui) -> Result<(), CommandError> {
    let no_hub = |error: CommandError| CommandError {
        hint: Some("--client prints the version of this program alone".into()),
        ..error
    };
    let config = match args.hub.config().await {
        Ok(config) => config,
        Err(error) if args.hub.is_named() => return Err(no_hub(error)),
        Err(CommandError { error, hint: _ }) => {
            ui.error(format!("the version of the hub is unknown: {error}; --kubeconfig names a hub"))?;
            return Ok(());
        }
    };
    let hub = answering(config).await.map_err(no_hub)?;
    versions.hub = Some(hub.apiserver_version().await?.git_version);
    let operator = Key::namespaced(args.operator_namespace.as_str(), OPERATOR);
    let deployment = find::<Deployment>(&hub, &operator).await?;
    versions.operator_image =
        deployment.and_then(|deployment| deployment.spec.template.spec?.containers.into_iter().next()?.image);
    Ok(())
}
