//! The hub permissions of add-on agents, and how long they last.

use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::{Value, json};

use crate::fixtures::{
    ADDON, addon, images, is_completed, progress, progressive, put, seconds, select_all, template, world,
};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::find_condition;
use api::names::{ADDON_NAME_LABEL, ADDON_TEMPLATE_NAME_LABEL};
use object::{Key, Metadata as _};
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// Returns two clusters with an add-on whose agents may read their own namespace and a shared one.
fn permitted() -> World {
    let mut world = world(2);
    put(&mut world, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shared"}}));
    permit(&mut world, "msa:0.4.0", &["reader", "writer"]);
    put(
        &mut world,
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON},
            "spec": {
                "supportedConfigs": [{"group": "addon.open-cluster-management.io", "resource": "addontemplates", "defaultConfig": {"name": "msa"}}],
                "installStrategy": {"type": "Manual"},
            },
        }),
    );
    for cluster in ["cluster1", "cluster2"] {
        install(&mut world, ADDON, cluster);
    }
    world.run_for(seconds(30)).unwrap();
    let of = |cluster: &str| {
        let of_addon = format!("open-cluster-management:{ADDON}");
        [
            format!("{cluster}/{of_addon}:clusterrole:reader:agent"),
            format!("{cluster}/{of_addon}:clusterrole:writer:agent"),
            format!("shared/{of_addon}:role:reader:agent:{cluster}"),
            format!("shared/{of_addon}:role:writer:agent:{cluster}"),
        ]
    };
    let mut want = [of("cluster1"), of("cluster2")].concat();
    want.sort();
    assert_eq!(bindings(&world), want);
    world
}

fn install(world: &mut World, addon: &str, cluster: &str) {
    let metadata = json!({"name": addon, "namespace": cluster});
    let kind =
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn"});
    put(world, crate::fixtures::merged(kind, json!({"metadata": metadata, "spec": {}})));
}

/// Writes the template with an image and the agents' roles.
fn permit(world: &mut World, image: &str, roles: &[&str]) {
    template(world, "msa", image);
    let current =
        |role: &&str| json!({"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}});
    let single = |role: &&str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
        json!({"type": "SingleNamespace", "singleNamespace": {"namespace": "shared", "roleRef": role}})
    };
    let permissions: Vec<Value> = roles.iter().map(current).chain(roles.iter().map(single)).collect();
    let template: api::addon::v1alpha1::AddOnTemplate = world.get(&Key::cluster("msa")).unwrap();
    let mut object = serde_json::to_value(template).unwrap();
    object["metadata"] = json!({"name": "msa"});
    object["spec"]["registration"] =
        json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions}}]);
    put(world, object);
}

/// Returns the RoleBindings of add-ons, as namespace and name.
fn bindings(world: &World) -> Vec<String> {
    let all = world.list::<RoleBinding>();
    let of_addons = all.iter().filter(|binding| binding.label(ADDON_NAME_LABEL).is_some());
    let mut names: Vec<_> = of_addons.map(|binding| Key::of(binding).to_string()).collect();
    names.sort();
    names
}

fn assert_gone(world: &World, what: &str) {
    let found: Vec<_> = bindings(world).into_iter().filter(|binding| binding.contains(what)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_permission_that_leaves_the_template_is_revoked_everywhere() {
    let mut world = permitted();
    permit(&mut world, "msa:0.4.0", &["reader"]);
    world.run_for(seconds(30)).unwrap();
    assert_gone(&world, "writer");
    assert_eq!(bindings(&world).len(), 4);
}

#[test]
fn the_permissions_of_an_addon_are_deleted_with_it_even_if_the_operator_was_down() {
    let mut world = permitted();
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster2", ADDON)).unwrap();
    world.restart_operator();
    world.run_for(seconds(30)).unwrap();
    assert_gone(&world, "cluster2");
    assert_eq!(bindings(&world).len(), 4);
}

#[test]
fn a_cluster_that_leaves_leaves_no_permission_behind() {
    let mut world = permitted();
    world.delete::<ManagedCluster>(&Key::cluster("cluster2")).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert!(world.get::<ManagedCluster>(&Key::cluster("cluster2")).is_none());
    assert_gone(&world, "cluster2");
}

#[test]
fn a_denied_cluster_loses_its_permissions_and_gets_nothing_new() {
    let mut world = permitted();
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"});
    let denied = json!({"metadata": {"name": "cluster2"}, "spec": {"hubAcceptsClient": false, "leaseDurationSeconds": 60}});
    put(&mut world, crate::fixtures::merged(cluster, denied));
    world.run_for(seconds(10)).unwrap();
    assert_gone(&world, "cluster2");
    permit(&mut world, "msa:0.4.1", &["reader", "writer"]);
    world.run_for(seconds(30)).unwrap();
    assert_eq!(images(&world), ["0.4.1", "0.4.0"]);
    assert_gone(&world, "cluster2");
}

/// Returns an add-on's label on each cluster.
fn features(world: &World, addon: &str) -> Vec<String> {
    let label = format!("feature.open-cluster-management.io/addon-{addon}");
    let clusters = world.list::<ManagedCluster>();
    clusters.iter().map(|cluster| cluster.label(&label).unwrap_or("-").to_owned()).collect()
}

#[test]
fn clusters_are_labeled_with_their_addons_and_how_these_do() {
    let mut world = permitted();
    world.run_for(seconds(30)).unwrap();
    assert_eq!(features(&world, ADDON), ["available", "available"]);
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.run_for(seconds(400)).unwrap();
    assert_eq!(features(&world, ADDON), ["unreachable", "available"]);
    world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster2", ADDON)).unwrap();
    world.run_for(seconds(10)).unwrap();
    assert_eq!(features(&world, ADDON), ["unreachable", "-"]);
}

#[test]
fn every_addon_of_a_lost_cluster_is_unknown_under_every_manager() {
    let mut world = permitted();
    install(&mut world, "of-somebody-else", "cluster1");
    let key = Key::namespaced("cluster1", "of-somebody-else");
    let available = json!([{"type": "Available", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    world.patch_status::<ManagedClusterAddOn>(&key, json!({"status": {"conditions": available}})).unwrap();
    world.spokes.get_mut("cluster1").unwrap().connected = false;
    world.run_for(seconds(400)).unwrap();
    let addon: ManagedClusterAddOn = world.get(&key).unwrap();
    let status = addon.status.unwrap();
    let available = find_condition(&status.conditions, "Available").unwrap();
    assert_eq!(
        (available.status.to_string().as_str(), available.reason.as_str()),
        ("Unknown", "ManagedClusterLeaseUpdateStopped")
    );
}

/// Writes a RoleBinding as OCM's addon-manager does.
fn put_binding_of_ocm(world: &mut World, namespace: &str, kind: &str, owner: Option<&ManagedClusterAddOn>) {
    let reference = |addon: &ManagedClusterAddOn| {
        json!([{"apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
            "name": ADDON, "uid": addon.uid()}])
    };
    let labels = json!({ADDON_NAME_LABEL: ADDON, ADDON_TEMPLATE_NAME_LABEL: ""});
    let name = format!("open-cluster-management:{ADDON}:{}:agent", kind.to_lowercase());
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owner.map(reference)});
    let group = "rbac.authorization.k8s.io";
    let everybody = format!("system:open-cluster-management:addon:{ADDON}");
    put(
        world,
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": "reader"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": everybody}],
        }),
    );
}

/// The second cluster, with OCM's deployment, waits for its turn.
#[test]
fn permissions_of_ocm_are_replaced_by_permissions_of_each_agent() {
    let mut world = world(2);
    put(&mut world, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shared"}}));
    permit(&mut world, "msa:0.4.9", &["reader"]);
    addon(&mut world, "msa", progressive());
    let desired = json!({"name": "msa", "specHash": "of-ocm"});
    let reference = json!({"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "msa", "desiredConfig": desired, "lastAppliedConfig": desired});
    for cluster in ["cluster1", "cluster2"] {
        install(&mut world, ADDON, cluster);
        let key = Key::namespaced(cluster, ADDON);
        let path = ResourcePath::of::<ManagedClusterAddOn>(&key).sub("status");
        let status = Patch::Merge(json!({"status": {"configReferences": [reference]}}));
        let now = world.now;
        world.hub.patch(&path, &status, &WriteOptions::manager("addon-manager"), now).unwrap();
        let owner = world.get(&key);
        put_binding_of_ocm(&mut world, cluster, "ClusterRole", owner.as_ref());
    }
    put_binding_of_ocm(&mut world, "shared", "Role", None);
    select_all(&mut world);
    world.run_for(seconds(180)).unwrap();
    let of_ocm = |world: &World| -> Vec<String> {
        bindings(world).into_iter().filter(|name| name.ends_with("role:agent")).collect()
    };
    let prefix = format!("open-cluster-management:{ADDON}");
    let left = [format!("cluster2/{prefix}:clusterrole:agent"), format!("shared/{prefix}:role:agent")];
    assert_eq!((of_ocm(&world), progress(&world).0.as_str()), (left.into(), "Failed"));
    permit(&mut world, "msa:0.4.0", &["reader"]);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    world.run_for(seconds(90)).unwrap();
    assert_eq!((of_ocm(&world), bindings(&world).len()), (Vec::new(), 4));
}
