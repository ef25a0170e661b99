//! A container image built by `tools/image` from a static program that other tests build too.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::kube::assets;

fn image(program: &str, binary: &Path, directory: &Path) -> Output {
    let certificates = directory.parent().unwrap().join("authorities.pem");
    fs::write(&certificates, "authorities").unwrap();
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/image"));
    command.args(["--program", program]).arg(binary).arg(directory);
    command.arg("--certificates").arg(certificates).output().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    format!("sha256:{}", sum.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Returns the blob of a descriptor after checking its digest and size.
fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let name = descriptor["digest"].as_str().unwrap();
    let bytes = fs::read(layout.join("blobs/sha256").join(name.strip_prefix("sha256:").unwrap())).unwrap();
    assert_eq!((digest(&bytes).as_str(), bytes.len() as u64), (name, descriptor["size"].as_u64().unwrap()));
    bytes
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn the_image_has_one_static_binary_that_runs_as_nobody_on_an_empty_root() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let program = assets().join("kubectl");
    let made = image("wheelwright-agent", &program, &one);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(
        made.stdout,
        image("wheelwright-agent", &program, &two).stdout,
        "the same input gives the same image"
    );

    let index = json(&fs::read(one.join("index.json")).unwrap());
    let manifest = json(&blob(&one, &index["manifests"][0]));
    assert_eq!(format!("{}\n", index["manifests"][0]["digest"].as_str().unwrap()).as_bytes(), made.stdout);
    let config = json(&blob(&one, &manifest["config"]));
    assert_eq!(config["config"]["User"], "65532:65532", "a number, so that runAsNonRoot can be checked");
    assert_eq!(config["config"]["Entrypoint"][0], "/wheelwright-agent");
    let mut layer = Vec::new();
    flate2::read::GzDecoder::new(blob(&one, &manifest["layers"][0]).as_slice())
        .read_to_end(&mut layer)
        .unwrap();
    assert_eq!(config["rootfs"]["diff_ids"][0], digest(&layer));

    let (archive, root) = (dir.path().join("layer.tar"), dir.path().join("root"));
    fs::write(&archive, layer).unwrap();
    fs::create_dir(&root).unwrap();
    assert!(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&root).status().unwrap().success());
    assert_eq!(fs::read(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap(), b"authorities");
    assert!(json(&fs::read(root.join("sbom.json")).unwrap())["components"].is_array());
    let mut run = Command::new("unshare");
    run.args(["-r", "chroot"]).arg(&root).args(["/wheelwright-agent", "version", "--client"]);
    let run = run.output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Programs contain the names of source files that log or can panic, apart from the debug information, which has all.
#[test]
fn the_program_of_the_agent_has_no_code_that_a_spoke_does_not_need() {
    let dir = tempfile::tempdir().unwrap();
    let has = |program: &str, part: &str| {
        let stripped = dir.path().join(Path::new(program).file_name().unwrap());
        if !stripped.exists() {
            let strip = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
            assert!(strip.unwrap().success());
        }
        let found = Command::new("grep").args(["-qaF", part]).arg(&stripped).status().unwrap();
        found.success()
    };
    let [all, agent] = [env!("CARGO_BIN_EXE_wheelwright"), env!("CARGO_BIN_EXE_wheelwright-agent")];
    for part in ["src/agent/", "crates/shell/src/"] {
        assert!(has(all, part) && has(agent, part), "{part}");
    }
    for part in [
        "src/apiserver/",
        "src/dashboard/",
        "src/git/",
        "src/operator/",
        "crates/chart/src/",
        "crates/preview/src/",
        "crates/render/src/",
        "crates/store/src/",
    ] {
        assert!(has(all, part) && !has(agent, part), "{part}");
    }
}

#[test]
fn a_binary_that_needs_libraries_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let made = image("wheelwright", Path::new(env!("CARGO_BIN_EXE_wheelwright")), &dir.path().join("image"));
    assert!(!made.status.success());
    let reason = String::from_utf8(made.stderr).unwrap();
    assert!(reason.contains("needs a dynamic linker"), "{reason}");
}
