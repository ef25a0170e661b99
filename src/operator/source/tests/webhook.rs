use std::convert::Infallible;
use std::sync::Mutex;

use axum::http::{HeaderMap, Request, Response};
use k8s_openapi::ByteString;
use kube::client::Body;

use super::super::mirrors::SourceOptions;
use super::*;

const SECRET: &str = "0123456789abcdef";

/// Returns a hub with one ConfigRepo, `fleet/a`, that records the requested paths.
fn hub(paths: Arc<Mutex<Vec<String>>>) -> Client {
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1",
        "kind": "ConfigRepo",
        "metadata": {"namespace": "fleet", "name": "a"},
        "spec": {"url": "https://git.example/x", "webhook": {"secretRef": {"name": "hook"}}},
    });
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let answer = match path.rsplit('/').next() {
            Some("configrepos") => json!({"metadata": {}, "items": [&repo]}),
            Some("a") => repo.clone(),
            Some("hook") => {
                json!({"metadata": {"name": "hook"}, "data": {"token": ByteString(SECRET.into())}})
            }
            _ => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
        };
        let status = if answer["code"] == 404 { 404 } else { 200 };
        paths.lock().unwrap().push(path);
        let answer = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn a_delivery_costs_the_hub_no_list_before_it_is_verified() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let hub = hub(Arc::clone(&paths));
    let options = SourceOptions { cache: "/none".into(), local_repositories: false, hosts: Vec::new() };
    let mirrors = Arc::new(Mirrors::new(hub.clone(), options));
    let (hints, mut hinted) = mpsc::channel(1);
    let webhooks = Webhooks { hub, mirrors, hints, leadership: None };
    let a = "/apis/gitops.wheelwright.dev/v1alpha1/namespaces/fleet/configrepos/a";
    let b = "/apis/gitops.wheelwright.dev/v1alpha1/namespaces/fleet/configrepos/b";
    let secret = "/api/v1/namespaces/fleet/secrets/hook";
    let list = a.trim_end_matches("/a");
    for (namespace, name, token, reason, want) in [
        ("fleet", "..", SECRET, Some("no ConfigRepo can have that name"), &[][..]),
        ("fleet", "a/b", SECRET, Some("no ConfigRepo can have that name"), &[]),
        ("Fleet", "a", SECRET, Some("no ConfigRepo can have that name"), &[]),
        ("fleet", "b", SECRET, Some("no such ConfigRepo, or it has no spec.webhook"), &[b]),
        ("fleet", "a", "wrong", Some("its token is wrong"), &[a, secret]),
        ("fleet", "a", SECRET, None, &[a, secret, list]),
    ] {
        let headers = HeaderMap::from_iter([("x-gitlab-token".parse().unwrap(), token.parse().unwrap())]);
        let body = json!({"ref": "refs/heads/main", "url": "https://git.example/x"}).to_string().into();
        let delivery = Delivery { repo: Key::namespaced(namespace, name), headers, body };
        assert_eq!(webhooks.handle(&delivery).await.err().as_deref(), reason, "{namespace}/{name}");
        assert_eq!(std::mem::take(&mut *paths.lock().unwrap()), want, "{namespace}/{name}");
    }
    assert_eq!(hinted.try_recv().unwrap(), Key::namespaced("fleet", "a"));
}
