//! Artifacts in OCI registries, which a ConfigRepo can follow instead of a git repository.
//!
//! The revision of an artifact is `TAG@DIGEST`, as in Flux, or only `DIGEST` if the digest is pinned. The digest is the
//! manifest's, and the manifest has the archive's digest. An artifact has no history, so only versions have an order.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use semver::{Version, VersionReq};
use tracing::warn;

use super::blobs::Blobs;
use super::charts::CONTENT as CHART;
use super::refs::version_range;
use super::registry::{Descriptor, Downloads, ManifestBytes, Registry, parse_manifest, sha256_hex};
use super::signature::{ArtifactSignature, ArtifactSigners};
use super::{Error, History, Remote, TreeLimits, archive, artifact_signature, rewind};
use object::text::plain;
use object::tree::Checkout;

/// The maximum size of an archive.
const MAX_ARCHIVE: usize = 64 << 20;
/// The maximum length of a tag (distribution-spec, "Pulling manifests").
const MAX_TAG: usize = 128;

/// The media types of the archives that Flux, ORAS and Helm push.
const ARCHIVES: [&str; 3] =
    ["application/vnd.cncf.flux.content.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+gzip", CHART];

/// The start of an address.
const SCHEME: &str = "oci://";

/// The reference to follow in a repository of artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactRef {
    /// A tag, which may move.
    Tag(String),
    /// The highest version within a range.
    Semver(VersionReq),
    /// The digest of one artifact.
    Digest(String),
}

/// A repository of artifacts, and what was fetched from it.
#[derive(Debug)]
pub struct ArtifactRepository {
    /// Its host and path.
    address: String,
    downloads: Downloads,
    blobs: Blobs,
    /// The signers of required signatures, if any.
    signers: Option<ArtifactSigners>,
}

impl ArtifactRef {
    /// Follows a tag.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if the name is invalid for a tag.
    pub fn tag(name: &str) -> Result<Self, Error> {
        let is_tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let is_first = |c: char| is_tag(c) && !matches!(c, '.' | '-');
        if name.starts_with(is_first) && name.chars().all(is_tag) && name.len() <= MAX_TAG {
            return Ok(Self::Tag(name.to_owned()));
        }
        Err(Error::Ref(format!("ref.tag {:?} is not a tag of a registry", plain(name, 60))))
    }

    /// Follows the highest version within a range, such as `>=1.2, <2`.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if the range is invalid.
    pub fn semver(range: &str) -> Result<Self, Error> {
        version_range(range).map(Self::Semver)
    }

    /// Names an artifact by a tag, its digest or its revision.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] if it is none of them.
    pub fn parse(revision: &str) -> Result<Self, Error> {
        let digest = digest(revision);
        let parsed = if digest.contains(':') { Self::digest(digest) } else { Self::tag(revision) };
        parsed.map_err(|_| Error::Ref(format!("{:?} is not a tag or sha256:DIGEST", plain(revision, 80))))
    }

    /// Pins a digest.
    ///
    /// # Errors
    /// Returns [`Error::Ref`] unless it is a SHA-256 digest.
    pub fn digest(digest: &str) -> Result<Self, Error> {
        let invalid = || Error::Ref(format!("ref.digest {:?} is not sha256:DIGEST", plain(digest, 80)));
        sha256_hex(digest).map(|_| Self::Digest(digest.to_owned())).ok_or_else(invalid)
    }
}

impl Display for ArtifactRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(name) => write!(f, "tag {name}"),
            Self::Semver(range) => write!(f, "a version in {range}"),
            Self::Digest(digest) => write!(f, "digest {digest}"),
        }
    }
}

/// Returns true if a URL is the address of artifacts.
pub fn is_artifact(url: &str) -> bool {
    url.starts_with(SCHEME)
}

impl ArtifactRepository {
    /// Opens a repository.
    ///
    /// # Errors
    /// Returns [`Error::Url`] if the address is not `oci://HOST/REPOSITORY`.
    pub fn open(
        url: &str,
        downloads: Downloads,
        blobs: Blobs,
        signers: Option<ArtifactSigners>,
    ) -> Result<Self, Error> {
        let invalid = |reason: &str| Error::Url(format!("invalid repository URL: {reason}"));
        let address = url.strip_prefix(SCHEME).ok_or_else(|| invalid("it does not start with oci://"))?;
        // The rules for hosts are the same.
        let host = Remote::parse(&format!("https://{address}"))?.host();
        let path = address.split_once('/').map_or("", |(_, path)| path);
        let is_path = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '/');
        if path.is_empty() || path.ends_with('/') || !path.chars().all(is_path) {
            let reason = "use oci://HOST/REPOSITORY in lower case; a tag or digest belongs into spec.ref, --revision or --head";
            return Err(invalid(reason));
        }
        let downloads = Downloads { credentials: downloads.credentials.certified_for(host), ..downloads };
        Ok(Self { address: address.to_owned(), downloads, blobs, signers })
    }

    /// Fetches the artifact of a reference. If it is the last one, this takes one request, without logins.
    ///
    /// # Errors
    /// The registry is unreachable or lacks the reference, a version is lower than the accepted one, a required
    /// signature is missing, or the artifact exceeds a limit. Artifacts that were fetched before stay readable through
    /// [`ArtifactRepository::checkout`].
    pub fn fetch(
        &self,
        want: &ArtifactRef,
        history: History<'_>,
        last: Option<&Arc<Checkout>>,
    ) -> Result<Arc<Checkout>, Error> {
        let registry = self.registry()?;
        let (revision, manifest) = self.resolve(&registry, want)?;
        guard(want, &revision, history)?;
        self.verify(&registry, &manifest)?;
        if let Some(last) = last.filter(|last| last.revision == revision) {
            return Ok(Arc::clone(last));
        }
        let layer = archive_of(&manifest.bytes)?;
        let archive = match self.blobs.read(&layer.digest) {
            Some(archive) => archive,
            None => registry.blob(&layer, MAX_ARCHIVE)?.to_vec(),
        };
        let tree = archive::unpack(&archive, &TreeLimits::default())?;
        for content in [&manifest.bytes[..], &archive] {
            self.blobs.write(content).unwrap_or_else(|error| not_stored(&error));
        }
        Ok(Arc::new(Checkout { revision, tree }))
    }

    /// Looks up the revision of a reference, and reads nothing else.
    ///
    /// # Errors
    /// The registry is unreachable or lacks the reference.
    pub fn look_up(&self, want: &ArtifactRef) -> Result<String, Error> {
        Ok(self.resolve(&self.registry()?, want)?.0)
    }

    fn registry(&self) -> Result<Registry<'_>, Error> {
        let login = self.downloads.credentials.login_for(&self.address);
        Registry::new(&self.downloads, &self.address, login)
    }

    /// Reads an artifact that was fetched before, and whose signature is valid.
    pub fn checkout(&self, revision: &str) -> Option<Arc<Checkout>> {
        let manifest = self.blobs.read(digest(revision)).filter(|_| self.is_trusted(revision))?;
        let archive = self.blobs.read(&archive_of(&manifest).ok()?.digest)?;
        let tree = archive::unpack(&archive, &TreeLimits::default()).ok()?;
        Some(Arc::new(Checkout { revision: revision.to_owned(), tree }))
    }

    /// Returns true if a revision that was fetched before is signed by one of the required signers.
    pub fn is_trusted(&self, revision: &str) -> bool {
        let Some(signers) = &self.signers else { return true };
        let note = self.blobs.read_note(digest(revision));
        let signed = note.and_then(|note| serde_json::from_slice::<ArtifactSignature>(&note).ok());
        signed.is_some_and(|signed| signers.verify(&signed, digest(revision)).is_ok())
    }

    /// Returns the revision of a reference, and its manifest.
    fn resolve(&self, registry: &Registry<'_>, want: &ArtifactRef) -> Result<(String, ManifestBytes), Error> {
        let missing = || Error::MissingRef {
            what: want.to_string(),
            url: format!("{SCHEME}{}", self.address),
            known: String::new(),
        };
        let named = |error| if matches!(error, Error::MissingRef { .. }) { missing() } else { error };
        let tag = match want {
            ArtifactRef::Tag(tag) => tag.clone(),
            ArtifactRef::Semver(range) => {
                let tags = registry.tags()?.into_iter().filter_map(|tag| Some((version(&tag)?, tag)));
                let highest = tags.filter(|(version, _)| range.matches(version)).max();
                highest.ok_or_else(missing)?.1
            }
            ArtifactRef::Digest(digest) => {
                let manifest = registry.manifest(digest).map_err(named)?;
                return Ok((manifest.digest.clone(), manifest));
            }
        };
        let manifest = registry.manifest(&tag).map_err(named)?;
        Ok((format!("{tag}@{}", manifest.digest), manifest))
    }

    /// Verifies that one of the required signers signed an artifact, before the artifact is read.
    fn verify(&self, registry: &Registry<'_>, artifact: &ManifestBytes) -> Result<(), Error> {
        let digest = &artifact.digest;
        let Some(signers) = self.signers.as_ref().filter(|_| !self.is_trusted(digest)) else { return Ok(()) };
        let signed = artifact_signature::find(registry, artifact, signers)?;
        let note = serde_json::to_vec(&signed).unwrap_or_default();
        self.blobs.write_note(digest, &note).unwrap_or_else(|error| not_stored(&error));
        Ok(())
    }
}

/// Without the copy on disk, artifacts are downloaded again after a restart.
fn not_stored(error: &std::io::Error) {
    warn!(%error, "cannot store an artifact on disk");
}

/// Rejects a version that is not higher than the accepted one, unless a person allowed exactly this move.
fn guard(want: &ArtifactRef, revision: &str, history: History<'_>) -> Result<(), Error> {
    let (ArtifactRef::Semver(_), Some(from)) = (want, history.accepted) else { return Ok(()) };
    let version_of = |revision: &str| version(revision.split('@').next().unwrap_or_default());
    let is_higher = version_of(revision) > version_of(from);
    if from == revision || is_higher || history.allowed == Some(&rewind(from, revision)) {
        return Ok(());
    }
    Err(Error::Rewound { what: want.to_string(), from: from.to_owned(), to: revision.to_owned() })
}

/// Returns the version of a tag. Ignores a leading `v`. Tags cannot contain `+`; Helm replaces it.
fn version(tag: &str) -> Option<Version> {
    Version::parse(&tag.strip_prefix('v').unwrap_or(tag).replace('_', "+")).ok()
}

/// Returns the digest of a revision.
fn digest(revision: &str) -> &str {
    revision.rsplit_once('@').map_or(revision, |(_, digest)| digest)
}

/// Returns the archive that a manifest names.
fn archive_of(manifest: &[u8]) -> Result<Descriptor, Error> {
    let layers = parse_manifest(manifest)?.layers;
    let known: Vec<_> = layers.iter().filter(|layer| ARCHIVES.contains(&layer.media_type.as_str())).collect();
    match known[..] {
        [only] => Ok(only.clone()),
        [] => {
            let found: Vec<_> = layers.iter().take(3).map(|layer| plain(&layer.media_type, 80)).collect();
            Err(Error::Content(format!(
                "the artifact has no archive of a known media type, but {}; push one as {}",
                if found.is_empty() { "no layer".into() } else { found.join(", ") },
                ARCHIVES[0]
            )))
        }
        _ => Err(Error::Content(format!("the artifact has {} archives; push a single one", known.len()))),
    }
}

#[cfg(test)]
#[path = "tests/artifact.rs"]
mod tests;
