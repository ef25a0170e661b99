//! `wheelwright join` writes the objects of the agent's chart.

use api::names::AGENT_NAMESPACE;
use serde_json::Value;

use super::{PLACEHOLDER, by_name, check_rendered};
use crate::cli::{Cli, server};
use crate::golden;
use crate::kube::helm;

const CHART: &str = "wheelwright-agent";

/// The cluster has no agent namespace yet, so no API server adds defaults.
#[tokio::test(flavor = "multi_thread")]
async fn join_writes_the_objects_of_the_agents_chart() {
    let rendered = helm::render_in(PLACEHOLDER, CHART, &["clusterName=\"release-cluster\""]).unwrap();
    check_rendered(CHART, [("agent", rendered)]);
    if golden::is_blessing() {
        return; // The program still contains the old content of the file.
    }
    let (dir, spoke) = (tempfile::tempdir().unwrap(), server(Vec::new()).await);
    let cli = Cli::new(dir.path(), "spoke", &spoke);
    let join = "join --cluster-name c1 --hub-token t --hub-apiserver https://hub.example.com:6443";
    for (namespace, flags, values) in [
        (AGENT_NAMESPACE, "", &[][..]),
        (
            "second",
            "--image example.com/w:2 --image-pull-secret registry",
            &[
                "image={\"repository\":\"example.com/w\",\"tag\":\"2\"}",
                "imagePullSecrets=[{\"name\":\"registry\"}]",
            ],
        ),
    ] {
        let printed = cli.run(&format!("{join} --namespace {namespace} {flags} --dry-run -o json"));
        let list: Value = serde_json::from_str(&printed).unwrap();
        let mut found = by_name(list["items"].as_array().unwrap().iter().cloned());
        for kind in ["Namespace", "Secret"] {
            let before = found.len();
            found.retain(|[found, ..], _| found != kind);
            assert_eq!(found.len(), before - 1, "{kind}");
        }
        let values = [&["clusterName=\"c1\""][..], values].concat();
        assert_eq!(found, by_name(helm::render_in(namespace, CHART, &values).unwrap()), "{flags}");
    }
}
