use std::sync::Mutex;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::git::Egress;
use crate::git::registry::digest_of;
use crate::git::tests::charts::page;
use crate::git::tests::cosign::{self, Signer};
use crate::git::tests::forge::Forge;
use crate::git::tests::web::{Behavior, Page, Web};

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
        Self::of(Behavior::default())
    }

    fn of(behavior: Behavior) -> Self {
        let (forge, pages) = (Forge::new(), Arc::clone(&behavior.pages));
        let web = Web::start(&forge, behavior);
        Self { _forge: forge, web, pages, dir: tempfile::tempdir().unwrap() }
    }

    fn serves(&self, pages: Vec<(String, Vec<u8>)>) {
        self.serves_pages(pages.into_iter().map(|(path, body)| page(&path, body)).collect());
    }

    /// Serves pages of the repository.
    fn serves_pages(&self, pages: Vec<Page>) {
        let mut served: Vec<_> = pages
            .into_iter()
            .map(|page| Page { path: format!("/v2/fleet/{}", page.path), ..page })
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
        self.open_with(login, &[])
    }

    /// Opens the repository with more keys in the Secret.
    fn open_with(&self, login: (&str, &str), further: &[(&str, &str)]) -> ArtifactRepository {
        let config = serde_json::json!({"auths": {self.web.address.to_string(): {"username": login.0, "password": login.1}}});
        let config = config.to_string();
        let keys = [&[(".dockerconfigjson", config.as_str())], further].concat();
        let downloads = Downloads {
            credentials: self.web.credentials(&keys),
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
fn a_registry_gets_the_client_certificate_that_it_asks_for() {
    let fixture = Fixture::of(Behavior { client_certificate: true, ..Behavior::default() });
    let packed = archive("1");
    let digest = fixture.serves_artifact("latest", &packed, &packed);
    let latest = ArtifactRef::tag("latest").unwrap();
    let repository = fixture.open_with(("me", "hunter22"), &fixture.web.client_certificate());
    let fetched = repository.fetch(&latest, History::default(), None).unwrap();
    assert_eq!(fetched.revision, format!("latest@{digest}"));
    assert_eq!(fixture.fetch(&latest).unwrap_err().reason(), "SourceUnreachable", "no certificate");
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
    let refused = |revision: &str| ArtifactRef::parse(revision).unwrap_err().to_string();
    assert!(refused("a b").contains("\"a b\" is not a tag or sha256:DIGEST"), "{}", refused("a b"));
    assert!(refused("1@sha256:0").contains("\"1@sha256:0\" is not a tag"), "{}", refused("1@sha256:0"));
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

const SIGSTORE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The artifact that cosign signed, with what refers to it.
#[derive(Clone)]
struct Signed {
    digest: String,
    pages: Vec<Page>,
    referrers: Vec<serde_json::Value>,
}

impl Signed {
    fn new() -> Self {
        let digest = digest_of(cosign::MANIFEST);
        let archive = format!("blobs/{}", digest_of(cosign::ARCHIVE));
        let pages = vec![page("manifests/latest", cosign::MANIFEST), page(&archive, cosign::ARCHIVE)];
        Self { digest, pages, referrers: Vec::new() }
    }

    /// Adds a manifest that refers to the artifact, as an index lists it.
    fn refers(mut self, manifest: &[u8]) -> Self {
        let digest = digest_of(manifest);
        self.referrers.push(json!({"mediaType": "x", "digest": digest, "size": 1, "artifactType": SIGSTORE}));
        self.pages.push(page(&format!("manifests/{digest}"), manifest));
        self
    }

    /// Adds a bundle that refers to the artifact.
    fn bundle(mut self, bundle: &str) -> Self {
        let (digest, config) =
            (digest_of(bundle.as_bytes()), json!({"mediaType": "x", "digest": "x", "size": 2}));
        let layer = json!({"mediaType": SIGSTORE, "digest": digest, "size": bundle.len()});
        self.pages.push(page(&format!("blobs/{digest}"), bundle));
        self.refers(json!({"config": config, "layers": [layer]}).to_string().as_bytes())
    }

    /// Adds a document of cosign 2.
    fn payload(mut self, signer: &Signer) -> Self {
        let kind = "cosign container image signature";
        let image = json!({"docker-manifest-digest": self.digest});
        let payload = json!({"critical": {"image": image, "type": kind}}).to_string();
        let (digest, signature) = (digest_of(payload.as_bytes()), signer.sign(&payload));
        let layer = json!({"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "digest": digest, "size": payload.len(), "annotations": {"dev.cosignproject.cosign/signature": signature}});
        let config = json!({"mediaType": "x", "digest": "x", "size": 2});
        let tag = format!("manifests/{}.sig", self.digest.replace(':', "-"));
        self.pages.push(page(&tag, json!({"config": config, "layers": [layer]}).to_string()));
        self.pages.push(page(&format!("blobs/{digest}"), payload));
        self
    }

    /// Adds a page with a list of the referrers so far.
    fn list(mut self, path: &str, head: &str) -> Self {
        let index = json!({"manifests": self.referrers}).to_string();
        self.pages.push(Page { head: head.into(), ..page(path, index) });
        self
    }

    /// Lists the referrers with the API of the registry.
    fn listed(self) -> Self {
        let path = format!("referrers/{}", self.digest);
        self.list(&path, "200 OK")
    }

    /// Lists the referrers at the tag for registries without the API.
    fn tagged(self) -> Self {
        let path = format!("manifests/{}", self.digest.replace(':', "-"));
        self.list(&path, "200 OK")
    }
}

impl Fixture {
    /// Fetches a signed artifact with nothing on disk. Reads it again from disk if it was verified.
    fn verify(&self, signed: &Signed, keys: &ArtifactSigners) -> Result<(), Error> {
        self.serves_pages(signed.pages.clone());
        let dir = tempfile::tempdir().unwrap();
        let repository = ArtifactRepository {
            signers: Some(keys.clone()),
            blobs: Blobs::new(dir.path().to_owned(), "a"),
            ..self.open(("me", "hunter22"))
        };
        let fetched = repository.fetch(&ArtifactRef::tag("latest").unwrap(), History::default(), None)?;
        self.serves(Vec::new());
        assert_eq!(repository.checkout(&fetched.revision), Some(fetched));
        Ok(())
    }

    #[track_caller]
    fn refused(&self, signed: &Signed, keys: &ArtifactSigners, reason: &str, part: &str) {
        let error = self.verify(signed, keys).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn a_signature_is_found_by_the_api_for_referrers_and_at_both_tags() {
    let (fixture, keys, signer) = (Fixture::start(), cosign::recorded_keys(), Signer::new());
    let new = Signed::new;
    let bundle = format!("blobs/{}", digest_of(cosign::SIGNATURE.as_bytes()));
    let mut recorded = new().refers(cosign::REFERRER);
    recorded.pages.push(page(&bundle, cosign::SIGNATURE));
    fixture.refused(&recorded, &keys, "SignatureMissing", "it has no signature");
    assert_eq!(fixture.verify(&recorded.clone().listed(), &keys), Ok(()));
    assert_eq!(fixture.verify(&recorded.clone().tagged(), &keys), Ok(()));
    assert_eq!(fixture.verify(&new().bundle(cosign::MESSAGE).listed(), &keys), Ok(()));
    assert_eq!(fixture.verify(&new().bundle(cosign::KEYLESS).listed(), &cosign::keyless()), Ok(()));
    assert_eq!(fixture.verify(&new().payload(&signer), &signer.keys()), Ok(()));

    let api = format!("referrers/{}", recorded.digest);
    // A registry without the API may serve its website instead.
    for head in ["200 OK", "400 Bad Request", "403 Forbidden"] {
        let mut website = recorded.clone().tagged();
        website.pages.push(Page { head: head.into(), ..page(&api, "<html>") });
        assert_eq!(fixture.verify(&website, &keys), Ok(()), "{head}");
    }
    let empty = new().listed();
    let both = Signed { pages: [empty.pages, recorded.clone().tagged().pages].concat(), ..recorded.clone() };
    fixture.refused(&both, &keys, "SignatureMissing", "it has no signature");
    let broken = recorded.clone().tagged().list(&api, "503 Service Unavailable");
    fixture.refused(&broken, &keys, "SourceUnreachable", "HTTP status 503");
    let unlisted = new().list(&format!("manifests/{}", recorded.digest.replace(':', "-")), "200 OK");
    fixture.refused(&unlisted, &keys, "SignatureMissing", "it has no signature");

    // Some registries list the type of the configuration, or none.
    for kind in ["", "application/vnd.oci.empty.v1+json"] {
        let mut listed = recorded.clone();
        listed.referrers[0]["artifactType"] = json!(kind);
        assert_eq!(fixture.verify(&listed.listed(), &keys), Ok(()), "{kind}");
    }
    for (field, value) in [
        ("artifactType", json!("application/spdx+json")),
        ("annotations", json!({"dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1"})),
    ] {
        let mut listed = recorded.clone();
        listed.referrers[0][field] = value;
        fixture.refused(&listed.listed(), &keys, "SignatureMissing", "it has no signature");
    }
}

#[test]
fn one_invalid_signature_hides_no_valid_one() {
    let (fixture, signer) = (Fixture::start(), Signer::new());
    let (digest, keys) = (digest_of(cosign::MANIFEST), signer.keys());
    let valid = signer.bundle(&cosign::statement(&digest)).to_string();
    let other = signer.bundle(&cosign::statement(&digest_of(b"other"))).to_string();
    let new = Signed::new;
    let gone = |mut signed: Signed| {
        signed.pages.pop();
        signed
    };
    let mut outside = new().bundle(&valid);
    outside.referrers[0]["digest"] = json!("../../other/manifests/latest");
    let cases = [
        ("it is for another artifact", new().bundle(&other)),
        ("by another key", new().bundle(cosign::SIGNATURE)),
        ("not a Sigstore bundle: EOF", new().bundle(&valid[..valid.len() - 1])),
        (
            "has the type application/vnd.dev.sigstore.bundle.v0.4+json",
            new().bundle(&valid.replace("v0.3", "v0.4")),
        ),
        ("keyless", new().bundle(cosign::CERTIFICATE)),
        ("its content has 65537 bytes, and at most 65536 are allowed", new().bundle(&"x".repeat(65537))),
        ("its manifest has no Sigstore bundle", new().refers(manifest(b"", 1).as_bytes())),
        ("does not describe a single artifact", new().refers(b"{}")),
        ("does not exist in", gone(new().refers(b"gone"))),
        ("its manifest has no SHA-256 digest", outside),
    ];
    for (part, invalid) in cases {
        let error = fixture.verify(&invalid.clone().listed(), &keys).unwrap_err();
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
        assert_eq!(fixture.verify(&invalid.clone().bundle(&valid).listed(), &keys), Ok(()), "{part}");
        assert_eq!(fixture.verify(&invalid.payload(&signer).listed(), &keys), Ok(()), "{part}");
    }
    let tag = format!("manifests/{}.sig", digest.replace(':', "-"));
    let mut broken = new().bundle(&other).listed();
    broken.pages.push(page(&tag, "{}"));
    fixture.refused(&broken, &keys, "SignatureInvalid", "does not describe a single artifact");
    let mut broken = new().payload(&signer);
    broken.pages.push(page(&format!("referrers/{digest}"), "{}"));
    assert_eq!(fixture.verify(&broken, &keys), Ok(()));
}

#[test]
fn a_flood_of_referrers_ends_and_is_named() {
    let (fixture, keys) = (Fixture::start(), cosign::recorded_keys());
    let invalid =
        |count: usize| (0..count).fold(Signed::new(), |signed, i| signed.refers(format!("{i}").as_bytes()));
    let (api, next) =
        (format!("referrers/{}", Signed::new().digest), "200 OK\r\nLink: </elsewhere?page=2>; rel=\"next\"");
    let asked = |part: &str| fixture.web.requests().iter().filter(|seen| seen.line.contains(part)).count();

    let last = invalid(49).bundle(cosign::SIGNATURE).listed();
    assert_eq!(fixture.verify(&last, &keys), Ok(()));
    let before = asked("/manifests/sha256:");
    let hidden = invalid(50).bundle(cosign::SIGNATURE).listed();
    fixture.refused(&hidden, &keys, "SignatureUntrusted", "none of the first 50 signatures");
    assert_eq!(asked("/manifests/sha256:") - before, 50);

    let second = Signed::new().bundle(cosign::SIGNATURE).list(&format!("{api}?page=2"), "200 OK");
    let paged = Signed { referrers: Vec::new(), ..second }.list(&api, next);
    assert_eq!(fixture.verify(&paged, &keys), Ok(()));
    let before = asked("/referrers/");
    let endless = Signed::new().list(&api, next);
    fixture.refused(&endless, &keys, "SignatureInvalid", "more than 10 pages of referrers");
    assert_eq!(asked("/referrers/") - before, 10);
    let before = asked("/referrers/");
    fixture.refused(&invalid(51).list(&api, next), &keys, "SignatureUntrusted", "first 50");
    assert_eq!(asked("/referrers/") - before, 1, "more pages are not read");
}
