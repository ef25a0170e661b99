//! `wheelwright crds`.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::cli::{CommandResult, output::Ui};
use api::crds;
use object::Object;

/// Print the custom resource definitions of a hub, for `kubectl apply --server-side -f -`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print a JSON List instead of YAML documents.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let definitions: Vec<Object> = crds::all().iter().map(Object::from_typed).collect();
    if args.json {
        ui.json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for definition in definitions {
        ui.line("---")?;
        ui.text(serde_saphyr::to_string(&definition).context("cannot print a definition")?)?;
    }
    Ok(ExitCode::SUCCESS)
}
