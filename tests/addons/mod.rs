//! Add-ons that have a manager, as processes alongside the operator and the agent: the examples of our library
//! under `examples/`, and one of OCM's addon-framework.

mod framework;
mod helloworld;
mod hosted;
pub(crate) mod hosted_agent;
pub(crate) mod installed;
mod managed_serviceaccount;
mod resource_score;

use crate::published::hub::Hub;

#[tokio::test(flavor = "multi_thread")]
async fn addons_of_the_library_run_and_are_removed_on_the_embedded_hub() {
    let mut hub = Hub::embedded().await;
    helloworld::lives_and_goes(&mut hub).await;
    resource_score::moves_a_placement(&mut hub).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addons_of_the_library_run_and_are_removed_on_kube_apiserver() {
    let mut hub = Hub::kubernetes().await;
    helloworld::lives_and_goes(&mut hub).await;
    resource_score::moves_a_placement(&mut hub).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addon_of_ocms_framework_runs_unchanged_on_the_embedded_hub() {
    framework::lives_and_goes(&mut Hub::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addon_of_ocms_framework_runs_unchanged_on_kube_apiserver() {
    framework::lives_and_goes(&mut Hub::kubernetes().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_addon_runs_on_two_clusters_and_leaves_both() {
    hosted::lives_and_goes(&mut Hub::kubernetes().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_an_addon_next_to_a_hosted_agent_has_its_credentials_and_lease_there() {
    hosted_agent::has_what_it_needs_beside_it(&mut Hub::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_managed_serviceaccount_runs_unchanged_on_the_embedded_hub() {
    managed_serviceaccount::gives_tokens_of_the_cluster_to_the_hub(&mut Hub::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_managed_serviceaccount_runs_unchanged_on_kube_apiserver() {
    managed_serviceaccount::gives_tokens_of_the_cluster_to_the_hub(&mut Hub::kubernetes().await).await;
}
