use std::sync::Mutex;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::git::registry::digest_of;
use crate::git::tests::charts::page;
use crate::git::tests::forge::Forge;
use crate::git::tests::web::{Behavior, Page, Web};
use crate::git::{Credentials, Egress};

/// A registry that asks for a login, and the files on disk.
struct Fixture {
    _forge: Forge,
    web: Web,
    pages: Arc<Mutex<Vec<Page>>>,
    dir: tempfile::TempDir,
}

/// Returns an archive with one file.
fn archive(content: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, "a", content.as_bytes()).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

fn manifest(archive: &[u8], size: usize) -> String {
    let config = serde_json::json!({"mediaType": "x", "digest": "x", "size": 2});
    let layer = serde_json::json!({"mediaType": ARCHIVES[0], "digest": digest_of(archive), "size": size});
    serde_json::json!({"config": config, "layers": [layer]}).to_string()
}

impl Fixture {
    fn start() -> Self {
        let (forge, pages) = (Forge::new(), Arc::new(Mutex::new(Vec::new())));
        let web = Web::start(&forge, Behavior { pages: Arc::clone(&pages), ..Behavior::default() });
        Self { _forge: forge, web, pages, dir: tempfile::tempdir().unwrap() }
    }

    fn serves(&self, pages: Vec<(String, Vec<u8>)>) {
        let mut served: Vec<_> = pages
            .into_iter()
            .map(|(path, body)| page(&format!("/v2/fleet/{path}"), body))
            .map(|page| Page { authorization: Some("Bearer t"), ..page })
            .collect();
        let address = self.web.address;
        let asks = format!("WWW-Authenticate: Bearer realm=\"https://{address}/token\",service=\"x\"");
        for path in served.iter().map(|page| page.path.clone()).collect::<Vec<_>>() {
            served.push(Page { head: format!("401 Unauthorized\r\n{asks}"), ..page(&path, "") });
        }
        // base64 of me:hunter22
        let token =
            Page { authorization: Some("Basic bWU6aHVudGVyMjI="), ..page("/token", r#"{"token": "t"}"#) };
        served.extend([token, Page { head: "401 Unauthorized".into(), ..page("/token", "") }]);
        *self.pages.lock().unwrap() = served;
    }

    /// Serves an artifact under a tag.
    fn serves_artifact(&self, tag: &str, archive: &[u8], served: &[u8]) -> String {
        let manifest = manifest(archive, archive.len()).into_bytes();
        let digest = digest_of(&manifest);
        self.serves(vec![
            (format!("manifests/{digest}"), manifest.clone()),
            (format!("manifests/{tag}"), manifest),
            (format!("blobs/{}", digest_of(archive)), served.to_vec()),
        ]);
        digest
    }

    fn open(&self, login: (&str, &str)) -> ArtifactRepository {
        let config = serde_json::json!({"auths": {self.web.address.to_string(): {"username": login.0, "password": login.1}}});
        let downloads = Downloads {
            credentials: Credentials::from_secret(
                &self.web.secret(&[(".dockerconfigjson", &config.to_string())]),
            )
            .unwrap(),
            egress: Egress::Hosts { names: Vec::new(), loopback: true },
            cancel: CancellationToken::new(),
            arrivals: Arc::default(),
        };
        let blobs = Blobs::new(self.dir.path().to_owned(), "a");
        let url = format!("oci://{}/fleet", self.web.address);
        ArtifactRepository::open(&url, downloads, blobs, None).unwrap()
    }

    fn fetch(&self, want: &ArtifactRef) -> Result<Arc<Checkout>, Error> {
        self.open(("me", "hunter22")).fetch(want, History::default(), None)
    }
}

#[test]
fn a_private_artifact_is_downloaded_once_and_read_again_from_disk() {
    let fixture = Fixture::start();
    let packed = archive("1");
    let digest = fixture.serves_artifact("latest", &packed, &packed);
    let latest = ArtifactRef::tag("latest").unwrap();
    let refused = fixture.open(("me", "wrong")).fetch(&latest, History::default(), None).unwrap_err();
    assert_eq!(refused.reason(), "SourceUnauthorized");
    let fetched = fixture.fetch(&latest).unwrap();
    assert_eq!(fetched.revision, format!("latest@{digest}"));
    assert_eq!(fetched.tree.file("a").unwrap()[..], *b"1");
    let again = fixture.open(("me", "hunter22")).fetch(&latest, History::default(), Some(&fetched)).unwrap();
    assert!(Arc::ptr_eq(&again, &fetched));
    assert_eq!(fixture.fetch(&ArtifactRef::digest(&digest).unwrap()).unwrap().revision, digest);

    fixture.serves(Vec::new());
    let repository = fixture.open(("me", "hunter22"));
    assert_eq!(repository.checkout(&fetched.revision), Some(fetched));
    assert_eq!(repository.checkout(&format!("latest@{}", digest_of(b""))), None);
    assert_eq!(fixture.fetch(&latest).unwrap_err().reason(), "RefNotFound");
}

#[test]
fn swapped_and_truncated_content_is_refused() {
    let fixture = Fixture::start();
    let packed = archive("1");
    let mut other = packed.clone();
    *other.last_mut().unwrap() ^= 1;
    let latest = ArtifactRef::tag("latest").unwrap();
    fixture.serves_artifact("latest", &packed, &other);
    let refused = fixture.fetch(&latest).unwrap_err();
    assert!(refused.to_string().contains(&format!("not {}", digest_of(&packed))), "{refused}");
    fixture.serves_artifact("latest", &packed, &packed[..packed.len() - 1]);
    let refused = fixture.fetch(&latest).unwrap_err();
    assert!(refused.to_string().contains(&format!("not {}", digest_of(&packed))), "{refused}");
    assert_eq!(refused.reason(), "SourceRefused");
    let digest = digest_of(b"another manifest");
    fixture.serves(vec![(format!("manifests/{digest}"), manifest(&packed, packed.len()).into_bytes())]);
    let refused = fixture.fetch(&ArtifactRef::digest(&digest).unwrap()).unwrap_err();
    assert!(refused.to_string().ends_with(&format!("not {digest}")), "{refused}");
    let large = manifest(&packed, MAX_ARCHIVE + 1);
    fixture.serves(vec![("manifests/latest".to_owned(), large.into_bytes())]);
    let refused = fixture.fetch(&latest).unwrap_err();
    assert!(refused.to_string().contains("at most 67108864 are allowed"), "{refused}");
}

#[test]
fn versions_only_go_up_and_other_references_may_move() {
    let range = ArtifactRef::semver(">=1, <3").unwrap();
    let check = |want: &ArtifactRef, from: &str, to: &str, allowed: Option<&str>| {
        guard(want, to, History { accepted: Some(from), allowed }).map_err(|error| error.reason())
    };
    assert_eq!(check(&range, "1.9.0@sha256:a", "v1.10.0@sha256:b", None), Ok(()));
    assert_eq!(check(&range, "1.0.0_a@sha256:a", "1.0.0_b@sha256:b", None), Ok(()));
    assert_eq!(check(&range, "1.0.0@sha256:a", "1.0.0@sha256:a", None), Ok(()));
    for (from, to) in [("1.0.0@sha256:a", "1.0.0@sha256:b"), ("1.1.0@sha256:a", "1.0.0@sha256:b")] {
        assert_eq!(check(&range, from, to, None), Err("SourceRewound"), "{from} {to}");
        assert_eq!(check(&range, from, to, Some(&format!("{from}..{to}"))), Ok(()));
        assert_eq!(check(&range, from, to, Some(&format!("{to}..{from}"))), Err("SourceRewound"));
    }
    let tag = ArtifactRef::tag("latest").unwrap();
    assert_eq!(check(&tag, "latest@sha256:a", "latest@sha256:b", None), Ok(()));
}

#[test]
fn references_and_addresses_have_the_grammar_of_registries() {
    for name in ["", ".a", "-a", "a/b", "a:b", "a+b", "\u{e4}", &"a".repeat(129)] {
        assert!(ArtifactRef::tag(name).is_err(), "{name:?}");
    }
    assert!(ArtifactRef::tag("_v1.2.3-rc.1").is_ok());
    let upper = format!("sha256:{}", "A".repeat(64));
    for digest in ["", "sha256:", "sha512:a", upper.as_str()] {
        assert!(ArtifactRef::digest(digest).is_err(), "{digest}");
    }
    let digest = digest_of(b"");
    assert_eq!(ArtifactRef::parse(&format!("1.0.0@{digest}")), Ok(ArtifactRef::Digest(digest.clone())));
    assert_eq!(ArtifactRef::parse(&digest), Ok(ArtifactRef::Digest(digest)));
    assert_eq!(ArtifactRef::parse("1.0.0"), Ok(ArtifactRef::Tag("1.0.0".into())));
    let fixture = Fixture::start();
    let open = |url: &str| {
        let ArtifactRepository { downloads, blobs, .. } = fixture.open(("me", "hunter22"));
        ArtifactRepository::open(url, downloads, blobs, None).map(drop).map_err(|error| error.reason())
    };
    assert_eq!(open("oci://ghcr.io/stefanprodan/manifests/podinfo"), Ok(()));
    for url in
        ["oci://ghcr.io", "oci://ghcr.io/a:b", "oci://ghcr.io/a@sha256:b", "oci://ghcr.io/A", "oci://u:p@h/a"]
    {
        assert_eq!(open(url), Err("InvalidURL"), "{url}");
    }
}

#[test]
fn any_bytes_are_a_manifest_or_refused() {
    let seeds = [manifest(b"x", 1), r#"{"config": {"mediaType": "", "digest": "", "size": 0}}"#.to_owned()]
        .map(String::into_bytes);
    let run = |bytes: &[u8]| {
        if let Ok(layer) = archive_of(bytes) {
            assert!(ARCHIVES.contains(&layer.media_type.as_str()));
        }
    };
    let words = [
        "\"layers\":[",
        "\"config\":{",
        "\"digest\":\"sha256:",
        "\"size\":",
        "\"mediaType\":\"",
        ARCHIVES[0],
    ];
    crate::fuzz::Target { name: "manifest", run: &run, seeds: &seeds, words: &words }.fuzz();
}
