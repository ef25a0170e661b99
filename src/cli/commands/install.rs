//! `wheelwright install`, and the code that it shares with `wheelwright upgrade`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::apps::v1::Deployment;
use object::{Gvk, Key, Object, ObjectRef};

use crate::cli::connect::{HubArgs, check_version, is_embedded};
use crate::cli::duration::{Wait, wait};
use crate::cli::installation::{
    ApplyResult, Deadline, Installer, OptionArgs, definitions_served, deployment_available, manifests,
    namespace, take_conversion,
};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{Format, print};
use crate::cli::{CommandError, CommandResult};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{CLI, OPERATOR, SYSTEM_NAMESPACE};
use engine::installation::InstallationOptions;
use engine::plural::counted;

/// The timeout in seconds for the CRDs to be served.
const DEFINITIONS: u64 = 60;

/// Install the operator on a hub: definitions, roles, admission policies and the Deployment, as in the chart.
///
/// You can run the command again. Options that you omit keep their installed values, and an empty value
/// clears a list. The command waits until the operator runs. With `--dry-run -o yaml`, it prints the objects
/// for a repository without connecting to a hub.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Namespace of the operator.
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_parser = namespace)]
    namespace: String,
    #[command(flatten)]
    options: OptionArgs,
    /// Take over existing objects, such as the definitions of OCM and their conversion webhook.
    #[arg(long)]
    take_ownership: bool,
    /// Time to wait until the operator runs, such as `5m`. 0 does not wait.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = wait)]
    wait: Wait,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Output format. `json`, `yaml` and `name` print the objects.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if args.dry_run && args.options.options().image.is_none() {
        ui.error("note: `wheelwright install` needs --image on a hub without the operator; no registry has its image yet")?;
    }
    if args.dry_run && args.output != Format::Text {
        print(ui, args.output, &manifests(&args.namespace, &args.options.options())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    block_on(async {
        let installer = args.connect().await?;
        let installed = args.installed(&installer).await?;
        let waits = !args.dry_run && !args.wait.is_zero();
        if waits && installed.is_none() && args.options.options().image.is_none() {
            let error = anyhow!("--image is required, because no registry has the operator's image yet");
            let hint = "`make image` builds it (docs/operating.md); then name it: --image REGISTRY/wheelwright:VERSION";
            return Err(CommandError::hinted(error, hint));
        }
        let code = install(args, &installer, installed.unwrap_or_default(), ui).await?;
        if !args.dry_run && args.output == Format::Text {
            ui.line("Next: wheelwright doctor checks the hub; examples-repo/bootstrap/config-repo.yaml names a repository.")?;
            ui.line("wheelwright get token prints the command with which a cluster joins.")?;
        }
        Ok(code)
    })
}

/// Runs `wheelwright upgrade`: returns an error if nothing is installed on the hub.
pub(super) fn upgrade(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let installer = args.connect().await?;
        let Some(installed) = args.installed(&installer).await? else {
            let error = anyhow!("there is no Deployment {}/{OPERATOR}", args.namespace);
            return Err(CommandError::hinted(
                error,
                "wheelwright install; --namespace names another namespace",
            ));
        };
        let current = installed.image.clone().filter(|_| args.options.options().image.is_none());
        let code = install(args, &installer, installed, ui).await?;
        if let Some(image) = current.filter(|image| !image.ends_with(concat!(":", env!("CARGO_PKG_VERSION"))))
            && args.output == Format::Text
        {
            let version = env!("CARGO_PKG_VERSION");
            ui.line(format!(
                "The operator keeps the image {image}; --image names that of version {version}."
            ))?;
        }
        if !args.dry_run && args.output == Format::Text {
            ui.line("Next: wheelwright doctor checks the hub.")?;
        }
        Ok(code)
    })
}

impl Args {
    async fn connect(&self) -> Result<Installer, CommandError> {
        let hub = self.hub.connect().await?;
        if is_embedded(&hub).await? {
            let error = anyhow!("the hub is an embedded one, which runs no pods");
            let hint = "run the operator next to it: wheelwright operator --kubeconfig admin.kubeconfig";
            return Err(CommandError::hinted(error, hint));
        }
        check_version(&hub).await?;
        Ok(Installer { hub, dry_run: self.dry_run, take_ownership: self.take_ownership, owners: &[CLI] })
    }

    /// Returns the options of the existing installation.
    async fn installed(&self, installer: &Installer) -> Result<Option<InstallationOptions>, CommandError> {
        let target = ObjectRef::of::<Deployment>(Key::namespaced(&self.namespace, OPERATOR));
        let Some(deployment) = installer.find(&target).await? else { return Ok(None) };
        Ok(Some(
            InstallationOptions::from_deployment(&deployment)
                .context("cannot read the options of the installation")?,
        ))
    }
}

async fn install(
    args: &Args,
    installer: &Installer,
    installed: InstallationOptions,
    ui: &mut Ui,
) -> CommandResult {
    let wanted = manifests(&args.namespace, &args.options.options().over(installed))?;
    let deadline = Deadline::new(args.wait);
    // Make all checks before the first write.
    installer.must_have_namespaces(&wanted).await?;
    must_be_the_only_one(installer, &args.namespace).await?;
    let present = installer.survey(&wanted).await?;
    let is_quiet = args.output != Format::Text;
    let mark = if args.dry_run { " (dry run)" } else { "" };
    let (definitions, others): (Vec<_>, Vec<_>) =
        wanted.iter().zip(&present).partition(|(object, _)| object.kind() == "CustomResourceDefinition");
    let mut say = |object: &Object, change: ApplyResult| match is_quiet {
        true => Ok(()),
        false => ui.line(format!("{} {}{mark}", object.reference(), change.word())),
    };
    for (object, present) in &definitions {
        say(object, installer.apply(object, present.as_ref()).await?)?;
    }
    if !args.dry_run {
        let names: Vec<String> = definitions.iter().map(|(object, _)| object.name().to_owned()).collect();
        definitions_served(&installer.hub, &names, Deadline::from_seconds(DEFINITIONS)).await?;
    }
    for (object, present) in &others {
        say(object, installer.apply(object, present.as_ref()).await?)?;
    }
    for stale in stale(installer, &wanted).await? {
        installer.delete(&stale.reference()).await?;
        say(&stale, ApplyResult::Deleted)?;
    }
    if is_quiet {
        print(ui, args.output, &wanted)?;
    } else if !args.dry_run {
        await_operator(args, installer, deadline, ui).await?;
    }
    // Last, because OCM's webhook may serve conversions until the operator runs.
    if args.take_ownership {
        for name in take_conversion(installer, &args.namespace).await? {
            if !is_quiet {
                ui.line(format!("{name} now uses the operator's conversion webhook{mark}"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if the operator is installed in another namespace. A wrong name would remove that installation, with options
/// that this one does not have.
async fn must_be_the_only_one(installer: &Installer, namespace: &str) -> Result<(), CommandError> {
    let installed = installer.installed(&BTreeSet::from([Gvk::of::<Deployment>()])).await?;
    let is_other = |one: &&Object| one.name() == OPERATOR && one.namespace() != namespace;
    let Some(other) = installed.iter().find(is_other).map(Object::namespace) else { return Ok(()) };
    let error = anyhow!("the operator is installed in the namespace {other}");
    let hint = format!(
        "name it with --namespace {other}; to move the operator, first run `wheelwright uninstall --namespace {other}`, which keeps the fleet"
    );
    Err(CommandError::hinted(error, hint))
}

/// Returns objects of an earlier version that this version does not have. CRDs are kept, because the fleet's
/// objects depend on them.
async fn stale(installer: &Installer, wanted: &[Object]) -> Result<Vec<Object>, CommandError> {
    let mut installed = installer.installed(&kinds(wanted)).await?;
    let keep: BTreeSet<ObjectRef> = wanted.iter().map(Object::reference).collect();
    installed.retain(|object| !keep.contains(&object.reference()));
    Ok(installed)
}

/// Returns the kinds of the installed objects, except for CRDs and namespaces. RolloutPolicy is always included,
/// because only installations with a profile have one.
pub(super) fn kinds(wanted: &[Object]) -> BTreeSet<Gvk> {
    let is_own = |object: &&Object| !["CustomResourceDefinition", "Namespace"].contains(&object.kind());
    wanted.iter().filter(is_own).map(Object::gvk).chain([Gvk::of::<RolloutPolicy>()]).collect()
}

async fn await_operator(
    args: &Args,
    installer: &Installer,
    deadline: Deadline,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    if !args.wait.is_zero() {
        ui.line(format!("waiting up to {} for the operator", args.wait))?;
        let operators = deployment_available(&installer.hub, &args.namespace, deadline).await?;
        ui.line(format!("{} available in namespace {}", counted(operators, "operator"), args.namespace))?;
    }
    Ok(())
}
