//! The binary's supply chain: one TLS implementation, a build without network, and a complete bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn cargo(arguments: &[&str]) -> Output {
    run(env!("CARGO"), arguments)
}

#[test]
fn once_the_crates_are_there_a_build_needs_no_network() {
    cargo(&["fetch", "--locked", "--quiet"]);
    cargo(&["metadata", "--locked", "--offline", "--format-version", "1"]);
}

/// Returns the packages, with their features, that are selected by builds.
fn selected(of: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let tree = ["tree", "--locked", "--offline", "--prefix=none", "--format={p}|{f}"];
    let listed = cargo(&tree.into_iter().chain(of.iter().copied()).collect::<Vec<_>>()).stdout;
    let mut selected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The trees of two members are separated by an empty line.
    for line in String::from_utf8(listed).unwrap().lines().filter(|line| !line.is_empty()) {
        let (package, features) = line.trim_end_matches(" (*)").split_once('|').unwrap();
        selected.entry(package.to_owned()).or_default().insert(features.to_owned());
    }
    selected
}

#[test]
fn the_program_and_its_tests_share_one_build_of_what_they_depend_on() {
    let program = selected(&["--edges=normal,build"]);
    let all = selected(&["--workspace", "--edges=normal,build,dev"]);
    assert!(program.len() > 300, "{}", program.len());
    let differ: Vec<_> =
        program.iter().filter(|(package, features)| all.get(*package) != Some(features)).collect();
    assert!(differ.is_empty(), "other features than in a build of the tests: {differ:#?}");
}

/// Returns the files outside a crate's directory that its sources include. The published package lacks them.
fn included_from_outside(directory: &Path) -> Vec<String> {
    let listed = run("git", &["ls-files", "--", &format!("{}/src/*.rs", directory.display())]).stdout;
    let mut outside = Vec::new();
    for source in String::from_utf8(listed).unwrap().lines() {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap();
        let depth = Path::new(source).strip_prefix(directory).unwrap().components().count() - 1;
        let named =
            ["include_str!(", "include_bytes!("].into_iter().flat_map(|word| text.split(word).skip(1));
        let named = named.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
        let is_outside = |file: &&str| file.matches("../").count() > depth;
        outside.extend(named.filter(is_outside).map(|file| format!("{source}: {file}")));
    }
    outside
}

#[test]
fn the_library_for_addons_and_the_crates_that_it_needs_can_be_published() {
    let metadata = cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    // `publish = false` appears as an empty list of registries.
    let packages: Vec<&Value> = packages.iter().filter(|package| package["publish"].is_null()).collect();
    let names: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        assert_eq!(package["documentation"], format!("https://docs.rs/{name}"));
        // A registry rejects dependencies without a version.
        let of_ours = package["dependencies"].as_array().unwrap().iter().filter(|it| it["path"].is_string());
        for dependency in of_ours {
            assert_ne!(dependency["req"], "*", "{name}: {}", dependency["name"]);
        }
        for field in ["description", "license"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no {field}");
        }
    }
    assert!(names.contains(&"wheelwright-addon-sdk"), "{names:?}");
    let dir = tempfile::tempdir().unwrap();
    let package = ["package", "--locked", "--offline", "--no-verify", "--allow-dirty", "--quiet"];
    let chosen = names.iter().flat_map(|name| ["--package", *name]);
    let target = ["--target-dir", dir.path().to_str().unwrap()];
    cargo(&package.into_iter().chain(target).chain(chosen).collect::<Vec<_>>());
    for name in names {
        let directory = Path::new("crates").join(name.trim_start_matches("wheelwright-"));
        assert_eq!(included_from_outside(&directory), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn an_advisory_about_a_crate_of_the_lock_file_is_an_error() {
    let database = tempfile::tempdir().unwrap();
    let write = |package: &str| {
        let dir = database.path().join("crates").join(package);
        std::fs::create_dir_all(&dir).unwrap();
        let advisory = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n\n[versions]\npatched = []\n```\n\n# It is broken\n\nDo not use it.\n"
        );
        std::fs::write(dir.join("RUSTSEC-2026-9999.md"), advisory).unwrap();
        let git = |arguments: &[&str]| {
            let author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
            run("git", &[&["-C", database.path().to_str().unwrap()], &author[..], arguments].concat());
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", package]);
    };
    let deny = || Command::new("tests/deny").env("RUSTSEC_DB", database.path()).output().unwrap();
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    write("a-crate-that-nobody-uses");
    let checked = deny();
    assert!(checked.status.success(), "{}", text(&checked));
    write("serde_json");
    let refused = deny();
    assert!(!refused.status.success() && text(&refused).contains("RUSTSEC-2026-9999"), "{}", text(&refused));
}

#[test]
fn the_bill_of_materials_names_every_package_that_is_compiled_with_digest_and_license() {
    let bill: Value = serde_json::from_slice(&run("tools/sbom.py", &[]).stdout).unwrap();
    let text = |component: &Value, field: &str| component[field].as_str().unwrap_or_default().to_owned();
    let components = bill["components"].as_array().unwrap();
    let named: BTreeSet<String> =
        components.iter().map(|c| format!("{} v{}", text(c, "name"), text(c, "version"))).collect();
    let tree = ["tree", "--locked", "--target", "all", "--edges", "normal,build", "--prefix", "none"];
    let tree = cargo(&[&tree[..], &["--package", "wheelwright", "--format", "{p}"]].concat()).stdout;
    let tree = String::from_utf8(tree).unwrap();
    // A line is `name vVERSION`, followed by a path for members.
    let words = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let compiled: BTreeSet<String> = tree.lines().filter(|line| !line.is_empty()).map(words).collect();
    let missing: Vec<_> =
        compiled.difference(&named).filter(|package| !package.starts_with("wheelwright v")).collect();
    assert!(compiled.len() > 300 && missing.is_empty(), "{} compiled, missing: {missing:?}", compiled.len());
    for component in components {
        let name = text(component, "name");
        assert!(component["licenses"][0]["expression"].is_string(), "{name} has no license");
        let is_ours = name.starts_with("wheelwright-");
        assert!(is_ours || component["hashes"][0]["content"].is_string(), "{name} has no digest");
    }
    let edges = bill["dependencies"].as_array().unwrap();
    assert_eq!(edges.len(), components.len() + 1, "one entry for each component and for the whole");
}

#[test]
fn there_is_one_tls_stack() {
    let lock = include_str!("../Cargo.lock");
    let count = |name: &str| lock.lines().filter(|line| *line == format!("name = {name:?}")).count();
    for name in ["rustls", "rustls-webpki", "ring", "tokio-rustls", "hyper-rustls"] {
        assert_eq!(count(name), 1, "{name}");
    }
    for name in ["openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys", "boring", "mbedtls"] {
        assert_eq!(count(name), 0, "{name}");
    }
}

/// Commits files in a repository and clones it to `checkout`, as CI does. Returns the packages that cargo then
/// builds.
fn built_in_a_new_checkout(dir: &Path, files: &[(&str, &str)]) -> String {
    let script = format!(
        "cd {0}; git -C origin add --all; git -C origin -c user.name=a -c user.email=a@b commit --quiet --message 1
        rm -rf checkout; git clone --quiet origin checkout; cd checkout
        {1}/.ci/mtimes restore ../target >/dev/null; cargo build --offline --workspace 2>&1; {1}/.ci/mtimes seal ../target",
        dir.display(),
        env!("CARGO_MANIFEST_DIR")
    );
    for (name, text) in files {
        let path = dir.join("origin").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut command = Command::new("bash");
    command
        .args(["-euc", &script])
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .env("CARGO_TERM_COLOR", "never");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Finished"), "{text}");
    let compiled = text.lines().filter_map(|line| line.trim().strip_prefix("Compiling "));
    compiled
        .map(|line| line.split(' ').next().unwrap())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
        .join(" ")
}

/// In a new checkout all files are new. Output that another program built in the meantime may have other content,
/// so cargo must not trust it.
#[test]
fn a_new_checkout_builds_only_the_packages_that_changed() {
    let dir = tempfile::tempdir().unwrap();
    run("git", &["init", "--quiet", &dir.path().join("origin").display().to_string()]);
    let manifest =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
    let first = [
        ("Cargo.toml", "[workspace]\nmembers = [\"one\", \"two\"]\nresolver = \"3\"\n"),
        ("one/Cargo.toml", &manifest("one")),
        ("one/src/lib.rs", "pub const TEXT: &str = include_str!(\"text\");"),
        ("one/src/text", "1"),
        ("two/Cargo.toml", &manifest("two")),
        ("two/src/lib.rs", "// include_dir!(\"files\")"),
    ];
    let built = |files: &[(&str, &str)]| built_in_a_new_checkout(dir.path(), files);
    assert_eq!(built(&first), "one two");
    assert_eq!(built(&[("README", "1")]), "two", "the list of files that it embeds may have changed");
    assert_eq!(built(&[("README", "2")]), "");
    assert_eq!(built(&[("one/src/text", "2")]), "one");
    assert_eq!(built(&[("one/src/text", "1")]), "one");

    let text = dir.path().join("checkout/one/src/text");
    std::fs::write(&text, "3").unwrap();
    let mut edited = Command::new(env!("CARGO"));
    edited.args(["build", "--offline", "--quiet"]).current_dir(dir.path().join("checkout"));
    assert!(edited.env("CARGO_TARGET_DIR", dir.path().join("target")).status().unwrap().success());
    assert_eq!(built(&[("README", "3")]), "one two");
}
