//! Completes names from the hub: clusters, cluster sets, placements, add-ons, ManifestWorkReplicaSets and ConfigRepos.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use tokio::time::timeout;

use super::CommandError;
use super::connect::connect;
use super::help;
use super::runtime::block_on;
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::cluster::v1beta2::ManagedClusterSet;
use api::gitops::v1alpha1::ConfigRepo;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Key;

/// The environment variable in which the script of a shell asks for candidates.
pub(super) const VARIABLE: &str = "WHEELWRIGHT_COMPLETE";
/// The time limit for the hub. Without an answer, there are no candidates.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The maximum number of names to list per kind.
const LISTED: u32 = 1_000;

/// The objects whose names an argument takes.
#[derive(Clone, Copy, Debug)]
enum Subject {
    AddOn,
    Cluster,
    ClusterSet,
    ConfigRepo,
    Placement,
    Rollout,
}

/// The arguments with names from the hub: the command, the argument, and the objects.
const ARGUMENTS: &[(&str, &str, Subject)] = &[
    ("accept", "clusters", Subject::Cluster),
    ("addon disable", "clusters", Subject::Cluster),
    ("addon disable", "names", Subject::AddOn),
    ("addon enable", "clusters", Subject::Cluster),
    ("addon enable", "names", Subject::AddOn),
    ("clusterset bind", "set", Subject::ClusterSet),
    ("clusterset set", "clusters", Subject::Cluster),
    ("clusterset set", "set", Subject::ClusterSet),
    ("clusterset unbind", "set", Subject::ClusterSet),
    ("create work", "clusters", Subject::Cluster),
    ("create work", "placement", Subject::Placement),
    ("explain placement", "placement", Subject::Placement),
    ("explain rollout", "name", Subject::Rollout),
    ("get clusters", "name", Subject::Cluster),
    ("get clustersets", "name", Subject::ClusterSet),
    ("get works", "namespace", Subject::Cluster),
    ("migrate", "cluster", Subject::Cluster),
    ("pause", "name", Subject::Rollout),
    ("plan", "config_repo", Subject::ConfigRepo),
    ("repo approve", "name", Subject::ConfigRepo),
    ("repo reconcile", "name", Subject::ConfigRepo),
    ("repo resume", "name", Subject::ConfigRepo),
    ("repo suspend", "name", Subject::ConfigRepo),
    ("resume", "name", Subject::Rollout),
    ("rollout approve", "name", Subject::Rollout),
    ("rollout history", "cluster", Subject::Cluster),
    ("rollout pause", "name", Subject::Rollout),
    ("rollout resume", "name", Subject::Rollout),
    ("rollout status", "name", Subject::Rollout),
    ("rollout undo", "name", Subject::Rollout),
    ("taint", "cluster", Subject::Cluster),
    ("work create", "clusters", Subject::Cluster),
    ("work create", "placement", Subject::Placement),
    ("work rules", "cluster", Subject::Cluster),
];

/// Returns the command line with completion of names.
pub(super) fn command() -> Command {
    ARGUMENTS.iter().fold(help::command(), |command, (path, argument, subject)| {
        // `mut_arg` would change the order of positional arguments.
        let with_names = |known: Arg| match known.get_id() == argument {
            true => known.add(ArgValueCompleter::new(|start: &OsStr| candidates(*subject, start))),
            false => known,
        };
        help::change_at(command, path, |inner| inner.mut_args(with_names))
    })
}

/// Returns the names that start with `start`; none if the hub does not respond in time.
fn candidates(subject: Subject, start: &OsStr) -> Vec<CompletionCandidate> {
    let Some(start) = start.to_str() else { return Vec::new() };
    let words: Vec<String> = std::env::args().collect();
    let (kubeconfig, context) = (option(&words, "--kubeconfig"), option(&words, "--context"));
    let listing = async {
        let hub = connect(kubeconfig.map(PathBuf::from).as_deref(), context.as_deref()).await?;
        let mut names = Vec::new();
        for kind in subject.kinds() {
            let api: Api<DynamicObject> = Api::all_with(hub.clone(), &kind);
            let listed = api.list_metadata(&ListParams::default().limit(LISTED)).await?;
            names.extend(listed.items.into_iter().map(|object| {
                let (namespace, name) = (object.metadata.namespace, object.metadata.name);
                Key { namespace: namespace.unwrap_or_default(), name: name.unwrap_or_default() }.to_string()
            }));
        }
        Ok(names)
    };
    let listed: Result<Vec<String>, CommandError> = block_on(async { timeout(TIME_LIMIT, listing).await? });
    let names = listed.unwrap_or_default().into_iter();
    names.filter(|name| name.starts_with(start)).map(CompletionCandidate::new).collect()
}

impl Subject {
    fn kinds(self) -> Vec<ApiResource> {
        match self {
            Self::AddOn => vec![ApiResource::erase::<ClusterManagementAddOn>(&())],
            Self::Cluster => vec![ApiResource::erase::<ManagedCluster>(&())],
            Self::ClusterSet => vec![ApiResource::erase::<ManagedClusterSet>(&())],
            Self::ConfigRepo => vec![ApiResource::erase::<ConfigRepo>(&())],
            Self::Placement => vec![ApiResource::erase::<Placement>(&())],
            Self::Rollout => vec![
                ApiResource::erase::<ClusterManagementAddOn>(&()),
                ApiResource::erase::<ManifestWorkReplicaSet>(&()),
            ],
        }
    }
}

/// Returns the value of an option in the words of a command line. bash splits `--option=value` at the `=`.
fn option(words: &[String], name: &str) -> Option<String> {
    let mut rest = words.iter().skip_while(|word| !word.starts_with(name));
    if let Some((_, value)) = rest.next()?.split_once('=') {
        return Some(value.to_owned());
    }
    rest.find(|word| *word != "=").cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_with_names_exists() {
        let all = command();
        for (path, argument, _) in ARGUMENTS {
            let found =
                path.split(' ').try_fold(&all, |command, word| command.find_subcommand(word)).unwrap();
            let completed = found.get_arguments().find(|known| known.get_id() == argument).unwrap();
            assert!(completed.get::<ArgValueCompleter>().is_some(), "{path} {argument}");
        }
        all.debug_assert();
    }

    #[test]
    fn the_kubeconfig_of_the_command_line_is_used() {
        for words in [
            ["wheelwright", "--", "wheelwright", "status", "--kubeconfig", "x", ""].as_slice(),
            &["wheelwright", "--kubeconfig=x"],
            &["wheelwright", "--kubeconfig", "=", "x"],
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(option(&words, "--kubeconfig").as_deref(), Some("x"));
            assert_eq!(option(&words, "--context"), None);
        }
    }
}
