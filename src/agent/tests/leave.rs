//! An agent that leaves a cluster that rejects it, or on which its identity is already gone.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::agent::life::tests::{client, refusal};

const CLAIM: &str = "agent.identity.agent.wheelwright.dev";

/// Answers as a cluster without the identity, with an agent's claim and the inventories of three agents.
fn cluster(method: &str, path: &str) -> (u16, Value) {
    let applied = |name: &str, agent: &str, hub: &str| {
        json!({
            "metadata": {"name": name, "resourceVersion": "1", "finalizers": [APPLIED_WORK_FINALIZER]},
            "spec": {"agentID": agent, "hubHash": hub, "manifestWorkName": name},
        })
    };
    match (method, path.rsplit('/').next().unwrap_or_default()) {
        ("GET", CLAIM) => (200, json!({"metadata": {"name": CLAIM}, "spec": {"value": "c1/agent1/hash"}})),
        ("GET", "appliedmanifestworks") => {
            let all = [
                applied("own", "agent1", "before"),
                applied("of-go", "klusterlet", "hash"),
                applied("foreign", "klusterlet", "other"),
            ];
            (200, json!({"metadata": {}, "items": all}))
        }
        ("GET", _) => refusal(404),
        ("PATCH", name) => (200, applied(name, "", "")),
        _ => (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 200})),
    }
}

fn secret() -> Key {
    Key::namespaced("agent", "identity")
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_its_identity_leaves_neither_finalizers_nor_claim() {
    let writes = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&writes);
    let spoke = client(move |request| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        if method != "GET" {
            let name = path.rsplit('/').next().unwrap_or_default();
            written.lock().unwrap().push(format!("{method} {name}"));
        }
        cluster(method, path)
    });
    let stop = CancellationToken::new();
    stop.cancel();
    leave(&Leaver { spoke: &spoke, home: &spoke, secret: &secret() }, &stop).await.unwrap();
    let claim = format!("DELETE {CLAIM}");
    let expected =
        ["PATCH own", "PATCH of-go", &claim, "DELETE identity-sealing-identity"].map(str::to_owned);
    assert_eq!(*writes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_may_not_leave_says_so_and_ends() {
    for code in [401, 403] {
        let spoke = client(move |_| refusal(code));
        let leaver = Leaver { spoke: &spoke, home: &spoke, secret: &secret() };
        let stop = CancellationToken::new();
        let ended = tokio::time::timeout(std::time::Duration::from_mins(1), leave(&leaver, &stop));
        assert!(ended.await.expect("it does not try for ever").is_err(), "{code}");
    }
}
