//! The access table, identities × requests, with the chart's roles and policies. It is the same on the embedded
//! hub and on a real kube-apiserver.
//!
//! Every request is a dry run, so that no cell depends on another one.

mod addons;
mod clusters;
mod hub;
mod namespaced;
mod namespaces;
mod operator;
mod rows;

use serde_json::Value;
use wheelwright::apiserver::{Server, ServerOptions};
use wheelwright::shell::now;

use api::names::OPERATOR_IDENTITY_LABEL;
use engine::registration::rbac;
use object::Object;

use crate::kube::{Cluster, Directory, Kubectl, helm};
use hub::Hub;
use rows::{IDENTITIES, ROWS, Row};

#[tokio::test(flavor = "multi_thread")]
async fn everyone_may_do_what_the_table_says_on_the_embedded_hub() {
    let server = Server::start(ServerOptions::new(now)).await.unwrap();
    let dir = Directory::new("admission");
    let kubeconfig = dir.path("kubeconfig");
    std::fs::write(&kubeconfig, server.admin_kubeconfig_yaml().unwrap()).unwrap();
    // The embedded hub already has the policies, except the one about the operator's identity.
    let mut chart = helm::render("wheelwright", &[]).unwrap();
    chart.retain(|object| {
        !object["kind"].as_str().unwrap().starts_with("ValidatingAdmissionPolicy")
            || object["metadata"]["name"] == "wheelwright-operator"
    });
    let hub = Hub { client: server.client(), kubectl: Kubectl::new(&kubeconfig, dir.path("home")) };
    check("embedded hub", &hub, chart, &[]).await;
    let tenant = IDENTITIES.iter().find(|identity| identity.name == "tenant").unwrap();
    for row in namespaces::THROUGH_SUBRESOURCES {
        let (code, answer) = hub.answer(tenant, row).await;
        assert_eq!(code, 200, "{answer}");
        assert!(answer["metadata"]["labels"][OPERATOR_IDENTITY_LABEL].is_null(), "{answer}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everyone_may_do_what_the_table_says_on_a_real_api_server() {
    let cluster = Cluster::start("admission").await;
    let hub = Hub { client: cluster.client().await, kubectl: cluster.kubectl() };
    let chart = helm::render("wheelwright", &[]).unwrap();
    check("kube-apiserver", &hub, chart, namespaces::THROUGH_SUBRESOURCES).await;
}

/// Sends every request, and fails with a list of the responses that differ from the table.
async fn check(name: &str, hub: &Hub, chart: Vec<Value>, more: &[Row]) {
    hub.prepare(chart).await;
    let mut wrong = Vec::new();
    let rows: Vec<&Row> = ROWS.iter().copied().flatten().chain(more).collect();
    for row in &rows {
        for identity in IDENTITIES {
            let found = hub.attempt(identity, row).await;
            if !row.expects(identity.name, &found) {
                wrong.push(format!("{} as {}: {} {}", row.what, identity.name, found.0, found.1));
            }
        }
    }
    println!("{name}: {} cells", rows.len() * IDENTITIES.len());
    assert!(wrong.is_empty(), "{name}: {} cells are wrong:\n  {}", wrong.len(), wrong.join("\n  "));
}

impl Row {
    /// Returns true if a response matches the table. An identity that the row does not name must have no role that
    /// allows the request.
    fn expects(&self, identity: &str, (code, message): &(u16, String)) -> bool {
        if self.may.contains(&identity) {
            return *code < 300;
        }
        // If several policies reject a request, kube-apiserver names one of them.
        let refused: Vec<_> = self.refused.iter().filter(|(who, _)| who.contains(&identity)).collect();
        match refused.as_slice() {
            [] => *code == 403 && message.contains("cannot") && message.contains("resource"),
            refused => *code >= 400 && refused.iter().any(|(_, part)| message.contains(part)),
        }
    }
}

#[test]
fn the_chart_and_the_operator_agree_on_what_may_be_done_before_joining() {
    let rendered = helm::render("wheelwright", &[]).unwrap();
    for wanted in
        [Object::from_typed(&rbac::bootstrap_role()), Object::from_typed(&rbac::bootstrap_binding())]
    {
        let found: Vec<_> = rendered
            .iter()
            .filter(|object| {
                object["kind"] == wanted.kind() && object["metadata"]["name"].as_str() == Some(wanted.name())
            })
            .collect();
        assert_eq!(found, [&wanted.into_value()]);
    }
}
