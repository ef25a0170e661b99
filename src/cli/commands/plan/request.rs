//! Plans from the input of a command: for a hub, a file, or the fleet of a report.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};

use super::age::ReportAge;
use super::charts::with_charts;
use super::random_values::Seeds;
use super::report::{AppliedCommits, ReadReport};
use super::signatures::{self, CommitCheck};
use super::{Args, decryption, report, rewind};
use crate::cli::CommandError;
use crate::cli::charts::Charts;
use crate::cli::checkout::Revisions;
use crate::cli::large_file::of_large_file;
use api::gitops::v1alpha1::{ConfigRepo, SecretHandling};
use controllers::hub::config_repo::{is_same_repository, is_same_source};
use object::duration;
use object::tree::Checkout;
use object::{Gvk, Key, Object};
use preview::{
    HubSnapshot, LeftOut, Preview, PreviewError, ProposedCommit, ReportedHub, of_report, of_same_source,
    preview,
};

/// A plan, and the missing Secrets without which the commit's signatures are not verified.
pub(super) type Planned = (Result<Preview, PreviewError>, BTreeSet<Key>);

/// The time that a cluster needs for a change, unless a rollout has a shorter deadline.
const SUCCEEDS_AFTER: SignedDuration = SignedDuration::from_secs(35);

/// The input of a plan.
pub(super) struct Request<'a> {
    pub(super) args: &'a Args,
    pub(super) repository: Revisions,
    pub(super) head: Arc<Checkout>,
    pub(super) base: Option<Arc<Checkout>>,
    pub(super) charts: RefCell<Charts>,
    pub(super) now: Timestamp,
}

impl Request<'_> {
    /// Plans for a hub. The signature keys are in `secrets`.
    pub(super) fn plan(&self, snapshot: &HubSnapshot, secrets: &[Object]) -> Result<Planned, CommandError> {
        let repo = config_repo(
            self.args.config_repo.as_ref(),
            &self.repository.urls(),
            snapshot.objects.iter().map(Arc::as_ref),
        )?;
        self.plan_from(&repo, snapshot, secrets, self.base_of_all(snapshot))
    }

    /// Plans for the hub snapshot in a file.
    pub(super) fn plan_of_file(&self, file: &Path) -> Result<Planned, CommandError> {
        again(|mut left_out| {
            let objects = of_large_file(file, &mut |json| left_out.read(json))?;
            let secrets: Vec<Object> = objects.iter().filter(|it| it.kind() == "Secret").cloned().collect();
            let objects = objects.into_iter().map(Arc::new).collect();
            self.plan(&HubSnapshot { objects, left_out, ..HubSnapshot::default() }, &secrets)
        })
    }

    /// Plans for the fleet of a report, which has no Secrets. Also returns the age of the report.
    pub(super) fn plan_of_report(&self, branch: &str) -> Result<(Planned, Option<ReportAge>), CommandError> {
        let Args { repository, report_repo, report_path, .. } = self.args;
        let other = report_repo.as_deref().map(|repo| repository.open_other(Some(repo))).transpose()?;
        let source = other.as_ref().unwrap_or(&self.repository);
        let mut age = None;
        let planned = again(|mut left_out| {
            let ReadReport { objects: reported, commit } =
                report::read(source, branch, report_path.as_deref(), |reader, file| {
                    left_out.read_reported(reader, file)
                })?;
            let repo = config_repo(self.args.config_repo.as_ref(), &self.repository.urls(), reported.iter())?;
            let read = ReportAge::new(commit, self.now);
            let interval = interval(&repo, &reported);
            let ReportedHub { snapshot, applied, warnings: lacking } = of_report(reported, &repo, self.now);
            let snapshot = HubSnapshot { left_out, ..snapshot };
            let (base, warnings) = match self.base {
                Some(_) => (self.base_of_all(&snapshot), Vec::new()),
                None => AppliedCommits::read(&self.repository, applied)?.base(&repo, &snapshot, self.now)?,
            };
            let mut planned = self.plan_from(&repo, &snapshot, &[], base)?;
            if let (Ok(preview), _) = &mut planned {
                preview.warnings.extend(warnings.into_iter().chain(lacking));
                preview.warnings.extend(read.warning(interval));
            }
            age = Some(read);
            Ok(planned)
        })?;
        Ok((planned, age))
    }

    /// Returns the base commit of the command for each ConfigRepo.
    fn base_of_all(&self, snapshot: &HubSnapshot) -> BTreeMap<Key, Arc<Checkout>> {
        let Some(base) = &self.base else { return BTreeMap::new() };
        let repos = snapshot.objects.iter().filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
        repos.map(|repo| (repo.key(), Arc::clone(base))).collect()
    }

    fn plan_from(
        &self,
        repo: &Key,
        snapshot: &HubSnapshot,
        secrets: &[Object],
        mut base: BTreeMap<Key, Arc<Checkout>>,
    ) -> Result<Planned, CommandError> {
        let repos = snapshot.objects.iter().filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
        let repos: Vec<ConfigRepo> = repos.filter_map(|object| object.to_typed().ok()).collect();
        let planned = repos.iter().find(|one| Key::of(*one) == *repo);
        let same_source =
            planned.map(|planned| of_same_source(repos.iter().cloned(), planned)).unwrap_or_default();
        let (mut refused, mut unverified) = (BTreeMap::new(), BTreeSet::new());
        for repo in &same_source {
            match self.check(repo, secrets)? {
                CommitCheck::Valid => {}
                CommitCheck::Unverified(secret) => {
                    unverified.insert(secret);
                }
                CommitCheck::Refused(reason) => {
                    refused.insert(Key::of(repo), reason);
                }
            }
        }
        let seeds = Seeds::new(&same_source, secrets);
        for (repo, applied) in AppliedCommits::read(&self.repository, seeds.applied())?.found {
            base.entry(repo).or_insert(applied);
        }
        let keys = decryption::keys(&same_source, secrets)?;
        for repo in &same_source {
            if let Some(checkout) = base.get_mut(&Key::of(repo)) {
                *checkout = with_charts(checkout, std::slice::from_ref(repo), &keys, &self.charts)?;
            }
        }
        let commit = ProposedCommit {
            repo: repo.clone(),
            base,
            head: with_charts(&self.head, &same_source, &keys, &self.charts)?,
            refused,
            seeds: seeds.known.clone(),
            keys,
            succeeds_after: self.args.succeeds_after.unwrap_or(SUCCEEDS_AFTER),
            meets_deadlines: self.args.succeeds_after.is_none(),
        };
        let mut planned = preview(snapshot, &commit, self.now);
        if let Ok(preview) = &mut planned {
            preview.warnings.extend(seeds.warnings());
            preview.warnings.extend(sealed_values(&same_source));
        }
        Ok((planned, unverified))
    }

    /// Makes the checks that the operator makes before it renders the commit for a ConfigRepo.
    fn check(&self, repo: &ConfigRepo, secrets: &[Object]) -> Result<CommitCheck, CommandError> {
        match rewind::refused(repo, &self.repository, self.base.as_deref(), &self.head)? {
            Some(reason) => Ok(CommitCheck::Refused(reason)),
            None => signatures::verify(repo, secrets, |how| {
                self.repository.refused_signature(&self.args.head, &self.head, how)
            }),
        }
    }
}

/// Returns the warning that a plan does not compare the values of encrypted Secrets.
fn sealed_values(repos: &[ConfigRepo]) -> Option<String> {
    let sealed = repos.iter().find(|repo| repo.spec.secrets != SecretHandling::Plain)?;
    let name = Key::of(sealed);
    Some(format!(
        "the ConfigRepo {name} encrypts Secrets for clusters; a plan has no key, so it shows no changes of their existing \
         values"
    ))
}

/// Returns the report interval of a ConfigRepo.
fn interval(repo: &Key, objects: &[Object]) -> SignedDuration {
    let is_it = |object: &&Object| object.gvk() == Gvk::of::<ConfigRepo>() && object.key() == *repo;
    let found = objects.iter().find(is_it).and_then(|object| object.to_typed::<ConfigRepo>().ok());
    let interval = found.and_then(|repo| duration::parse(&repo.spec.report?.interval));
    interval.unwrap_or(SignedDuration::from_secs(30))
}

/// Repeats a plan as long as it needs more objects of a large fleet.
fn again(mut plan: impl FnMut(LeftOut) -> Result<Planned, CommandError>) -> Result<Planned, CommandError> {
    let mut left_out = LeftOut::default();
    loop {
        match plan(left_out)? {
            (Err(PreviewError::LeftOut(scope)), _) => left_out = LeftOut::but(scope),
            planned => return Ok(planned),
        }
    }
}

/// Returns the ConfigRepo with the given name, or the one that follows the repository with these URLs. ConfigRepos
/// that follow the same reference get the same commit, so the first represents them all.
pub(in crate::cli::commands) fn config_repo<'a>(
    named: Option<&Key>,
    urls: &[String],
    objects: impl Iterator<Item = &'a Object>,
) -> Result<Key, CommandError> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let all = objects.filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
    let all: Vec<ConfigRepo> = all.filter_map(|object| object.to_typed().ok()).collect();
    let is_it = |repo: &&ConfigRepo| urls.iter().any(|url| is_same_repository(&repo.spec.url, url));
    let following: Vec<&ConfigRepo> = all.iter().filter(is_it).collect();
    let (candidates, which) = match following.is_empty() {
        true => (all.iter().collect(), ", and none follows this repository"),
        false => (following, " of this repository"),
    };
    match candidates.as_slice() {
        [] => Err(CommandError::hinted(
            anyhow!("the hub has no ConfigRepo"),
            "a plan is about the repository that a ConfigRepo follows; apply one first",
        )),
        [first, others @ ..] if others.iter().all(|other| is_same_source(first, other)) => {
            Ok(Key::of(*first))
        }
        [first, ..] => Err(CommandError::hinted(
            anyhow!("the hub has {} ConfigRepos{which}", candidates.len()),
            format!("name one, such as --config-repo {}", Key::of(*first)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_config_repo_of_the_repository_is_planned() {
        let repo = |name: &str, url: &str, branch: &str| {
            let spec = json!({"url": url, "ref": {"branch": branch}});
            let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
                "metadata": {"name": name, "namespace": "n"}, "spec": spec});
            Object::from_value(repo).unwrap()
        };
        let [fleet, ssh] = ["https://git.example/fleet.git", "git@git.example:fleet"];
        let other = "https://git.example/other";
        let check = |urls: &[&str], repos: &[Object], expected: Result<&str, &str>| {
            let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
            let chosen = config_repo(None, &urls, repos.iter());
            let chosen = chosen.map(|key| key.name).map_err(|refused| refused.error.to_string());
            assert_eq!(chosen.as_deref().map_err(String::as_str), expected, "{urls:?}");
        };
        let both = [repo("other", other, "main"), repo("fleet", fleet, "main")];
        check(&["/home/me/fleet", ssh], &both, Ok("fleet"));
        check(&["/home/me/fleet"], &both, Err("the hub has 2 ConfigRepos, and none follows this repository"));
        check(&["/home/me/fleet"], &both[..1], Ok("other"));
        let parts = [repo("apps", fleet, "main"), repo("infra", ssh, "main"), both[0].clone()];
        check(&[fleet], &parts, Ok("apps"));
        check(&[], &parts[..2], Ok("apps"));
        let branches = [repo("main", fleet, "main"), repo("next", fleet, "next")];
        check(&[fleet], &branches, Err("the hub has 2 ConfigRepos of this repository"));
        check(&[fleet], &[], Err("the hub has no ConfigRepo"));
    }
}
