//! The files of a release, as `.ci/release` packages them. The binaries are ELF headers without a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use axum::Router;
use axum::extract::Path as UrlPath;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kube::{Cluster, Kubectl, built};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const IMAGE: &str = "registry.example.com/wheelwright";
const SOURCE: &str = "https://git.example.com/wheelwright";
const CHARTS: [&str; 3] = ["wheelwright", "wheelwright-agent", "wheelwright-registration-operator"];
const PROGRAMS: [&str; 2] = ["wheelwright", "wheelwright-agent"];
/// The numbers of the architectures in ELF files.
const MACHINES: [(&str, u8); 2] = [("x86_64", 62), ("aarch64", 183)];

fn run(directory: &Path, program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(directory).output().unwrap()
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packages a release in the directory `name`, and signs it with the key in the file `key`.
fn package(directory: &Path, name: &str) -> PathBuf {
    let mut command = Command::new(".ci/release");
    for (architecture, machine) in MACHINES {
        let mut binary = b"\x7fELF\x02".to_vec();
        binary.resize(64, 0);
        binary[18] = machine;
        let path = directory.join(format!("{name}-{architecture}"));
        fs::create_dir(&path).unwrap();
        PROGRAMS.iter().for_each(|program| fs::write(path.join(program), &binary).unwrap());
        command.arg("--binaries").arg(path);
    }
    let out = directory.join(name);
    command.args(["--program", env!("CARGO_BIN_EXE_wheelwright")]).arg(&out).current_dir(ROOT);
    command
        .env("RELEASE_IMAGE", IMAGE)
        .env("RELEASE_SOURCE", SOURCE)
        .env("RELEASE_KEY", directory.join("key"));
    succeeded(command.output().unwrap());
    out
}

/// Returns a directory with a key, and with a release, packaged once for all tests.
fn released() -> &'static Path {
    static RELEASED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = RELEASED.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let key = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key"];
        succeeded(run(directory.path(), "ssh-keygen", &key));
        package(directory.path(), "release");
        directory
    });
    directory.path()
}

/// Returns the SHA-256 digest of each file below a directory.
fn digests(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let sum = object::hex(Sha256::digest(fs::read(&path).unwrap()));
            found.insert(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned(), sum);
        }
    }
    found
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_release_has_each_file_with_its_digest_and_provenance() {
    let release = released().join("release");
    let mut files = digests(&release);
    let mut expected = vec!["crds.yaml", "provenance.json", "release.yaml", "sbom.json"];
    let named = CHARTS.map(|chart| [format!("{chart}-{VERSION}.tgz"), format!("charts/{chart}/index.json")]);
    let built = PROGRAMS.map(|program| {
        let [one, other] = MACHINES.map(|(architecture, _)| format!("{program}-linux-{architecture}"));
        [one, other, format!("images/{program}/index.json")]
    });
    expected.extend(named.as_flattened().iter().chain(built.as_flattened()).map(String::as_str));
    for name in expected {
        assert!(files.contains_key(name), "{name} is missing: {files:#?}");
    }
    files.remove("SHA256SUMS.sig").unwrap();
    files.remove("SHA256SUMS").unwrap();
    let sums = fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    let listed = sums.lines().map(|line| line.split_once("  ").unwrap());
    let listed: BTreeMap<String, String> = listed.map(|(sum, name)| (name.into(), sum.into())).collect();
    assert_eq!(listed, files);

    let provenance = json_of(&release.join("provenance.json"));
    let subjects = provenance["subject"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let subjects: BTreeMap<String, String> =
        subjects.map(|subject| (text(&subject["name"]), text(&subject["digest"]["sha256"]))).collect();
    files.remove("provenance.json");
    assert_eq!(subjects, files);
    assert_eq!(provenance["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(provenance["predicateType"], "https://slsa.dev/provenance/v1");
    let commit = succeeded(run(Path::new(ROOT), "git", &["rev-parse", "HEAD"]));
    let source = &provenance["predicate"]["buildDefinition"]["resolvedDependencies"][0];
    assert_eq!(source["digest"], json!({"gitCommit": commit.trim()}));
}

#[test]
fn the_same_binaries_give_the_same_release() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(released().join("key"), directory.path().join("key")).unwrap();
    let again = package(directory.path(), "release");
    assert_eq!(digests(&again), digests(&released().join("release")));
}

#[test]
fn the_images_of_a_release_have_one_manifest_for_each_architecture() {
    let [operator, _] = PROGRAMS.map(digest_of_image);
    let manifests = fs::read_to_string(released().join("release/release.yaml")).unwrap();
    assert!(manifests.contains(&format!("{IMAGE}:{VERSION}@{operator}")), "release.yaml lacks {operator}");
}

/// Returns the digest of a program's image after checking the image.
fn digest_of_image(program: &str) -> String {
    let layout = released().join("release/images").join(program);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        json_of(&layout.join("blobs").join(digest.replace(':', "/")))
    };
    let tagged = &json_of(&layout.join("index.json"))["manifests"][0];
    assert_eq!(tagged["annotations"]["org.opencontainers.image.ref.name"], VERSION);
    let manifests = blob(tagged)["manifests"].clone();
    let platforms = manifests.as_array().unwrap().iter().map(|manifest| {
        let config = blob(&blob(manifest)["config"]);
        assert_eq!(config["architecture"], manifest["platform"]["architecture"]);
        assert_eq!(config["config"]["Entrypoint"], json!([format!("/{program}")]));
        config["architecture"].clone()
    });
    assert_eq!(platforms.collect::<Vec<_>>(), ["arm64", "amd64"]);
    tagged["digest"].as_str().unwrap().to_owned()
}

/// Runs the commands of docs/supply-chain.md that verify a release.
fn verified(release: &Path) -> Output {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/supply-chain.md")).unwrap();
    let block = page.split("```").find(|block| block.contains("-Y verify")).unwrap();
    run(release, "bash", &["-euo", "pipefail", "-c", block])
}

#[test]
fn the_documented_commands_verify_a_release_and_reject_changed_files_and_other_keys() {
    let directory = tempfile::tempdir().unwrap();
    let release = directory.path().join("release");
    let copied = run(released(), "cp", &["-R", "release", release.to_str().unwrap()]);
    succeeded(copied);
    let key = fs::read_to_string(released().join("key.pub")).unwrap();
    let signers = release.join("allowed_signers");
    fs::write(&signers, format!("wheelwright {key}")).unwrap();
    succeeded(verified(&release));

    for name in ["release.yaml", "charts/wheelwright/index.json", "wheelwright-linux-x86_64", "SHA256SUMS"] {
        let path = release.join(name);
        let content = fs::read(&path).unwrap();
        fs::write(&path, [&content[..], b"\n"].concat()).unwrap();
        assert!(!verified(&release).status.success(), "{name} is changed");
        fs::write(&path, content).unwrap();
    }
    succeeded(verified(&release));
    succeeded(run(directory.path(), "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "other"]));
    let other = fs::read_to_string(directory.path().join("other.pub")).unwrap();
    fs::write(&signers, format!("wheelwright {other}")).unwrap();
    assert!(!verified(&release).status.success(), "the key is another one");
}

/// Serves the layouts of the charts as a registry does.
async fn registry() -> String {
    async fn content(UrlPath((chart, _, name)): UrlPath<(String, String, String)>) -> impl IntoResponse {
        let layout = released().join("release/charts").join(chart);
        let tagged = json_of(&layout.join("index.json"))["manifests"][0].clone();
        let digest = if name == VERSION { tagged["digest"].as_str().unwrap().to_owned() } else { name };
        let content = fs::read(layout.join("blobs").join(digest.replace(':', "/")));
        let kind = tagged["mediaType"].as_str().unwrap().to_owned();
        let headers = [("Content-Type", kind), ("Docker-Content-Digest", digest)];
        content.map(|content| (headers, content)).map_err(|_| StatusCode::NOT_FOUND)
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/v2/{chart}/{kind}/{name}", get(content));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("oci://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_pulls_the_charts_of_a_release_from_a_registry() {
    released();
    let (registry, helm) = (registry().await, built("tests/kustomize/build").join("helm"));
    let home = tempfile::tempdir().unwrap();
    let show = |what: &str, chart: &str| {
        let url = format!("{registry}/{chart}");
        let mut command = Command::new(&helm);
        command.args(["show", what, &url, "--version", VERSION, "--plain-http"]).env("HOME", home.path());
        succeeded(command.output().unwrap())
    };
    for chart in CHARTS {
        let readme =
            fs::read_to_string(Path::new(ROOT).join("charts").join(chart).join("README.md")).unwrap();
        assert_eq!(show("readme", chart).trim(), readme.trim(), "{chart}");
        let about: Value = serde_saphyr::from_str(&show("chart", chart)).unwrap();
        assert_eq!((&about["home"], &about["sources"]), (&json!(SOURCE), &json!([SOURCE])), "{chart}");
        let images: Value =
            serde_saphyr::from_str(about["annotations"]["artifacthub.io/images"].as_str().unwrap()).unwrap();
        let image = if chart == "wheelwright-agent" { format!("{IMAGE}-agent") } else { IMAGE.to_owned() };
        assert_eq!(images[0]["image"], format!("{image}:{VERSION}"), "{chart}");
        let values: Value = serde_saphyr::from_str(&show("values", chart)).unwrap();
        assert_eq!(values["image"]["repository"], image, "{chart}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_installs_from_one_file_of_a_release_what_upgrade_continues() {
    let file = released().join("release/release.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let objects = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let kinds: Vec<Value> = objects.map(|object| object["kind"].clone()).collect();
    let last_definition = kinds.iter().rposition(|kind| kind == "CustomResourceDefinition").unwrap();
    let first_other = kinds.iter().position(|kind| kind != "CustomResourceDefinition").unwrap();
    assert!(last_definition < first_other, "{kinds:?}");
    assert!(kinds.iter().any(|kind| kind == "Deployment"), "{kinds:?}");

    let home = tempfile::tempdir().unwrap();
    let hub = Cluster::start("release").await;
    let kubectl = Kubectl::new(&hub.kubeconfig, home.path().to_owned());
    kubectl.run(&["apply", "--server-side", "-f", file.to_str().unwrap()]);
    // The objects are those of `wheelwright install`, so that there is nothing to change.
    let mut upgrade = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
    upgrade.args(["upgrade", "--wait", "0", "--kubeconfig"]).arg(&hub.kubeconfig);
    let upgraded = succeeded(upgrade.output().unwrap());
    assert!(upgraded.contains("wheelwright-system/wheelwright-operator unchanged\n"), "{upgraded}");
    assert!(!upgraded.contains("configured"), "{upgraded}");
}

#[test]
fn a_release_is_refused_before_the_build_if_its_versions_differ() {
    let directory = tempfile::tempdir().unwrap();
    let checkout = directory.path().join("checkout");
    let copied = "mkdir -p $0/.ci && cp -R --parents Cargo.toml CHANGELOG.md charts .ci/release $0 && git -C $0 init --quiet";
    succeeded(run(Path::new(ROOT), "bash", &["-euc", copied, checkout.to_str().unwrap()]));
    let dated = format!("# Changelog\n\n## [{VERSION}] - 2026-12-01\n");
    fs::write(checkout.join("CHANGELOG.md"), &dated).unwrap();
    let refused = |tag: &str| {
        let mut command = Command::new(checkout.join(".ci/release"));
        command.arg(directory.path().join("out")).env("RELEASE_TAG", tag);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap().trim().to_owned()
    };
    let mismatch = |what: &str, version: &str| {
        format!("{what} is {version}, but the version in Cargo.toml is {VERSION}")
    };
    assert_eq!(refused("v9.9.9"), mismatch("the version of tag v9.9.9", "9.9.9"));
    let tag = format!("v{VERSION}");
    assert_eq!(refused(&tag), "the checkout has changes that are not in the commit");
    fs::write(checkout.join("CHANGELOG.md"), dated.replace("2026-12-01", "Unreleased")).unwrap();
    assert_eq!(refused(&tag), format!("CHANGELOG.md has no date for {VERSION}"));
    let chart = checkout.join("charts/wheelwright-agent/Chart.yaml");
    let about = fs::read_to_string(&chart).unwrap();
    for (field, version) in [("version", "9.9.8"), ("appVersion", "9.9.7")] {
        let changed = about.replace(&format!("\n{field}: {VERSION}\n"), &format!("\n{field}: {version}\n"));
        fs::write(&chart, changed).unwrap();
        let what = format!("{field} in charts/wheelwright-agent/Chart.yaml");
        assert_eq!(refused(&tag), mismatch(&what, version));
    }
}
