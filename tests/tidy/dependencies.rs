//! Checks that each crate uses the dependencies in its manifest: its own code the regular ones, and its tests the
//! others.

use std::collections::BTreeMap;

use super::{Files, assert_none, is_test, list, production, root, sources};

/// Dependencies that only a file outside the crate names, and that file.
const UNNAMED: &[(&str, &str)] = &[
    ("base64", "tests/fuzz/driver.rs, which fuzz targets include, uses it"),
    ("libfuzzer-sys", "the same"),
    ("parking_lot", "it has the features of the tests in the program too"),
];

/// A dependency in a manifest.
pub(super) struct Dependency<'t> {
    pub(super) package: &'t str,
    /// True if only tests, benches and fuzz targets use it.
    pub(super) is_of_tests: bool,
}

/// Returns the dependencies listed in a manifest.
pub(super) fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies") && !section.starts_with("workspace") {
            let is_of_tests = section.ends_with("dev-dependencies");
            let named =
                line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty() && !line.starts_with('#'));
            found.extend(named.map(|package| Dependency { package, is_of_tests }));
        }
    }
    found
}

/// Returns a package's name in code.
fn name_in_code<'t>(package: &'t str, libraries: &BTreeMap<&str, &'t str>) -> String {
    libraries.get(package).copied().unwrap_or(package).replace('-', "_")
}

/// Returns the members' library names by package.
fn libraries(manifests: &Files) -> BTreeMap<&str, &str> {
    manifests
        .values()
        .filter_map(|manifest| Some((quoted(manifest, "[package]")?, quoted(manifest, "[lib]")?)))
        .collect()
}

/// Returns the `name` in a section of a manifest.
fn quoted<'t>(manifest: &'t str, section: &str) -> Option<&'t str> {
    let (_, rest) = manifest.split_once(section)?;
    let (_, rest) = rest.split_once("name = \"")?;
    rest.split('"').next()
}

/// Returns a package's dependencies that its sources do not name.
fn unused(manifest: &str, own: &[(&str, &str)], libraries: &BTreeMap<&str, &str>) -> Vec<String> {
    let names = |text: &str, name: &str| {
        let path = format!("{name}::");
        text.contains(&path) || text.contains(&format!("use {name}")) || text.contains(&format!("{name}!"))
    };
    let is_used = |dependency: &Dependency<'_>| {
        let name = name_in_code(dependency.package, libraries);
        own.iter().any(|(path, text)| match dependency.is_of_tests {
            true => names(text, &name),
            false => !is_test(path) && !path.contains("benches/") && names(production(text), &name),
        })
    };
    let found = dependencies(manifest);
    let unused = found.iter().filter(|dependency| !is_used(dependency));
    unused.map(|dependency| dependency.package.to_owned()).collect()
}

#[test]
fn every_dependency_is_used_by_its_crate() {
    let manifests: Files = list("")
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml") && !path.contains("fuzz/") && !path.starts_with("tests/"))
        .map(|path| (path.clone(), std::fs::read_to_string(root().join(path)).unwrap()))
        .collect();
    let (libraries, sources) = (libraries(&manifests), sources());
    assert_none(manifests.iter().flat_map(|(path, manifest)| {
        let directory = path.trim_end_matches("Cargo.toml");
        let is_own = |file: &str| match directory {
            "" => ["src/", "tests/", "benches/"].iter().any(|part| file.starts_with(part)),
            directory => file.starts_with(directory),
        };
        let own = sources.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        let own: Vec<_> = own.filter(|(file, _)| is_own(file)).collect();
        let unused = unused(manifest, &own, &libraries).into_iter();
        let unused = unused.filter(|package| !UNNAMED.iter().any(|(unnamed, _)| unnamed == package));
        unused.map(|package| format!("{path}: nothing uses {package}")).collect::<Vec<_>>()
    }));
}

#[test]
fn a_dependency_that_nothing_or_only_a_test_uses_is_found() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\n# a reason\nb.workspace = true\nc-d = \"1\"\ne = { f = 1 }\n\n[dev-dependencies]\ng.workspace = true\n";
    let own = [
        ("crates/a/src/lib.rs", "use b::B;\n#[cfg(test)]\nmod tests {\n    use e::E;\n}\n"),
        ("crates/a/src/tests/c.rs", "c_d::f();"),
    ];
    assert_eq!(unused(manifest, &own, &BTreeMap::new()), ["c-d", "e", "g"]);
    assert_eq!(unused(manifest, &own, &BTreeMap::from([("c-d", "b")])), ["e", "g"]);
}
