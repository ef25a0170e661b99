//! The service accounts of add-ons whose agents register with tokens.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Value, json};

use crate::fixtures::{ADDON, addon, is_completed, progress, seconds, select_all, template, with, world};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::{Condition, find_condition};
use object::Key;
use reconcile::{Action, Failure, Outcome};
use sim::{Servers, Setup, World, execute};
use store::{Patch, ResourcePath, WriteOptions};

/// Returns a cluster with an add-on whose agent registers with a token.
fn by_token() -> World {
    on(world(1))
}

/// Installs that add-on in a world.
fn on(mut world: World) -> World {
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    driver(&mut world, json!("token"));
    world
}

/// Writes the driver as the cluster's agent does.
pub(crate) fn driver(world: &mut World, driver: Value) {
    let path = ResourcePath::of::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).sub("status");
    let patch = Patch::Merge(json!({"status": {"kubeClientDriver": driver}}));
    let now = world.now;
    world.hub.patch(&path, &patch, &WriteOptions::manager("agent"), now).unwrap();
    world.run_for(seconds(30)).unwrap();
}

fn ready(world: &World) -> Option<Condition> {
    let addon: ManagedClusterAddOn = world.get(&Key::namespaced("cluster1", ADDON))?;
    find_condition(&addon.status?.conditions, "TokenInfrastructureReady").cloned()
}

fn account(world: &World) -> Option<ServiceAccount> {
    world.get(&Key::namespaced("cluster1", format!("{ADDON}-agent")))
}

/// Returns for each of the account, the role and the binding if it exists.
pub(crate) fn exist(world: &World) -> [bool; 3] {
    let role = Key::namespaced("cluster1", format!("{ADDON}-token-role"));
    [account(world).is_some(), world.get::<Role>(&role).is_some(), world.get::<RoleBinding>(&role).is_some()]
}

#[test]
fn an_addon_by_token_gets_a_service_account_and_its_agent_is_notified() {
    let world = by_token();
    assert_eq!(exist(&world), [true; 3]);
    let uid = account(&world).unwrap().metadata.uid.unwrap();
    let condition = ready(&world).unwrap();
    assert_eq!(condition.message, format!("ServiceAccount cluster1/{ADDON}-agent (UID: {uid}) is ready"));
    assert_eq!((condition.is_true(), condition.reason.as_str()), (true, "TokenInfrastructureReady"));
}

/// Executes an action as an API server with a policy against service accounts.
fn refuse(servers: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    match action {
        Action::Apply { object, .. } if object.kind() == "ServiceAccount" => {
            Err(Failure::refused(&object.reference(), 403, [].into_iter(), "denied by a policy"))
        }
        action => execute(servers, manager, action, now),
    }
}

#[test]
fn an_account_that_the_api_server_refuses_is_named_in_the_condition() {
    let world = on(with(Setup { execute: refuse, ..Setup::default() }, 7, 1));
    let condition = ready(&world).unwrap();
    assert_eq!((condition.is_false(), condition.reason.as_str()), (true, "TokenInfrastructureApplyFailed"));
    let message = condition.message;
    assert!(message.starts_with("Failed to apply token infrastructure: "), "{message}");
    assert!(message.ends_with("denied by a policy"), "{message}");
}

#[test]
fn an_account_that_was_deleted_is_created_and_reported_again() {
    let mut world = by_token();
    let before = ready(&world).unwrap().message;
    world.delete::<ServiceAccount>(&Key::namespaced("cluster1", format!("{ADDON}-agent"))).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(exist(&world), [true; 3]);
    assert_ne!(ready(&world).unwrap().message, before);
}

#[test]
fn the_account_is_deleted_with_the_driver_the_addon_and_the_acceptance_of_the_cluster() {
    for end in [
        (|world| driver(world, json!("csr"))) as fn(&mut World),
        |world| world.delete::<ManagedClusterAddOn>(&Key::namespaced("cluster1", ADDON)).unwrap(),
        |world| {
            let path = ResourcePath::of::<ManagedCluster>(&Key::cluster("cluster1"));
            let patch = Patch::Merge(json!({"spec": {"hubAcceptsClient": false}}));
            let now = world.now;
            world.hub.patch(&path, &patch, &WriteOptions::manager("user"), now).unwrap();
        },
    ] {
        let mut world = by_token();
        // Ensure that nothing reinstalls the add-on.
        crate::removals::select_some(&mut world, 0);
        end(&mut world);
        world.run_for(seconds(60)).unwrap();
        assert_eq!((exist(&world), ready(&world)), ([false; 3], None));
    }
}

/// Executes an action as an API server with a policy against the bindings of token roles.
fn refuse_binding(servers: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let target = action.target().filter(|target| target.key.name == format!("{ADDON}-token-role"));
    match target {
        Some(target) if target.gvk.kind == "RoleBinding" => {
            Err(Failure::refused(&target, 403, [].into_iter(), "denied by a policy"))
        }
        Some(_) | None => execute(servers, manager, action, now),
    }
}

#[test]
fn no_account_is_made_that_its_deletion_would_not_find() {
    let world = on(with(Setup { execute: refuse_binding, ..Setup::default() }, 7, 1));
    assert_eq!(exist(&world), [false, true, false], "the binding shows that there is an account");
    assert!(ready(&world).unwrap().is_false());
}
