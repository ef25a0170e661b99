//! Tests panics in the tasks of a shell, and the log lines of a reconciliation.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use object::{Key, Object, ObjectRef};
use reconcile::{
    Action, Controller, Dispatcher, DispatcherLimits, Failure, Plan, Read, Register as _, Scope, View,
    Watches,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::execute::ActionExecutor;
use crate::lines::Lines;
use crate::threads::decide;
use crate::{Resources, Shell, ShellOptions};

/// Copies the ConfigMap `m` after looking up a kind and an object.
struct Copier;

impl Controller for Copier {
    const NAME: &'static str = "copier";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        view.mapping(&Gvk::parse("example.com/v1", "Widget"))?;
        view.object(&ObjectRef { gvk: Gvk::parse("v1", "Secret"), key: Key::namespaced("n", "s") })?;
        if key.name == "m" {
            plan.step([write_copy()]);
        }
        Ok(plan)
    }
}

/// Writes the copy, with an event in its plan.
struct Speaker;

impl Controller for Speaker {
    const NAME: &'static str = "speaker";
    type Primary = ConfigMap;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        warn!("planned");
        let mut plan = Plan::nothing();
        plan.step([write_copy()]);
        Ok(plan)
    }
}

fn write_copy() -> Action {
    let metadata = json!({"namespace": "n", "name": "copy"});
    let copy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    Action::apply(serde_json::from_value::<Object>(copy).unwrap())
}

/// Runs a shell on a hub with one ConfigMap and one Secret, until the shell stops or has written the copy. The
/// first request for a path panics. Returns true if the copy was written.
async fn writes_although(method: Method, path: &'static str) -> bool {
    let (written, panicked) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let (wrote, done) = (written.clone(), Arc::clone(&panicked));
    let hub = tower::service_fn(move |request: Request<Body>| {
        let (wrote, done, method) = (wrote.clone(), Arc::clone(&done), method.clone());
        async move {
            let uri = request.uri();
            let is_first = || !done.swap(true, Ordering::Relaxed);
            assert!(!(*request.method() == method && uri.path() == path && is_first()), "on purpose");
            let resource = |plural, kind| json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": []});
            let object = |name| json!({"metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "2"}});
            let list = |name| json!({"metadata": {"resourceVersion": "2"}, "items": [object(name)]});
            let answer = match uri.path() {
                "/api/v1" => json!({
                    "groupVersion": "v1",
                    "resources": [resource("configmaps", "ConfigMap"), resource("secrets", "Secret")],
                }),
                "/apis/example.com/v1" => json!({"groupVersion": "example.com/v1", "resources": []}),
                _ if uri.query().is_some_and(|query| query.contains("watch=true")) => {
                    std::future::pending().await
                }
                "/api/v1/configmaps" => list("m"),
                "/api/v1/namespaces/n/secrets/s" => object("s"),
                "/api/v1/namespaces/n/configmaps/copy" => {
                    wrote.cancel();
                    object("copy")
                }
                _ => list("s"),
            };
            Response::builder().body(Body::from(answer.to_string().into_bytes()))
        }
    });
    let shell = Shell::new(ShellOptions::new(Client::new(hub, "default")), |registrar| {
        registrar.add::<Copier>();
    });
    let running = tokio::spawn(shell.run(CancellationToken::new()));
    let ended = timeout(Duration::from_secs(60), async {
        tokio::select! {
            () = written.cancelled() => true,
            stopped = running => stopped.map(|()| false).unwrap(),
        }
    });
    let has_written = ended.await.expect("it goes on or stops");
    assert!(panicked.load(Ordering::Relaxed), "nothing asked for {path}");
    has_written
}

#[tokio::test]
async fn a_write_that_panics_is_retried() {
    assert!(writes_although(Method::PATCH, "/api/v1/namespaces/n/configmaps/copy").await);
}

#[tokio::test]
async fn a_read_that_panics_ends_the_process_so_that_nothing_waits_forever() {
    for path in ["/api/v1/configmaps", "/apis/example.com/v1", "/api/v1/namespaces/n/secrets/s"] {
        assert!(!writes_although(Method::GET, path).await, "{path}");
    }
}

/// Reconciles the ConfigMap `m` in this thread, on a hub that refuses every write.
fn reconcile_refused(runtime: &Runtime) {
    for _ in 0..100 {
        for command in runtime.read(|dispatcher| dispatcher.due(now())).unwrap() {
            match command {
                Command::Watch(kind) => {
                    let map = r#"{"metadata": {"namespace": "n", "name": "m", "resourceVersion": "2"}}"#;
                    let objects = vec![kind.decode(map)];
                    let listed = WatcherEvent::Listed { objects, resource_version: "2".into() };
                    runtime.update(|dispatcher, now| dispatcher.watched(&kind, listed, now));
                }
                Command::Decide(decision) => decide(runtime, decision),
                Command::Act(act) => {
                    let failure = Failure { kind: FailureKind::Forbidden, message: "no".into() };
                    let acted = act.done(Err(failure));
                    runtime.update(|dispatcher, now| dispatcher.acted(acted, now));
                }
                Command::Reconciled(result) => return runtime.report(&result),
                Command::Compute(_) | Command::LookUp(_, _) | Command::Unwatch(_) | Command::Refused(_) => {
                    panic!("the controller asks for none of these")
                }
            }
        }
    }
    panic!("the ConfigMap is not reconciled");
}

#[tokio::test]
async fn a_line_of_a_plan_and_one_of_its_refused_write_have_the_same_keys_in_the_same_place() {
    let mut dispatcher =
        Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, false);
    dispatcher.add::<Speaker>();
    let no_answer = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
    let hub = Arc::new(Resources::new(Client::new(tower::service_fn(no_answer), "default")));
    let executor = ActionExecutor::new(hub, None, 1);
    let runtime = Runtime::new(dispatcher, executor, Scope::Everything, Vec::new());
    let logged = Lines::record_json();
    reconcile_refused(&runtime);
    let lines: Vec<Value> = logged.all().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["fields"]["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["planned", "write failed; the key will be retried"]);
    let span = json!({"name": "reconcile", "controller": "speaker", "key": "n/m", "reconcile_id": 0});
    for line in &lines {
        assert_eq!((&line["span"], &line["spans"]), (&span, &json!([span])), "{line}");
        let once = ["controller", "key", "reconcile_id"].iter().all(|key| line["fields"].get(key).is_none());
        assert!(once, "no key is there twice: {line}");
    }
}

#[tokio::test]
async fn a_target_that_appears_soon_causes_no_warning_and_a_missing_one_does() {
    let dispatcher =
        Dispatcher::new(DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 }, false);
    let no_answer = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
    let hub = Arc::new(Resources::new(Client::new(tower::service_fn(no_answer), "default")));
    let runtime = Runtime::new(dispatcher, ActionExecutor::new(hub, None, 1), Scope::Everything, Vec::new());
    let warns = |kind: FailureKind, failures: u32| {
        let logged = Lines::record();
        runtime.report(&ReconcileResult {
            reconcile_id: 0,
            controller_id: 0,
            controller: "speaker",
            key: Key::namespaced("n", "m"),
            began: now(),
            steps: 1,
            events: Vec::new(),
            failure: Some(Failure { kind, message: "no".into() }),
            failures,
            read_error: None,
            panicked: false,
        });
        let [line] = &logged.all()[..] else { panic!("one line") };
        line.starts_with("WARN")
    };
    assert!(!warns(FailureKind::NotFound, 1) && !warns(FailureKind::NotFound, 4));
    assert!(warns(FailureKind::NotFound, 5));
    assert!(warns(FailureKind::Forbidden, 1));
}
