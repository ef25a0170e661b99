//! Takes over fields that `kubectl apply` owns in an object of a repository.
//!
//! An object that was applied with kubectl before it moved to the repository has two owners. A field that leaves
//! the repository would stay, because kubectl still owns it. kubectl's fields are therefore moved to our field
//! manager before the apply, as in `client-go/util/csaupgrade`. The apply then removes the fields that the
//! commit does not have.

use serde_json::Value;

use api::names::CONFIG_REPO_MANAGER;
use object::Object;
use object::fields::{FieldSet, Manager, Operation, Owners};

/// Managed fields without any ownership by kubectl.
#[derive(Clone, Debug, PartialEq)]
pub struct ManagedFields {
    /// The uid of the object.
    pub uid: String,
    /// The resource version of the object with these fields.
    pub resource_version: String,
    /// `metadata.managedFields`.
    pub entries: Vec<Value>,
}

/// Moves the fields that kubectl applied to our field manager. Other managers, such as `kubectl edit`, keep
/// their fields.
pub(super) fn take_over(live: &Object, desired: &Object) -> Option<ManagedFields> {
    Some(ManagedFields {
        uid: live.uid().into(),
        resource_version: live.resource_version().into(),
        entries: taken_over(live, &our_manager(desired))?.to_values(),
    })
}

/// Returns the fields of a live object that our field manager or kubectl owns. An apply removes those that it
/// omits and that nobody else owns.
pub(super) fn applied_fields(live: &Object, desired: &Object) -> FieldSet {
    let ours = our_manager(desired);
    let owners = taken_over(live, &ours);
    owners.unwrap_or_else(|| Owners::read(live.at(&["metadata", "managedFields"]))).fields_of(&ours)
}

fn taken_over(live: &Object, ours: &Manager) -> Option<Owners> {
    let time = live.at(&["metadata", "creationTimestamp"]).and_then(Value::as_str).unwrap_or_default();
    Owners::read(live.at(&["metadata", "managedFields"])).given(ours, is_kubectl_apply, time)
}

fn our_manager(desired: &Object) -> Manager {
    Manager::new(Operation::Apply, CONFIG_REPO_MANAGER, desired)
}

fn is_kubectl_apply(manager: &Manager) -> bool {
    match manager.operation {
        Operation::Apply => manager.name == "kubectl",
        Operation::Update => {
            matches!(manager.name.as_str(), "kubectl-client-side-apply" | "before-first-apply")
        }
    }
}
