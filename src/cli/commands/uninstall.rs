//! `wheelwright uninstall`.

use std::process::ExitCode;

use anyhow::anyhow;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{Patch, PatchParams};
use object::{Key, Kind, Metadata as _, Object, ObjectRef, refers_to};
use serde_json::json;

use super::install::kinds;
use crate::cli::connect::HubArgs;
use crate::cli::duration::{Wait, wait};
use crate::cli::installation::{Deadline, Installer, flags, gone, manifests, stop_conversion};
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{Format, failed, list, print};
use crate::cli::{CommandError, CommandResult};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::ConfigRepo;
use api::names::cluster_profile::MULTICLUSTER_GROUP;
use api::names::{
    ADD_ONS_OWNED_ANNOTATION, ADDON_REMOVAL_FINALIZER, CLI, DASHBOARD, OPERATOR, SYSTEM_NAMESPACE, WEBHOOK,
};
use api::work::v1::ManifestWork;
use engine::cluster_manager::{NAMESPACE, OWNER};
use engine::installation::InstallationOptions;
use engine::plural::counted;

/// Uninstall the operator from a hub. The fleet stays.
///
/// Clusters, repositories, placements, add-ons and works keep what they have. The last line of the output is the
/// `wheelwright install` that manages them again, with the options of this installation.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Namespace of the operator.
    #[arg(short, long, default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// Also delete the definitions, and with them every object of their kinds. Refused while ConfigRepos,
    /// clusters or works exist.
    #[arg(long)]
    delete_definitions: bool,
    /// Time to wait until the operator has stopped and its objects are gone, such as `5m`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = wait)]
    wait: Wait,
    /// Show what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    /// Output format. `json`, `yaml` and `name` print the names of the deleted objects.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        let hub = args.hub.connect().await?;
        // In OCM's namespace, the registration operator installs objects, too.
        let owners: &[&str] = if args.namespace == NAMESPACE { &[CLI, OWNER] } else { &[CLI] };
        let installer = Installer { hub, dry_run: args.dry_run, take_ownership: false, owners };
        uninstall(args, &installer, ui).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The output: a line for each deletion, or the deleted objects at the end.
struct Uninstallation<'a> {
    ui: &'a mut Ui,
    format: Format,
    mark: &'static str,
    deleted: Vec<Object>,
    has_changed: bool,
}

impl Uninstallation<'_> {
    fn line(&mut self, line: impl AsRef<str>) -> Result<(), CommandError> {
        if self.format == Format::Text {
            self.ui.line(line)?;
        }
        Ok(())
    }

    /// Prints a change of the hub.
    fn change(&mut self, line: impl AsRef<str>) -> Result<(), CommandError> {
        self.has_changed = true;
        self.line(line)
    }

    /// Prints a deletion. Only the name is kept, because the objects include Secrets.
    fn deleted(&mut self, target: &ObjectRef) -> Result<(), CommandError> {
        let ObjectRef { gvk, key: Key { namespace, name } } = target;
        let metadata = match namespace.as_str() {
            "" => json!({"name": name}),
            namespace => json!({"name": name, "namespace": namespace}),
        };
        let object = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": metadata});
        self.deleted.push(Object::from_value(object)?);
        self.change(format!("{target} deleted{}", self.mark))
    }

    fn finish(self) -> Result<(), CommandError> {
        match self.format {
            Format::Text => Ok(()),
            format => print(self.ui, format, &self.deleted),
        }
    }
}

async fn uninstall(args: &Args, installer: &Installer, ui: &mut Ui) -> Result<(), CommandError> {
    let mark = if args.dry_run { " (dry run)" } else { "" };
    let (deleted, has_changed) = (Vec::new(), false);
    let mut done = Uninstallation { ui, format: args.output, mark, deleted, has_changed };
    let deadline = Deadline::new(args.wait);
    let wanted = manifests(&args.namespace, &InstallationOptions::default())?;
    if args.delete_definitions {
        must_be_empty(installer).await?;
    }
    let installed = installer.installed(&kinds(&wanted)).await?;
    // The survey returns an error for objects of a Helm release.
    let operator = ObjectRef::of::<Deployment>(Key::namespaced(&args.namespace, OPERATOR));
    let deployments: Vec<Object> =
        wanted.iter().filter(|object| object.reference() == operator).cloned().collect();
    installer.survey(&deployments).await?;
    if installed.is_empty() {
        installer.must_have_no_release(&operator).await?;
    }
    let install = install_command(&args.namespace, installer, &operator).await?;
    if installer.delete(&operator).await? {
        if !args.dry_run {
            gone(installer, &operator, deadline).await?;
        }
        done.deleted(&operator)?;
    }
    for name in release_add_ons(installer, args.delete_definitions).await? {
        done.change(format!("ClusterManagementAddOn {name} is no longer held by a removal budget{mark}"))?;
    }
    // API servers cannot convert a kind once its webhook is gone.
    for name in stop_conversion(&installer.hub, &args.namespace, args.dry_run).await? {
        done.change(format!(
            "CustomResourceDefinition {name} is no longer converted; it is served in its stored version{mark}"
        ))?;
    }
    let own = [
        ObjectRef::of::<Secret>(Key::namespaced(&args.namespace, WEBHOOK)),
        ObjectRef::of::<Secret>(Key::namespaced(&args.namespace, DASHBOARD)),
        ObjectRef::of::<Lease>(Key::namespaced(&args.namespace, OPERATOR)),
    ];
    let objects = installed.iter().map(Object::reference).filter(|target| *target != operator);
    for target in objects.chain(own) {
        if installer.delete(&target).await? {
            done.deleted(&target)?;
        }
    }
    if args.delete_definitions {
        let definitions =
            installer.installed(&[object::Gvk::of::<CustomResourceDefinition>()].into()).await?;
        // Other cluster managers use ClusterProfiles too.
        let is_of_fleet = |definition: &&Object| !definition.name().ends_with(MULTICLUSTER_GROUP);
        for definition in definitions.iter().filter(is_of_fleet) {
            installer.delete(&definition.reference()).await?;
            done.deleted(&definition.reference())?;
        }
    }
    if !done.has_changed {
        done.line("nothing is installed")?;
    }
    if !args.delete_definitions {
        done.line(format!(
            "The fleet stays: the definitions, their objects, and namespace {}.",
            args.namespace
        ))?;
        if let Some(install) = install {
            done.line(format!("Manage it again with: {install}"))?;
        }
    }
    done.finish()
}

/// Returns the command that reinstalls the operator with the same options; `None` if it is not installed or its
/// options cannot be read.
async fn install_command(
    namespace: &str,
    installer: &Installer,
    operator: &ObjectRef,
) -> Result<Option<String>, CommandError> {
    let Some(deployment) = installer.find(operator).await? else { return Ok(None) };
    let Ok(options) = InstallationOptions::from_deployment(&deployment) else { return Ok(None) };
    let mut words = vec!["wheelwright install".to_owned()];
    if namespace != SYSTEM_NAMESPACE {
        words.push(format!("--namespace={namespace}"));
    }
    words.extend(flags(options));
    Ok(Some(words.join(" ")))
}

/// Removes the finalizer of the removal budget from add-ons, because no operator handles it after the
/// uninstallation. Returns the names of the add-ons. Unless `all` is set, an add-on that is being deleted keeps
/// the finalizer: every cluster would lose the add-on at once.
async fn release_add_ons(installer: &Installer, all: bool) -> Result<Vec<String>, CommandError> {
    if !is_defined::<ClusterManagementAddOn>(installer).await? {
        return Ok(Vec::new());
    }
    let mut with_finalizer = list::<ClusterManagementAddOn>(&installer.hub, "", "").await?;
    with_finalizer
        .retain(|add_on| add_on.has_finalizer(ADDON_REMOVAL_FINALIZER) && (all || !add_on.is_terminating()));
    let released: Vec<String> = with_finalizer.iter().map(|add_on| add_on.name().to_owned()).collect();
    // Remove the finalizer last, so that a retry finds the remaining add-ons.
    disown_add_ons(installer, &released).await?;
    let add_ons: Api<ClusterManagementAddOn> = Api::all(installer.hub.clone());
    for add_on in with_finalizer {
        let finalizers: Vec<&String> =
            add_on.metadata.finalizers.iter().flatten().filter(|it| *it != ADDON_REMOVAL_FINALIZER).collect();
        let patch = json!({"metadata": {
            "resourceVersion": add_on.metadata.resource_version, "finalizers": finalizers,
            "annotations": {ADD_ONS_OWNED_ANNOTATION: null},
        }});
        let params = PatchParams { dry_run: installer.dry_run, ..PatchParams::default() };
        let patched = add_ons.patch(add_on.name(), &params, &Patch::Merge(patch)).await;
        patched.map_err(failed(format!("change ClusterManagementAddOn {}", add_on.name())))?;
    }
    Ok(released)
}

/// Removes the clusters from the owner references of add-ons. As long as they are owners, garbage collection would
/// keep the add-ons of a deleted ClusterManagementAddOn.
async fn disown_add_ons(installer: &Installer, released: &[String]) -> Result<(), CommandError> {
    if released.is_empty() {
        return Ok(());
    }
    let mut add_ons = list::<ManagedClusterAddOn>(&installer.hub, "", "").await?;
    add_ons.retain(|add_on| released.iter().any(|name| name == add_on.name()));
    for add_on in add_ons {
        let (owners, cluster) =
            (add_on.metadata.owner_references.as_deref().unwrap_or_default(), add_on.namespace());
        let is_other = |owner: &&OwnerReference| !refers_to::<ManagedCluster>(owner, cluster);
        let others: Vec<&OwnerReference> = owners.iter().filter(is_other).collect();
        if others.len() == owners.len() {
            continue;
        }
        let patch = json!({
            "metadata": {"resourceVersion": add_on.metadata.resource_version, "ownerReferences": others},
        });
        let params = PatchParams { dry_run: installer.dry_run, ..PatchParams::default() };
        let add_ons: Api<ManagedClusterAddOn> = Api::namespaced(installer.hub.clone(), cluster);
        let patched = add_ons.patch(add_on.name(), &params, &Patch::Merge(patch)).await;
        patched.map_err(failed(format!("change ManagedClusterAddOn {cluster}/{}", add_on.name())))?;
    }
    Ok(())
}

async fn is_defined<K: Kind>(installer: &Installer) -> Result<bool, CommandError> {
    let definition = Key::cluster(format!("{}.{}", K::plural(&()), K::group(&())));
    Ok(installer.find(&ObjectRef::of::<CustomResourceDefinition>(definition)).await?.is_some())
}

/// Returns an error if the hub has objects: deleting CRDs deletes all objects of their kinds, and agents remove
/// the manifests of deleted works.
async fn must_be_empty(installer: &Installer) -> Result<(), CommandError> {
    let operator = "while the operator runs";
    let hint = format!("kubectl delete configrepos --all --all-namespaces, {operator}");
    refuse::<ConfigRepo>(installer, hint).await?;
    let hint = format!("remove the add-ons and works from the clusters, {operator}");
    refuse::<ManifestWork>(installer, hint).await?;
    let hint = "wheelwright unjoin on each cluster, then kubectl delete managedclusters --all";
    refuse::<ManagedCluster>(installer, hint.into()).await
}

async fn refuse<K: Kind>(installer: &Installer, hint: String) -> Result<(), CommandError> {
    if !is_defined::<K>(installer).await? {
        return Ok(());
    }
    match list::<K>(&installer.hub, "", "").await?.len() {
        0 => Ok(()),
        found => Err(CommandError::hinted(anyhow!("the hub has {}", counted(found, &K::kind(&()))), hint)),
    }
}
