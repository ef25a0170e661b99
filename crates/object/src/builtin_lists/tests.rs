use super::*;
use serde_json::json;

fn at<'a>(root: Position<'a>, path: &str) -> Position<'a> {
    path.split('.').fold(root, |at, part| if part == "[]" { at.items() } else { at.field(part) })
}

fn deployment() -> Position<'static> {
    BUILTIN.root("apps/v1", "Deployment")
}

fn keys(names: &[&'static str]) -> ListType<'static> {
    ListType::Map(names.iter().map(|name| MapKey::parse(name)).collect())
}

#[test]
fn containers_merge_by_name_and_ports_by_two_keys() {
    let containers = at(deployment(), "spec.template.spec.containers");
    assert_eq!(containers.list_type(), keys(&["name"]));
    assert_eq!(
        containers.patch_strategy(),
        PatchStrategy { merge: true, merge_key: Some("name"), ..Default::default() }
    );
    let ports = at(containers, "[].ports");
    assert_eq!(ports.list_type(), keys(&["containerPort", "protocol:TCP"]));
    assert_eq!(ports.patch_strategy().merge_key, Some("containerPort"));
}

#[test]
fn unspecified_lists_are_atomic_and_maps_granular() {
    assert_eq!(at(deployment(), "spec.template.spec.containers.[].args").list_type(), ListType::Atomic);
    assert_eq!(at(deployment(), "spec.template.metadata.labels").map_type(), MapType::Granular);
    assert_eq!(at(deployment(), "no.such.[].field").list_type(), ListType::Atomic);
    assert_eq!(BUILTIN.root("example.com/v1", "Widget").field("spec").map_type(), MapType::Granular);
}

#[test]
fn a_field_overrides_the_map_type_of_its_type() {
    assert_eq!(at(deployment(), "spec.selector").map_type(), MapType::Atomic);
    assert_eq!(at(BUILTIN.root("v1", "PersistentVolume"), "spec.claimRef").map_type(), MapType::Granular);
    assert_eq!(at(deployment(), "spec.template.spec.nodeSelector").map_type(), MapType::Atomic);
}

#[test]
fn retain_keys_and_replace_are_known() {
    assert!(at(deployment(), "spec.strategy").patch_strategy().retain_keys);
    assert!(at(BUILTIN.root("policy/v1", "PodDisruptionBudget"), "spec.selector").patch_strategy().replace);
    let finalizers = at(deployment(), "metadata.finalizers");
    assert_eq!((finalizers.list_type(), finalizers.patch_strategy().merge), (ListType::Set, true));
}

#[test]
fn scopes_are_known() {
    assert_eq!(BUILTIN.is_namespaced("v1", "Namespace"), Some(false));
    assert_eq!(BUILTIN.is_namespaced("apps/v1", "Deployment"), Some(true));
    assert_eq!(BUILTIN.is_namespaced("example.com/v1", "Widget"), None);
}

#[test]
fn a_crd_schema_is_walked_in_the_same_way() {
    let schema = json!({"properties": {"spec": {"properties": {
        "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"],
            "items": {"properties": {"port": {"default": 80}, "ref": {"x-kubernetes-map-type": "atomic"}}}},
        "tags": {"additionalProperties": {"x-kubernetes-list-type": "set"}},
    }}}});
    let root = Position::schema(&schema);
    let expected =
        vec![MapKey { name: "host", default: None }, MapKey { name: "port", default: Some(json!(80)) }];
    assert_eq!(at(root, "spec.rules").list_type(), ListType::Map(expected));
    assert_eq!(at(root, "spec.rules.[].ref").map_type(), MapType::Atomic);
    assert_eq!(at(root, "spec.tags.any").list_type(), ListType::Set);
}

#[test]
fn references_lead_through_definitions_but_not_in_circles() {
    let document = json!({"A": {"properties": {"next": {"$ref": "#/definitions/A"}, "loop": {"$ref": "#/definitions/B"}}},
        "B": {"$ref": "#/definitions/B"}});
    let root = Position::Schema { schema: &document["A"], definitions: Some(&document) };
    assert!(at(root, "next.next.next").is_known());
    assert!(!at(root, "loop.x").is_known());
}
