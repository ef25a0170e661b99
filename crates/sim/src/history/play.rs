//! Plays a history in a world.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Edit, HistoryEvent};
use crate::{InvariantViolation, Setup, World, Write, workload};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::gitops::v1alpha1::{ClusterDecision, ConfigRepo, RolloutPolicy};
use api::names::{
    APPROVE_DELETION_ANNOTATION, CONFIG_REPO_ANNOTATION, GITOPS_GROUP, OPERATOR_IDENTITY_ALLOWED,
    OPERATOR_IDENTITY_LABEL,
};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use object::{Key, Kind, Object};
use reconcile::SourceFailure;
use store::{DeleteOptions, Patch, ResourcePath, Store, WriteOptions};

/// The result of a history.
pub struct HistoryResult {
    /// Every write, if requested.
    pub writes: Vec<Write>,
    /// The number of events played.
    pub events: usize,
    /// The broken invariant, if there is one.
    pub violation: Option<InvariantViolation>,
}

/// Plays events in a new world and lets it come to rest.
pub fn play(setup: Setup, seed: u64, events: &[HistoryEvent], keep_writes: bool) -> HistoryResult {
    let start = Timestamp::from_second(1_800_000_000).unwrap_or_default();
    let mut play = Player { world: World::with(setup, seed, start), commits: 0, suspended: false };
    if keep_writes {
        play.world.keep_history();
    }
    play.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "config", "labels": {OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED}}}));
    play.repo();
    let mut ended = HistoryResult { writes: Vec::new(), events: 0, violation: None };
    for event in events {
        ended.events += 1;
        if let Err(violation) = play.event(event) {
            ended.violation = Some(violation);
            break;
        }
    }
    if ended.violation.is_none() {
        ended.violation = play.world.check_rest().err();
    }
    ended.writes = play.world.take_history();
    ended
}

struct Player {
    world: World,
    commits: u64,
    suspended: bool,
}

fn repo_key() -> Key {
    Key::namespaced("config", "fleet")
}

fn name(cluster: u8) -> String {
    format!("c{cluster}")
}

impl Player {
    fn event(&mut self, event: &HistoryEvent) -> Result<(), InvariantViolation> {
        match event {
            HistoryEvent::Join { cluster, canary, prod, works, ready_after } => {
                self.join(&name(*cluster), (*canary, *prod), *works, *ready_after);
            }
            HistoryEvent::Leave(cluster) => self.delete::<ManagedCluster>(&Key::cluster(name(*cluster))),
            HistoryEvent::Label { cluster, canary, prod } => {
                let labels = json!({"canary": canary.to_string(), "prod": prod.to_string()});
                let patch = json!({"metadata": {"labels": labels}});
                self.patch::<ManagedCluster>(&Key::cluster(name(*cluster)), patch);
            }
            HistoryEvent::Network { cluster, connected } => {
                if let Some(spoke) = self.world.spokes.get_mut(&name(*cluster)) {
                    spoke.connected = *connected;
                }
            }
            HistoryEvent::Commit(content) => {
                self.commits += 1;
                let revision = format!("{:040x}", self.commits);
                self.world.commit(&repo_key(), &revision, content.files());
            }
            HistoryEvent::FetchFails => {
                let message = "the server does not respond".into();
                self.world.fail_fetching(&repo_key(), SourceFailure { reason: "SourceTimeout", message });
            }
            HistoryEvent::ApproveDeletions => self.approve(),
            HistoryEvent::Suspend(suspended) => {
                self.suspended = *suspended;
                self.repo();
            }
            HistoryEvent::DeleteRepo => self.delete::<ConfigRepo>(&repo_key()),
            HistoryEvent::Policy(policy) => self.policy(*policy),
            HistoryEvent::DeletePlacement => self.delete::<Placement>(&Key::namespaced("config", "fleet")),
            HistoryEvent::Work { cluster, maps, value } => self.work(&name(*cluster), *maps, *value),
            HistoryEvent::Set(Some(content)) => self.apply(content.object()),
            HistoryEvent::Set(None) => {
                self.delete::<ManifestWorkReplicaSet>(&Key::namespaced("config", "set"));
            }
            HistoryEvent::ExternalEdit(edit) => self.external_edit(*edit),
            HistoryEvent::KillOperator(writes) => self.world.kill_operator_after(usize::from(*writes)),
            HistoryEvent::RestartOperator => self.world.restart_operator(),
            HistoryEvent::RestartAgent(cluster) => self.world.restart_agent(&name(*cluster)),
            HistoryEvent::RestartAgentAlone(cluster) => self.world.restart_agent_alone(&name(*cluster)),
            HistoryEvent::BackUpHub => self.world.back_up_hub(),
            HistoryEvent::RestoreHub => self.world.restore_hub(),
            HistoryEvent::Faults(faults) => self.world.faults = *faults,
            HistoryEvent::Clock { cluster, ahead } => {
                let ahead = SignedDuration::from_secs((*ahead).into());
                match cluster {
                    None => self.world.set_operator_clock(ahead),
                    Some(cluster) => self.world.set_clock(&name(*cluster), ahead),
                }
            }
            HistoryEvent::Wait(seconds) => {
                return self.world.run_for(SignedDuration::from_secs((*seconds).into()));
            }
        }
        Ok(())
    }

    fn join(&mut self, cluster: &str, (canary, prod): (bool, bool), works: u8, ready_after: u8) {
        let known: Option<ManagedCluster> = self.world.get(&Key::cluster(cluster));
        if known.is_some() {
            return;
        }
        let images: BTreeSet<String> = (0..4)
            .filter(|version| works & (1 << version) != 0)
            .map(|version| format!("app:{version}"))
            .collect();
        let ready_after = SignedDuration::from_secs(ready_after.into());
        let workloads = workload::Environment { images, ready_after, nodes: 1 };
        let labels = [
            ("canary", if canary { "true" } else { "false" }),
            ("prod", if prod { "true" } else { "false" }),
        ];
        // A cluster that rejoins may find its old namespace still terminating.
        let _ = self.world.join(cluster, &labels, workloads);
    }

    fn repo(&mut self) {
        let budget = json!({"objects": 2});
        let spec = json!({"url": "https://git.example/fleet", "suspend": self.suspended, "report": {}, "deletionBudget": budget});
        let metadata = json!({"namespace": "config", "name": "fleet"});
        self.apply(json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "ConfigRepo", "metadata": metadata, "spec": spec}));
    }

    /// Approves deletions held by the repository or by a list for Argo CD.
    fn approve(&mut self) {
        let list: Option<ClusterDecision> = self.world.get(&Key::namespaced("config", "fleet"));
        if let Some(held) = list.and_then(|list| list.status?.held) {
            let annotations = json!({ APPROVE_DELETION_ANNOTATION: held.approval });
            let placement = Key::namespaced("config", "fleet");
            self.patch::<Placement>(&placement, json!({"metadata": {"annotations": annotations}}));
        }
        let repo: Option<ConfigRepo> = self.world.get(&repo_key());
        let held = repo.and_then(|repo| repo.status?.held_deletions);
        if let Some(held) = held {
            let annotations = json!({ APPROVE_DELETION_ANNOTATION: held.approval });
            self.patch::<ConfigRepo>(&repo_key(), json!({"metadata": {"annotations": annotations}}));
        }
    }

    fn policy(&mut self, policy: Option<u8>) {
        let spec = match policy {
            None => return self.delete::<RolloutPolicy>(&Key::cluster("p")),
            Some(0) => json!({"paused": true}),
            Some(1) => json!({"onBreach": "Rollback"}),
            Some(2) => json!({"superseding": "FinishCurrent", "rollOut": "InstallAndContent"}),
            Some(3) => json!({"soak": "4s", "groupSoak": "6s", "rollOut": "InstallAndContent"}),
            Some(4) => json!({"onBreach": "Rollback", "removalBudget": "100%"}),
            Some(_) => json!({"joining": "LastGood", "unreachableBudget": "50%"}),
        };
        let kind = json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy"});
        let mut object = json!({"metadata": {"name": "p"}, "spec": spec});
        json_patch::merge(&mut object, &kind);
        self.apply(object);
    }

    fn work(&mut self, cluster: &str, maps: u8, value: u8) {
        let manifests: Vec<Value> = (0..3)
            .filter(|map| maps & (1 << map) != 0)
            .map(|map| spoke_map(map, &value.to_string()))
            .collect();
        if manifests.is_empty() {
            return self.delete::<ManifestWork>(&Key::namespaced(cluster, "w"));
        }
        let metadata = json!({"namespace": cluster, "name": "w"});
        self.apply(json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": metadata,
            "spec": {"workload": {"manifests": manifests}}}));
    }

    fn external_edit(&mut self, edit: Edit) {
        let map = |number: u8| Key::namespaced("config", format!("m{number}"));
        let now = self.world.now;
        match edit {
            Edit::WriteMap(number) => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"namespace": "config", "name": format!("m{number}")}, "data": {"k": "stranger", "more": "x"}});
                self.apply(map);
            }
            Edit::DeleteMap(number) => self.delete::<ConfigMap>(&map(number)),
            Edit::UnmarkMap(number) => {
                self.patch::<ConfigMap>(
                    &map(number),
                    json!({"metadata": {"annotations": {CONFIG_REPO_ANNOTATION: null}}}),
                );
            }
            Edit::DeleteDecision => {
                self.delete::<PlacementDecision>(&Key::namespaced("config", "fleet-decision-1"));
            }
            Edit::DeleteAddOn(cluster) => {
                self.delete::<ManagedClusterAddOn>(&Key::namespaced(name(cluster), "app"));
            }
            Edit::DeleteWorks(cluster) => {
                for work in self.world.list::<ManifestWork>() {
                    if work.metadata.namespace == Some(name(cluster)) {
                        self.delete::<ManifestWork>(&Key::of(&work));
                    }
                }
            }
            Edit::DeleteDeployment(cluster) => {
                let target = ResourcePath::of::<Deployment>(&Key::namespaced("default", "app"));
                let delete =
                    |store: &mut Store| store.delete(&target, &DeleteOptions::default(), now).is_ok();
                self.world.spokes.get_mut(&name(cluster)).map(|spoke| delete(&mut spoke.store));
            }
            Edit::ScaleDeployment(cluster) => {
                let target = ResourcePath::of::<Deployment>(&Key::namespaced("default", "app"));
                self.on_spoke(cluster, &target, Patch::Merge(json!({"spec": {"replicas": 3}})));
            }
            Edit::WriteSpokeMap(cluster, number) => {
                let map = spoke_map(number, "stranger");
                let target = ResourcePath::of::<ConfigMap>(&Key::namespaced("default", format!("w{number}")));
                self.on_spoke(cluster, &target, Patch::Apply(map));
            }
        }
    }

    fn on_spoke(&mut self, cluster: u8, target: &ResourcePath, patch: Patch) {
        let now = self.world.now;
        if let Some(spoke) = self.world.spokes.get_mut(&name(cluster)) {
            // The object may not exist.
            let _ = spoke.store.patch(target, &patch, &WriteOptions::manager("stranger").forced(), now);
        }
    }

    fn apply(&mut self, object: Value) {
        // The namespace of a cluster may not exist.
        let _ = Object::from_value(object).map(|object| self.world.apply(object));
    }

    fn delete<K: Kind>(&mut self, key: &Key) {
        // The object may not exist.
        let _ = self.world.delete::<K>(key);
    }

    fn patch<K: Kind>(&mut self, key: &Key, patch: Value) {
        let now = self.world.now;
        // The object may not exist.
        let _ = self.world.hub.patch(
            &ResourcePath::of::<K>(key),
            &Patch::Merge(patch),
            &WriteOptions::manager("stranger"),
            now,
        );
    }
}

fn spoke_map(number: u8, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("w{number}"), "namespace": "default"}, "data": {"v": value}})
}
