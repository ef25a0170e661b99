//! Finds the signature of an artifact in its registry: in a bundle that refers to the artifact, where cosign 3 stores it
//! (cosign's `BUNDLE_SPEC.md`), or at the tag of cosign 2 (`SIGNATURE_SPEC.md`).

use hyper::body::Bytes;

use super::registry::{Descriptor, ManifestBytes, Registry, parse_manifest, sha256_hex};
use super::signature::{ArtifactSignature, ArtifactSigners, PREDICATE, Signed};
use super::{Error, Refusal};

/// The maximum number of signatures to check at each place, and the maximum size of a bundle or payload.
const MAX_SIGNATURES: usize = 50;
const MAX_BYTES: usize = 64 << 10;

/// The start of the media types of bundles, and the annotation with the predicate of the statement in one.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
const BUNDLE_PREDICATE: &str = "dev.sigstore.bundle.predicateType";
/// The media type of the configuration of a manifest that has none.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The media type of a payload of cosign 2, and the annotation with its signature.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// A possible signature of an artifact.
enum Candidate {
    /// The manifest that refers to the artifact.
    Bundle(Descriptor),
    /// A document of cosign 2, and its signature in base64.
    Payload(Descriptor, String),
}

/// Finds a valid signature by one of the signers. Any number of others may be invalid.
///
/// # Errors
/// Returns [`Error::NotVerified`] with the reason for rejecting the last one, or the registry fails.
pub(super) fn find(
    registry: &Registry<'_>,
    artifact: &ManifestBytes,
    signers: &ArtifactSigners,
) -> Result<ArtifactSignature, Error> {
    let mut refusal = Refusal::Unsigned;
    // The tag is read only if no bundle is valid.
    let places = [bundles, payloads].into_iter();
    for candidate in places.flat_map(|list| limited(artifact, list(registry, &artifact.digest))) {
        match candidate.and_then(|candidate| candidate.verify(registry, artifact, signers)) {
            Ok(signed) => return Ok(signed),
            Err(Error::NotVerified { refusal: reason, .. }) => refusal = reason,
            Err(Error::Content(reason)) => refusal = Refusal::Unusable(reason),
            Err(error @ Error::MissingRef { .. }) => refusal = Refusal::Unusable(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    Err(refused(artifact, refusal))
}

/// Returns the first candidates, and the error after them.
fn limited(
    artifact: &ManifestBytes,
    found: Result<Vec<Candidate>, Error>,
) -> impl Iterator<Item = Result<Candidate, Error>> {
    let (candidates, error) = match found {
        Ok(candidates) => {
            let is_more = candidates.len() > MAX_SIGNATURES;
            (candidates, is_more.then(|| refused(artifact, Refusal::TooMany(MAX_SIGNATURES))))
        }
        Err(error) => (Vec::new(), Some(error)),
    };
    candidates.into_iter().take(MAX_SIGNATURES).map(Ok).chain(error.map(Err))
}

/// Lists the bundles that refer to an artifact.
fn bundles(registry: &Registry<'_>, digest: &str) -> Result<Vec<Candidate>, Error> {
    Ok(registry.referrers(digest, MAX_SIGNATURES, may_sign)?.into_iter().map(Candidate::Bundle).collect())
}

/// Returns false if a referrer cannot be a signature. Bundles of all versions may be one, so that an unsupported version
/// is reported. Attestations are bundles, too, but not every registry lists their predicates.
fn may_sign(referrer: &Descriptor) -> bool {
    let Descriptor { artifact_type, annotations, .. } = referrer;
    // Some registries list the type of the configuration.
    let is_bundle = artifact_type.starts_with(BUNDLE) || ["", EMPTY].contains(&artifact_type.as_str());
    is_bundle && annotations.get(BUNDLE_PREDICATE).is_none_or(|predicate| predicate == PREDICATE)
}

/// Lists the documents of cosign 2 for an artifact.
fn payloads(registry: &Registry<'_>, digest: &str) -> Result<Vec<Candidate>, Error> {
    let manifest = match registry.manifest(&format!("{}.sig", digest.replace(':', "-"))) {
        Err(Error::MissingRef { .. }) => return Ok(Vec::new()),
        manifest => parse_manifest(&manifest?.bytes)?,
    };
    let layers = manifest.layers.into_iter().filter(|layer| layer.media_type == PAYLOAD);
    let signed = layers.filter_map(|layer| {
        let signature = layer.annotations.get(SIGNATURE)?.clone();
        Some(Candidate::Payload(layer, signature))
    });
    Ok(signed.collect())
}

impl Candidate {
    /// Downloads and verifies a signature.
    fn verify(
        self,
        registry: &Registry<'_>,
        artifact: &ManifestBytes,
        signers: &ArtifactSigners,
    ) -> Result<ArtifactSignature, Error> {
        let signed = match self {
            Self::Bundle(referrer) => {
                let bundle = bundle(registry, &referrer.digest)?;
                ArtifactSignature::from_bundle(&bundle, &artifact.bytes)
                    .map_err(|refusal| refused(artifact, refusal))?
            }
            Self::Payload(payload, signature) => {
                let payload = String::from_utf8_lossy(&registry.blob(&payload, MAX_BYTES)?).into_owned();
                ArtifactSignature { signed: Signed::Payload, payload, signature, bundle: None }
            }
        };
        signers.verify(&signed, &artifact.digest).map_err(|refusal| refused(artifact, refusal))?;
        Ok(signed)
    }
}

/// Downloads the bundle of a manifest.
fn bundle(registry: &Registry<'_>, digest: &str) -> Result<Bytes, Error> {
    let refuse = |reason: &str| Error::Content(reason.to_owned());
    sha256_hex(digest).ok_or_else(|| refuse("its manifest has no SHA-256 digest"))?;
    let layers = parse_manifest(&registry.manifest(digest)?.bytes)?.layers;
    let bundle = layers.iter().find(|layer| layer.media_type.starts_with(BUNDLE));
    registry.blob(bundle.ok_or_else(|| refuse("its manifest has no Sigstore bundle"))?, MAX_BYTES)
}

fn refused(artifact: &ManifestBytes, refusal: Refusal) -> Error {
    Error::NotVerified { what: format!("artifact {}", artifact.digest), refusal }
}
