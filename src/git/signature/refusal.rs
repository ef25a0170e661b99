use jiff::Timestamp;

/// The reason for rejecting a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no signature.
    #[error("it has no signature")]
    Unsigned,
    /// There are more signatures than are checked.
    #[error(
        "none of the first {0} signatures is by a signer of spec.verify; delete those that are not needed"
    )]
    TooMany(usize),
    /// There are several signatures, and another program could check a different one.
    #[error("it has more than one signature")]
    Several,
    /// The signature is malformed or of an unsupported kind.
    #[error("its signature cannot be used: {0}")]
    Unusable(String),
    /// The signature is not from a trusted key.
    #[error("its signature is by {0}, which is not in the Secret of spec.verify.secretRef")]
    UnknownKey(String),
    /// The signature of an artifact has a certificate instead of a key, and there is no trust root.
    #[error(
        "it is signed with a certificate, as in keyless signing, and the Secret of spec.verify.secretRef has no trusted_root.json; add it, or sign with a key: cosign sign --key"
    )]
    Keyless,
    /// The certificate of a signature is not from an authority of the trust root, or was not valid at a proven time.
    #[error("trusted_root.json in the Secret of spec.verify.secretRef does not prove its certificate: {0}")]
    Unproven(String),
    /// The certificate of a signature names another signer.
    #[error(
        "it is signed by {subject:?} with a certificate for {issuer:?}, which is not in spec.verify.identities"
    )]
    OtherIdentity { issuer: String, subject: String },
    /// The signature does not match the signed bytes.
    #[error("its signature claims to be by {0}, but does not match its content")]
    Invalid(String),
    /// The signature was made for another purpose than git.
    #[error("its signature by {signer} is for {namespace:?}, not for \"git\"")]
    WrongNamespace {
        signer: String,
        /// The namespace of the SSH signature.
        namespace: String,
    },
    /// The key is revoked.
    #[error("it is signed by {0}, which is revoked")]
    Revoked(String),
    /// The key or the signature has expired.
    #[error("it is signed by {signer}, which expired at {at}")]
    Expired {
        signer: String,
        /// The end of its validity.
        at: Timestamp,
    },
    /// The key or the signature is not yet valid.
    #[error("it is signed by {signer}, which is not valid before {at}")]
    NotYetValid {
        signer: String,
        /// The start of its validity.
        at: Timestamp,
    },
    /// The key may not sign.
    #[error("it is signed by {signer}, which {reason}")]
    NotForSigning { signer: String, reason: String },
    /// The signed name of the tag is another one.
    #[error("its signed name is {0:?}")]
    OtherName(String),
}

impl Refusal {
    /// Returns the CamelCase reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unsigned => "SignatureMissing",
            Self::UnknownKey(_) | Self::TooMany(_) => "SignatureUntrusted",
            Self::Keyless | Self::Unproven(_) | Self::OtherIdentity { .. } => "SignatureUntrusted",
            Self::Several | Self::Unusable(_) | Self::Invalid(_) | Self::WrongNamespace { .. } => {
                "SignatureInvalid"
            }
            Self::OtherName(_) => "SignatureInvalid",
            Self::Revoked(_) => "SigningKeyRevoked",
            Self::Expired { .. } => "SigningKeyExpired",
            Self::NotYetValid { .. } | Self::NotForSigning { .. } => "SigningKeyRefused",
        }
    }
}
