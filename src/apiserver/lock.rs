//! Locks a data directory for one server and protects it from other users. A second server would start its own
//! journal, and the first server's writes would be lost. The journal and the keys contain every Secret in clear
//! text.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The mode bits that grant permissions to users other than the owner.
const OTHERS: u32 = 0o077;

/// A data directory that cannot be locked for one server.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The data directory is not usable.
    #[error("cannot use {path}")]
    Data {
        /// The directory, or a file in it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Another server uses the data directory.
    #[error("another server uses {path}: process {process}")]
    InUse {
        path: String,
        /// The id of its process.
        process: String,
    },
    /// Users other than the owner may read the data.
    #[error("{path} is open to other users: its mode is {mode:o}")]
    Exposed {
        /// The directory, or a file in it.
        path: String,
        mode: u32,
    },
}

/// The lock of a data directory. The operating system releases it when it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks a directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`LockError::InUse`] if another server has the lock, [`LockError::Exposed`] if other users may read the
    /// directory or a file in it, [`LockError::Data`] if the directory is not usable.
    pub(super) fn acquire(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let refused = |source| LockError::Data { path: path.display().to_string(), source };
        create_private(dir).map_err(refused)?;
        check_private(dir)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = private(&mut options).open(&path).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                file.read_to_string(&mut process).map_err(refused)?;
                return Err(LockError::InUse { path: dir.display().to_string(), process });
            }
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        // Other servers name this process in their error.
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(refused)?;
        Ok(Self { _file: file })
    }
}

/// Returns the options, with permissions for the owner only.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Rejects a directory that other users may list, or that has a file that other users may read. Follows links.
fn check_private(dir: &Path) -> Result<(), LockError> {
    let refused = |source| LockError::Data { path: dir.display().to_string(), source };
    let inside = fs::read_dir(dir).map_err(refused)?.map(|entry| entry.map(|entry| entry.path()));
    for path in std::iter::once(Ok(dir.to_owned())).chain(inside) {
        let path = path.map_err(refused)?;
        let mode = fs::metadata(&path).map_err(refused)?.permissions().mode() & 0o777;
        if mode & OTHERS != 0 {
            return Err(LockError::Exposed { path: path.display().to_string(), mode });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        set_mode(dir.path(), 0o755);
        let error = DirectoryLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("is open to other users: its mode is 755"), "{error}");
        set_mode(dir.path(), 0o700);
        let file = dir.path().join("store.journal");
        fs::write(&file, "").unwrap();
        set_mode(&file, 0o640);
        let error = DirectoryLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.contains("store.journal") && error.ends_with("mode is 640"), "{error}");
        set_mode(&file, 0o600);
        DirectoryLock::acquire(dir.path()).unwrap();

        let link = dir.path().with_extension("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        set_mode(dir.path(), 0o777);
        let error = DirectoryLock::acquire(&link).unwrap_err().to_string();
        fs::remove_file(&link).unwrap();
        assert!(error.ends_with("is open to other users: its mode is 777"), "{error}");
    }
}
