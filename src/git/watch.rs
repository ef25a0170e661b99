//! Watches local repositories, so that changes are fetched before the next poll.

use std::path::{Path, PathBuf};

use git2::Repository;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{Remote, process};

/// Watches the references of a repository until it is dropped.
#[derive(Debug)]
pub struct RefWatcher {
    _watcher: RecommendedWatcher,
}

/// Calls `changed` after each change of a reference in a local repository. Returns `None` if the remote is not
/// local or cannot be watched. It is then polled.
pub fn watch(remote: &Remote, changed: impl Fn() + Send + 'static) -> Option<RefWatcher> {
    process::set_up();
    let root = Repository::open(remote.local()?).ok()?.path().to_path_buf();
    let within = root.clone();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
        Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
        Ok(event) if !event.paths.iter().any(|path| is_reference(&within, path)) => {}
        // An error may mean lost events, so it counts as a change.
        Ok(_) | Err(_) => changed(),
    })
    .ok()?;
    let watched = |watcher: &mut RecommendedWatcher, path: PathBuf, mode| watcher.watch(&path, mode).ok();
    watched(&mut watcher, root.clone(), RecursiveMode::NonRecursive)?;
    watched(&mut watcher, root.join("refs"), RecursiveMode::Recursive)?;
    Some(RefWatcher { _watcher: watcher })
}

fn is_reference(root: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(root) else { return false };
    let lock = inside.extension().is_some_and(|extension| extension == "lock");
    !lock && (inside.starts_with("refs") || inside == Path::new("packed-refs") || inside == Path::new("HEAD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_reference_of_a_local_repository_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path()).unwrap();
        let (send, receive) = std::sync::mpsc::channel();
        let remote = Remote::parse(dir.path().to_str().unwrap()).unwrap();
        let watching = watch(&remote, move || {
            let _ = send.send(());
        });
        let blob = repo.blob(b"x").unwrap();
        repo.reference("refs/tags/x", blob, true, "").unwrap();
        assert!(watching.is_some());
        receive.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn objects_and_locks_are_not_references() {
        let root = Path::new("/r");
        for (path, expected) in [
            ("/r/refs/heads/x", true),
            ("/r/packed-refs", true),
            ("/r/refs/heads/x.lock", false),
            ("/r/objects/ab", false),
            ("/x", false),
        ] {
            assert_eq!(is_reference(root, Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_remote_on_another_machine_is_not_watched() {
        assert!(watch(&Remote::parse("https://git.example/x").unwrap(), || {}).is_none());
        assert!(watch(&Remote::parse("/nonexistent").unwrap(), || {}).is_none());
    }
}
