//! The access table: identities × requests, equal on the embedded hub and on a real kube-apiserver, with the
//! roles and policies of the chart.
//!
//! Every request is a dry run, so that no cell depends on another one.

mod addons;
mod clusters;
mod hub;
mod namespaced;
mod operator;
mod rows;

use wheelwright::apiserver::{Options, Server};
use wheelwright::shell::now;

use engine::registration::rbac;
use object::Object;

use crate::kube::{Cluster, Directory, Kubectl, helm};
use hub::Hub;
use rows::{IDENTITIES, ROWS, Row};

#[tokio::test(flavor = "multi_thread")]
async fn everybody_may_what_the_table_says_on_the_embedded_hub() {
    let server = Server::start(Options::new(now)).await.unwrap();
    let dir = Directory::new("admission");
    let kubeconfig = dir.path("kubeconfig");
    std::fs::write(&kubeconfig, server.admin_kubeconfig_yaml().unwrap()).unwrap();
    check(
        "embedded hub",
        Hub { client: server.client(), kubectl: Kubectl::new(&kubeconfig, dir.path("home")) },
    )
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_may_what_the_table_says_on_a_real_api_server() {
    let cluster = Cluster::start("admission").await;
    check("kube-apiserver", Hub { client: cluster.client().await, kubectl: cluster.kubectl() }).await;
}

/// Sends every request, and fails with a list of the answers that differ from the table.
async fn check(name: &str, hub: Hub) {
    hub.prepare().await;
    let mut wrong = Vec::new();
    let rows: Vec<&Row> = ROWS.iter().copied().flatten().collect();
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
    /// Returns whether an answer is that of the table: an identity that the row does not name has no
    /// permission by any role.
    fn expects(&self, identity: &str, (code, message): &(u16, String)) -> bool {
        if self.may.contains(&identity) {
            return *code < 300;
        }
        // Where several policies refuse, kube-apiserver names one of them.
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
