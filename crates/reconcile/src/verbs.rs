//! Actions and checks that many controllers use.

use jiff::{Timestamp, Unit};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Map, json};

use super::{Action, Change, Precondition, Site, Subresource};
use object::fields::covers;
use object::{Key, Kind, Metadata as _, Object, ObjectRef};

impl Action {
    /// Directs the action to another API server; pushes, commit statuses and notifications are unchanged.
    #[must_use]
    pub fn on(mut self, to: Site) -> Self {
        match &mut self {
            Self::Apply { site, .. }
            | Self::Create { site, .. }
            | Self::Patch { site, .. }
            | Self::Replace { site, .. }
            | Self::Delete { site, .. } => *site = to,
            Self::Push(_) | Self::SetCommitStatus(_) | Self::Notify(_) => {}
        }
        self
    }

    /// Applies an object to the hub; `None` if the live object already has all of its fields.
    pub fn ensure<K: Kind>(wanted: &K, live: Option<&K>) -> Option<Self> {
        let wanted = Object::from_typed(wanted);
        let is_there = live.is_some_and(|live| covers(&Object::from_typed(live), &wanted));
        (!is_there).then(|| Self::apply(wanted))
    }

    /// Applies an object without its status, on condition that the live one is unchanged since it was read.
    /// Otherwise a former leader that still runs could replace a newer object with an older one
    /// (`docs/design/leader-election.md`).
    pub fn apply_unchanged<K: Kind>(wanted: &K, live: Option<&K>) -> Self {
        let mut wanted = Object::from_typed(wanted);
        wanted.0.remove("status");
        if let Some(version) = live.and_then(|live| live.meta().resource_version.clone()) {
            wanted.metadata_mut().insert("resourceVersion".into(), version.into());
        }
        Self::apply(wanted)
    }

    /// Approves a certificate signing request on the hub, with the reason that OCM uses for automatic approvals.
    pub fn approve(request: &CertificateSigningRequest, message: &str, now: Timestamp) -> Self {
        let time = now.round(Unit::Second).unwrap_or(now).to_string();
        let approved = json!({
            "type": "Approved",
            "status": "True",
            "reason": "AutoApprovedByHubCSRApprovingController",
            "message": message,
            "lastUpdateTime": time,
            "lastTransitionTime": time,
        });
        let earlier = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let conditions: Vec<_> = earlier.map(|condition| json!(condition)).chain([approved]).collect();
        Self::Patch {
            site: Site::Hub,
            target: ObjectRef::of::<CertificateSigningRequest>(Key::of(request)),
            subresource: Subresource::Approval,
            patch: Map::from_iter([("status".to_owned(), json!({"conditions": conditions}))]),
            precondition: Precondition::unchanged(request),
            impersonate: None,
        }
    }

    /// Adds the finalizers that an object on the hub lacks; `None` if it has all of them.
    pub fn add_finalizers<K: Kind>(object: &K, finalizers: &[&str]) -> Option<Self> {
        let missing: Vec<&str> =
            finalizers.iter().copied().filter(|wanted| !object.has_finalizer(wanted)).collect();
        let present = object.meta().finalizers.iter().flatten().map(String::as_str);
        (!missing.is_empty())
            .then(|| Self::set_finalizers(object, &present.chain(missing).collect::<Vec<_>>()))
    }

    /// Removes finalizers from an object on the hub; `None` if it has none of them.
    pub fn remove_finalizers<K: Kind>(object: &K, finalizers: &[&str]) -> Option<Self> {
        let present = object.meta().finalizers.iter().flatten().map(String::as_str);
        let (ours, others): (Vec<&str>, Vec<&str>) = present.partition(|name| finalizers.contains(name));
        (!ours.is_empty()).then(|| Self::set_finalizers(object, &others))
    }

    fn set_finalizers<K: Kind>(object: &K, finalizers: &[&str]) -> Self {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        Self::patch(object, patch.as_object().cloned().unwrap_or_default())
    }
}

impl<K: Kind> Change<K> {
    /// Returns true if the fields that a controller reads have changed, or the object was created, deleted, or
    /// recreated between two lists.
    pub fn differs_in<'a, F: PartialEq>(&'a self, fields: impl Fn(&'a K) -> F) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.meta().uid != new.meta().uid || fields(old) != fields(new),
            (None, _) | (_, None) => true,
        }
    }
}

impl<K> Change<K> {
    /// Returns the current object, or the last one before its deletion.
    pub fn latest(&self) -> Option<&K> {
        self.sides().next()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::Value;

    use super::*;

    fn config_map(finalizers: &[&str]) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "a", "finalizers": finalizers}})).unwrap()
    }

    fn finalizers(action: Option<Action>) -> Value {
        match action {
            Some(Action::Patch { patch, .. }) => patch["metadata"]["finalizers"].clone(),
            action => json!(action),
        }
    }

    #[test]
    fn finalizers_of_others_stay() {
        let object = config_map(&["x", "ours"]);
        assert_eq!(
            finalizers(Action::add_finalizers(&object, &["ours", "more"])),
            json!(["x", "ours", "more"])
        );
        assert_eq!(finalizers(Action::remove_finalizers(&object, &["ours", "more"])), json!(["x"]));
        assert_eq!(finalizers(Action::add_finalizers(&object, &["ours"])), Value::Null);
        assert_eq!(finalizers(Action::remove_finalizers(&object, &["more"])), Value::Null);
    }

    #[test]
    fn an_object_is_applied_only_if_the_live_one_lacks_something() {
        let mut live = config_map(&["x"]);
        let wanted = config_map(&[]);
        assert_eq!(Action::ensure(&wanted, Some(&live)), None);
        live.metadata.name = Some("b".into());
        assert!(Action::ensure(&wanted, Some(&live)).is_some());
        assert!(Action::ensure(&wanted, None).is_some());
    }
}
