//! Flags of OCM's agents that have no effect here or are rejected, and the command lines of their pods.

use std::ffi::OsString;
use std::path::Path;

use anyhow::anyhow;
use clap::Command;
use tracing::warn;

use crate::cli::CommandError;

/// Flags that pods of OCM's agents have. A value that would change what an agent does is refused.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct OcmArgs {
    #[arg(long, hide = true, default_value = "kube")]
    workload_source_driver: String,
    #[arg(long, hide = true)]
    workload_source_config: Option<String>,
    #[arg(long, hide = true, default_value = "csr")]
    registration_auth: String,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    disable_leader_election: Option<String>,
    #[arg(long, hide = true)]
    kube_api_qps: Option<String>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<String>,
    #[arg(long, hide = true)]
    terminate_on_files: Vec<String>,
    #[arg(long, hide = true)]
    cloudevents_client_id: Option<String>,
    #[arg(long, hide = true)]
    cluster_healthcheck_period: Option<String>,
    #[arg(long, hide = true)]
    status_sync_interval: Option<String>,
    #[arg(long, hide = true)]
    max_json_raw_length: Option<String>,
    #[arg(long, hide = true)]
    hub_kube_api_qps: Option<String>,
    #[arg(long, hide = true)]
    hub_kube_api_burst: Option<String>,
    #[arg(long, hide = true)]
    workload_agent_workers: Option<String>,
    #[arg(long, hide = true)]
    max_feedback_watch: Option<String>,
    #[command(flatten)]
    unknown: UnknownFlags,
}

/// Flags of a pod of OCM's that the command does not have; [`translated`] collects them.
#[derive(Debug, Default, clap::Args)]
pub(super) struct UnknownFlags {
    #[arg(long = "unknown-flag", hide = true)]
    flags: Vec<String>,
}

impl UnknownFlags {
    /// Logs a warning for each unknown flag.
    pub(super) fn warn(&self) {
        for flag in &self.flags {
            warn!(flag, "ignoring a flag that this program does not have");
        }
    }
}

impl OcmArgs {
    /// Rejects drivers that this agent does not have, and warns about flags that have no effect.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        let Self {
            workload_source_driver,
            workload_source_config: _,
            registration_auth,
            disable_leader_election: _,
            kube_api_qps: _,
            kube_api_burst: _,
            terminate_on_files: _,
            cloudevents_client_id: _,
            cluster_healthcheck_period,
            status_sync_interval,
            max_json_raw_length,
            hub_kube_api_qps: _,
            hub_kube_api_burst: _,
            workload_agent_workers: _,
            max_feedback_watch,
            unknown,
        } = self;
        let drivers = [
            ("workload-source-driver", workload_source_driver, "kube"),
            ("registration-auth", registration_auth, "csr"),
        ];
        for (flag, value, only) in drivers {
            if !value.is_empty() && value != only {
                let error = anyhow!("--{flag}: this agent does not support the driver {value:?}");
                return Err(CommandError::hinted(error, format!("leave the flag out, or use {only}")));
            }
        }
        let without_effect = [
            ("cluster-healthcheck-period", cluster_healthcheck_period),
            ("status-sync-interval", status_sync_interval),
            ("max-json-raw-length", max_json_raw_length),
            ("max-feedback-watch", max_feedback_watch),
        ];
        for (flag, value) in without_effect {
            if let Some(value) = value {
                warn!(flag, value, "ignoring the flag: the agent uses its own value");
            }
        }
        unknown.warn();
        Ok(())
    }
}

/// The feature gates of OCM's agents that this agent implements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FeatureGates {
    pub(super) cluster_claim: bool,
    pub(super) addon_management: bool,
}

/// The other feature gates of OCM's agents, each with true if this agent always behaves as if the gate were on.
/// Setting them has no effect. Several bootstrap kubeconfigs imply MultipleHubs.
const OTHER_GATES: [(&str, bool); 5] = [
    ("ClusterProperty", false),
    ("MultipleHubs", true),
    ("ExecutorValidatingCaches", false),
    ("RawFeedbackJsonString", true),
    ("V1beta1CSRAPICompatibility", false),
];

/// Returns true if this agent does not follow a gate that is set to `is_on`; `None` if the gate does not exist.
pub(super) fn is_without_effect(gate: &str, is_on: bool) -> Option<bool> {
    match gate {
        "AllAlpha" | "AllBeta" => Some(is_on),
        gate => OTHER_GATES.iter().find(|(name, _)| *name == gate).map(|(_, does)| *does != is_on),
    }
}

impl FeatureGates {
    /// Parses `NAME=BOOL` pairs.
    pub(super) fn parse(pairs: &[String]) -> Result<Self, CommandError> {
        let mut gates = Self { cluster_claim: true, addon_management: true };
        for pair in pairs.iter().map(|pair| pair.trim()).filter(|pair| !pair.is_empty()) {
            let read =
                pair.split_once('=').and_then(|(name, is_on)| Some((name, is_on.parse::<bool>().ok()?)));
            let Some((name, is_on)) = read else {
                let error = anyhow!("--feature-gates: {pair:?} is not a feature gate with a value");
                return Err(CommandError::hinted(error, "write NAME=true or NAME=false"));
            };
            match name {
                "ClusterClaim" => gates.cluster_claim = is_on,
                "AddonManagement" => gates.addon_management = is_on,
                name => match is_without_effect(name, is_on) {
                    Some(true) => warn!(gate = pair, "the feature gate has no effect"),
                    Some(false) => {}
                    None => {
                        let error = anyhow!("--feature-gates: there is no gate {name:?}");
                        let others: Vec<&str> = OTHER_GATES.iter().map(|(name, _)| *name).collect();
                        let hint =
                            format!("the gates are ClusterClaim, AddonManagement, {}", others.join(", "));
                        return Err(CommandError::hinted(error, hint));
                    }
                },
            }
        }
        Ok(gates)
    }
}

/// Translates the command line of an OCM pod, such as `/registration agent --spoke-cluster-name=c1`. The image's
/// entry point is this program, or this program is linked under that name. Other command lines are unchanged.
/// `own` returns the command line of this program.
pub(crate) fn translated(args: Vec<OsString>, own: fn() -> Command) -> Vec<OsString> {
    const DIRECTORY: &str = "--hub-kubeconfig-dir=/spoke/hub-kubeconfig";
    const HEALTH: [&str; 2] = ["--listen=0.0.0.0:8443", "--listen-tls"];
    let program = |arg: Option<&OsString>| {
        let path = Path::new(arg?);
        let name = path.file_name()?.to_str()?;
        ["registration", "work", "registration-operator"].into_iter().find(|known| *known == name)
    };
    let is_path = args.get(1).is_some_and(|arg| Path::new(arg).is_absolute());
    let (program, rest) = match (program(args.first()), program(args.get(1)).filter(|_| is_path)) {
        (Some(program), _) => (program, args.get(1..)),
        (None, Some(program)) => (program, args.get(2..)),
        (None, None) => return args,
    };
    let rest = rest.unwrap_or_default();
    if program == "registration-operator"
        && rest.first().is_some_and(|command| command == "klusterlet" || command == "hub")
    {
        let head = ["wheelwright", "registration-operator"].map(OsString::from);
        let rest = known("registration-operator", rest, own());
        return head.into_iter().chain(rest).chain(HEALTH.map(OsString::from)).collect();
    }
    if rest.first().is_none_or(|command| command != "agent") {
        return args;
    }
    let has = |flag: &str| rest.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.starts_with(flag)));
    let mut translated: Vec<OsString> = vec!["wheelwright".into(), "agent".into()];
    let controllers = match program {
        "registration" => Some("--controllers=*,-work-agent,-unmanaged-applied-work"),
        "work" => Some("--controllers=work-agent,unmanaged-applied-work"),
        _ => None,
    };
    translated.extend(controllers.filter(|_| !has("--controllers")).map(OsString::from));
    if program != "work" && !has("--hub-kubeconfig-dir") {
        translated.push(DIRECTORY.into());
    }
    // Without this flag, OCM's agents manage their own cluster.
    if has("--spoke-kubeconfig") && !has("--hosted") {
        translated.push("--hosted".into());
    }
    if !has("--listen") {
        translated.extend(HEALTH.map(OsString::from));
    }
    translated.extend(known("agent", rest.get(1..).unwrap_or_default(), own()));
    translated
}

/// Passes flags that a command does not have to `--unknown-flag`: a new OCM release may add flags, and a pod that
/// exits because of one manages no cluster.
fn known(command: &str, args: &[OsString], mut own: Command) -> Vec<OsString> {
    own.build();
    // The program of the agent has no subcommands.
    let command = own.find_subcommand(command).unwrap_or(&own);
    let is_known = |flag: &str| {
        let name = flag.split('=').next().unwrap_or_default();
        let is_it = |arg: &clap::Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        };
        command.get_arguments().any(is_it)
    };
    let mut is_unknown = false;
    let mut marked = Vec::new();
    for arg in args {
        let text = arg.to_string_lossy();
        if let Some(flag) = text.strip_prefix("--") {
            is_unknown = !is_known(flag);
        } else if text.starts_with("-v") {
            // The value of `-v`, klog's verbosity. Our `-v` has no value.
            is_unknown = true;
        }
        marked.push(if is_unknown { format!("--unknown-flag={text}").into() } else { arg.clone() });
    }
    marked
}
