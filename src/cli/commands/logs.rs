//! `wheelwright logs`.

use std::io;
use std::process::ExitCode;

use anyhow::anyhow;
use futures::stream::{BoxStream, iter, select_all};
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, LogParams};
use object::Metadata as _;

use crate::cli::connect::HubArgs;
use crate::cli::duration::at_least;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::failed;
use crate::cli::{CommandError, CommandResult};
use crate::shell::{message, stop_on_signal};
use api::names::{AGENT, AGENT_NAMESPACE, SYSTEM_NAMESPACE};
use object::text::plain;

/// The longest line to print, in characters.
const LONGEST_LINE: usize = 16 << 10;

/// Print the logs of the operator, or of an agent in its cluster.
///
/// The command prints the logs of all pods of the program. If there are several, each line starts with the name of
/// its pod.
#[derive(Debug, clap::Args)]
#[command(mut_arg("kubeconfig", |arg| arg.help(
    "Kubeconfig of the hub, or of the cluster of the agent. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod"
)))]
pub(crate) struct Args {
    /// Program whose logs to print.
    #[arg(value_enum, default_value_t)]
    program: Program,
    /// Namespace of the pods. Default: `wheelwright-system`, or `open-cluster-management-agent` for the agent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Keep running until Ctrl-C, and print each new line.
    #[arg(short, long)]
    follow: bool,
    /// Print only lines that are newer than this, such as `5m`.
    #[arg(long, value_name = "DURATION", value_parser = at_least(SignedDuration::from_secs(1)))]
    since: Option<SignedDuration>,
    /// Maximum number of lines of each pod, from the end. -1 prints all.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, allow_negative_numbers = true)]
    tail: i64,
    /// Print the log of the container that ran before the last restart.
    #[arg(short, long, conflicts_with = "follow")]
    previous: bool,
    #[command(flatten)]
    cluster: HubArgs,
}

/// The annotation that names the container to choose if a pod has several.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A program that runs in pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    /// The operator of a hub.
    #[default]
    Operator,
    /// The agent of a managed cluster.
    Agent,
    /// The registration operator of a managed cluster or a hub.
    RegistrationOperator,
}

impl Program {
    /// Returns the value of the label `app.kubernetes.io/name` of its pods.
    fn label(self) -> &'static str {
        match self {
            Self::Operator => "wheelwright",
            Self::Agent => AGENT,
            Self::RegistrationOperator => "wheelwright-registration-operator",
        }
    }

    fn namespace(self) -> &'static str {
        if self == Self::Agent { AGENT_NAMESPACE } else { SYSTEM_NAMESPACE }
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let namespace = args.namespace.as_deref().unwrap_or(args.program.namespace());
        let pods: Api<Pod> = Api::namespaced(args.cluster.connect().await?, namespace);
        let found = args.pods(&pods, namespace).await?;
        let (mut logs, mut unread) = (Vec::new(), 0);
        for pod in &found {
            let name = pod.name();
            match pods.log_stream(name, &args.parameters(pod)).await {
                Ok(log) => {
                    let start = if found.len() > 1 { format!("{name} ") } else { String::new() };
                    let lines =
                        log.lines().map_ok(move |line| format!("{start}{}", plain(&line, LONGEST_LINE)));
                    logs.push(lines.boxed());
                }
                Err(error) => {
                    ui.error(format!("cannot read the log of pod {namespace}/{name}: {}", message(&error)))?;
                    unread += 1;
                }
            }
        }
        print(logs, args.follow, ui).await?;
        Ok(if unread == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Prints logs until they or the user end: one after the other, or as their lines arrive.
async fn print(
    logs: Vec<BoxStream<'_, io::Result<String>>>,
    follow: bool,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let stop = stop_on_signal();
    let mut lines = if follow { select_all(logs).boxed() } else { iter(logs).flatten().boxed() };
    while let Some(Some(line)) = stop.run_until_cancelled(lines.next()).await {
        ui.line(line.map_err(|error| anyhow!("cannot read a log: {error}"))?)?;
    }
    Ok(())
}

impl Args {
    /// Returns the pods of the program.
    ///
    /// # Errors
    /// Fails if there is none.
    async fn pods(&self, pods: &Api<Pod>, namespace: &str) -> Result<Vec<Pod>, CommandError> {
        let label = format!("app.kubernetes.io/name={}", self.program.label());
        let list = pods.list(&ListParams::default().labels(&label)).await;
        let list = list.map_err(failed(format!("list the pods of {namespace}")))?;
        if list.items.is_empty() {
            let error = anyhow!("there is no pod with the label {label} in the namespace {namespace}");
            let hint = "name another namespace with -n, or another cluster with --kubeconfig; a program that does not run as \
                        a pod logs to its standard error";
            return Err(CommandError::hinted(error, hint));
        }
        Ok(list.items)
    }

    /// Returns the parameters for the log of a pod: of the container that kubectl would choose, because a pod can have
    /// injected ones.
    fn parameters(&self, pod: &Pod) -> LogParams {
        let named = || pod.metadata.annotations.as_ref()?.get(DEFAULT_CONTAINER).cloned();
        let first = || Some(pod.spec.as_ref()?.containers.first()?.name.clone());
        LogParams {
            container: named().or_else(first),
            follow: self.follow,
            previous: self.previous,
            since_seconds: self.since.map(|since| since.as_secs()),
            tail_lines: (self.tail >= 0).then_some(self.tail),
            ..LogParams::default()
        }
    }
}
