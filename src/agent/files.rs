//! The identity in files, which are named like OCM's: after the keys of its secret.

use std::io;
use std::path::Path;

use super::credentials::Credentials;
use super::error::JoinError;

/// Returns the identity in a directory; `None` if no identity can be read.
pub(super) fn load(directory: &Path) -> Option<Credentials> {
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    Credentials::read(text("tls.crt")?, text("tls.key")?, text("kubeconfig")?).ok()
}

/// Returns the cluster of the identity in a directory.
pub(super) fn cluster(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join("cluster-name")).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Writes an identity. Each file is replaced atomically, and the kubeconfig comes last, because another agent
/// waits for it.
///
/// # Errors
/// Fails if the directory cannot be written.
pub(super) fn store(directory: &Path, credentials: &Credentials, kubeconfig: &str) -> Result<(), JoinError> {
    let files = [
        ("cluster-name", credentials.cluster()),
        ("agent-name", &credentials.agent),
        ("tls.key", &credentials.key),
        ("tls.crt", &credentials.certificate),
        ("kubeconfig", kubeconfig),
    ];
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| files.iter().try_for_each(|(name, text)| replace(directory, name, text)));
    written.map_err(|source| JoinError::Files { directory: directory.to_owned(), source })
}

fn replace(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(directory.join(name))?;
    Ok(())
}
