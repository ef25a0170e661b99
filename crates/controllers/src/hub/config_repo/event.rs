//! Events of a ConfigRepo, for `kubectl describe` and `wheelwright events`.

use super::status::{Phase, Readiness};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, Revision};
use api::names::fetch_reasons;
use api::names::gitops_conditions::{READY, RECONCILING};
use object::text::{self, short_commit};
use object::tree::Checkout;
use reconcile::{Event, EventType};

/// Shortens a message for an event. A note has at most 1024 bytes (`events.k8s.io/v1`), and a character that is
/// not ASCII, such as the ellipsis of a cut, has at most four.
fn note(message: &str) -> String {
    text::plain(message, if message.is_ascii() { 1000 } else { 256 })
}

/// Returns the event for a new result: a commit is applied, or a commit or its deletions wait for a person. A
/// temporary state, such as an unreachable git server, has none.
pub(super) fn event(repo: &ConfigRepo, new: &ConfigRepoStatus, readiness: &Readiness) -> Option<Event> {
    let Readiness { phase, reason, message, until: _ } = readiness;
    let before = repo.status.clone().unwrap_or_default();
    let commit = |revision: &Option<Revision>| revision.as_ref().map(|revision| revision.commit.clone());
    let ready = repo.condition(READY);
    let (is_new, event_type) = match phase {
        Phase::Reconciling if !readiness.is_result() => return None,
        Phase::Ready => {
            let was_ready = ready.is_some_and(|ready| {
                ready.is_true() || fetch_reasons::TRANSIENT.contains(&ready.reason.as_str())
            });
            (!was_ready || commit(&before.applied) != commit(&new.applied), EventType::Normal)
        }
        Phase::Reconciling | Phase::Stalled => {
            let was_told = ready.is_some_and(|ready| ready.reason == *reason)
                && repo.holds(RECONCILING) == (*phase == Phase::Reconciling);
            (!was_told || commit(&before.seen) != commit(&new.seen), EventType::Warning)
        }
    };
    is_new.then(|| Event::new(repo, event_type, reason, "Apply", note(message)))
}

/// Returns the event for a new commit with colliding paths.
pub(super) fn collision(repo: &ConfigRepo, checkout: &Checkout) -> Option<Event> {
    let first = checkout.tree.collisions().first()?;
    let seen = repo.status.as_ref().and_then(|status| status.seen.as_ref());
    let is_new = seen.is_none_or(|seen| seen.commit != checkout.revision);
    let message = note(&format!("{}: {first}", short_commit(&checkout.revision)));
    is_new.then(|| Event::new(repo, EventType::Warning, "PathCollision", "Fetch", message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use object::tree::{Collision, FileTree};

    #[test]
    fn paths_that_collide_are_reported_once_for_a_commit() {
        let repo = json!({
            "metadata": {"namespace": "n", "name": "fleet", "uid": "u"}, "spec": {"url": "x"},
            "status": {"seen": {"commit": "a"}},
        });
        let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
        let mut tree = FileTree::default();
        let told = |commit: &str, tree: &FileTree| {
            collision(&repo, &Checkout { revision: commit.into(), tree: tree.clone() })
        };
        assert_eq!(told("b", &tree), None);
        tree.insert_collision(Collision { first: "d/A".into(), second: "d/a".into() });
        let event = told("b", &tree).unwrap();
        assert_eq!((event.event_type, event.reason.as_str()), (EventType::Warning, "PathCollision"));
        assert!(event.message.starts_with("b: d/A and d/a differ only in case"), "{}", event.message);
        assert_eq!(told("a", &tree), None, "it was told before");
    }

    /// Returns the type and reason of the event after a Ready condition and two commits, the applied and the seen
    /// one.
    fn told(ready: (&str, &str), commits: (&str, &str), phase: Phase, reason: &str) -> Option<String> {
        let status = |(applied, seen): (&str, &str)| {
            json!({
                "applied": {"commit": applied, "url": "", "reference": ""},
                "seen": {"commit": seen, "url": "", "reference": ""},
                "conditions": [{
                    "type": "Ready", "status": ready.0, "reason": ready.1, "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }],
            })
        };
        let repo = json!({
            "metadata": {"namespace": "n", "name": "fleet", "uid": "u"}, "spec": {"url": "x"},
            "status": status(("a", "a")),
        });
        let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
        let new: ConfigRepoStatus = serde_json::from_value(status(commits)).unwrap();
        let event = event(&repo, &new, &Readiness::new(phase, reason, "é".repeat(2000)))?;
        assert_eq!((event.regarding.key.to_string().as_str(), event.uid.as_str()), ("n/fleet", "u"));
        assert!(event.message.len() <= 1024, "{}", event.message.len());
        Some(format!("{:?} {}", event.event_type, event.reason))
    }

    #[test]
    fn an_applied_commit_and_one_that_waits_for_a_person_are_reported_once() {
        use Phase::{Ready, Reconciling, Stalled};
        let (applied, held) = (Some("Normal Applied".to_owned()), Some("Warning DeletionsHeld".to_owned()));
        for (ready, commits, phase, reason, event) in [
            (("True", "Applied"), ("a", "a"), Ready, "Applied", &None),
            (("True", "Applied"), ("b", "b"), Ready, "Applied", &applied),
            (("False", "DeletionsHeld"), ("a", "a"), Ready, "Applied", &applied),
            (("False", "SourceUnreachable"), ("a", "a"), Ready, "Applied", &None),
            (("True", "Applied"), ("a", "b"), Stalled, "DeletionsHeld", &held),
            (("False", "DeletionsHeld"), ("a", "a"), Stalled, "DeletionsHeld", &None),
            (("False", "DeletionsHeld"), ("a", "b"), Stalled, "DeletionsHeld", &held),
            (("False", "RenderFailed"), ("a", "a"), Stalled, "DeletionsHeld", &held),
            (("True", "Applied"), ("a", "b"), Reconciling, "Rendering", &None),
            (("True", "Applied"), ("a", "b"), Reconciling, "DeletionsHeld", &held),
            (("True", "Applied"), ("a", "b"), Reconciling, "Frozen", &None),
        ] {
            assert_eq!(
                &told(ready, commits, phase.clone(), reason),
                event,
                "{ready:?} {commits:?} {phase:?}"
            );
        }
    }
}
