//! Tests of the format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use api::Manifest;
use object::Key;

fn manifests() -> Vec<Manifest> {
    let secret = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"},
            "data": {"password": STANDARD.encode("canary-1")}, "stringData": {"user": "canary-2"}})
    };
    let plain = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ=="},
        "metadata": {"name": "plain", "namespace": "shop", "annotations": {"gitops.wheelwright.dev/secret": "plain"}}});
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}});
    let all =
        [other, secret("db"), plain, secret("api")].map(|manifest| manifest.as_object().unwrap().clone());
    all.into()
}

fn of_set(name: &str) -> Owner {
    Owner::Set(Key::namespaced("fleet", name))
}

fn set() -> Owner {
    of_set("settings")
}

fn work() -> Key {
    Key::namespaced("eu-1", "settings-1")
}

fn identity(byte: u8) -> Identity {
    Identity::new([byte; 32])
}

fn sealed() -> (Vec<Manifest>, String) {
    let (hub, mut all) = (HubKey::new(&[1; 32]), manifests());
    hub.seal(&set(), &mut all).unwrap();
    let keys = hub.keys(&set(), &work(), &all, &identity(2).recipient());
    (all, keys)
}

/// Returns the reasons for the Secrets that cannot be opened.
fn refusals(work: &Key, keys: Option<&str>, manifests: &[Manifest], identities: &[Identity]) -> Vec<String> {
    let mut opened = manifests.to_vec();
    let reasons = open(work, keys, &mut opened, identities);
    assert_eq!(reasons.len(), manifests.len());
    for ((reason, opened), before) in reasons.iter().zip(&opened).zip(manifests) {
        assert!(reason.is_none() || opened == before, "a Secret that cannot be decrypted is unchanged");
    }
    reasons.into_iter().flatten().collect()
}

#[test]
fn a_sealed_secret_is_opened_by_the_agent_of_its_cluster() {
    let (all, keys) = sealed();
    let text = serde_json::to_string(&all).unwrap() + &keys;
    let encoded = [STANDARD.encode("canary-1"), STANDARD.encode("canary-2"), "canary".into()];
    assert!(encoded.iter().all(|plain| !text.contains(plain)), "{text}");
    assert_eq!((&all[0], &all[2]), (&manifests()[0], &manifests()[2]));
    let mut opened = all;
    let reasons = open(&work(), Some(&keys), &mut opened, &[identity(9), identity(2)]);
    assert_eq!(reasons, [None, None, None, None]);
    for secret in [&opened[1], &opened[3]] {
        let data = json!({"password": STANDARD.encode("canary-1"), "user": STANDARD.encode("canary-2")});
        assert_eq!((&secret["data"], secret.get("stringData")), (&data, None));
        assert_eq!(secret["metadata"].get("annotations"), None);
    }
}

#[test]
fn equal_input_gives_equal_ciphertext_and_everything_else_changes_it() {
    let (all, keys) = sealed();
    assert_eq!(sealed(), (all.clone(), keys.clone()));
    let hub = HubKey::new(&[1; 32]);
    let value = |all: &[Manifest], at: usize, name: &str| all[at]["data"][name].clone();
    let mut changed = manifests();
    changed[1]["stringData"]["user"] = "another".into();
    hub.seal(&set(), &mut changed).unwrap();
    assert_ne!(value(&all, 1, "user"), value(&changed, 1, "user"));
    assert_eq!(value(&all, 1, "password"), value(&changed, 1, "password"), "only the changed value");
    assert_ne!(value(&all, 1, "user"), value(&all, 3, "user"), "another Secret");
    let mut moved = manifests();
    hub.seal(&of_set("other"), &mut moved).unwrap();
    assert_ne!(value(&all, 1, "user"), value(&moved, 1, "user"), "another set");
    let mut of_template = manifests();
    hub.seal(&Owner::Template("fleet/settings".into()), &mut of_template).unwrap();
    assert_ne!(value(&all, 1, "user"), value(&of_template, 1, "user"), "a template");
    let mut of_other = manifests();
    HubKey::new(&[3; 32]).seal(&set(), &mut of_other).unwrap();
    assert_ne!(value(&all, 1, "user"), value(&of_other, 1, "user"), "another hub");
    assert_ne!(hub.keys(&set(), &work(), &all, &identity(3).recipient()), keys, "another recipient");
}

#[test]
fn another_identity_or_no_keys_open_nothing() {
    let (all, keys) = sealed();
    let refused = refusals(&work(), Some(&keys), &all, &[identity(3)]);
    assert_eq!(refused.len(), 2);
    let why = "cannot decrypt the Secret shop/db: the keys of the work are encrypted for another recipient";
    assert_eq!(refused[0], why);
    let refused = refusals(&work(), None, &all, &[identity(2)]);
    assert_eq!(refused[1], "cannot decrypt the Secret shop/api: the work contains no keys for this cluster");
    // The name of the recipient is not authenticated, but its key is.
    let renamed = format!("{} {}", identity(3).recipient(), keys.split_once(' ').unwrap().1);
    let changed = "the keys of the work were changed or belong to another work";
    assert!(refusals(&work(), Some(&renamed), &all, &[identity(3)])[0].ends_with(changed));
}

#[test]
fn moved_ciphertext_is_refused() {
    let (all, keys) = sealed();
    let identities = [identity(2)];
    for (cluster, name) in [("eu-2", "settings-1"), ("eu-1", "settings-2")] {
        let elsewhere = Key::namespaced(cluster, name);
        assert_eq!(refusals(&elsewhere, Some(&keys), &all, &identities).len(), 2, "{elsewhere}");
    }
    let edits: [fn(&mut Vec<Manifest>); 5] = [
        |all| all[1]["metadata"]["name"] = "renamed".into(),
        |all| all[1]["metadata"]["namespace"] = "elsewhere".into(),
        |all| all.swap(1, 3),
        |all| drop(all.remove(3)),
        |all| {
            let data = all[1]["data"].as_object_mut().unwrap();
            let value = data.remove("user").unwrap();
            data.insert("alias".into(), value);
        },
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        let mut edited = all.clone();
        edit(&mut edited);
        assert!(!refusals(&work(), Some(&keys), &edited, &identities).is_empty(), "edit {at}");
    }
}

#[test]
fn the_hub_hands_out_no_key_of_a_value_that_another_set_sealed() {
    let (all, _) = sealed();
    let keys = HubKey::new(&[1; 32]).keys(&of_set("thief"), &work(), &all, &identity(2).recipient());
    let refused = refusals(&work(), Some(&keys), &all, &[identity(2)]);
    let why =
        "cannot decrypt the Secret shop/db: the value \"password\" was changed or belongs to another object";
    assert_eq!((refused.len(), refused[0].as_str()), (2, why));
}

#[test]
fn a_secret_of_a_template_is_opened_in_another_namespace_but_not_for_another_template() {
    let (hub, template) = (HubKey::new(&[1; 32]), Owner::Template("web-1".into()));
    let mut moved = manifests();
    hub.seal(&template, &mut moved).unwrap();
    for secret in &mut moved {
        secret["metadata"]["namespace"] = "agents".into();
    }
    let refused = |owner: &Owner| {
        let keys = hub.keys(owner, &work(), &moved, &identity(2).recipient());
        refusals(&work(), Some(&keys), &moved, &[identity(2)])
    };
    assert_eq!(refused(&template), Vec::<String>::new());
    assert_eq!(refused(&Owner::Template("web-2".into())).len(), 2);
    assert_eq!(refused(&set()).len(), 2);
}

#[test]
fn a_variable_that_a_template_could_not_replace_is_refused() {
    type Edit = fn(&mut Manifest);
    let sealed = |owner: &Owner, edit: Edit| {
        let mut all = manifests();
        edit(&mut all[1]);
        HubKey::new(&[1; 32]).seal(owner, &mut all)
    };
    let edits: [(&str, Edit); 4] = [
        ("metadata.name", |secret| secret["metadata"]["name"] = "db-{{CLUSTER_NAME}}".into()),
        ("data.password", |secret| secret["data"]["password"] = "{{PASSWORD}}".into()),
        ("stringData.user", |secret| secret["stringData"]["user"] = "canary {{CLUSTER_NAME}}".into()),
        ("stringData.{{KEY}}", |secret| secret["stringData"]["{{KEY}}"] = "canary".into()),
    ];
    let template = Owner::Template("web-1".into());
    for (field, edit) in edits {
        let error = sealed(&template, edit).unwrap_err();
        let why = format!("has a variable in {field}, which cannot be replaced in an encrypted Secret;");
        assert!(error.contains(&why) && !error.contains("canary"), "{error}");
    }
    assert_eq!(
        sealed(&template, |secret| secret["metadata"]["namespace"] = "{{INSTALL_NAMESPACE}}".into()),
        Ok(())
    );
    assert_eq!(sealed(&set(), edits[2].1), Ok(()), "a set has no variables");
}

#[test]
fn changed_and_truncated_ciphertext_is_refused_and_names_the_value() {
    let (all, keys) = sealed();
    let bytes = STANDARD.decode(all[1]["data"]["user"].as_str().unwrap()).unwrap();
    let mut cases: Vec<Value> = (0..bytes.len()).map(|end| STANDARD.encode(&bytes[..end]).into()).collect();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        cases.push(STANDARD.encode(changed).into());
    }
    cases.extend([json!("no base64"), json!(1), Value::Null]);
    for case in cases {
        let mut edited = all.clone();
        edited[1]["data"]["user"] = case.clone();
        let refused = refusals(&work(), Some(&keys), &edited, &[identity(2)]);
        assert!(!refused.is_empty(), "{case}");
    }
    let mut last = bytes;
    *last.last_mut().unwrap() ^= 1;
    let mut edited = all.clone();
    edited[1]["data"]["user"] = STANDARD.encode(last).into();
    let refused = refusals(&work(), Some(&keys), &edited, &[identity(2)]);
    let why =
        "cannot decrypt the Secret shop/db: the value \"user\" was changed or belongs to another object";
    assert_eq!(refused, [why], "the other Secret is opened");
    for end in 0..keys.len() {
        assert_eq!(refusals(&work(), Some(&keys[..end]), &all, &[identity(2)]).len(), 2, "{end}");
    }
}

#[test]
fn a_secret_that_cannot_be_sealed_is_named_without_its_value() {
    let error = |edit: fn(&mut Manifest)| {
        let mut all = manifests();
        edit(&mut all[1]);
        HubKey::new(&[1; 32]).seal(&set(), &mut all).unwrap_err()
    };
    let not_base64 = error(|secret| secret["data"]["password"] = "canary!".into());
    assert_eq!(not_base64, "the Secret shop/db has no base64 in data.password");
    let number = error(|secret| secret["stringData"]["user"] = 7.into());
    assert_eq!(number, "the Secret shop/db has no text in stringData.user");
    let list = error(|secret| secret["data"] = json!(["canary"]));
    assert_eq!(list, "the Secret shop/db has a field data that is not a map");
    let marked = error(|secret| {
        secret["metadata"]["annotations"] = json!({"gitops.wheelwright.dev/secret": "sealed"});
    });
    assert!(marked.contains("which only the operator sets; remove the annotation"), "{marked}");
    let broken = error(|secret| secret["metadata"]["annotations"] = json!("canary"));
    assert_eq!(broken, "the Secret shop/db has annotations that are not a map");
}

#[test]
fn keys_have_the_text_form_of_age() {
    // From `age-keygen`.
    let text =
        "# created: 2026-01-01\nAGE-SECRET-KEY-1GLHRH6R9HFSD3720ZQGRPNJAUQ3DCVZHCTDLT6DMV9UQ75HATACQJ8VVZM\n";
    let [parsed] = Identity::parse_all(text).unwrap().try_into().unwrap();
    let recipient = "age1h9pz8nzpw9n5uhflgedazayxmna9hfkuh4hlp8qecjahdld7hams0ypntq";
    assert_eq!(
        (parsed.recipient().to_string(), parsed.private()),
        (recipient.into(), text.lines().nth(1).unwrap().into())
    );
    assert_eq!(recipient.parse(), Ok(parsed.recipient()));
    assert_eq!(Identity::parse_all("age1"), None);
    assert!(format!("{parsed:?}").contains("age1") && !format!("{parsed:?}").contains("SECRET"));
    for wrong in [
        "",
        "age1",
        &recipient[..60],
        "AGE-SECRET-KEY-1GLHRH6R9HFSD3720ZQGRPNJAUQ3DCVZHCTDLT6DMV9UQ75HATACQJ8VVZM",
    ] {
        assert_eq!(wrong.parse::<Recipient>(), Err(()), "{wrong}");
    }
}
