//! The ownership of a live object with the name of a desired one.

use serde::Deserialize as _;
use serde_json::Value;

use super::argo::{self, Tracking};
use super::input::{Claimant, SyncInput, Takeover};
use super::kubectl::applied_fields;
use super::{DesiredObject, ObjectId};
use api::gitops::v1alpha1::DeletionBudget;
use api::names;
use api::names::argo::TRACKING_ID_ANNOTATION;
use object::fields::{Element, first_difference};
use object::{Gvk, Key, Object, ObjectRef};

/// The reason for refusing an object that another ConfigRepo owns.
pub(super) const OWNED_BY_CONFIG_REPO: &str = "OwnedByConfigRepo";

/// The ownership of an object that the repository wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This ConfigRepo owns the object.
    Ours,
    /// The object does not exist or may be taken over. `force` takes fields from other managers; `tracking` is
    /// the Argo CD tracking to stop.
    Available { force: bool, tracking: Option<Tracking> },
    /// The object may be taken over as it is: the API server stores the commit's values in another form.
    Equal,
    /// The object belongs to another owner.
    Refused { reason: &'static str, message: String },
}

/// Determines the ownership of the live object with the name of a desired one.
pub(super) fn ownership(input: &SyncInput<'_>, desired: &DesiredObject, live: Option<&Object>) -> Ownership {
    let refuse = |reason, detail: String| {
        let message = format!("{} {detail}", desired.reference);
        Ownership::Refused { reason, message }
    };
    let app = live.and_then(argo::application);
    // A deleted ConfigRepo leaves its marks behind, and a new one with the same name may appear after Argo CD
    // has taken over the object.
    let is_recorded = || input.inventory.contains_key(&ObjectId::of(&desired.reference));
    if live.is_some_and(|live| is_marked(live, input.repo)) && (app.is_none() || is_recorded()) {
        return Ownership::Ours;
    }
    // Otherwise, a ConfigRepo could claim names of objects that it may not write, and block other ConfigRepos
    // that may.
    let owns =
        |claimant: &&Claimant| live.map_or(!claimant.is_forbidden, |live| is_marked(live, &claimant.repo));
    let claimants = input.claimed.get(&ObjectId::of(&desired.reference));
    if let Some(other) = claimants.into_iter().flatten().find(owns) {
        let detail =
            format!("belongs to the ConfigRepo {}; remove it from one of the two repositories", other.repo);
        return refuse(OWNED_BY_CONFIG_REPO, detail);
    }
    let available = |force, tracking| Ownership::Available { force, tracking };
    let Some(live) = live else { return available(false, None) };
    let takeover = input.policy.takeover;
    if let (Some((app, tracking)), Takeover::IfNoDiff | Takeover::Never) = (app, takeover) {
        let mark = match tracking {
            Tracking::Annotation => format!("annotation {TRACKING_ID_ANNOTATION}"),
            Tracking::Label(label) => format!("label {label}"),
        };
        let hint = format!(
            "take it out of that Application without deleting it and remove its {mark}, or set spec.takeover: \
             Always, or spec.mode: Observe"
        );
        let app = argo::command_name(app);
        return refuse("OwnedByArgo", format!("is managed by the Argo CD application {app}; {hint}"));
    }
    match takeover {
        Takeover::Always => available(true, app.map(|(_, tracking)| tracking)),
        Takeover::IfNoDiff if input.policy.is_blind_to_secrets && is_secret(&live.gvk()) => refuse(
            "TakeoverRefused",
            "exists already, and a ConfigRepo with a serviceAccountName does not compare Secrets; delete it, or set \
             spec.takeover: Always"
                .into(),
        ),
        Takeover::IfNoDiff => {
            let Some(path) = first_difference(live, &desired.compared(&input.policy.ignore)) else {
                return available(false, None);
            };
            let path = match input.policy.compared.get(&ObjectId::of(&desired.reference)) {
                Some(None) => return Ownership::Equal,
                Some(Some(field)) => field,
                None => &path,
            };
            let detail = format!(
                "exists already and differs at {path}; make them equal, or set spec.takeover: Always"
            );
            refuse("TakeoverRefused", detail)
        }
        Takeover::Never => refuse(
            "TakeoverRefused",
            "exists already and spec.takeover is Never; delete it or remove it from the repository".into(),
        ),
    }
}

/// The fields of a ConfigRepo that restrict its repository.
const GUARDED_FIELDS: [&str; 6] =
    ["url", "ref", "serviceAccountName", "deletionBudget", "takeover", "rewind"];

/// Returns the first guarded field that a repository changes in its own ConfigRepo, or that its apply would
/// remove.
///
/// Otherwise, a commit could raise its own budget and use it.
pub(super) fn changed_guard(repo: &Key, desired: &Object, live: &Object) -> Option<&'static str> {
    if !is_self(repo, &desired.reference()) {
        return None;
    }
    let applied = applied_fields(live, desired);
    let of = |name: &str| Element::Field(name.to_owned());
    let applied = applied.at(&of("spec")).map(|(_, fields)| fields);
    let is_changed = |field: &&'static str| match desired.at(&["spec", field]) {
        None => applied.is_some_and(|fields| fields.at(&of(field)).is_some()),
        wanted => !is_same_guard(field, wanted, live.at(&["spec", field])),
    };
    GUARDED_FIELDS.into_iter().find(is_changed)
}

/// Returns true if two values of a guarded field are equivalent. The hub fills in the defaults of a budget.
fn is_same_guard(field: &str, one: Option<&Value>, other: Option<&Value>) -> bool {
    let budget = |value: Option<&Value>| DeletionBudget::deserialize(value?).ok();
    one == other || field == "deletionBudget" && budget(one).is_some_and(|one| Some(one) == budget(other))
}

/// Returns true if an object is the ConfigRepo itself.
pub(super) fn is_self(repo: &Key, object: &ObjectRef) -> bool {
    object.gvk.group == names::GITOPS_GROUP && object.gvk.kind == "ConfigRepo" && object.key == *repo
}

/// Returns true if the kind is Secret.
pub fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && gvk.kind == "Secret"
}

/// Returns true if a live object has the annotation of a ConfigRepo.
pub fn is_marked(live: &Object, repo: &Key) -> bool {
    live.annotations().get(names::CONFIG_REPO_ANNOTATION) == Some(&repo.to_string().as_str())
}
