//! `wheelwright hub`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::apiserver::{LockError, Server, ServerOptions, write_private};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult};
use crate::shell::{memory_limit, now, stop_on_signal};
use api::crds;
use object::Object;

/// Run the embedded hub: an API server for kubectl, the operator and agents.
///
/// It needs no other software. It stores its objects in the data directory, and writes a kubeconfig for the
/// administrator there. It serves the kinds of OCM and Wheelwright from the start, but runs no workloads. It
/// is intended for a laptop, CI or a small site.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for keys, data and `admin.kubeconfig`. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Address to listen on. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Additional name or address of the hub. Can be repeated. The first one is the server in the kubeconfig.
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let _limit = refuse_large_files();
        raise_open_files();
        let options = ServerOptions {
            listen: args.listen,
            data: Some(args.data.clone()),
            names: args.names.clone(),
            objects: definitions(),
            memory: Some(memory_limit()),
            ..ServerOptions::new(now)
        };
        let server = Server::start(options).await.map_err(|error| match error {
            crate::apiserver::StartError::Listen { .. } => CommandError::hinted(
                error,
                "another process may listen there; choose an address with --listen",
            ),
            crate::apiserver::StartError::Lock(LockError::Exposed { .. }) => CommandError::hinted(
                error,
                format!("it contains keys and Secrets; run chmod -R go= {}", args.data.display()),
            ),
            other => CommandError::from(anyhow::Error::new(other)),
        })?;
        let kubeconfig = args.data.join("admin.kubeconfig");
        // If the kubeconfig is unreadable, write a new one.
        let before = std::fs::read_to_string(&kubeconfig).unwrap_or_default();
        let text = server
            .admin_kubeconfig_again(&before)
            .context("cannot create the administrator's certificate")?;
        write_private(&kubeconfig, &text)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        ui.line(format!("the hub listens on {}", server.url))?;
        ui.line(format!("export KUBECONFIG={}", kubeconfig.display()))?;
        stop_on_signal().cancelled().await;
        server.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Makes writes beyond the file size limit (`RLIMIT_FSIZE`) fail. Without this handler, which is active until the
/// returned value is dropped, the signal ends the process.
fn refuse_large_files() -> std::io::Result<tokio::signal::unix::Signal> {
    const SIGXFSZ: i32 = 25;
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ))
}

/// Raises the limit of open files, and thus of connections, to the maximum, as Go programs do.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the hub accepts fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the CRDs with all versions served, because this hub converts between them.
fn definitions() -> Vec<Object> {
    let all = crds::hub().into_iter().map(|mut definition| {
        crds::serve_all(&mut definition);
        Object::from_typed(&definition)
    });
    all.collect()
}
