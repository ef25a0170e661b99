//! Tests of custom resources: definitions, schemas, defaults and checks. The messages were observed on a real API
//! server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::*;

pub(super) fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["size"],
        "x-kubernetes-validations": [
            { "rule": "!has(self.replicas) || self.replicas != 3", "message": "three is no good" },
            { "rule": "self.size == oldSelf.size", "message": "size is fixed" },
        ],
        "properties": {
            "size": { "type": "string", "enum": ["s", "m"] },
            "replicas": { "type": "integer", "minimum": 1, "maximum": 9, "default": 2 },
            "name": { "type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$" },
            "tags": { "type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                "items": { "type": "object", "required": ["port"], "properties": { "port": { "type": "integer" }, "name": { "type": "string" } } },
            },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "ios": { "x-kubernetes-int-or-string": true },
            "nul": { "type": "string", "nullable": true },
            "one": {
                "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "oneOf": [{ "required": ["a"] }, { "required": ["b"] }],
            },
            "when": { "type": "string", "format": "date-time" },
            "emb": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"] },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } },
                "additionalPrinterColumns": [{ "name": "R", "type": "integer", "jsonPath": ".spec.replicas" }],
                "schema": { "openAPIV3Schema": {
                    "type": "object", "required": ["spec"],
                    "properties": { "spec": spec, "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                } },
            }],
        },
    })
}

fn world() -> World {
    let mut world = World::new();
    world.create(definition()).unwrap();
    world
}

fn widget(spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn a_definition_is_established_and_served_at_once() {
    let world = world();
    let stored = world.store.get(&world.target(&definition())).unwrap();
    let conditions = stored.at(&["status", "conditions"]).unwrap().as_array().unwrap();
    let found: Vec<_> =
        conditions.iter().map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"])).collect();
    assert_eq!(
        found,
        ["\"NamesAccepted\"=\"True\" \"NoConflicts\"", "\"Established\"=\"True\" \"InitialNamesAccepted\""]
    );
    assert_eq!(stored.at(&["status", "storedVersions"]), Some(&json!(["v1"])));
    assert_eq!(stored.at(&["spec", "names", "listKind"]), Some(&json!("WidgetList")));
    assert_eq!(
        (stored.at(&["spec", "conversion", "strategy"]), stored.generation()),
        (Some(&json!("None")), 1)
    );
}

#[test]
fn a_finalizer_of_a_custom_object_needs_no_domain() {
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    let mut world = world();
    let mut body = widget(json!({ "size": "s" }));
    body["metadata"]["finalizers"] = json!([finalizer]);
    assert!(world.create(body).is_ok());
    let mut built_in = config_map("a", json!({}));
    built_in["metadata"]["finalizers"] = json!([finalizer]);
    let message = "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"resources-finalizer.argocd.argoproj.io\": name is neither a standard finalizer name nor is it fully qualified";
    refused(world.create(built_in), 422, "Invalid", message);
}

#[test]
fn a_taken_name_is_not_accepted() {
    let mut world = world();
    let mut other = definition();
    other["metadata"]["name"] = "gadgets.example.com".into();
    other["spec"]["names"] = json!({ "plural": "gadgets", "singular": "gadget", "kind": "Widget" });
    world.create(other.clone()).unwrap();
    let stored = world.store.get(&world.target(&other)).unwrap();
    let condition = &stored.at(&["status", "conditions"]).unwrap()[0];
    assert_eq!(
        (&condition["status"], &condition["reason"], &condition["message"]),
        (&json!("False"), &json!("KindConflict"), &json!("\"Widget\" is already in use"))
    );
    assert_eq!(
        refusal(
            world
                .store
                .list(&ResourcePath::resource("example.com", "v1", "gadgets"), &ListOptions::default())
        )
        .0,
        404
    );
}

fn fields<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Vec<String> {
    let error = result.unwrap_err();
    assert_eq!((error.code(), error.reason()), (422, "Invalid"), "{error}");
    error
        .causes()
        .iter()
        .map(|c| format!("{}: {}", c.field.clone().unwrap(), c.message.clone().unwrap()))
        .collect()
}

#[test]
fn bad_definitions_are_refused() {
    let schema = json!({ "type": "object", "properties": { "spec": { "properties": {
        "a": { "type": "array" },
        "b": { "type": "object", "additionalProperties": true, "properties": { "x": { "type": "string" } } },
        "c": { "type": "array", "x-kubernetes-list-type": "map", "items": { "type": "object" } },
        "d": { "type": "string", "pattern": "(" },
        "e": { "type": "integer", "default": "x" },
        "f": { "type": "string", "x-kubernetes-validations": [{ "rule": "self.foo(" }] },
        "g": { "anyOf": [{ "type": "object" }], "type": "object" },
    } } } });
    let mut bad = definition();
    bad["spec"]["scope"] = "Foo".into();
    bad["spec"]["versions"] =
        json!([{ "name": "v1", "served": true, "storage": false, "schema": { "openAPIV3Schema": schema } }]);
    let found = fields(World::new().create(bad));
    let at = "spec.validation.openAPIV3Schema.properties[spec]";
    for expected in [
        "spec.scope: Unsupported value: \"Foo\": supported values: \"Cluster\", \"Namespaced\"".to_owned(),
        "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version"
            .into(),
        format!("{at}.type: Required value: must not be empty for specified object fields"),
        format!("{at}.properties[a].items: Required value: must be specified"),
        format!(
            "{at}.properties[b].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"
        ),
        format!(
            "{at}.properties[c].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
        ),
        format!("{at}.properties[g].anyOf[0].type: Forbidden: must be empty to be structural"),
    ] {
        assert!(found.contains(&expected), "{expected} in {found:#?}");
    }
    for start in [
        "d].pattern: Invalid value: \"(\": must be a valid",
        "e].default: Invalid value: \"string\"",
        "f].x-kubernetes-validations[0].rule: Invalid",
    ] {
        assert!(found.iter().any(|error| error.contains(start)), "{start} in {found:#?}");
    }
    let mut renamed = definition();
    renamed["metadata"]["name"] = "x.example.com".into();
    assert_eq!(
        fields(World::new().create(renamed)),
        ["metadata.name: Invalid value: \"x.example.com\": must be spec.names.plural+\".\"+spec.group"]
    );
}

#[test]
fn a_misspelled_keyword_of_a_schema_is_named() {
    let mut misspelled = definition();
    misspelled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        ["minLenght"] = 1.into();
    let warnings = World::new().create(misspelled).unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "unknown field \"spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.minLenght\""
        ]
    );
}

#[test]
fn unknown_fields_are_dropped_and_defaults_are_added() {
    let mut world = world();
    let mut body = widget(json!({ "size": "s", "foo": 1, "free": { "x": { "y": null } }, "nul": null,
        "emb": { "apiVersion": "v1", "kind": "X", "metadata": { "name": "x", "bar": 1 }, "q": 1 } }));
    body["junk"] = 1.into();
    body["status"] = json!({ "x": 1 });
    let written = world.create(body.clone()).unwrap();
    let spec = json!({ "size": "s", "free": { "x": { "y": null } }, "nul": null, "replicas": 2,
        "emb": { "apiVersion": "v1", "kind": "X", "metadata": { "name": "x" }, "q": 1 } });
    assert_eq!(written.object.at(&["spec"]), Some(&spec));
    assert_eq!(
        (written.object.at(&["status"]), written.object.at(&["junk"]), written.object.generation()),
        (None, None, 1)
    );
    assert_eq!(
        written.warnings,
        ["unknown field \"junk\"", "unknown field \"spec.emb.metadata.bar\"", "unknown field \"spec.foo\""]
    );
    body["metadata"]["name"] = "b".into();
    let target = world.target(&body).named("");
    let strict = world.store.create(
        &target,
        Object::from_value(body).unwrap(),
        &WriteOptions { field_validation: FieldValidation::Strict, ..WriteOptions::manager("t") },
        world.now,
    );
    let message = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"junk\", unknown field \"spec.emb.metadata.bar\", unknown field \"spec.foo\"";
    refused(strict, 400, "BadRequest", message);
}

#[test]
fn values_are_checked_field_by_field() {
    let mut world = world();
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let nothing = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    assert_eq!(fields(world.create(nothing)), ["spec: Required value", unchecked]);
    let found = fields(world.create(widget(json!({ "size": "x", "replicas": 0, "name": "A", "tags": ["a", "a", "b"],
        "ports": [{ "port": 1 }, { "port": 1 }], "one": { "a": "1", "b": "2" }, "when": "no", "ios": 1.5, "emb": { "foo": 1 } }))));
    for expected in [
        "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        "spec.size: Unsupported value: \"x\": supported values: \"s\", \"m\"",
        "spec.name: Invalid value: \"A\": spec.name in body should be at least 2 chars long",
        "spec.ios: Invalid value: \"number\": spec.ios in body must be of type integer,string: \"number\"",
        "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1",
        "spec.tags: Too many: 3: must have at most 2 items",
        "spec.when: Invalid value: \"no\": spec.when in body must be of type date-time: \"no\"",
        "spec.emb.apiVersion: Required value",
        "spec.emb.kind: Required value",
        "spec.tags[1]: Duplicate value: \"a\"",
        "spec.ports[1]: Duplicate value: {\"port\":1}",
        unchecked,
    ] {
        assert!(found.iter().any(|f| f == expected), "{expected} in {found:#?}");
    }
    let found = fields(world.create(widget(
        json!({ "size": 1, "replicas": "x", "tags": "a", "ports": {}, "free": 1, "one": {} }),
    )));
    for expected in [
        "spec.ports: Invalid value: \"object\": spec.ports in body must be of type array: \"object\"",
        "spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"",
        "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found none valid",
    ] {
        assert!(found.iter().any(|f| f == expected), "{expected} in {found:#?}");
    }
}

#[test]
fn rules_are_checked_on_creation_and_on_change() {
    let mut world = world();
    refused(
        world.create(widget(json!({ "size": "s", "replicas": 3 }))),
        422,
        "Invalid",
        "Widget.example.com \"a\" is invalid: spec: Invalid value: three is no good",
    );
    let target = world.target(&widget(json!({})));
    world.create(widget(json!({ "size": "s" }))).unwrap();
    refused(
        world.merge(&target, json!({ "spec": { "size": "m" } })),
        422,
        "Invalid",
        "Widget.example.com \"a\" is invalid: spec: Invalid value: size is fixed",
    );
}

#[test]
fn status_and_scale_are_separate() {
    let mut world = world();
    world.create(widget(json!({ "size": "s" }))).unwrap();
    let target = world.target(&widget(json!({})));
    let patch =
        json!({ "spec": { "replicas": 5 }, "status": { "y": 1 }, "metadata": { "labels": { "a": "b" } } });
    let object = world.merge(&target.clone().sub("status"), patch).unwrap().object;
    assert_eq!(
        (object.at(&["spec", "replicas"]), object.at(&["status"]), object.generation()),
        (Some(&json!(2)), Some(&json!({ "y": 1 })), 1)
    );
    assert!(object.labels().is_empty());
    let scaled =
        world.merge(&target.clone().sub("scale"), json!({ "spec": { "replicas": 4 } })).unwrap().object;
    assert_eq!((scaled.kind(), scaled.at(&["spec", "replicas"])), ("Scale", Some(&json!(4))));
    let object = world.store.get(&target).unwrap();
    assert_eq!((object.at(&["spec", "replicas"]), object.generation()), (Some(&json!(4)), 2));
    let unversioned = world.update(widget(json!({ "size": "s" })));
    let message = "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    refused(unversioned, 422, "Invalid", message);
}

#[test]
fn strategic_patches_are_for_built_in_kinds() {
    let mut world = world();
    world.create(widget(json!({ "size": "s" }))).unwrap();
    let target = world.target(&widget(json!({})));
    let patch = Patch::Strategic(json!({ "spec": { "replicas": 5 } }));
    assert_eq!(refusal(world.store.patch(&target, &patch, &WriteOptions::manager("t"), world.now)).0, 415);
}

#[test]
fn versions_are_converted_on_the_way_out_and_in() {
    fn convert(object: &Object, api_version: &str) -> Result<Object, String> {
        let mut object = object.clone();
        let (from, to) =
            if api_version == "example.com/v2" { ("size", "dimension") } else { ("dimension", "size") };
        if let Some(value) = object.field_mut("spec").remove(from) {
            object.field_mut("spec").insert(to.into(), value);
        }
        object.0.insert("apiVersion".into(), api_version.into());
        Ok(object)
    }
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let mut world = World { store: Store::new(1, now).converting("example.com", "Widget", convert), now };
    let version = |name: &str, storage: bool, field: &str| {
        let spec = json!({ "type": "object", "properties": { field: { "type": "string" } } });
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
    };
    let mut two = definition();
    two["spec"]["versions"] = json!([version("v1", true, "size"), version("v2", false, "dimension")]);
    world.create(two).unwrap();
    let mut body = widget(json!({ "dimension": "s" }));
    body["apiVersion"] = "example.com/v2".into();
    assert_eq!(world.create(body).unwrap().object.at(&["spec"]), Some(&json!({ "dimension": "s" })));
    let at = |version: &str| {
        ResourcePath::resource("example.com", version, "widgets").within("default").named("a")
    };
    assert_eq!(world.store.get(&at("v1")).unwrap().at(&["spec"]), Some(&json!({ "size": "s" })));
    let mut watch = world.store.watch(&at("v2").named(""), &WatchOptions::default()).unwrap();
    assert_eq!(
        world.store.poll(&mut watch).unwrap()[0].object.at(&["spec"]),
        Some(&json!({ "dimension": "s" }))
    );
    let merged = world.merge(&at("v2"), json!({ "spec": { "dimension": "m" } })).unwrap().object;
    assert_eq!(merged.api_version(), "example.com/v2");
}

#[test]
fn a_new_default_shows_in_what_is_stored() {
    let mut world = world();
    world.create(widget(json!({ "size": "s" }))).unwrap();
    let stored = world.store.get(&world.target(&definition())).unwrap();
    let mut next = Object::clone(&stored).into_value();
    next["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({ "type": "string", "default": "red" });
    world.update(next).unwrap();
    assert_eq!(
        world.store.get(&world.target(&widget(json!({})))).unwrap().at(&["spec", "colour"]),
        Some(&json!("red"))
    );
}

#[test]
fn every_definition_of_ours_is_accepted() {
    let mut world = World::new();
    for definition in api::crds::all() {
        let mut definition = definition;
        api::crds::serve_all(&mut definition);
        let object = Object::from_typed(&definition);
        let written = world.create(object.into_value()).unwrap();
        assert!(written.warnings.is_empty(), "{} {:?}", written.object.name(), written.warnings);
        let stored =
            world.store.get(&ResourcePath::of::<CustomResourceDefinition>(&written.object.key())).unwrap();
        assert_eq!(stored.at(&["status", "conditions"]).unwrap()[1]["status"], "True", "{}", stored.name());
    }
}
