//! The input of a plan, and the plans it leads to: for a hub, and for the fleet of a report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use jiff::Timestamp;

use super::report::AppliedCommits;
use super::signatures::{self, CommitCheck};
use super::{Args, report, rewind};
use crate::cli::CommandError;
use crate::cli::checkout::Revisions;
use crate::cli::large_file::of_large_file;
use api::gitops::v1alpha1::ConfigRepo;
use object::tree::Checkout;
use object::{Gvk, Key, Object};
use sim::preview::{HubSnapshot, LeftOut, Preview, PreviewError, ProposedCommit, ReportedHub, of_report, preview};

/// A plan, and the Secret without which the signatures of its commit are not verified.
pub(super) type Planned = (Result<Preview, PreviewError>, Option<Key>);

/// The input of a plan.
pub(super) struct Request<'a> {
    pub(super) args: &'a Args,
    pub(super) repository: Revisions,
    pub(super) head: Arc<Checkout>,
    pub(super) base: Option<Arc<Checkout>>,
    pub(super) now: Timestamp,
}

impl Request<'_> {
    /// Plans for a hub. The keys of signatures are in `secrets`.
    pub(super) fn plan(&self, snapshot: &HubSnapshot, secrets: &[Object]) -> Result<Planned, CommandError> {
        let repo = config_repo(self.args.config_repo.as_ref(), snapshot.objects.iter().map(Arc::as_ref))?;
        self.plan_from(&repo, snapshot, secrets, self.base_of_all(snapshot))
    }

    /// Plans for the hub of a file.
    pub(super) fn plan_of_file(&self, file: &Path) -> Result<Planned, CommandError> {
        again(|mut left_out| {
            let objects = of_large_file(file, &mut |json| left_out.read(json))?;
            let secrets: Vec<Object> = objects.iter().filter(|it| it.kind() == "Secret").cloned().collect();
            let objects = objects.into_iter().map(Arc::new).collect();
            self.plan(&HubSnapshot { objects, left_out, ..HubSnapshot::default() }, &secrets)
        })
    }

    /// Plans for the fleet of a report, which has no Secrets.
    pub(super) fn plan_of_report(&self, branch: &str) -> Result<Planned, CommandError> {
        let Args { repository, report_repo, report_path, .. } = self.args;
        let other = report_repo.as_deref().map(|repo| repository.open_other(Some(repo))).transpose()?;
        let source = other.as_ref().unwrap_or(&self.repository);
        again(|mut left_out| {
            let reported = report::read(source, branch, report_path.as_deref(), |reader, file| {
                left_out.read_reported(reader, file)
            })?;
            let repo = config_repo(self.args.config_repo.as_ref(), reported.iter())?;
            let ReportedHub { snapshot, applied, warnings: lacking } =
                of_report(reported, &repo, self.now);
            let snapshot = HubSnapshot { left_out, ..snapshot };
            let (base, warnings) = match self.base {
                Some(_) => (self.base_of_all(&snapshot), Vec::new()),
                None => AppliedCommits::read(&self.repository, applied)?.base(&repo, &snapshot, self.now)?,
            };
            let mut planned = self.plan_from(&repo, &snapshot, &[], base)?;
            if let (Ok(preview), _) = &mut planned {
                preview.warnings.extend(warnings.into_iter().chain(lacking));
            }
            Ok(planned)
        })
    }

    /// Returns the commit that is named as base, for each ConfigRepo.
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
        base: BTreeMap<Key, Arc<Checkout>>,
    ) -> Result<Planned, CommandError> {
        let is_it = |object: &&Arc<Object>| object.gvk() == Gvk::of::<ConfigRepo>() && object.key() == *repo;
        let found = snapshot.objects.iter().find(is_it).and_then(|object| object.to_typed().ok());
        let verified = match &found {
            Some(found) => {
                match rewind::refused(found, &self.repository, self.base.as_deref(), &self.head)? {
                    Some(why) => CommitCheck::Refused(why),
                    None => signatures::verify(found, secrets, |how| {
                        self.repository.refused_signature(&self.args.head, &self.head, how)
                    })?,
                }
            }
            None => CommitCheck::Valid,
        };
        let unverified = match verified {
            CommitCheck::Valid => None,
            CommitCheck::Unverified(secret) => Some(secret),
            CommitCheck::Refused(why) => {
                let applied = found.and_then(|repo: ConfigRepo| repo.status?.applied);
                let applied = applied.map(|applied| applied.commit).unwrap_or_default();
                let refused = Preview::refused(repo, applied, self.head.revision.clone(), why);
                return Ok((Ok(refused), None));
            }
        };
        let commit = ProposedCommit {
            repo: repo.clone(),
            base,
            head: self.head.clone(),
            succeeds_after: self.args.succeeds_after,
        };
        Ok((preview(snapshot, &commit, self.now), unverified))
    }
}

/// Plans again while the plan asks for more of a large fleet.
fn again(mut plan: impl FnMut(LeftOut) -> Result<Planned, CommandError>) -> Result<Planned, CommandError> {
    let mut left_out = LeftOut::default();
    loop {
        match plan(left_out)? {
            (Err(PreviewError::LeftOut(scope)), _) => left_out = LeftOut::but(scope),
            planned => return Ok(planned),
        }
    }
}

/// Returns the ConfigRepo of that name, or the only one.
pub(in crate::cli::commands) fn config_repo<'a>(
    named: Option<&Key>,
    objects: impl Iterator<Item = &'a Object>,
) -> Result<Key, CommandError> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let all = objects.filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
    let all: Vec<Key> = all.map(Object::key).collect();
    match all.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(CommandError::hinted(
            anyhow!("the hub has no ConfigRepo"),
            "a plan is about the repository that a ConfigRepo follows; apply one first",
        )),
        [first, ..] => Err(CommandError::hinted(
            anyhow!("the hub has {} ConfigRepos", all.len()),
            format!("name one, such as --config-repo {first}"),
        )),
    }
}
