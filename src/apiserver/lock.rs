//! One server a data directory: a second one would begin a journal of its own, and the writes of the first would be lost.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::Path;

use super::start_error::StartError;

/// The lock of a data directory. The operating system releases it when it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks a directory, which is created where it does not exist.
    ///
    /// # Errors
    /// [`StartError::InUse`] where another server holds the lock, [`StartError::Data`] where the directory cannot be used.
    pub(super) fn acquire(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join("lock");
        let refused = |source| StartError::Data { path: path.display().to_string(), source };
        fs::create_dir_all(dir).map_err(refused)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                file.read_to_string(&mut process).map_err(refused)?;
                return Err(StartError::InUse { path: dir.display().to_string(), process });
            }
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        // For the message of a server that is refused.
        file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(refused)?;
        Ok(Self { _file: file })
    }
}
