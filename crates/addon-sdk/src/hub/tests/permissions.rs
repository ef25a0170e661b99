//! Tests an agent's permissions from rules and from existing roles.

use super::*;
use crate::hub::tests::World;
use k8s_openapi::api::rbac::v1::PolicyRule;
use object::Object;
use reconcile::Action;
use serde_json::Value;

fn roles() -> Vec<HubRole> {
    let role = role_ref("Role", "lister");
    vec![HubRole::CurrentCluster("reader"), HubRole::SingleNamespace { namespace: "shared", role }]
}

fn wanted(
    world: &World,
    hub_permissions: Option<Vec<PolicyRule>>,
    hub_roles: Vec<HubRole>,
) -> WantedPermissions {
    let addon: ManagedClusterAddOn = Object::from_value(world.addon.clone()).unwrap().to_typed().unwrap();
    super::wanted(&addon, &AddOnOptions { hub_permissions, hub_roles, ..AddOnOptions::default() })
}

fn existing(world: &World, cluster: &str) -> Permissions {
    read(&Key::namespaced(cluster, "a"), &world.caches()).unwrap()
}

/// Returns the applied objects.
fn applied(actions: &[Action]) -> Vec<Value> {
    let object = |action: &Action| match action {
        Action::Apply { object, .. } => object.clone().into_value(),
        other => panic!("{other:?}"),
    };
    actions.iter().map(object).collect()
}

/// Returns the written objects as `kind namespace/name`.
fn written(actions: &[Action]) -> Vec<String> {
    let target = |action: &Action| {
        let target = action.target().unwrap();
        format!("{} {}", target.gvk.kind, target.key)
    };
    actions.iter().map(target).collect()
}

const READER: &str = "RoleBinding c1/open-cluster-management:a:clusterrole:reader:agent";
const LISTER: &str = "RoleBinding shared/open-cluster-management:a:role:lister:agent:c1";

#[test]
fn an_agent_has_existing_roles_in_its_own_and_in_a_shared_namespace_until_the_addon_leaves_them_out() {
    let mut world = World::new(&[]);
    let both = wanted(&world, Some(Vec::new()), roles());
    let given = existing(&world, "c1").give(&both);
    assert_eq!(written(&given), [READER, LISTER], "without rules it has no Role of its own");
    world.bindings = applied(&given);
    let lister = &world.bindings[1];
    assert_eq!(lister["roleRef"]["name"], "lister");
    let user = "system:open-cluster-management:cluster:c1:addon:a:agent:a-agent";
    assert_eq!(lister["subjects"][0]["name"], user);

    let now = existing(&world, "c1");
    assert_eq!(written(&now.give(&both)), [""; 0]);
    assert_eq!(written(&now.revoke_others(&both)), [""; 0]);
    let one = wanted(&world, Some(Vec::new()), roles().into_iter().take(1).collect());
    assert_eq!(written(&now.revoke_others(&one)), [LISTER]);
    assert_eq!(written(&now.revoke()), [READER, LISTER]);
    assert_eq!(written(&existing(&world, "c2").revoke()), [""; 0], "those of another cluster stay");
}

#[test]
fn rules_and_roles_are_granted_together_and_only_to_an_agent_with_an_identity() {
    let world = World::new(&[]);
    let own = "c1/open-cluster-management:a:agent";
    let rules = Some(vec![PolicyRule::default()]);
    let given = existing(&world, "c1").give(&wanted(&world, rules, roles()));
    let (role, binding) = (format!("Role {own}"), format!("RoleBinding {own}"));
    assert_eq!(written(&given), [role.as_str(), binding.as_str(), READER, LISTER]);
    assert_eq!(written(&existing(&world, "c1").give(&wanted(&world, None, roles()))), [""; 0]);
}
