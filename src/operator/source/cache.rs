//! Limits the disk space of all mirrors.
//!
//! Each mirror has its own limit, but anybody who may create ConfigRepos may use any number of repositories. If
//! the mirrors exceed the total limit, the least recently used mirror is deleted. The next fetch of its
//! repository starts from scratch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tracing::{info, warn};

use crate::git::{Mirror, object_bytes};

/// The maximum size of all mirrors: half of the chart's volume. The other half is for packs in flight
/// ([`Arrivals`](crate::git::Arrivals)).
const MAX_CACHE_BYTES: u64 = 10 << 30;

/// A mirror that one operation uses at a time; `None` until it is opened, and after it was deleted.
pub(super) type SharedMirror = Arc<tokio::sync::Mutex<Option<Mirror>>>;

/// The mirrors in a directory.
pub(super) struct Cache {
    dir: PathBuf,
    limit: u64,
    /// `None` before the first use.
    mirrors: Mutex<Option<CachedMirrors>>,
}

/// Mirrors by directory.
type CachedMirrors = BTreeMap<PathBuf, CachedMirror>;

#[derive(Default)]
struct CachedMirror {
    /// The size after the last operation, in bytes.
    bytes: u64,
    /// Increases with each operation on any mirror; 0 if this process has not used the mirror.
    used: u64,
    /// Locked during an operation; `None` if this process has not used the mirror.
    shared: Option<SharedMirror>,
}

impl Cache {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), limit: MAX_CACHE_BYTES, mirrors: Mutex::default() }
    }

    /// Records the start of an operation on a mirror, which the caller has locked.
    pub(super) fn begin(&self, dir: &Path, shared: &SharedMirror) {
        self.with(|mirrors| {
            let used = mirrors.values().map(|mirror| mirror.used).max().unwrap_or_default() + 1;
            let mirror = mirrors.entry(dir.to_owned()).or_default();
            (mirror.used, mirror.shared) = (used, Some(SharedMirror::clone(shared)));
        });
    }

    /// Records the size of a mirror after an operation, and deletes other mirrors if the total exceeds the
    /// limit.
    pub(super) fn end(&self, dir: &Path) {
        let bytes = object_bytes(dir);
        self.with(|mirrors| {
            mirrors.entry(dir.to_owned()).or_default().bytes = bytes;
            self.evict(mirrors);
        });
    }

    fn evict(&self, mirrors: &mut CachedMirrors) {
        let mut total: u64 = mirrors.values().map(|mirror| mirror.bytes).sum();
        if total <= self.limit {
            return;
        }
        let mut oldest: Vec<_> = mirrors.iter().map(|(dir, mirror)| (mirror.used, dir.clone())).collect();
        oldest.sort();
        for (_, dir) in oldest {
            let Some(mirror) = mirrors.get(&dir).filter(|_| total > self.limit) else { return };
            let shared = mirror.shared.clone();
            // An operation has locked it.
            let Ok(mut locked) = shared.as_ref().map(|shared| shared.try_lock()).transpose() else {
                continue;
            };
            locked.iter_mut().for_each(|locked| **locked = None);
            if let Err(error) = std::fs::remove_dir_all(&dir)
                && dir.exists()
            {
                warn!(path = %dir.display(), %error, "cannot delete a mirror");
                continue;
            }
            let bytes = mirror.bytes;
            info!(path = %dir.display(), bytes, "the mirrors use too much disk space; deleting one");
            total -= bytes;
            mirrors.remove(&dir);
        }
    }

    fn with(&self, act: impl FnOnce(&mut CachedMirrors)) {
        let mut mirrors = self.mirrors.lock().expect("no thread panics while it holds the map");
        act(mirrors.get_or_insert_with(|| {
            let mut found = BTreeMap::new();
            find(&self.dir.join("read"), &mut found);
            find(&self.dir.join("write"), &mut found);
            found
        }));
    }
}

/// Adds the mirrors in a directory, recursively.
fn find(dir: &Path, found: &mut CachedMirrors) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "git") {
            let mirror = CachedMirror { bytes: object_bytes(&path), ..CachedMirror::default() };
            found.insert(path, mirror);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find(&path, found);
        }
    }
}

#[cfg(test)]
#[path = "tests/cache.rs"]
mod tests;
