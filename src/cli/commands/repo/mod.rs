//! `wheelwright repo`: shows, approves, suspends, resumes and reconciles ConfigRepos.

mod approve;
mod diff;
mod get;
mod history;
mod reconcile;
mod suspend;

use anyhow::anyhow;
use api::gitops::v1alpha1::ConfigRepo;
use kube::Client;
use object::{Key, Metadata as _};

use crate::cli::writer::list;
use crate::cli::{CommandError, CommandResult, output::Ui};

/// Show ConfigRepos, fetch now, suspend, resume, and approve what waits for a person.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Get(get::Args),
    History(history::Args),
    Diff(diff::Args),
    Reconcile(reconcile::Args),
    Suspend(suspend::Args),
    Resume(suspend::ResumeArgs),
    Approve(approve::Args),
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.verb {
        Verb::Get(args) => get::run(args, ui),
        Verb::History(args) => history::run(args, ui),
        Verb::Diff(args) => diff::run(args, ui),
        Verb::Reconcile(args) => reconcile::run(args, ui),
        Verb::Suspend(args) => suspend::run(args, ui),
        Verb::Resume(args) => suspend::resume(args, ui),
        Verb::Approve(args) => approve::run(args, ui),
    }
}

/// The ConfigRepo that a command is about.
#[derive(Debug, clap::Args)]
struct RepoName {
    /// Name of the ConfigRepo. The namespace is required only if several namespaces have a ConfigRepo with
    /// this name.
    #[arg(value_name = "[NAMESPACE/]NAME")]
    name: String,
    /// Namespace of the ConfigRepo, if NAME does not start with it.
    #[arg(short, long)]
    namespace: Option<String>,
}

impl RepoName {
    /// Finds the ConfigRepo.
    ///
    /// # Errors
    /// Fails if no ConfigRepo has this name, or ConfigRepos in several namespaces do.
    async fn find(&self, hub: &Client) -> Result<ConfigRepo, CommandError> {
        let namespace = self.name.split_once('/').map(|(namespace, _)| namespace);
        let namespace = namespace.or(self.namespace.as_deref()).unwrap_or_default();
        self.choose(list::<ConfigRepo>(hub, namespace, "").await?)
    }

    fn choose(&self, repos: Vec<ConfigRepo>) -> Result<ConfigRepo, CommandError> {
        let is_named = |repo: &ConfigRepo| match self.name.split_once('/') {
            Some((namespace, name)) => repo.namespace() == namespace && repo.name() == name,
            None => repo.name() == self.name,
        };
        let keys = |repos: &[ConfigRepo]| {
            repos.iter().map(|repo| Key::of(repo).to_string()).collect::<Vec<_>>().join(", ")
        };
        let (mut named, others): (Vec<_>, Vec<_>) = repos.into_iter().partition(is_named);
        match (named.pop(), named.is_empty()) {
            (Some(repo), true) => Ok(repo),
            (Some(repo), false) => {
                named.push(repo);
                let error = anyhow!("several namespaces have a ConfigRepo {}", self.name);
                Err(CommandError::hinted(error, format!("name one of {}", keys(&named))))
            }
            (None, _) => {
                let hint = match (others.is_empty(), &self.namespace) {
                    (true, Some(namespace)) => format!("the namespace {namespace} has no ConfigRepo"),
                    (true, None) => {
                        "the hub has no ConfigRepo; docs/tutorial.md creates the first".to_owned()
                    }
                    (false, _) => format!("the hub has {}", keys(&others)),
                };
                Err(CommandError::hinted(anyhow!("there is no ConfigRepo {}", self.name), hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_with_its_namespace_only_if_several_have_the_name() {
        let repo = |namespace: &str, name: &str| {
            let mut repo = ConfigRepo::default();
            repo.metadata.namespace = Some(namespace.into());
            repo.metadata.name = Some(name.into());
            repo
        };
        let repos = [repo("a", "fleet"), repo("b", "fleet"), repo("b", "apps")];
        let choose = |name: &str| RepoName { name: name.into(), namespace: None }.choose(repos.to_vec());
        let found = |name: &str| choose(name).map(|repo| Key::of(&repo).to_string()).ok();
        assert_eq!(found("apps").as_deref(), Some("b/apps"));
        assert_eq!(found("a/fleet").as_deref(), Some("a/fleet"));
        let refused = |name: &str| {
            let error = choose(name).unwrap_err();
            format!("{}; {}", error.error, error.hint.unwrap())
        };
        assert_eq!(
            refused("fleet"),
            "several namespaces have a ConfigRepo fleet; name one of a/fleet, b/fleet"
        );
        assert_eq!(refused("flet"), "there is no ConfigRepo flet; the hub has a/fleet, b/fleet, b/apps");
    }
}
