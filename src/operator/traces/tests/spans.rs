use object::tree::{Checkout, FileTree};
use serde_json::json;
use tokio::sync::mpsc;

use super::*;

/// Returns the spans of a commit's fetch, optionally requested by a webhook at a given second.
fn fetched(hinted: Option<i64>) -> Vec<Span> {
    let (sender, mut queued) = mpsc::channel(8);
    let queue = SpanQueue { spans: sender, lost: Arc::default() };
    let tracer = Tracer { queue, seed: [0; 16], state: Mutex::default() };
    let spec = json!({"url": "https://git.example/x"});
    let repo = json!({"metadata": {"namespace": "a", "name": "fleet", "uid": "u"}, "spec": spec});
    let checkout = Checkout { revision: "ab".repeat(20), tree: FileTree::default() };
    let source = Source { checkout: Some(Arc::new(checkout)), ..Source::default() };
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let times = FetchTimes { hinted: hinted.map(at), began: at(20), ended: at(30) };
    tracer.fetched(&serde_json::from_value(repo).unwrap(), &source, times);
    std::iter::from_fn(|| queued.try_recv().ok()).collect()
}

fn seconds(span: &Span) -> [u64; 2] {
    [span.start_time_unix_nano, span.end_time_unix_nano].map(|at| at / 1_000_000_000)
}

#[test]
fn a_trace_begins_with_the_webhook_that_asked_for_the_fetch_or_with_the_fetch() {
    let polled = fetched(None);
    let [fetch] = polled.as_slice() else { panic!("{polled:?}") };
    assert_eq!((fetch.name.as_str(), seconds(fetch)), ("fetch", [20, 30]));
    assert!(fetch.parent_span_id.is_empty());
    let pushed = fetched(Some(10));
    let [push, after] = pushed.as_slice() else { panic!("{pushed:?}") };
    assert_eq!((push.name.as_str(), seconds(push)), ("push", [10, 20]));
    assert!(push.parent_span_id.is_empty());
    assert_eq!(*after, Span { parent_span_id: push.span_id.clone(), ..fetch.clone() });
}
