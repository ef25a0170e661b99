//! The identity under which a ConfigRepo acts, and its writes.

use k8s_openapi::api::core::v1::Namespace;

use api::gitops::v1alpha1::ConfigRepo;
use api::names::{
    APPLIED_DIGEST_ANNOTATION, CONFIG_REPO_ANNOTATION, CONFIG_REPO_COMPARE_MANAGER, CONFIG_REPO_MANAGER,
    OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL,
};
use engine::sync::{Apply, Deletion, EndTracking, HandOver, ManagedFields, Problem, content_digest};
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, DryRun, Precondition, Read, Site, Subresource, View};
use serde_json::{Map, Value, json};

/// The identity of the writes for a ConfigRepo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::hub) enum RepoIdentity {
    /// The identity of the operator.
    Operator,
    /// The user name of a service account in the namespace of the ConfigRepo.
    ServiceAccount(String),
}

impl RepoIdentity {
    /// Returns the identity under which a ConfigRepo may act, or the problem if there is none.
    ///
    /// # Errors
    /// Fails if the namespace has not been read.
    pub(in crate::hub) fn of(repo: &ConfigRepo, view: &impl View) -> Read<Result<Self, Problem>> {
        let Key { namespace, .. } = Key::of(repo);
        if !repo.spec.service_account_name.is_empty() {
            let account = &repo.spec.service_account_name;
            return Ok(Ok(Self::ServiceAccount(format!("system:serviceaccount:{namespace}:{account}"))));
        }
        if view.get::<Namespace>(&Key::cluster(namespace.as_str()))?.is_some_and(|it| allows_operator(&it)) {
            return Ok(Ok(Self::Operator));
        }
        let message = format!(
            "a ConfigRepo in namespace {namespace} may not act as the operator: set spec.serviceAccountName, or let an administrator \
             label the namespace {OPERATOR_IDENTITY_LABEL}={OPERATOR_IDENTITY_ALLOWED}"
        );
        Ok(Err(Problem::of_commit("NotAllowed", message)))
    }

    /// Creates an object that belongs to the ConfigRepo.
    pub(super) fn create(&self, object: Object) -> Action {
        Action::Create { site: Site::Hub, object, impersonate: self.impersonate() }
    }

    /// Applies an object of the commit.
    pub(super) fn apply(&self, apply: &Apply<'_>, repo: &Key) -> Action {
        self.server_side_apply(apply, repo, false)
    }

    /// Checks in a dry run whether the API server accepts an object of the commit.
    pub(super) fn dry_run(&self, apply: &Apply<'_>, repo: &Key) -> Action {
        self.server_side_apply(apply, repo, true)
    }

    fn server_side_apply(&self, apply: &Apply<'_>, repo: &Key, dry_run: bool) -> Action {
        Action::Apply {
            site: Site::Hub,
            object: apply.marked(repo),
            force: apply.force,
            manager: Some(CONFIG_REPO_MANAGER.to_owned()),
            impersonate: self.impersonate(),
            dry_run,
        }
    }

    /// Returns the dry run of an apply to a live object. Its field manager never owns any fields, so the apply
    /// removes none.
    pub(super) fn comparison(&self, wanted: &Object, live: &Object) -> DryRun {
        DryRun {
            object: wanted.reference(),
            manifest: Value::Object(wanted.0.clone()).to_string(),
            manager: CONFIG_REPO_COMPARE_MANAGER.to_owned(),
            impersonate: self.impersonate(),
            live: content_digest(live),
        }
    }

    /// Stops the tracking of an object by Argo CD when it is taken over.
    pub(super) fn end_tracking(&self, apply: &Apply<'_>) -> Option<Action> {
        let EndTracking { uid, patch } = apply.end_tracking.clone()?;
        Some(self.patch(
            apply.desired.reference.clone(),
            patch,
            Precondition { uid, resource_version: String::new() },
        ))
    }

    /// Transfers the fields that kubectl applied to our field manager.
    pub(super) fn take_over(&self, apply: &Apply<'_>) -> Option<Action> {
        let ManagedFields { uid, resource_version, entries } = apply.managed_fields.clone()?;
        let patch = Map::from_iter([("metadata".to_owned(), json!({"managedFields": entries}))]);
        Some(self.patch(apply.desired.reference.clone(), patch, Precondition { uid, resource_version }))
    }

    /// Deletes an object that was removed from the repository.
    pub(super) fn delete(&self, deletion: &Deletion) -> Action {
        let Deletion { target, uid, is_approved: _ } = deletion.clone();
        let precondition = Precondition { uid, resource_version: String::new() };
        let impersonate = self.impersonate();
        Action::Delete { site: Site::Hub, target, precondition, orphan: false, impersonate }
    }

    /// Hands an object over to another owner.
    pub(super) fn hand_over(&self, hand_over: &HandOver) -> Action {
        let HandOver { target, uid, to } = hand_over.clone();
        let annotations = match &to {
            Some(to) => json!({CONFIG_REPO_ANNOTATION: to.to_string()}),
            None => json!({CONFIG_REPO_ANNOTATION: null, APPLIED_DIGEST_ANNOTATION: null}),
        };
        let patch = Map::from_iter([("metadata".to_owned(), json!({"annotations": annotations}))]);
        self.patch(target, patch, Precondition { uid, resource_version: String::new() })
    }

    fn patch(&self, target: ObjectRef, patch: Map<String, Value>, precondition: Precondition) -> Action {
        let impersonate = self.impersonate();
        Action::Patch {
            site: Site::Hub,
            target,
            subresource: Subresource::None,
            patch,
            precondition,
            impersonate,
        }
    }

    /// Returns the user that the writes impersonate.
    fn impersonate(&self) -> Option<String> {
        match self {
            Self::Operator => None,
            Self::ServiceAccount(user) => Some(user.clone()),
        }
    }
}

/// Returns true if the ConfigRepos in a namespace may act as the operator.
pub(super) fn allows_operator(namespace: &Namespace) -> bool {
    namespace.label(OPERATOR_IDENTITY_LABEL) == Some(OPERATOR_IDENTITY_ALLOWED)
}
