//! Checks for other programs that make the same decisions: the controllers of Open Cluster Management, and Argo
//! CD.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use object::{Key, Kind, Metadata as _, Object};

use super::finding::{Finding, all, few};
use super::hub::{ExaminedHub, is_of_helm};
use super::operator::arguments;
use crate::operator::controller_names;
use crate::shell::EnabledControllers;
use api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, RolloutPolicy};
use api::names::{CONFIG_REPO_ANNOTATION, OPERATOR};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::sync::{Inventory, ObjectId, argo_application, recorded};

/// Suffixes of the names of OCM's Deployments on a hub, and our controllers that make the same decisions.
///
/// `csr` is not listed. OCM's registration controller approves the requests of agents, and its add-on manager
/// approves the requests of add-ons, so ours is needed as soon as it replaces one of them. Both may run: the first
/// one approves.
const OCM: &[(&str, &[&str])] = &[
    (
        "-registration-controller",
        &[
            "cluster",
            "cluster-defaults",
            "cluster-lease",
            "clusterset",
            "clustersetbinding",
            "managed-namespaces",
            "bootstrap",
        ],
    ),
    ("-placement-controller", &["placement"]),
    ("-work-controller", &["replica-set", "work-ttl"]),
    (
        "-addon-manager-controller",
        &[
            "addon-annotation",
            "addon-config",
            "addon-deploy",
            "addon-install",
            "addon-health",
            "addon-feature",
            "addon-takeover",
            "addon-token",
        ],
    ),
];
pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let mut findings = match all::<Deployment>("ocm", &hub.client, "").await {
        Ok(deployments) => vec![ocm(&deployments)],
        Err(unread) => vec![unread],
    };
    if hub.has_ours {
        findings.push(argo_cd(hub).await.unwrap_or_else(|unread| unread));
    }
    findings
}

fn ocm(deployments: &[Deployment]) -> Finding {
    const CHECK: &str = "ocm";
    let operator = deployments.iter().find(|one| one.name() == OPERATOR);
    let chosen = operator
        .into_iter()
        .flat_map(arguments)
        .filter_map(|argument| argument.strip_prefix("--controllers="))
        .last();
    let known = controller_names();
    let ours = EnabledControllers::parse(chosen.unwrap_or("*"), &known).unwrap_or_default();
    let is_ocm = |one: &&Deployment| one.namespace().starts_with("open-cluster-management");
    // Count the desired pods, because they may start at any time.
    let pods = |one: &&Deployment| one.status.as_ref().and_then(|status| status.replicas);
    let has_pods = |one: &&Deployment| one.spec.replicas != Some(0) || pods(one).is_some_and(|pods| pods > 0);
    // Webhooks make no decisions.
    let decides =
        |one: &&Deployment| is_operator_of_ocm(one) || OCM.iter().any(|(end, _)| one.name().ends_with(end));
    let theirs: Vec<&Deployment> =
        deployments.iter().filter(is_ocm).filter(has_pods).filter(decides).collect();
    if operator.is_none() && !theirs.is_empty() {
        let message = "controllers of Open Cluster Management run on this hub, and no operator is installed; an operator \
             outside of the hub can leave their controllers out (--controllers)";
        return Finding::good(CHECK, message);
    }
    let (mut both, mut replaced, mut leave_out) = (Vec::new(), false, Vec::new());
    for (end, controllers) in OCM {
        let same = controllers.iter().filter(|name| ours.includes(name));
        if let Some(deployment) = theirs.iter().find(|deployment| deployment.name().ends_with(end)) {
            let same: Vec<&str> = same.copied().collect();
            if !same.is_empty() {
                both.push(title(deployment));
            }
            leave_out.extend(same);
        } else {
            replaced |= same.count() > 0;
        }
    }
    let starts_again = theirs.iter().find(|deployment| is_operator_of_ocm(deployment));
    if let Some(deployment) = starts_again.filter(|_| operator.is_some() && replaced && both.is_empty()) {
        let (namespace, name) = (deployment.namespace(), deployment.name());
        return Finding::warning(
            CHECK,
            format!(
                "OCM's operator {namespace}/{name} runs; it starts the controllers that this operator replaces"
            ),
            format!("kubectl scale deployment {name} --namespace {namespace} --replicas=0"),
        );
    }
    match (theirs.is_empty(), both.is_empty()) {
        (true, _) => Finding::good(CHECK, "no controllers of Open Cluster Management are on this hub"),
        (false, true) => Finding::good(
            CHECK,
            "controllers of Open Cluster Management run on this hub, but make none of this operator's decisions",
        ),
        (false, false) => {
            let both = few(both.iter().map(String::as_str));
            let message = format!("{both} and this operator make the same decisions");
            // The operator may run only some controllers; the advice must not start others.
            let controllers = without(chosen.unwrap_or("*"), &leave_out);
            let upgrade = match operator.is_some_and(is_of_helm) {
                true => format!("set controllers in the chart values to '{controllers}'"),
                false => format!("wheelwright upgrade --controllers='{controllers}'"),
            };
            let first = starts_again.map(|deployment| {
                let (namespace, name) = (deployment.namespace(), deployment.name());
                format!(" (first its operator, {namespace}/{name}, which starts them again)")
            });
            let advice = format!(
                "stop OCM's controllers{}, or turn off this operator's: {upgrade}",
                first.unwrap_or_default()
            );
            Finding::bad(CHECK, message, advice)
        }
    }
}

/// Returns the name of a Deployment, with a note if none of its pods is available.
fn title(deployment: &Deployment) -> String {
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas);
    let away = if available.unwrap_or_default() == 0 { " (not available)" } else { "" };
    format!("{}{away}", deployment.name())
}

/// Returns true if a Deployment is OCM's registration operator for hubs, judged by its image.
fn is_operator_of_ocm(deployment: &Deployment) -> bool {
    let pod = deployment.spec.template.spec.as_ref();
    let images = pod.into_iter().flat_map(|pod| &pod.containers).flat_map(|container| &container.image);
    deployment.name() == "cluster-manager"
        && images.clone().any(|image| image.contains("registration-operator"))
}

async fn argo_cd(hub: &ExaminedHub) -> Result<Finding, Finding> {
    const CHECK: &str = "argo cd";
    // The check of the repositories reports read errors.
    let repos = hub.repositories.as_deref().unwrap_or_default();
    let inventories = all_served::<ConfigRepoInventory>(hub).await?;
    let applied = applied(repos, &inventories);
    let mut shared = shared_of(repos, &applied);
    shared.extend(shared_of(&all_served::<ManagedCluster>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<Placement>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<ManagedClusterSet>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<ManagedClusterSetBinding>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<ClusterManagementAddOn>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<AddOnTemplate>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<AddOnDeploymentConfig>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<ManifestWorkReplicaSet>(hub).await?, &applied));
    shared.extend(shared_of(&all_served::<RolloutPolicy>(hub).await?, &applied));
    if shared.is_empty() {
        return Ok(Finding::good(CHECK, "no object is applied by both Argo CD and a ConfigRepo"));
    }
    let message = format!("both Argo CD and a ConfigRepo apply {}", few(shared.iter().map(String::as_str)));
    Ok(Finding::bad(
        CHECK,
        message,
        "let one of them apply: spec.mode: Observe of the ConfigRepo leaves it to Argo CD",
    ))
}

/// Lists the objects of a kind; empty if the hub does not serve it.
async fn all_served<K: Kind>(hub: &ExaminedHub) -> Result<Vec<K>, Finding> {
    if !hub.serves::<K>() {
        return Ok(Vec::new());
    }
    all::<K>("argo cd", &hub.client, "").await
}

/// Returns the inventories of the ConfigRepos that apply their commits, by the value of their annotation on
/// objects.
fn applied(repos: &[ConfigRepo], inventories: &[ConfigRepoInventory]) -> BTreeMap<String, Inventory> {
    let applying = repos.iter().filter(|repo| repo.spec.mode != ConfigRepoMode::Observe);
    applying.map(|repo| (Key::of(repo).to_string(), recorded(repo, inventories))).collect()
}

/// Returns the objects that both an Argo CD application tracks and a ConfigRepo applies.
///
/// The annotation alone is not enough: its ConfigRepo may have been deleted, or replaced by one with the same
/// name.
fn shared_of<K: Kind>(objects: &[K], applied: &BTreeMap<String, Inventory>) -> Vec<String> {
    let shared = objects.iter().filter(|one| {
        let inventory = one.annotation(CONFIG_REPO_ANNOTATION).and_then(|repo| applied.get(repo));
        let object = Object::from_typed(*one);
        inventory.is_some_and(|inventory| inventory.contains_key(&ObjectId::of(&object.reference())))
            && argo_application(&object).is_some()
    });
    shared.map(|one| format!("{} {}", K::kind(&()), Key::of(one))).collect()
}

/// Returns a list of controllers without some of them.
fn without(chosen: &str, leave_out: &[&str]) -> String {
    let stays = chosen.split(',').filter(|name| !leave_out.contains(name)).map(str::to_owned);
    let is_all = chosen.split(',').any(|name| name == "*");
    let left_out = leave_out.iter().filter(|_| is_all).map(|name| format!("-{name}"));
    stays.chain(left_out).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;
    use engine::installation::MANAGED_BY;
    use serde_json::json;

    fn deployment(name: &str, namespace: &str, args: &[&str]) -> Deployment {
        let container = json!({"name": "c", "args": args});
        let spec = json!({"selector": {}, "template": {"spec": {"containers": [container]}}});
        let metadata = json!({"name": name, "namespace": namespace});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"replicas": 1}}))
            .unwrap()
    }

    #[test]
    fn controllers_that_run_twice_are_reported_with_how_to_leave_them_to_ocm() {
        let theirs = deployment("cluster-manager-placement-controller", "open-cluster-management-hub", &[]);
        let found = ocm(&[theirs.clone(), deployment(OPERATOR, "w", &["operator", "--controllers=*"])]);
        assert_eq!(found.health, Health::Bad);
        assert!(found.advice.ends_with("--controllers='*,-placement'"), "{}", found.advice);
        let few = ocm(&[theirs.clone(), deployment(OPERATOR, "w", &["--controllers=config-repo,placement"])]);
        assert!(few.advice.ends_with("--controllers='config-repo'"), "{}", few.advice);
        let mut released = deployment(OPERATOR, "w", &["--controllers=*"]);
        released.metadata.labels = Some([(MANAGED_BY.to_owned(), "Helm".to_owned())].into());
        let found = ocm(&[theirs.clone(), released]);
        assert!(
            found.advice.ends_with("set controllers in the chart values to '*,-placement'"),
            "{}",
            found.advice
        );
        let image =
            json!({"name": "c", "image": "quay.io/open-cluster-management/registration-operator:v1.3.0"});
        let mut manager = deployment("cluster-manager", "open-cluster-management", &[]);
        manager.spec.template.spec.as_mut().unwrap().containers =
            vec![serde_json::from_value(image).unwrap()];
        let ours = deployment(OPERATOR, "w", &["operator"]);
        let found = ocm(&[theirs.clone(), manager.clone(), ours.clone()]);
        let first = "first its operator, open-cluster-management/cluster-manager";
        assert!(found.health == Health::Bad && found.advice.contains(first), "{}", found.advice);
        let found = ocm(&[manager.clone(), ours]);
        assert_eq!(found.health, Health::Warning);
        assert!(found.message.contains("open-cluster-management/cluster-manager"), "{}", found.message);
        assert!(
            found.advice.ends_with("--namespace open-cluster-management --replicas=0"),
            "{}",
            found.advice
        );
        let alone = ocm(&[manager, theirs.clone()]);
        assert_eq!(alone.health, Health::Good, "nothing of ours is installed");
        assert!(alone.message.contains("no operator is installed"), "{}", alone.message);
        let webhook = deployment("cluster-manager-addon-webhook", "open-cluster-management-hub", &[]);
        assert!(ocm(&[webhook]).message.starts_with("no controllers"), "webhooks decide nothing");
        let apart = ocm(&[theirs, deployment(OPERATOR, "w", &["operator", "--controllers=*,-placement"])]);
        assert_eq!(apart.health, Health::Good);
        assert_eq!(ocm(&[]).health, Health::Good);
    }

    #[test]
    fn controllers_of_ocm_without_an_available_pod_are_not_called_absent() {
        let mut theirs =
            deployment("cluster-manager-placement-controller", "open-cluster-management-hub", &[]);
        theirs.status = None;
        let ours = deployment(OPERATOR, "w", &["operator"]);
        let found = ocm(&[theirs.clone(), ours.clone()]);
        let both =
            "cluster-manager-placement-controller (not available) and this operator make the same decisions";
        assert_eq!((found.health, found.message.as_str()), (Health::Bad, both));
        theirs.spec.replicas = Some(0);
        assert!(ocm(&[theirs, ours]).message.starts_with("no controllers"), "somebody has stopped them");
    }

    #[test]
    fn only_what_a_config_repo_applies_now_is_shared_with_an_application() {
        let repo = |mode: &str, uid: &str| -> ConfigRepo {
            let metadata = json!({"namespace": "n", "name": "fleet", "uid": uid});
            let spec = json!({"url": "https://git.example/f", "mode": mode});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let owner = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "name": "fleet", "uid": "1"});
        let path = "cluster.open-cluster-management.io/Placement/n/p";
        let inventory: ConfigRepoInventory = serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "fleet-1", "ownerReferences": [owner]},
            "spec": {"objects": {path: "v1beta1"}},
        }))
        .unwrap();
        let id = "shop:cluster.open-cluster-management.io/Placement:n/p";
        let marks = json!({CONFIG_REPO_ANNOTATION: "n/fleet", "argocd.argoproj.io/tracking-id": id});
        let placement: Placement = serde_json::from_value(
            json!({"metadata": {"namespace": "n", "name": "p", "annotations": marks}, "spec": {}}),
        )
        .unwrap();
        let shared = |repos: &[ConfigRepo]| {
            shared_of(std::slice::from_ref(&placement), &applied(repos, std::slice::from_ref(&inventory)))
        };
        assert_eq!(shared(&[repo("Apply", "1")]), ["Placement n/p"]);
        assert_eq!(shared(&[repo("Observe", "1")]), [""; 0], "it only watches");
        assert_eq!(shared(&[repo("Apply", "2")]), [""; 0], "another ConfigRepo has the name");
        assert_eq!(shared(&[]), [""; 0], "it is gone");
    }

    #[test]
    fn every_controller_that_ocm_has_is_one_of_ours() {
        let known = controller_names();
        let named = OCM.iter().flat_map(|(_, controllers)| *controllers);
        assert_eq!(named.filter(|name| !known.contains(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
