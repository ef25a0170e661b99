//! Custom resources: defaults, pruning, validation, and rejected CRDs.

use serde_json::json;

use super::api::{Api, MERGE, widget};
use super::{cases, definition};

cases![
    defaults_are_filled_in,
    defaults_fill_in_objects_that_are_there,
    null_with_a_default_becomes_the_default,
    unknown_fields_are_pruned,
    unknown_fields_are_warned_of_or_refused,
    preserved_fields_are_kept,
    embedded_metadata_is_kept_as_it_should_be,
    types_are_checked,
    bounds_are_checked,
    enums_are_checked,
    patterns_and_lengths_are_checked,
    required_fields_are_demanded,
    sets_hold_nothing_twice,
    map_lists_hold_no_key_twice,
    an_integer_or_a_string_is_either,
    times_are_checked_by_their_pattern,
    whole_numbers_are_integers,
    integers_are_checked_by_their_width,
    rules_in_cel_are_checked,
    rules_may_look_at_the_old_value,
    a_definition_must_have_a_structural_schema,
    a_definition_is_named_by_plural_and_group,
    a_definition_is_served_when_it_is_established,
    every_mistake_is_named,
];

async fn defaults_are_filled_in(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({}))).await.is(201).has("/spec", json!({ "size": 3 }));
    let mut body = widget("b", json!({}));
    body.as_object_mut().unwrap().remove("spec");
    api.post(&api.widgets(), &body).await.is(201).has("/spec", json!(null));
}

async fn defaults_fill_in_objects_that_are_there(api: Api) {
    let spec = json!({ "size": 1, "nested": {}, "ports": [{ "port": 80 }] });
    let want = json!({ "size": 1, "nested": { "inner": "x" }, "ports": [{ "port": 80, "protocol": "TCP" }] });
    api.post(&api.widgets(), &widget("a", spec)).await.is(201).has("/spec", want);
}

async fn null_with_a_default_becomes_the_default(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "size": null }))).await.is(201).has("/spec/size", json!(3));
    api.patch(&api.widget("a"), MERGE, &json!({ "spec": { "size": 7 } }))
        .await
        .is(200)
        .has("/spec/size", json!(7));
    api.patch(&api.widget("a"), MERGE, &json!({ "spec": { "size": null } }))
        .await
        .is(200)
        .has("/spec/size", json!(3));
}

async fn unknown_fields_are_pruned(api: Api) {
    let mut body = widget("a", json!({ "size": 1, "unknown": 1, "nested": { "other": 1 } }));
    body["more"] = json!(1);
    let reply = api.post(&api.widgets(), &body).await.is(201).has("/more", json!(null));
    reply.has("/spec", json!({ "size": 1, "nested": { "inner": "x" } }));
}

async fn unknown_fields_are_warned_of_or_refused(api: Api) {
    let body = widget("a", json!({ "unknown": 1 }));
    let path = |validation: &str| format!("{}?fieldValidation={validation}", api.widgets());
    api.post(&path("Strict"), &body).await.refused(400, "BadRequest").says("unknown field \"spec.unknown\"");
    let reply = api.post(&path("Warn"), &body).await.is(201);
    assert_eq!(reply.warnings, ["299 - \"unknown field \\\"spec.unknown\\\"\""]);
    let reply = api.post(&path("Ignore"), &widget("b", json!({ "unknown": 1 }))).await.is(201);
    assert!(reply.warnings.is_empty());
    api.post(&path("Sometimes"), &body)
        .await
        .refused(422, "Invalid")
        .blames("fieldValidation", "FieldValueNotSupported");
}

async fn preserved_fields_are_kept(api: Api) {
    let free = json!({ "any": { "thing": [1, "two", { "three": 3 }] } });
    api.post(&api.widgets(), &widget("a", json!({ "free": free }))).await.is(201).has("/spec/free", free);
    api.post(&api.widgets(), &widget("b", json!({ "settings": { "a": "b" } })))
        .await
        .is(201)
        .has("/spec/settings/a", json!("b"));
}

async fn embedded_metadata_is_kept_as_it_should_be(api: Api) {
    let mut body = widget("a", json!({}));
    body["metadata"]["annotations"] = json!({ "k": "v" });
    body["metadata"]["unknown"] = json!("x");
    api.post(&api.widgets(), &body)
        .await
        .is(201)
        .has("/metadata/annotations", json!({ "k": "v" }))
        .has("/metadata/unknown", json!(null));
}

async fn types_are_checked(api: Api) {
    let reply = api.post(&api.widgets(), &widget("a", json!({ "size": "1" }))).await.refused(422, "Invalid");
    reply
        .blames("spec.size", "FieldValueTypeInvalid")
        .says("spec.size in body must be of type integer: \"string\"");
    api.post(&api.widgets(), &widget("a", json!({ "settings": { "a": 1 } })))
        .await
        .refused(422, "Invalid")
        .blames("spec.settings.a", "FieldValueTypeInvalid");
}

async fn bounds_are_checked(api: Api) {
    let reply = api.post(&api.widgets(), &widget("a", json!({ "size": 0 }))).await.refused(422, "Invalid");
    reply
        .blames("spec.size", "FieldValueInvalid")
        .says("spec.size in body should be greater than or equal to 1");
    let reply = api.post(&api.widgets(), &widget("a", json!({ "size": 11 }))).await.refused(422, "Invalid");
    reply.says("spec.size in body should be less than or equal to 10");
}

async fn enums_are_checked(api: Api) {
    let reply =
        api.post(&api.widgets(), &widget("a", json!({ "mode": "Odd" }))).await.refused(422, "Invalid");
    reply
        .blames("spec.mode", "FieldValueNotSupported")
        .says("Unsupported value: \"Odd\": supported values: \"Fast\", \"Slow\"");
}

async fn patterns_and_lengths_are_checked(api: Api) {
    let reply = api.post(&api.widgets(), &widget("a", json!({ "text": "A" }))).await.refused(422, "Invalid");
    reply.blames("spec.text", "FieldValueInvalid").says("spec.text in body should match '^[a-z]*$'");
    let reply =
        api.post(&api.widgets(), &widget("a", json!({ "text": "toolong" }))).await.refused(422, "Invalid");
    reply.blames("spec.text", "FieldValueTooLong");
}

async fn required_fields_are_demanded(api: Api) {
    let reply = api
        .post(&api.widgets(), &widget("a", json!({ "ports": [{ "name": "x" }] })))
        .await
        .refused(422, "Invalid");
    reply.blames("spec.ports[0].port", "FieldValueRequired");
}

async fn sets_hold_nothing_twice(api: Api) {
    let reply = api
        .post(&api.widgets(), &widget("a", json!({ "tags": ["a", "b", "a"] })))
        .await
        .refused(422, "Invalid");
    reply.blames("spec.tags[2]", "FieldValueDuplicate");
}

async fn map_lists_hold_no_key_twice(api: Api) {
    let ports = json!([{ "port": 80 }, { "port": 80, "protocol": "UDP" }, { "port": 80, "name": "again" }]);
    let reply =
        api.post(&api.widgets(), &widget("a", json!({ "ports": ports }))).await.refused(422, "Invalid");
    reply.blames("spec.ports[2]", "FieldValueDuplicate");
}

async fn an_integer_or_a_string_is_either(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "amount": 1 }))).await.is(201);
    api.post(&api.widgets(), &widget("b", json!({ "amount": "50%" }))).await.is(201);
    api.post(&api.widgets(), &widget("c", json!({ "amount": true }))).await.refused(422, "Invalid");
}

/// Texts that are not valid times in this product once stopped a fleet. See docs/hazards-hub.md#unreadable-times.
async fn times_are_checked_by_their_pattern(api: Api) {
    let admitted = [
        "2026-01-02T03:04:05Z",
        "9999-12-31T23:59:59Z",
        "2026-01-02T03:04:05+99:99",
        "2026-01-02T00:00:00x5Z",
        "2026-01-02t03:04:05.0123456789012345z",
        "2026-01-02T03:04:05Zthe end",
    ];
    for (i, text) in admitted.iter().enumerate() {
        let name = format!("good-{i}");
        let reply = api.post(&api.widgets(), &widget(&name, json!({ "when": text }))).await.is(201);
        reply.has("/spec/when", json!(text));
    }
    let refused = [
        "2026-01-02",
        "2026-01-02 03:04:05Z",
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T03:04:05",
    ];
    for text in refused {
        let reply = api.post(&api.widgets(), &widget("bad", json!({ "when": text }))).await;
        reply.refused(422, "Invalid").blames("spec.when", "FieldValueTypeInvalid");
    }
}

async fn whole_numbers_are_integers(api: Api) {
    for (name, amount, want) in
        [("a", "5.0", json!(5)), ("b", "1e3", json!(1000)), ("c", "3000000000", json!(3_000_000_000_i64))]
    {
        let spec: serde_json::Value = serde_json::from_str(&format!(r#"{{"amount": {amount}}}"#)).unwrap();
        api.post(&api.widgets(), &widget(name, spec)).await.is(201);
        let read = api.get(&api.widget(name)).await.is(200);
        assert_eq!(read.body["spec"]["amount"].to_string(), want.to_string());
    }
}

async fn integers_are_checked_by_their_width(api: Api) {
    let count = |count: i64| widget("a", json!({ "count": count }));
    api.post(&api.widgets(), &count(i64::from(i32::MAX) + 1)).await.refused(422, "Invalid");
    api.post(&api.widgets(), &count(i64::from(i32::MIN))).await.is(201);
}

async fn rules_in_cel_are_checked(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "low": 1, "high": 2 }))).await.is(201);
    let reply =
        api.post(&api.widgets(), &widget("b", json!({ "low": 3, "high": 2 }))).await.refused(422, "Invalid");
    reply.blames("spec", "FieldValueInvalid").says("low must not be above high");
}

async fn rules_may_look_at_the_old_value(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "fixed": "x" }))).await.is(201);
    api.patch(&api.widget("a"), MERGE, &json!({ "spec": { "size": 2 } })).await.is(200);
    let reply = api
        .patch(&api.widget("a"), MERGE, &json!({ "spec": { "fixed": "y" } }))
        .await
        .refused(422, "Invalid");
    reply.blames("spec.fixed", "FieldValueInvalid").says("fixed may not change");
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn a_definition_must_have_a_structural_schema(api: Api) {
    let loose = json!({ "type": "object", "properties": { "spec": { "properties": {} } } });
    let reply = api.post(DEFINITIONS, &definition("loosers", "Looser", &loose)).await.refused(422, "Invalid");
    reply.blames("spec.validation.openAPIV3Schema.properties[spec].type", "FieldValueRequired");
}

async fn a_definition_is_named_by_plural_and_group(api: Api) {
    let mut body = definition("wrongs", "Wrong", &json!({ "type": "object" }));
    body["metadata"]["name"] = json!("other.conformance.wheelwright.dev");
    api.post(DEFINITIONS, &body).await.refused(422, "Invalid").blames("metadata.name", "FieldValueInvalid");
}

async fn a_definition_is_served_when_it_is_established(api: Api) {
    api.post(
        DEFINITIONS,
        &definition(
            "shorts",
            "Short",
            &json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        ),
    )
    .await
    .is(201);
    let path = api.group("conformance.wheelwright.dev/v1", "shorts", "");
    api.until(&path, |reply| reply.code == 200).await;
    let body = json!({ "apiVersion": "conformance.wheelwright.dev/v1", "kind": "Short", "metadata": { "name": "a" }, "any": 1 });
    api.post(&path, &body).await.is(201).has("/any", json!(1));
    api.delete(&format!("{DEFINITIONS}/shorts.conformance.wheelwright.dev"), json!({})).await.is(200);
    // The objects of a CRD are deleted with it.
    api.until(&path, |reply| reply.code == 404).await;
    api.until_gone(&format!("{DEFINITIONS}/shorts.conformance.wheelwright.dev")).await;
}

async fn every_mistake_is_named(api: Api) {
    let reply = api
        .post(&api.widgets(), &widget("a", json!({ "size": 0, "mode": "Odd", "text": "A" })))
        .await
        .refused(422, "Invalid");
    let reply = reply.blames("spec.size", "FieldValueInvalid").blames("spec.mode", "FieldValueNotSupported");
    let reply = reply
        .blames("spec.text", "FieldValueInvalid")
        .says("some validation rules were not checked because the object was invalid");
    reply
        .has("/details/kind", json!("Widget"))
        .has("/details/group", json!("conformance.wheelwright.dev"))
        .has("/details/name", json!("a"));
}
