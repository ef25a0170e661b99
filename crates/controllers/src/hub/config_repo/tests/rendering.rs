use object::tree::{Checkout, FileTree};
use object::{Kind, ObjectRef};
use reconcile::{
    Caches, Index, Lookup, LookupAnswer, Memo, ReadError, ReadErrorReason, Site, Source, Unreadable,
};
use serde_json::{Value, json};

use super::*;

/// A view on which renderings never finish.
struct Rendering(Caches);

impl View for Rendering {
    fn get_on<K: Kind>(&self, site: Site, key: &Key) -> Read<Option<Arc<K>>> {
        self.0.get_on(site, key)
    }

    fn list_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.0.list_on(site, query)
    }

    fn list_readable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<K>>> {
        self.0.list_readable_on(site, query)
    }

    fn unreadable_on<K: Kind>(&self, site: Site, query: Query<'_>) -> Read<Vec<Arc<Unreadable>>> {
        self.0.unreadable_on::<K>(site, query)
    }

    fn is_listed<K: Kind>(&self, site: Site) -> bool {
        self.0.is_listed::<K>(site)
    }

    fn observed(&self, object: &ObjectRef) -> Read<Option<Arc<Object>>> {
        self.0.observed(object)
    }

    fn lookup(&self, lookup: &Lookup) -> Read<LookupAnswer> {
        self.0.lookup(lookup)
    }

    fn source(&self, repo: &Key) -> Option<Arc<Source>> {
        self.0.source(repo)
    }

    fn settings<T: std::any::Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.settings()
    }

    fn index<I: Index, R>(&self, read: impl FnOnce(&mut I) -> R) -> Read<R> {
        self.0.index(read)
    }

    fn memo<M: Memo>(&self, _: M) -> Read<Arc<M::Output>> {
        Err(ReadError { what: M::NAME.into(), cause: "it is slow".into(), reason: ReadErrorReason::Pending })
    }
}

/// Returns the status that a plan writes while a commit is being rendered, for a ConfigRepo with a status. The fetch
/// was requested with the annotation `reconcile-at: now`.
fn written(status: &Value) -> Value {
    let mut caches = Caches::default();
    let repo = json!({
        "metadata": {
            "namespace": "config", "name": "fleet", "generation": 1, "resourceVersion": "1",
            "annotations": {names::RECONCILE_AT_ANNOTATION: "now"},
        },
        "spec": {"url": "https://git.example/fleet", "deletionPolicy": "Orphan", "serviceAccountName": "fleet"},
        "status": status,
    });
    let repo: ConfigRepo = serde_json::from_value(repo).unwrap();
    caches.replace::<ConfigRepo>(Site::Hub, vec![repo.clone()], "1");
    caches.replace::<ConfigRepoInventory>(Site::Hub, vec![], "1");
    let checkout = Checkout { revision: format!("{:040}", 2), tree: FileTree::default() };
    caches.set_source(key(), Source::of(&repo, Some(Arc::new(checkout)), None));
    let plan = ConfigRepoController::plan(&key(), &Rendering(caches), Timestamp::UNIX_EPOCH).unwrap();
    plan.status.map(|write| write.patch["status"].clone()).unwrap_or_default()
}

#[test]
fn a_request_is_handled_once_the_conditions_are_about_its_fetch() {
    let judged = json!({"seen": {"commit": format!("{:040}", 2), "reference": "main", "digest": ""}, "observedGeneration": 1});
    let handled = |status| written(&status)["lastHandledReconcileAt"].as_str().map(str::to_owned);
    assert_eq!(handled(judged), None, "the conditions are about an earlier rendering");
    assert_eq!(
        handled(json!({})).as_deref(),
        Some("now"),
        "the conditions say that the commit is being rendered"
    );
}

#[test]
fn a_commit_that_is_being_rendered_is_reported_unless_it_was_reported_before() {
    let revision = format!("{:040}", 2);
    let message = |status: Value| {
        let status = written(&status);
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let holds = conditions.into_iter().find(|condition| condition["status"] == "True");
        holds.map(|message| {
            [&message["type"], &message["reason"], &message["message"]]
                .map(|text| text.as_str().unwrap().to_owned())
        })
    };
    let rendering = |rest: &str| {
        Some(
            ["Reconciling", "Rendering", &format!("000000000000 is being rendered; {rest}")]
                .map(str::to_owned),
        )
    };
    let of = |commit: &str| json!({"commit": commit, "reference": "main", "digest": ""});
    assert_eq!(message(json!({})), rendering("nothing has been applied yet"));
    let applied =
        json!({"applied": of("1111111111111111"), "seen": of("1111111111111111"), "observedGeneration": 1});
    assert_eq!(message(applied), rendering("111111111111 stays applied"));
    let refused = json!({"seen": of(&revision), "observedGeneration": 1});
    assert_eq!(message(refused), None, "a refusal of this commit stays while it is rendered again");
    let waits = |reason: &str| json!([{"type": "Reconciling", "status": "True", "reason": reason, "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
    for (reason, expected) in
        [("Waiting", rendering("nothing has been applied yet")), ("DeletionsHeld", None)]
    {
        let status = json!({"seen": of(&revision), "observedGeneration": 1, "conditions": waits(reason)});
        assert_eq!(message(status), expected, "an earlier wait gives way to the present one: {reason}");
    }
    let edited = json!({"seen": of(&revision), "observedGeneration": 0});
    assert_eq!(message(edited), rendering("nothing has been applied yet"), "the spec has changed since");
}
