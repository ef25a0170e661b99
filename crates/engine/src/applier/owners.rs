//! Owners of applied objects. Only the uid identifies an owner, never a name or label alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use object::Object;

fn references(object: &Object) -> impl Iterator<Item = &Value> {
    object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten()
}

fn is(reference: &Value, owner: &OwnerReference) -> bool {
    reference.get("uid").and_then(Value::as_str) == Some(owner.uid.as_str())
}

fn is_of_kind(reference: &Value, owner: &OwnerReference) -> bool {
    reference.get("kind").and_then(Value::as_str) == Some(owner.kind.as_str())
}

/// Returns true if an object has the owner reference.
pub(crate) fn is_owned_by(object: &Object, owner: &OwnerReference) -> bool {
    references(object).any(|reference| is(reference, owner))
}

/// Returns true if an object has another owner of the same kind.
pub(crate) fn has_other_owner(object: &Object, owner: &OwnerReference) -> bool {
    references(object).any(|reference| is_of_kind(reference, owner) && !is(reference, owner))
}

/// Returns the owner references of an object except the given one.
pub(crate) fn without_owner(object: &Object, owner: &OwnerReference) -> Vec<Value> {
    references(object).filter(|reference| !is(reference, owner)).cloned().collect()
}

/// Returns the owner references of an object plus the given one.
pub(crate) fn with_owner(object: &Object, owner: &OwnerReference) -> Vec<Value> {
    references(object).cloned().chain([json!(owner)]).collect()
}

/// Returns the owner references to apply: those on the live object with owners of this kind, and ours if the
/// object is owned.
///
/// All owners of this kind apply with the same field manager, and an apply removes items that the manager no
/// longer names.
pub(crate) fn references_to_apply(live: Option<&Object>, owner: &OwnerReference, owned: bool) -> Vec<Value> {
    let present = live.into_iter().flat_map(references).filter(|reference| is_of_kind(reference, owner));
    let is_missing = owned && !live.is_some_and(|live| is_owned_by(live, owner));
    present.cloned().chain(is_missing.then(|| json!(owner))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "work.open-cluster-management.io/v1".into(),
            kind: kind.into(),
            name: "same".into(),
            uid: uid.into(),
            ..OwnerReference::default()
        }
    }

    fn ours() -> OwnerReference {
        reference("AppliedManifestWork", "1")
    }

    fn owned_by(owners: &[OwnerReference]) -> Object {
        let metadata = json!({"name": "a", "namespace": "ns", "ownerReferences": owners});
        Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap()
    }

    fn uids(references: &[Value]) -> Vec<&str> {
        references.iter().map(|reference| reference["uid"].as_str().unwrap()).collect()
    }

    #[test]
    fn an_owner_is_known_by_its_uid_and_not_by_its_name() {
        let namesake = owned_by(&[reference("AppliedManifestWork", "2")]);
        assert!(is_owned_by(&owned_by(&[reference("ReplicaSet", "9"), ours()]), &ours()));
        assert!(!is_owned_by(&namesake, &ours()) && !is_owned_by(&owned_by(&[]), &ours()));
    }

    #[test]
    fn another_owner_counts_if_it_is_of_the_same_kind() {
        let other = reference("AppliedManifestWork", "2");
        assert!(has_other_owner(&owned_by(&[ours(), other]), &ours()));
        assert!(!has_other_owner(&owned_by(&[ours(), reference("ReplicaSet", "9")]), &ours()));
        assert!(!has_other_owner(&owned_by(&[ours()]), &ours()));
    }

    #[test]
    fn the_references_of_others_stay_when_ours_is_added_or_removed() {
        let others = [reference("AppliedManifestWork", "2"), reference("ReplicaSet", "9")];
        let object = owned_by(&[others[0].clone(), ours(), others[1].clone()]);
        assert_eq!(uids(&without_owner(&object, &ours())), ["2", "9"]);
        assert_eq!(uids(&with_owner(&owned_by(&others), &ours())), ["2", "9", "1"]);
    }

    #[test]
    fn an_apply_names_the_owners_of_our_kind_that_the_object_has() {
        let object = owned_by(&[reference("AppliedManifestWork", "2"), reference("ReplicaSet", "9"), ours()]);
        for owned in [true, false] {
            assert_eq!(uids(&references_to_apply(Some(&object), &ours(), owned)), ["2", "1"]);
        }
        assert_eq!(uids(&references_to_apply(None, &ours(), true)), ["1"]);
        let of_others = owned_by(&[reference("AppliedManifestWork", "2")]);
        assert_eq!(uids(&references_to_apply(Some(&of_others), &ours(), true)), ["2", "1"]);
        assert_eq!(uids(&references_to_apply(Some(&of_others), &ours(), false)), ["2"]);
        assert!(references_to_apply(None, &ours(), false).is_empty());
    }
}
