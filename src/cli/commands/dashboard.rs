//! `wheelwright dashboard`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;

use crate::cli::connect::{HubArgs, stop_on_signal};
use crate::cli::follow::follow;
use crate::cli::output::Ui;
use crate::cli::{CommandError, CommandResult};
use crate::dashboard::{Dashboard, ReadOverview};
use crate::shell::now;
use controllers::hub::overview::Overview;

/// Show the fleet in a browser of this machine, as it changes.
///
/// The page shows what the kubeconfig may read, listens on 127.0.0.1 alone, and opens only with the secret in its address.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Port to listen on. Default: a free one.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    super::block_on(async {
        let hub = args.hub.connect().await?;
        let dashboard = Dashboard::listen(args.port).await.map_err(|error| {
            let error = anyhow::Error::new(error).context(format!("cannot listen on port {}", args.port));
            CommandError::hinted(error, "leave --port out to take a free one")
        })?;
        ui.line(format!("dashboard at {}", dashboard.url))?;
        let shell = follow(hub);
        let handle = shell.handle();
        let look: ReadOverview =
            Arc::new(move || Overview::read(&handle.caches(), now()).map_err(|unread| unread.to_string()));
        let stop = stop_on_signal();
        let ((), served) = tokio::join!(shell.run(stop.clone()), dashboard.serve(look, stop.clone()));
        served.context("the dashboard cannot be served")?;
        Ok(ExitCode::SUCCESS)
    })
}
