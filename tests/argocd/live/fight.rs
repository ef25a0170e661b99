//! An Application with self-heal and a ConfigRepo set one field to different values.

use serde_json::json;

use super::{Hub, config_map};
use crate::kube::helm;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Argo CD takes twelve minutes to build; make neighbors"]
async fn a_fight_with_argo_cd_is_named_with_its_application() {
    let hub = Hub::start("argo-fight").await;
    let mut ours = hub.repository("ours");
    ours.write("settings.yaml", &config_map("settings", "ours", json!({})));
    ours.commit("one");
    hub.follow("ours", &ours, "Apply").await;
    hub.becomes("ours", "True Applied").await;
    let mut theirs = hub.repository("theirs");
    theirs.write("settings.yaml", &config_map("settings", "theirs", json!({})));
    theirs.commit("one");
    hub.application("shop", &theirs, json!({"syncPolicy": {"automated": {"selfHeal": true}}})).await;
    // The second correction is delayed, so the condition shows the conflict for long enough.
    let named = "ConfigMap fleet/settings was changed on the hub and corrected 3 times; argocd-controller sets .data.k; \
        the Argo CD application shop tracks it.";
    hub.becomes("ours", named).await;
    let ready = hub.ready("ours").await;
    assert!(ready.contains(" Drifted "), "{ready}");
    let repo = hub.get("ConfigRepo", helm::NAMESPACE, "ours").await;
    assert_eq!(repo["status"]["drift"]["corrected"][0]["corrections"], 3);
}
