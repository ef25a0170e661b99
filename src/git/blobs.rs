//! Downloads on disk, by their digest.
//!
//! Namespaces do not share them, because a digest does not prove that its owner may read the content.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::registry::{digest_of, sha256_hex};

/// The maximum size of the files of all namespaces in a directory.
const MAX_BYTES: u64 = 1 << 30;

/// The files of a namespace in a directory.
#[derive(Clone, Debug)]
pub struct Blobs {
    dir: PathBuf,
    namespace: String,
}

impl Blobs {
    /// Returns the files of a namespace. Nothing is created.
    pub fn new(dir: PathBuf, namespace: &str) -> Self {
        Self { dir, namespace: namespace.to_owned() }
    }

    /// Reads content; `None` if it is absent, or if the file was damaged.
    pub(crate) fn read(&self, digest: &str) -> Option<Vec<u8>> {
        let content = std::fs::read(self.path(digest, "")?).ok()?;
        (digest_of(&content) == digest).then_some(content)
    }

    /// Writes content, and deletes the oldest files of all namespaces above the limit.
    pub(crate) fn write(&self, content: &[u8]) -> std::io::Result<()> {
        self.write_file(&digest_of(content), "", content)
    }

    /// Reads what was noted about content with a digest.
    pub(super) fn read_note(&self, digest: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(digest, NOTE)?).ok()
    }

    /// Notes something about content with a digest.
    pub(super) fn write_note(&self, digest: &str, note: &[u8]) -> std::io::Result<()> {
        self.write_file(digest, NOTE, note)
    }

    fn write_file(&self, digest: &str, suffix: &str, content: &[u8]) -> std::io::Result<()> {
        let Some(path) = self.path(digest, suffix) else { return Ok(()) };
        std::fs::create_dir_all(self.dir.join(&self.namespace))?;
        std::fs::write(&path, content)?;
        evict(&self.dir, MAX_BYTES)
    }

    /// Returns the path of a file; `None` if the digest is not one.
    fn path(&self, digest: &str, suffix: &str) -> Option<PathBuf> {
        Some(self.dir.join(&self.namespace).join(format!("{}{suffix}", sha256_hex(digest)?)))
    }
}

/// The end of the name of a note.
const NOTE: &str = ".note";

/// Deletes the oldest files of all namespaces until the rest is within the limit.
fn evict(dir: &Path, limit: u64) -> std::io::Result<()> {
    let mut files = Vec::new();
    for namespace in std::fs::read_dir(dir)? {
        for file in std::fs::read_dir(namespace?.path())? {
            let file = file?;
            let metadata = file.metadata()?;
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((modified, file.path(), metadata.len()));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(.., bytes)| bytes).sum();
    for (_, path, bytes) in files {
        if total <= limit {
            break;
        }
        std::fs::remove_file(path)?;
        total -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_of_all_namespaces_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for (age, path) in [(3, "a/old"), (1, "b/new"), (2, "b/middle")] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [0; 10]).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 - age);
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        let left = |limit| {
            evict(dir.path(), limit).unwrap();
            ["a/old", "b/middle", "b/new"].map(|path| dir.path().join(path).exists())
        };
        assert_eq!(left(30), [true; 3]);
        assert_eq!(left(29), [false, true, true]);
        assert_eq!(left(15), [false, false, true]);
    }
}
