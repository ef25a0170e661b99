//! Whose an object is that stands where one of ours should.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Desired, Id};
use crate::applier::covers;
use api::names;
use object::{Key, Object};

/// Annotation by which Argo CD marks what it applies: `app:group/Kind:namespace/name`.
const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";

/// What happens to an object of the repository that somebody else created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// It is taken over where it is as the repository wants it, unless another GitOps tool tracks it.
    #[default]
    IfNoDiff,
    /// It is taken over.
    Always,
    /// It is left alone.
    Never,
}

/// What may be done with a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is ours.
    Ours,
    /// It may become ours; `force` where fields of others may be taken.
    Free { force: bool },
    /// It is somebody else's.
    Refused { reason: &'static str, message: String },
}

/// Judges the live object that stands where a desired one should.
pub(super) fn claim(
    repo: &Key,
    desired: &Desired,
    live: Option<&Object>,
    claimed: &BTreeMap<Id, Key>,
    takeover: Takeover,
) -> Claim {
    let what = &desired.reference;
    let refuse = |reason, why: String| Claim::Refused { reason, message: format!("{what} {why}") };
    let marked = live.and_then(|live| {
        live.annotations().get(names::CONFIG_REPO_ANNOTATION).map(|owner| (*owner).to_owned())
    });
    if marked.as_deref() == Some(repo.to_string().as_str()) {
        return Claim::Ours;
    }
    if let Some(other) = claimed.get(&Id::of(what)) {
        return refuse(
            "OwnedByConfigRepo",
            format!("belongs to the ConfigRepo {other}; remove it from one of the two repositories"),
        );
    }
    let Some(live) = live else { return Claim::Free { force: false } };
    if let (Some(app), Takeover::IfNoDiff | Takeover::Never) = (argo_app(live), takeover) {
        let hint = "remove it from that Application (without deleting it), or set spec.takeover: Always, or spec.mode: Observe";
        return refuse("OwnedByArgo", format!("is managed by the Argo CD application {app}; {hint}"));
    }
    match takeover {
        Takeover::Always => Claim::Free { force: true },
        Takeover::IfNoDiff => {
            let (live, wanted) = (unmarked(live).into_value(), unmarked(&desired.object).into_value());
            let Some(at) = first_difference(&live, &wanted, String::new()) else {
                return Claim::Free { force: false };
            };
            refuse(
                "TakeoverRefused",
                format!("exists already and differs at {at}; make them equal, or set spec.takeover: Always"),
            )
        }
        Takeover::Never => refuse(
            "TakeoverRefused",
            "exists already and spec.takeover is Never; delete it or remove it from the repository".into(),
        ),
    }
}

/// Whether an object on the hub carries the mark of a repository.
pub(super) fn is_marked(live: &Object, repo: &Key) -> bool {
    live.annotations().get(names::CONFIG_REPO_ANNOTATION) == Some(&repo.to_string().as_str())
}

/// The application that tracks an object. A tracking id that names another object was copied with its annotations, and does not count.
fn argo_app(live: &Object) -> Option<&str> {
    let annotations = live.annotations();
    let mut parts = annotations.get(ARGO_TRACKING)?.splitn(3, ':');
    let (app, kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    let gvk = live.gvk();
    let name = key.rsplit('/').next()?;
    (kind == format!("{}/{}", gvk.group, gvk.kind) && name == live.name()).then_some(app)
}

/// An object without the marks of its owner.
pub fn unmarked(object: &Object) -> Object {
    let mut object = object.clone();
    if let Some(annotations) = object.metadata_mut().get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(names::CONFIG_REPO_ANNOTATION);
        annotations.remove(names::APPLIED_DIGEST_ANNOTATION);
    }
    object
}

/// The path of the first field that a live object has otherwise.
fn first_difference(live: &Value, wanted: &Value, path: String) -> Option<String> {
    match (live, wanted) {
        _ if covers(live, wanted) => None,
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().find_map(|(field, value)| {
            let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            first_difference(live.get(field).unwrap_or(&Value::Null), value, path)
        }),
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Rendered, desired};
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn config_map(annotations: Value, data: &str) -> Object {
        object(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "annotations": annotations}, "data": {"k": data}}),
        )
    }

    fn check(
        live: Option<Object>,
        claimed: &[(&str, &str)],
        takeover: Takeover,
    ) -> Result<&'static str, String> {
        let repo = Key::namespaced("ns", "repo");
        let wanted = desired(
            &repo,
            vec![Rendered { object: config_map(json!({}), "1"), origin: String::new() }],
            false,
        )
        .unwrap();
        let id = |name: &str| Id {
            group: String::new(),
            kind: "ConfigMap".into(),
            key: Key::namespaced("ns", name),
        };
        let claimed = claimed.iter().map(|(name, owner)| (id(name), Key::namespaced("ns", *owner))).collect();
        match claim(&repo, &wanted[0], live.as_ref(), &claimed, takeover) {
            Claim::Ours => Ok("ours"),
            Claim::Free { force: true } => Ok("taken by force"),
            Claim::Free { force: false } => Ok("free"),
            Claim::Refused { reason, message } => Err(format!("{reason}: {message}")),
        }
    }

    #[test]
    fn an_object_of_somebody_else_is_taken_over_as_the_policy_says() {
        let (same, other) =
            (|| Some(config_map(json!({"x": "y"}), "1")), || Some(config_map(json!({}), "2")));
        assert_eq!(check(None, &[], Takeover::Never), Ok("free"));
        assert_eq!(check(same(), &[], Takeover::IfNoDiff), Ok("free"));
        assert_eq!(check(other(), &[], Takeover::Always), Ok("taken by force"));
        let refused = check(other(), &[], Takeover::IfNoDiff).unwrap_err();
        assert!(
            refused.starts_with("TakeoverRefused: ConfigMap ns/a exists already and differs at data.k;"),
            "{refused}"
        );
        assert!(check(same(), &[], Takeover::Never).is_err());
    }

    #[test]
    fn an_object_marked_as_ours_is_ours() {
        let ours = config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/repo"}), "2");
        assert_eq!(check(Some(ours), &[], Takeover::Never), Ok("ours"));
    }

    #[test]
    fn what_argo_tracks_is_left_to_argo_but_a_copied_tracking_id_does_not_count() {
        let tracked = |id: &str| Some(config_map(json!({ARGO_TRACKING: id}), "1"));
        let refused = check(tracked("shop:/ConfigMap:ns/a"), &[], Takeover::IfNoDiff).unwrap_err();
        assert!(
            refused.starts_with("OwnedByArgo: ConfigMap ns/a is managed by the Argo CD application shop;"),
            "{refused}"
        );
        assert_eq!(check(tracked("shop:/ConfigMap:ns/a"), &[], Takeover::Always), Ok("taken by force"));
        for copied in ["shop:/ConfigMap:ns/b", "shop:apps/Deployment:ns/a", "nonsense"] {
            assert_eq!(check(tracked(copied), &[], Takeover::IfNoDiff), Ok("free"), "{copied}");
        }
    }

    #[test]
    fn two_repositories_never_share_an_object() {
        for live in [None, Some(config_map(json!({names::CONFIG_REPO_ANNOTATION: "ns/other"}), "1"))] {
            let refused = check(live, &[("a", "other")], Takeover::Always).unwrap_err();
            assert!(
                refused.starts_with("OwnedByConfigRepo: ConfigMap ns/a belongs to the ConfigRepo ns/other;"),
                "{refused}"
            );
        }
    }
}
