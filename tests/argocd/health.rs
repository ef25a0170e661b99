//! Runs the health checks of `examples/argocd` in Argo CD's virtual machine: Lua 5.1 with a few libraries. The
//! files have the layout of Argo CD's own `resource_customizations`.

use std::path::{Path, PathBuf};

use mlua::{Lua, LuaOptions, LuaSerdeExt as _, StdLib, Table};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::golden;

const CHECKS: &str = "examples/argocd/resource_customizations";
/// The health statuses that Argo CD shows (gitops-engine `health`), except Missing, which is for objects that do
/// not exist.
const STATUSES: [&str; 4] = ["Healthy", "Progressing", "Degraded", "Suspended"];

#[derive(Deserialize)]
struct Tests {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Test {
    health_status: Value,
    input_path: String,
}

struct Check {
    group: String,
    kind: String,
    directory: PathBuf,
    script: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for group in names(&root().join(CHECKS)) {
        for kind in names(&root().join(CHECKS).join(&group)) {
            let directory = root().join(CHECKS).join(&group).join(&kind);
            let script = std::fs::read_to_string(directory.join("health.lua")).unwrap();
            checks.push(Check { group: group.clone(), kind, directory, script });
        }
    }
    checks
}

/// Runs a script as Argo CD does (`util/lua`): `obj` is the object, and the result is a table. Argo CD loads the
/// libraries base, package, table, string and part of os; the scripts use three of them.
fn health(script: &str, object: &Value) -> mlua::Result<Value> {
    let libraries = StdLib::TABLE | StdLib::STRING;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.globals().set("obj", lua.to_value(object)?)?;
    let health: Table = lua.load(script).eval()?;
    let field = |name: &str| health.get::<Option<String>>(name);
    Ok(json!({"status": field("status")?, "message": field("message")?}))
}

#[test]
fn every_health_check_gives_the_health_of_its_examples_in_lua_5_1() {
    let lua = Lua::new();
    assert_eq!(lua.globals().get::<String>("_VERSION").unwrap(), "Lua 5.1");
    for Check { group, kind, directory, script } in checks() {
        let tests = std::fs::read_to_string(directory.join("health_test.yaml")).unwrap();
        let Tests { tests } = serde_saphyr::from_str(&tests).unwrap();
        let mut inputs = Vec::new();
        for test in tests {
            let input = std::fs::read_to_string(directory.join(&test.input_path)).unwrap();
            let object: Value = serde_saphyr::from_str(&input).unwrap();
            let api_version = object["apiVersion"].as_str().unwrap();
            assert_eq!((api_version.split('/').next(), &object["kind"]), (Some(&*group), &json!(kind)));
            let found = health(&script, &object).unwrap();
            assert_eq!(found, test.health_status, "{kind}: {}", test.input_path);
            inputs.push(test.input_path.replace("testdata/", ""));
        }
        inputs.sort();
        assert_eq!(inputs, names(&directory.join("testdata")), "{kind}: each example has its test");
    }
}

#[test]
fn a_health_check_has_a_result_for_an_object_about_which_nothing_is_known() {
    for Check { group, kind, script, .. } in checks() {
        for status in [json!(null), json!({}), json!({"conditions": []})] {
            let metadata = json!({"name": "new", "generation": 1});
            let mut object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata});
            if !status.is_null() {
                object["status"] = status;
            }
            let found = health(&script, &object).unwrap();
            assert!(STATUSES.contains(&found["status"].as_str().unwrap()), "{kind}: {found}");
            assert!(found["message"].is_string(), "{kind}: {found}");
            assert_ne!(found["status"], "Degraded", "{kind}: an object is not degraded before it was read");
        }
    }
}

/// The keys of Argo CD's ConfigMap: group and kind, separated by an underscore.
#[test]
fn the_config_map_of_argo_cd_holds_every_health_check() {
    let path = root().join("examples/argocd/argocd-cm.yaml");
    let mut text = String::from(
        "# Health checks for the kinds of Open Cluster Management and Wheelwright: a patch of Argo CD's ConfigMap argocd-cm.\n\
         # `make bless` writes it from resource_customizations.\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argocd-cm\n  namespace: argocd\n  labels:\n    \
         app.kubernetes.io/part-of: argocd\ndata:\n",
    );
    for Check { group, kind, script, .. } in checks() {
        text.push_str(&format!("  resource.customizations.health.{group}_{kind}: |\n"));
        for line in script.lines() {
            let indent = if line.is_empty() { "" } else { "    " };
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    let map: Value = serde_saphyr::from_str(&text).unwrap();
    golden::check([(path, text)]);
    for Check { group, kind, script, .. } in checks() {
        let key = format!("resource.customizations.health.{group}_{kind}");
        assert_eq!(map["data"][key].as_str().unwrap().trim_end(), script.trim_end());
    }
}
