//! ConfigRepos that follow artifacts in a registry. curl pushes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use object::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kube::built;
use crate::running::Running;
use crate::sources::{Hub, NAMESPACE, run};
use crate::wait::eventually;
use crate::webhook::{free_port, write_certificates};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const COSIGN: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// The login of private registries, and the line for it in their list of users.
pub(crate) const LOGIN: [&str; 2] = ["me", "hunter22"];
const USER: &str = "me:$2y$05$abcdefghijklmnopqrstuuZ6QNu0NKXZkZHC5hsQUItfxcGamvB8i\n";

/// Starts a registry with the certificates in a directory, which may require [`LOGIN`]. Returns its port.
pub(crate) async fn start_registry(dir: &Path, is_private: bool) -> (Running, u16) {
    write_certificates(dir);
    std::fs::write(dir.join("users"), USER).unwrap();
    let (port, directory) = (free_port(), dir.display());
    let auth = match is_private {
        true => format!("auth: {{htpasswd: {{realm: registry, path: {directory}/users}}}}\n"),
        false => String::new(),
    };
    let config = format!(
        "{auth}version: 0.1\nlog: {{level: error}}\nstorage: {{inmemory: {{}}, delete: {{enabled: true}}}}\n\
         http: {{addr: '127.0.0.1:{port}', tls: {{certificate: {directory}/tls.crt, key: {directory}/tls.key}}}}\n"
    );
    std::fs::write(dir.join("registry.yaml"), config).unwrap();
    (serve(dir, port, &["registry.yaml"]).await, port)
}

/// Starts the registry of go-containerregistry, which has the API for referrers. Returns its port.
async fn start_registry_with_referrers(dir: &Path) -> (Running, u16) {
    write_certificates(dir);
    let port = free_port();
    (serve(dir, port, &[&format!("127.0.0.1:{port}"), "tls.crt", "tls.key"]).await, port)
}

async fn serve(dir: &Path, port: u16, args: &[&str]) -> Running {
    let mut registry = Command::new(built("tests/registry/build"));
    let server = Running::spawn(registry.args(args).current_dir(dir), "registry", dir, dir);
    let listens = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
    eventually("the registry listens", listens).await;
    server
}

/// A registry with the repository `fleet`.
struct Registry {
    dir: PathBuf,
    port: u16,
    _server: Running,
}

impl Registry {
    async fn start(dir: &Path, has_referrers: bool) -> Self {
        let (_server, port) = match has_referrers {
            true => start_registry_with_referrers(dir).await,
            false => start_registry(dir, false).await,
        };
        Self { dir: dir.to_owned(), port, _server }
    }

    fn url(&self) -> String {
        format!("oci://127.0.0.1:{}/fleet", self.port)
    }

    fn curl(&self, path: &str, args: &[&str]) -> String {
        let host = format!("https://127.0.0.1:{}", self.port);
        let url = match path {
            _ if path.starts_with("https://") => path.to_owned(),
            _ if path.starts_with('/') => host + path,
            _ => format!("{host}/v2/fleet/{path}"),
        };
        run(
            &self.dir,
            "curl",
            &[&["-sSf", "--http2", "-D", "-", "--cacert", "ca.crt"], args, &[&url]].concat(),
        )
    }

    /// Uploads content, and returns its descriptor.
    fn upload(&self, media_type: &str, content: &[u8]) -> Value {
        std::fs::write(self.dir.join("content"), content).unwrap();
        let headers = self.curl("blobs/uploads/", &["-X", "POST"]);
        let location = headers.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().trim();
        let digest = digest(content);
        let bytes =
            ["-X", "PUT", "-H", "Content-Type: application/octet-stream", "--data-binary", "@content"];
        let separator = if location.contains('?') { '&' } else { '?' };
        self.curl(&format!("{location}{separator}digest={digest}"), &bytes);
        json!({"mediaType": media_type, "digest": digest, "size": content.len()})
    }

    /// Pushes an artifact with these layers to a tag, and returns its digest.
    fn push(&self, tag: &str, layers: &[Value]) -> String {
        let config = self.upload("application/vnd.cncf.flux.config.v1+json", b"{}");
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        self.put(tag, MANIFEST, manifest.to_string().as_bytes())
    }

    /// Pushes a manifest or an index to a tag or its digest, and returns its digest.
    fn put(&self, reference: &str, media_type: &str, manifest: &[u8]) -> String {
        std::fs::write(self.dir.join("manifest"), manifest).unwrap();
        let kind = format!("Content-Type: {media_type}");
        let body = ["-X", "PUT", "-H", &kind, "--data-binary", "@manifest"];
        self.curl(&format!("manifests/{reference}"), &body);
        digest(manifest)
    }

    /// Pushes ConfigMaps with these names to a tag, as `flux push artifact` does, and returns the digest.
    fn push_maps(&self, tag: &str, names: &[&str]) -> String {
        let archive = packed(&self.dir, names);
        self.push(tag, &[self.upload(FLUX, &archive)])
    }

    fn delete(&self, tag: &str) {
        self.curl(&format!("manifests/{tag}"), &["-X", "DELETE"]);
    }

    /// Signs an artifact as `cosign sign --key` does.
    fn sign(&self, key: &str, artifact: &str, claimed: &str) {
        let identity = json!({"docker-reference": "127.0.0.1/fleet"});
        let image = json!({"docker-manifest-digest": claimed});
        let critical =
            json!({"identity": identity, "image": image, "type": "cosign container image signature"});
        let payload = json!({"critical": critical, "optional": null}).to_string();
        std::fs::write(self.dir.join("payload"), &payload).unwrap();
        let sign = "openssl dgst -sha256 -sign \"$0\" payload | base64 --wrap 0";
        let signature = run(&self.dir, "sh", &["-c", sign, key]);
        let mut layer = self.upload(COSIGN, payload.as_bytes());
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        self.push(&format!("{}.sig", artifact.replace(':', "-")), &[layer]);
    }
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(Sha256::digest(content)))
}

/// Returns an archive with ConfigMaps with these names.
fn packed(dir: &Path, names: &[&str]) -> Vec<u8> {
    let files = dir.join("files");
    let _ = std::fs::remove_dir_all(&files);
    std::fs::create_dir(&files).unwrap();
    for name in names {
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string();
        std::fs::write(files.join(format!("{name}.yaml")), map).unwrap();
    }
    run(dir, "tar", &["-czf", "files.tar.gz", "-C", "files", "."]);
    std::fs::read(dir.join("files.tar.gz")).unwrap()
}

/// A hub with a ConfigRepo `a` that follows the registry.
struct Fixture {
    hub: Hub,
    registry: Registry,
    repos: Api<ConfigRepo>,
    _operator: Running,
}

impl Fixture {
    /// Starts with a git repository that is applied, and a registry of the distribution project.
    async fn start() -> Self {
        Self::start_with(false).await
    }

    async fn start_with(has_referrers: bool) -> Self {
        let hub = Hub::start().await;
        let url = hub.repository("a");
        let registry = Registry::start(hub.dir.path(), has_referrers).await;
        let _operator = hub.operator(&url);
        eventually("the git repository is applied", async || hub.exists("a").await).await;
        let repos = Api::namespaced(hub.server.client(), NAMESPACE);
        let fixture = Self { hub, registry, repos, _operator };
        let authority = std::fs::read_to_string(fixture.registry.dir.join("ca.crt")).unwrap();
        fixture.secret("registry", &json!({"ca.crt": authority})).await;
        fixture
    }

    async fn secret(&self, name: &str, data: &Value) {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        let secrets: Api<Secret> = Api::namespaced(self.hub.server.client(), NAMESPACE);
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn edit(&self, spec: &Value) {
        let edit = json!({"spec": spec});
        self.repos.patch("a", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    }

    /// Follows a reference of the registry.
    async fn follow(&self, kind: &str, reference: &str) {
        let mut to = json!({"branch": null, "tag": null, "semver": null, "digest": null});
        to[kind] = json!(reference);
        let spec = json!({"url": self.registry.url(), "ref": to, "interval": "1s", "secretRef": {"name": "registry"}, "deletionBudget": {"objects": 100}});
        self.edit(&spec).await;
    }

    async fn status(&self) -> ConfigRepoStatus {
        self.repos.get("a").await.unwrap().status.unwrap_or_default()
    }

    /// Waits until a revision is applied.
    async fn applied(&self, revision: &str) {
        let is_applied =
            async || self.status().await.applied.is_some_and(|applied| applied.commit == revision);
        eventually(&format!("{revision} is applied"), is_applied).await;
    }

    /// Waits until the condition `Stalled` or `Ready` has a reason and a part of a message.
    async fn refused(&self, reason: &str, part: &str) {
        let says = async || {
            let conditions = self.status().await.conditions;
            conditions.iter().any(|one| one.reason == reason && one.message.contains(part))
        };
        eventually(&format!("{reason}: {part}"), says).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_artifact_takes_the_place_of_a_git_repository_and_is_followed_by_its_reference() {
    let fixture = Fixture::start().await;
    let registry = &fixture.registry;
    fixture.edit(&json!({"url": registry.url()})).await;
    fixture.refused("InvalidRef", "set ref.tag, ref.semver or ref.digest").await;
    fixture.follow("tag", "latest").await;
    fixture.refused("RefNotFound", "tag latest does not exist in oci://").await;

    let first = registry.push_maps("latest", &["a", "b"]);
    fixture.applied(&format!("latest@{first}")).await;
    assert!(fixture.hub.exists("b").await);
    let second = registry.push_maps("latest", &["a", "b", "c"]);
    fixture.applied(&format!("latest@{second}")).await;
    assert!(fixture.hub.exists("c").await, "a tag may move");

    let version = registry.push_maps("1.0.0", &["a", "b", "c", "d"]);
    let secret = registry.dir.join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::copy(registry.dir.join("ca.crt"), secret.join("ca.crt")).unwrap();
    let url = registry.url();
    let from = ["--repo", &url, "--git-secret", "secret"];
    let wheelwright = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        // The exit code of a plan is its verdict.
        let output = command.args(args).args(from).current_dir(&registry.dir).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat()
    };
    let rendered = wheelwright(&["render", ".", "--revision", &format!("latest@{first}")]);
    assert!(rendered.contains("name: b") && !rendered.contains("name: c"), "{rendered}");
    let refused = wheelwright(&["render", "prod", "--revision", "latest"]);
    assert!(refused.contains("there is no directory \"prod\" in latest@sha256:"), "{refused}");
    let refused = wheelwright(&["render", "."]);
    assert!(refused.contains(" has no HEAD\nhint: name the tag or the digest"), "{refused}");
    let plan = wheelwright(&["plan", "--head", "1.0.0", "--kubeconfig", "kubeconfig"]);
    assert!(plan.contains("default/d") && !plan.contains("default/c"), "{plan}");

    registry.push_maps("2.0.0", &["no"]);
    fixture.follow("semver", ">=1, <2").await;
    fixture.applied(&format!("1.0.0@{version}")).await;
    let next = registry.push_maps("1.1.0", &["a", "b", "c", "d", "e"]);
    let next = format!("1.1.0@{next}");
    fixture.applied(&next).await;
    let swapped = registry.push_maps("1.1.0", &["a", "b", "c", "d", "f"]);
    let swapped = format!("1.1.0@{swapped}");
    fixture.refused("SourceRewound", &format!("moved from {next} to {swapped}")).await;
    assert!(!fixture.hub.exists("f").await, "a version may not move");
    let dir = fixture.hub.dir.path();
    run(dir, env!("CARGO_BIN_EXE_wheelwright"), &["repo", "approve", "a", "--kubeconfig", "kubeconfig"]);
    fixture.applied(&swapped).await;
    registry.delete("1.1.0");
    fixture.refused("SourceRewound", &format!("moved from {swapped} to 1.0.0@{version}")).await;
    assert!(fixture.hub.exists("f").await, "a lower version is not applied");

    fixture.follow("digest", &first).await;
    fixture.applied(&first).await;
    assert!(!fixture.hub.exists("no").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_hostile_artifact_is_refused_and_the_last_one_stays_applied() {
    let fixture = Fixture::start().await;
    let registry = &fixture.registry;
    fixture.follow("tag", "latest").await;
    let first = registry.push_maps("latest", &["a"]);
    fixture.applied(&format!("latest@{first}")).await;
    let archive = packed(&registry.dir, &["a"]);
    let made = |script: &str| {
        run(&registry.dir, "sh", &["-c", script]);
        std::fs::read(registry.dir.join("made")).unwrap()
    };
    let cases = [
        ("is damaged", FLUX, archive[..archive.len() - 20].to_vec()),
        ("is not compressed", FLUX, b"text".to_vec()),
        (
            "more than 512 MiB when unpacked",
            FLUX,
            made("head -c 600M /dev/zero >zero; tar -cf - zero | gzip -1 >made; rm zero"),
        ),
        ("cannot read ../a", FLUX, made("touch a; tar -czPf made --transform s,^,../, a")),
        ("neither a file, a symbolic link", FLUX, made("ln -f a b; tar -czf made a b")),
        ("no archive of a known media type, but text/plain", "text/plain", archive.clone()),
    ];
    for (part, media_type, content) in cases {
        registry.push("latest", &[registry.upload(media_type, &content)]);
        fixture.refused("SourceRefused", part).await;
    }
    let link = "mkdir -p l; ln -sf /etc/passwd l/a.yaml; echo 'resources: [a.yaml]' >l/kustomization.yaml";
    let link = made(&format!("{link}; tar -czf made -C l ."));
    registry.push("latest", &[registry.upload(FLUX, &link)]);
    fixture.refused("RenderFailed", "a.yaml").await;
    assert!(fixture.hub.exists("a").await);
    assert_eq!(fixture.status().await.applied.unwrap().commit, format!("latest@{first}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_artifact_that_a_trusted_key_of_cosign_signed_is_applied() {
    let fixture = Fixture::start().await;
    let (registry, dir) = (&fixture.registry, &fixture.registry.dir);
    for name in ["ours", "other"] {
        let key = ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name];
        run(dir, "openssl", &key);
    }
    let public = run(dir, "openssl", &["ec", "-in", "ours", "-pubout"]);
    fixture.secret("keys", &json!({"cosign.pub": public})).await;
    let first = registry.push_maps("latest", &["a", "b"]);
    fixture.edit(&json!({"verify": {"secretRef": {"name": "keys"}}})).await;
    fixture.follow("tag", "latest").await;
    fixture.refused("SignatureMissing", &format!("artifact {first} is refused")).await;
    registry.sign("other", &first, &first);
    fixture.refused("SignatureUntrusted", &first).await;
    registry.sign("ours", &first, &digest(b"another artifact"));
    fixture.refused("SignatureInvalid", "it is for another artifact").await;
    assert!(!fixture.hub.exists("b").await);
    registry.sign("ours", &first, &first);
    fixture.applied(&format!("latest@{first}")).await;

    registry.push_maps("latest", &["a", "b", "c"]);
    fixture.refused("SignatureMissing", "it has no signature").await;
    assert!(fixture.hub.exists("b").await && !fixture.hub.exists("c").await);
}

/// Pushes the artifact in `tests/cosign/` to the tag `latest`, and returns its digest.
fn push_recorded(registry: &Registry) -> String {
    registry.upload(FLUX, include_bytes!("cosign/archive.tar.gz"));
    registry.upload("application/vnd.oci.empty.v1+json", b"{}");
    registry.put("latest", MANIFEST, include_bytes!("cosign/manifest.json"))
}

/// Pushes the artifact in `tests/cosign/`, and then what cosign 3 pushed when it signed the artifact.
async fn applies_what_cosign_3_signed(has_referrers: bool) {
    let fixture = Fixture::start_with(has_referrers).await;
    let registry = &fixture.registry;
    fixture.secret("keys", &json!({"cosign.pub": include_str!("cosign/cosign.pub")})).await;
    let artifact = push_recorded(registry);
    fixture.edit(&json!({"verify": {"secretRef": {"name": "keys"}}})).await;
    fixture.follow("tag", "latest").await;
    fixture.refused("SignatureMissing", &format!("artifact {artifact} is refused")).await;
    assert!(!fixture.hub.exists("signed").await);

    registry.upload(BUNDLE, include_bytes!("cosign/signature.json"));
    let referrer = include_bytes!("cosign/referrer.json");
    registry.put(&digest(referrer), MANIFEST, referrer);
    if !has_referrers {
        registry.put(&artifact.replace(':', "-"), INDEX, include_bytes!("cosign/referrers.json"));
    }
    fixture.applied(&format!("latest@{artifact}")).await;
    assert!(fixture.hub.exists("signed").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_of_cosign_3_is_found_by_the_api_for_referrers() {
    applies_what_cosign_3_signed(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_of_cosign_3_is_found_at_the_tag_for_registries_without_the_api() {
    applies_what_cosign_3_signed(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyless_signature_is_accepted_from_the_named_signer_only() {
    let fixture = Fixture::start_with(true).await;
    let registry = &fixture.registry;
    fixture.secret("damaged", &json!({"trusted_root.json": "text"})).await;
    let root = include_str!("cosign/keyless/trusted_root.json");
    fixture.secret("root", &json!({"trusted_root.json": root})).await;
    let artifact = push_recorded(registry);
    let manifest = include_bytes!("cosign/manifest.json");
    let bundle = registry.upload(BUNDLE, include_bytes!("cosign/keyless/signature.json"));
    let config = registry.upload("application/vnd.oci.empty.v1+json", b"{}");
    let subject = json!({"mediaType": MANIFEST, "digest": artifact, "size": manifest.len()});
    let referrer = json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE, "config": config, "layers": [bundle], "subject": subject});
    let referrer = referrer.to_string();
    registry.put(&digest(referrer.as_bytes()), MANIFEST, referrer.as_bytes());

    fixture.edit(&json!({"verify": {"secretRef": {"name": "damaged"}}})).await;
    fixture.follow("tag", "latest").await;
    let key = "key trusted_root.json of the Secret of spec.verify: it";
    fixture.refused("InvalidCredentials", &format!("{key} is not a trust root of Sigstore")).await;
    fixture.edit(&json!({"verify": {"secretRef": {"name": "root"}}})).await;
    fixture.refused("InvalidCredentials", &format!("{key} requires spec.verify.identities")).await;
    let signed_by = |subject: &str| json!({"verify": {"identities": [{"issuer": "https://issuer.example", "subject": subject}]}});
    fixture.edit(&signed_by("other@example.com")).await;
    fixture.refused("SignatureUntrusted", "it is signed by \"release@example.com\"").await;
    assert!(!fixture.hub.exists("signed").await);
    fixture.edit(&signed_by("release@example.com")).await;
    fixture.applied(&format!("latest@{artifact}")).await;
    assert!(fixture.hub.exists("signed").await);
}
