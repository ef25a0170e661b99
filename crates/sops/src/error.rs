/// The reason that a file cannot be decrypted. Its message contains no plaintext.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not what `sops` writes.
    #[error("not a valid SOPS file: {0}")]
    Malformed(String),
    /// The file needs a feature that we do not have.
    #[error(
        "the SOPS file uses {0}, which is not supported; add an age or OpenPGP recipient with: sops updatekeys"
    )]
    Unsupported(String),
    /// No key opens the file.
    #[error("no key opens the SOPS file; it is encrypted for {}", .0.join(", "))]
    NoKey(Vec<String>),
    /// A value was changed, or moved to another key.
    #[error("the value of {0:?} is not the one that sops encrypted; restore it, or encrypt the file again")]
    Value(String),
    /// A value has another form than `sops` gives it.
    #[error("the value of {key:?} {reason}")]
    Form {
        /// The path of the value.
        key: String,
        /// The mistake.
        reason: &'static str,
    },
    /// The values are not the ones that `sops` encrypted together.
    #[error(
        "the MAC of the SOPS file does not match: after sops encrypted it, a value was added, removed, changed or moved"
    )]
    Mac,
}
