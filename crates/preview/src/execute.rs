//! Executes actions on stores, as the shell does on API servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use object::{Object, ObjectRef};
use reconcile::{
    Action, Answer, CommitStatus, Failure, FailureKind, Notification, Outcome, Precondition, Push, Site,
    Subresource,
};
use store::{ApiError, DeleteOptions, Deleted, Patch, Propagation, ResourcePath, Store, User, WriteOptions};

/// The commits of each status branch on the git remote, oldest first.
pub type Branches = BTreeMap<String, Vec<Push>>;

/// The servers that a process can reach.
pub struct Servers<'a> {
    /// The hub; `None` while its network connection is cut.
    pub hub: Option<&'a mut Store>,
    /// An agent's cluster, with its name.
    pub spoke: Option<(&'a str, &'a mut Store)>,
    /// The version of the API server that answers lookups.
    pub version: &'a str,
    /// The git remote.
    pub branches: &'a mut Branches,
    /// The statuses that the git provider accepted, oldest first.
    pub commit_statuses: &'a mut Vec<CommitStatus>,
    /// The notifications that the receivers accepted, oldest first.
    pub notifications: &'a mut Vec<Notification>,
}

impl Servers<'_> {
    /// Returns the store of a site; `None` if it cannot be reached.
    pub fn readable(&self, site: Site) -> Option<&Store> {
        match site {
            Site::Hub => self.hub.as_deref(),
            Site::Spoke => self.spoke.as_ref().map(|(_, store)| &**store),
        }
    }

    /// Returns the store to write to. The spoke denies what the impersonated user may not do. The hub does not
    /// check, because previews and histories define no roles there.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one request")]
    pub(super) fn writable_as(
        &mut self,
        site: Site,
        impersonate: Option<&str>,
        verb: &str,
        reference: &ObjectRef,
        options: &mut WriteOptions,
    ) -> Result<(&mut Store, ResourcePath), Failure> {
        let store = self.writable(site)?;
        let target = path(store, reference)?;
        if let Some(name) = impersonate.filter(|_| site == Site::Spoke) {
            let user = Arc::new(User { name: name.to_owned(), ..User::default() });
            store.authorize(&user, verb, &target).map_err(|error| refused(reference, &error))?;
            options.user = user;
        }
        Ok((store, target))
    }

    fn writable(&mut self, site: Site) -> Result<&mut Store, Failure> {
        let store = match site {
            Site::Hub => self.hub.as_deref_mut(),
            Site::Spoke => self.spoke.as_mut().map(|(_, store)| &mut **store),
        };
        store.ok_or_else(|| unavailable("the API server cannot be reached"))
    }
}

/// Returns the failure of a server that cannot answer.
pub fn unavailable(reason: &str) -> Failure {
    Failure { kind: FailureKind::Unavailable, message: reason.into() }
}

/// Executes one action as the shell does on an API server.
///
/// # Errors
/// Fails if the server rejects the action or cannot be reached.
pub fn execute(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let mut options = WriteOptions::manager(manager);
    match action {
        Action::Apply { site, object, force, manager: other, impersonate, dry_run } => {
            let reference = object.reference();
            let user = impersonate.as_deref();
            let (store, target) = sites.writable_as(*site, user, "patch", &reference, &mut options)?;
            let manager = other.clone().unwrap_or(options.manager);
            let named = WriteOptions { manager, force: *force, dry_run: *dry_run, ..options };
            let patch = Patch::Apply(object.clone().into_value());
            store
                .patch(&target, &patch, &named, now)
                .map(|written| if *dry_run { Answer::Nothing } else { taken(&written.object) })
                .map_err(|error| refused(&reference, &error))
        }
        Action::Create { site, object, impersonate } => {
            let reference = object.reference();
            let user = impersonate.as_deref();
            let (store, target) = sites.writable_as(*site, user, "create", &reference, &mut options)?;
            let unnamed = ResourcePath { name: String::new(), ..target.clone() };
            match store.create(&unnamed, object.clone(), &options, now) {
                Ok(written) => Ok(taken(&written.object)),
                Err(error) if error.reason() == "AlreadyExists" => {
                    Ok(store.get(&target).ok().as_deref().cloned().into())
                }
                Err(error) => Err(refused(&reference, &error)),
            }
        }
        Action::Patch { site, target: reference, subresource, patch, precondition, impersonate } => {
            let user = impersonate.as_deref();
            let (store, target) = sites.writable_as(*site, user, "patch", reference, &mut options)?;
            let target = target.sub(match subresource {
                Subresource::None => "",
                Subresource::Status => "status",
                Subresource::Approval => "approval",
            });
            let patch = Patch::Merge(guarded(patch.clone(), precondition));
            store
                .patch(&target, &patch, &options, now)
                .map(|written| taken(&written.object))
                .map_err(|error| refused(reference, &error))
        }
        Action::Replace { site, object } => {
            let store = sites.writable(*site)?;
            let reference = object.reference();
            let target = path(store, &reference)?;
            store
                .update(&target, object.clone(), &options, now)
                .map(|w| taken(&w.object))
                .map_err(|error| refused(&reference, &error))
        }
        Action::Delete { site, target: reference, precondition, orphan, impersonate } => {
            let user = impersonate.as_deref();
            let (store, target) = sites.writable_as(*site, user, "delete", reference, &mut options)?;
            let propagation = Some(if *orphan { Propagation::Orphan } else { Propagation::Background });
            let Precondition { uid, resource_version } = precondition.clone();
            let options = DeleteOptions { uid, resource_version, propagation, ..DeleteOptions::default() };
            match store.delete(&target, &options, now) {
                Ok(Deleted::Gone(_)) => Ok(Answer::Nothing),
                Ok(Deleted::Terminating(object)) => Ok(taken(&object)),
                Err(error) if error.code() == 404 => Ok(Answer::Nothing),
                Err(error) => Err(refused(reference, &error)),
            }
        }
        Action::Push(push) => Ok(self::push(sites, push)),
        Action::SetCommitStatus(status) => Ok(set_commit_status(sites, status)),
        Action::Notify(notification) => {
            sites.notifications.push((**notification).clone());
            Ok(Answer::Nothing)
        }
    }
}

/// Sends a commit status unless it equals the repository's last one.
fn set_commit_status(sites: &mut Servers<'_>, status: &CommitStatus) -> Answer {
    let mut of_repo = sites.commit_statuses.iter().rev().filter(|sent| sent.repo == status.repo);
    let is_new = |sent: &CommitStatus| (&sent.commit, &sent.state) != (&status.commit, &status.state);
    if of_repo.next().is_none_or(is_new) {
        sites.commit_statuses.push(status.clone());
    }
    Answer::Nothing
}

/// Commits the files of a push unless the tip of the branch already contains them.
fn push(sites: &mut Servers<'_>, push: &Push) -> Answer {
    let commits = sites.branches.entry(push.branch.clone()).or_default();
    let place_and_files = |push: &Push| (push.url.clone(), push.directory.clone(), push.files.clone());
    if commits.last().is_some_and(|tip| place_and_files(tip) == place_and_files(push)) {
        return Answer::Nothing;
    }
    commits.push(push.clone());
    Answer::Commit(format!("{:040x}", commits.len()))
}

pub(super) fn path(store: &Store, reference: &ObjectRef) -> Result<ResourcePath, Failure> {
    let target = store.target(reference).ok_or_else(|| Failure::not_served(&reference.gvk))?;
    let namespaced = store.resource_of(&reference.gvk).is_some_and(|resource| resource.namespaced);
    Ok(match (namespaced, target.namespace.as_str()) {
        (true, "") => target.within("default"),
        (false, _) => target.within(""),
        (true, _) => target,
    })
}

fn guarded(patch: serde_json::Map<String, Value>, precondition: &Precondition) -> Value {
    let mut body = Value::Object(patch);
    let fields = [("uid", &precondition.uid), ("resourceVersion", &precondition.resource_version)];
    let checked: serde_json::Map<_, _> = fields
        .into_iter()
        .filter(|(_, v)| !v.is_empty())
        .map(|(f, v)| (f.to_owned(), Value::from(v.as_str())))
        .collect();
    json_patch::merge(&mut body, &json!({ "metadata": checked }));
    body
}

pub(super) fn refused(reference: &ObjectRef, error: &ApiError) -> Failure {
    Failure::refused(
        reference,
        error.code(),
        error.causes().iter().filter_map(|cause| cause.reason.as_deref()),
        error.message(),
    )
}

fn taken(object: &Object) -> Answer {
    object.clone().into()
}
