//! Files that are encrypted with SOPS, wherever a rendering reads files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::{Parameters, Reason, RenderError, RenderMemo, Rendered, render, render_again};
use object::KeyFiles;
use object::tree::FileTree;
use serde_json::json;

/// Returns a file of `tests/sops`.
fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sops")).join(name)).unwrap()
}

/// Returns parameters with the key file of this name.
fn with_key(name: &str) -> Parameters {
    let key = recorded(&format!("keys/{name}"));
    let keys = KeyFiles(Arc::new(BTreeMap::from([(name.to_owned(), key)])));
    Parameters { keys: Some(Ok(keys)), ..Parameters::default() }
}

fn team() -> Parameters {
    with_key("team.agekey")
}

/// Paths with texts, or with names of recorded files.
type Files<'a> = &'a [(&'a str, &'a str)];

/// Returns a tree with texts, and with encrypted files at the paths in `encrypted`.
fn tree(texts: Files<'_>, encrypted: Files<'_>) -> FileTree {
    let mut tree: FileTree = texts.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    for (path, name) in encrypted {
        tree.insert(*path, recorded(&format!("corpus/{name}")));
    }
    tree
}

#[expect(clippy::result_large_err, reason = "as in the crate")]
fn rendered(tree: &FileTree, parameters: &Parameters) -> Result<Rendered, RenderError> {
    again(tree, parameters, &mut RenderMemo::default())
}

#[expect(clippy::result_large_err, reason = "as in the crate")]
fn again(tree: &FileTree, parameters: &Parameters, memo: &mut RenderMemo) -> Result<Rendered, RenderError> {
    render_again(tree, "", parameters, memo, &|| false)
}

const PLAIN: &str = "{apiVersion: v1, kind: Secret, metadata: {name: shop}}";
const CHART: [(&str, &str); 2] = [
    ("charts/web/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}"),
    (
        "charts/web/templates/a.yaml",
        "{apiVersion: v1, kind: Secret, metadata: {name: web}, stringData: {p: '{{ .Values.password_secret }}'}}",
    ),
];
const OF_CHART: &str = "helmCharts: [{name: web, releaseName: web, valuesFile: values.yaml}]";

#[test]
fn encrypted_files_are_decrypted_wherever_they_are_read() {
    let generator = "secretGenerator: [{name: shop, envs: [app.env], files: [tls.key, app.json], options: {disableNameSuffixHash: true}}]";
    let resource = ("secret.yaml", "secret.yaml");
    let cases: [(&str, Files<'_>, Files<'_>, &str); 5] = [
        ("", &[], &[resource], "/stringData/password"),
        ("resources: [secret.yaml]", &[], &[resource], "/stringData/password"),
        (
            "resources: [a.yaml]\npatches: [{path: secret.yaml}]",
            &[("a.yaml", PLAIN)],
            &[resource],
            "/stringData/password",
        ),
        (
            generator,
            &[],
            &[("app.env", "app.env"), ("tls.key", "tls.key"), ("app.json", "app.json")],
            "/data/PASSWORD",
        ),
        (OF_CHART, &CHART, &[("values.yaml", "encrypted_suffix.yaml")], "/stringData/p"),
    ];
    for (kustomization, texts, encrypted, field) in cases {
        let mut tree = tree(texts, encrypted);
        if !kustomization.is_empty() {
            tree.insert("kustomization.yaml", kustomization.as_bytes().to_vec());
        }
        let result = rendered(&tree, &team()).unwrap_or_else(|error| panic!("{kustomization}: {error}"));
        let value = result.objects[0].object.clone().into_value();
        let found = value.pointer(field).and_then(|value| value.as_str()).unwrap();
        assert!(["canary-b3Blbg", "canary", "Y2FuYXJ5"].contains(&found), "{kustomization}: {found}");
        assert!(value.get("sops").is_none(), "{value:#}");
        // The record of what was read contains only ciphertext.
        assert!(result.closure.holds_in(&tree));

        let refused = rendered(&tree, &Parameters::default()).unwrap_err();
        let (path, _) = encrypted[0];
        let named = format!("{path:?} is encrypted with SOPS: there is no key to decrypt it");
        assert_eq!((refused.reason, refused.message), (Reason::Encrypted, named), "{kustomization}");
    }
}

#[test]
fn keys_that_do_not_fit_or_cannot_be_read_are_named() {
    let tree = tree(&[], &[("secret.yaml", "secret.yaml")]);
    let message = |parameters: &Parameters| rendered(&tree, parameters).unwrap_err().message;
    let other = message(&with_key("other.agekey"));
    assert!(
        other.starts_with(
            "\"secret.yaml\" is encrypted with SOPS: no key opens the SOPS file; it is encrypted for age1"
        ),
        "{other}"
    );
    let unread =
        Parameters { keys: Some(Err("the Secret a/b does not exist".into())), ..Parameters::default() };
    assert_eq!(message(&unread), "\"secret.yaml\" is encrypted with SOPS: the Secret a/b does not exist");
    let locked = message(&with_key("locked.asc"));
    assert!(locked.ends_with("contains a key with a passphrase; export it without one"), "{locked}");
    // A repository without encrypted files needs no keys.
    let plain: FileTree = [("a.yaml", PLAIN.as_bytes())].into_iter().collect();
    assert!(rendered(&plain, &unread).is_ok());
}

#[test]
fn parts_that_were_decrypted_are_reused_only_with_the_same_keys() {
    let texts = [
        ("kustomization.yaml", "resources: [base]"),
        ("base/kustomization.yaml", "resources: [secret.yaml]"),
    ];
    let tree = tree(&texts, &[("base/secret.yaml", "teams.yaml")]);
    let memo = &mut RenderMemo::default();
    let first = again(&tree, &team(), memo).unwrap();
    assert_eq!(again(&tree, &Parameters::default(), memo).unwrap_err().reason, Reason::Encrypted);
    assert_eq!(again(&tree, &with_key("ecc.asc"), memo).unwrap_err().reason, Reason::Encrypted);
    assert_eq!(again(&tree, &with_key("other.agekey"), memo).unwrap(), first);
}

#[test]
fn messages_about_decrypted_files_contain_no_plaintext() {
    let fails = ("charts/web/templates/a.yaml", "{{ fail .Values.password_secret }}");
    let quotes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n{{ .Values.password_secret }}\n";
    let replaces = "resources: [secret.yaml]\nreplacements: [{source: {kind: Secret, name: shop, fieldPath: stringData.password}, targets: [{select: {kind: Secret}, fieldPaths: [metadata.name.x]}]}]";
    let encrypted_values = ("values.yaml", "encrypted_suffix.yaml");
    let cases: [(&str, Files<'_>, (&str, &str)); 5] = [
        ("resources: [tls.key]", &[], ("tls.key", "tls.key")),
        (OF_CHART, &[CHART[0], fails], encrypted_values),
        (OF_CHART, &[CHART[0], ("charts/web/templates/a.yaml", quotes)], encrypted_values),
        (replaces, &[], ("secret.yaml", "secret.yaml")),
        ("resources: [a.yaml]", &[], ("a.yaml", "types.yaml")),
    ];
    for (kustomization, texts, encrypted) in cases {
        let mut tree = tree(texts, &[encrypted]);
        tree.insert("kustomization.yaml", kustomization.as_bytes().to_vec());
        let error = rendered(&tree, &team()).unwrap_err();
        let shown = json!([error.to_string(), error]).to_string();
        for secret in ["canary", "a text file", "plain words", "Y2FuYXJ5"] {
            assert!(!shown.contains(secret), "{kustomization}: {shown}");
        }
    }
}

#[test]
fn a_remote_chart_is_fetched_although_its_name_is_a_decrypted_value() {
    let kustomization = "secretGenerator: [{name: shop, envs: [app.env]}]\n\
        helmCharts: [{name: canary, repo: 'https://charts.example.com', version: 1.2.3, releaseName: shop}]";
    let tree = tree(&[("kustomization.yaml", kustomization)], &[("app.env", "app.env")]);
    let error = rendered(&tree, &team()).unwrap_err();
    assert!(!error.message.contains("canary"), "{error}");
    assert_eq!(error.charts, ["https://charts.example.com/canary:1.2.3"]);
}

#[test]
fn other_mistakes_keep_their_message_next_to_decrypted_files() {
    let kustomization = ("kustomization.yaml", "resources: [secret.yaml, absent.yaml]");
    let tree = tree(&[kustomization], &[("secret.yaml", "secret.yaml")]);
    let error = rendered(&tree, &team()).unwrap_err();
    assert_eq!((error.reason, error.line), (Reason::NotFound, Some(1)), "{error}");
}

#[test]
fn an_encrypted_kustomization_is_not_treated_as_absent() {
    let mut tree = tree(&[("a.yaml", PLAIN)], &[("hidden.yaml", "secret.yaml")]);
    tree.insert_link("kustomization.yaml", "hidden.yaml");
    assert_eq!(render(&tree, "").unwrap_err().reason, Reason::Encrypted);
}
