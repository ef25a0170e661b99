use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use object::Key;
use serde_json::{Value, json};

use super::*;

/// A server with the ConfigMaps `0` to `number` in a namespace.
struct Served {
    number: usize,
    refuses_lists: bool,
}

fn map(name: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "resourceVersion": "7"}})
}

impl Served {
    /// Returns the response to a request for a path; a list starts at `from` and has at most `limit` items.
    fn answer(&self, path: &str, limit: usize, from: usize) -> (u16, Value) {
        let refused = |code: u16| {
            let details = json!({"name": path.rsplit('/').next()});
            let reason = if code == 404 { "NotFound" } else { "Forbidden" };
            (code, json!({"kind": "Status", "reason": reason, "code": code, "details": details}))
        };
        let names: Vec<String> = (0..self.number).map(|n| n.to_string()).collect();
        if path == "/api/v1" {
            let resource =
                json!({"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "verbs": ["list"]});
            return (200, json!({"groupVersion": "v1", "resources": [resource]}));
        }
        match path.strip_prefix("/api/v1/namespaces/ns/configmaps") {
            Some("") if self.refuses_lists => refused(403),
            Some("") => {
                let end = (from + limit).min(names.len());
                let metadata = match names.len() - end {
                    0 => json!({"resourceVersion": "9"}),
                    more => json!({"continue": end.to_string(), "remainingItemCount": more}),
                };
                let items: Vec<Value> = names[from..end].iter().map(|name| map(name)).collect();
                (200, json!({"metadata": metadata, "items": items}))
            }
            Some(name) if names.iter().any(|listed| *listed == name[1..]) => (200, map(&name[1..])),
            _ => refused(404),
        }
    }

    /// Reads objects; returns the names of those that exist, the number of those that do not, and the numbers of
    /// lists and of other requests.
    async fn read(self, names: &[&str]) -> (Vec<String>, usize, (usize, usize)) {
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let counted = Arc::clone(&counts);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let number =
                |field: &str| query.split('&').find_map(|pair| pair.strip_prefix(field)?.parse().ok());
            let (limit, from) = (number("limit="), number("continue=").unwrap_or_default());
            let (lists, others) = &*counted;
            if request.uri().path() != "/api/v1" {
                if limit.is_some() { lists } else { others }.fetch_add(1, Ordering::Relaxed);
            }
            let (code, answer) = self.answer(request.uri().path(), limit.unwrap_or_default(), from);
            let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { answer }
        });
        let resources = Resources::new(Client::new(service, "default"));
        let reads = Reads::default();
        let object =
            |name: &&str| ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("ns", *name) };
        let collections: Vec<_> = names.iter().map(object).filter_map(|object| reads.add(object)).collect();
        let [collection] = collections.as_slice() else { panic!("{collections:?}") };
        let answered = Mutex::new(Vec::new());
        reads.read(&resources, collection, |answers| answered.lock().unwrap().extend(answers)).await;
        let (mut found, mut absent) = (Vec::new(), 0);
        for (lookup, answer) in answered.into_inner().unwrap() {
            match (lookup, answer.unwrap()) {
                (Lookup::Object(target), LookupAnswer::Object(Some(object))) => {
                    assert_eq!((target.key.clone(), object.gvk()), (object.key(), target.gvk));
                    found.push(target.key.name);
                }
                (_, answer) => absent += usize::from(answer == LookupAnswer::Object(None)),
            }
        }
        found.sort();
        (found, absent, (counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)))
    }
}

const FIVE: [&str; 5] = ["0", "1", "2", "3", "none"];

fn four() -> Vec<String> {
    FIVE[..4].iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn many_objects_of_a_collection_are_read_with_a_list() {
    let served = Served { number: 90, refuses_lists: false };
    assert_eq!(served.read(&FIVE).await, (four(), 1, (1, 0)));
    let names: Vec<String> = (100..800).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (found, absent, requests) = Served { number: 700, refuses_lists: false }.read(&names).await;
    assert_eq!((found.len(), absent, requests), (600, 100, (2, 0)));
}

#[tokio::test]
async fn a_few_objects_are_read_one_by_one() {
    let served = Served { number: 90, refuses_lists: false };
    assert_eq!(served.read(&["0", "none"]).await, (vec!["0".to_owned()], 1, (0, 2)));
}

#[tokio::test]
async fn a_collection_full_of_objects_of_others_is_not_listed_to_its_end() {
    let served = Served { number: 100_000, refuses_lists: false };
    assert_eq!(served.read(&["0", "1", "50000", "60000", "none"]).await.2, (1, 3));
}

#[tokio::test]
async fn objects_that_may_not_be_listed_are_read_one_by_one() {
    let served = Served { number: 90, refuses_lists: true };
    assert_eq!(served.read(&FIVE).await, (four(), 1, (1, 5)));
}

#[tokio::test]
async fn requests_during_a_read_form_the_next_batch() {
    let reads = Reads::default();
    let object =
        |name: &str| ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("ns", name) };
    let collection = reads.add(object("a")).unwrap();
    assert_eq!(reads.take(&collection), Some(vec![object("a")]));
    assert_eq!((reads.add(object("b")), reads.add(object("c"))), (None, None));
    assert_eq!(reads.take(&collection), Some(vec![object("b"), object("c")]));
    assert_eq!(reads.take(&collection), None);
    assert_eq!(reads.add(object("d")), Some(collection), "a new task reads it");
}
