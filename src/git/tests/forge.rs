//! Repositories and servers for tests: bare repositories in temporary directories, and git's own daemon on a
//! loopback socket.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use git2::{Oid, Repository, Signature};
use tempfile::TempDir;

use crate::git::{Credentials, Mirror, Remote, entry, process};

/// A bare repository, and a directory for caches of mirrors.
pub(crate) struct Forge {
    dir: TempDir,
}

impl Forge {
    pub(crate) fn new() -> Self {
        process::set_up();
        let forge = Self { dir: tempfile::tempdir().unwrap() };
        Repository::init_bare(forge.path()).unwrap();
        forge
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("config.git")
    }

    /// Returns the parent directory of the repository and the caches.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) fn repo(&self) -> Repository {
        Repository::open_bare(self.path()).unwrap()
    }

    pub(super) fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Returns a mirror with its own cache, like another process.
    pub(super) fn mirror(&self, cache: &str, url: &str) -> Mirror {
        let cache = self.dir.path().join(cache);
        std::fs::create_dir_all(&cache).unwrap();
        Mirror::open(&cache, Remote::parse(url).unwrap(), Credentials::default()).unwrap()
    }

    pub(super) fn local(&self) -> Mirror {
        self.mirror("cache", &self.url())
    }

    /// Commits files on top of a branch.
    pub(crate) fn commit(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let parent = self.tip(branch);
        self.commit_on(parent, branch, files)
    }

    /// Commits files on top of any commit, and moves the branch there.
    pub(super) fn commit_on(&self, parent: Option<Oid>, branch: &str, files: &[(&str, &str)]) -> String {
        let repo = self.repo();
        let parent = parent.map(|id| repo.find_commit(id).unwrap());
        let mut index = git2::Index::new().unwrap();
        if let Some(parent) = &parent {
            index.read_tree(&parent.tree().unwrap()).unwrap();
        }
        for (path, content) in files {
            index.add(&entry((*path).to_owned(), repo.blob(content.as_bytes()).unwrap())).unwrap();
        }
        let tree = repo.find_tree(index.write_tree_to(&repo).unwrap()).unwrap();
        let me = Signature::new("A User", "user@example.org", &git2::Time::new(1_700_000_000, 0)).unwrap();
        let commit =
            repo.commit(None, &me, &me, "change", &tree, &parent.iter().collect::<Vec<_>>()).unwrap();
        repo.reference(&format!("refs/heads/{branch}"), commit, true, "").unwrap();
        commit.to_string()
    }

    pub(super) fn forget(&self, branch: &str) {
        if let Ok(mut found) = self.repo().find_reference(&format!("refs/heads/{branch}")) {
            found.delete().unwrap();
        }
    }

    pub(crate) fn tip(&self, branch: &str) -> Option<Oid> {
        self.repo().refname_to_id(&format!("refs/heads/{branch}")).ok()
    }

    pub(super) fn file(&self, branch: &str, path: &str) -> Option<String> {
        let repo = self.repo();
        let tree = repo.find_commit(self.tip(branch)?).ok()?.tree().ok()?;
        let blob = tree.get_path(Path::new(path)).ok()?.to_object(&repo).ok()?.peel_to_blob().ok()?;
        Some(String::from_utf8(blob.content().to_vec()).unwrap())
    }

    /// Returns the commits of a branch, newest first. Panics on a merge commit.
    pub(super) fn history(&self, branch: &str) -> Vec<String> {
        let repo = self.repo();
        let mut next = self.tip(branch).map(|id| repo.find_commit(id).unwrap());
        let mut ids = Vec::new();
        while let Some(commit) = next {
            assert!(commit.parent_count() <= 1);
            ids.push(commit.id().to_string());
            next = commit.parent(0).ok();
        }
        ids
    }

    pub(super) fn hook(&self, name: &str, script: &str) {
        let path = self.path().join("hooks").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Serves the repository over the git protocol.
    pub(crate) fn serve(&self) -> Server {
        let base = self.dir.path().to_owned();
        Server::start("git", "config.git", move |stream| {
            let output = stream.try_clone().unwrap();
            let daemon = Command::new("git")
                .args(["daemon", "--inetd", "--export-all", "--enable=receive-pack"])
                .arg(format!("--base-path={}", base.display()))
                .arg(&base)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_COUNT", "1")
                .env("GIT_CONFIG_KEY_0", "safe.directory")
                .env("GIT_CONFIG_VALUE_0", "*")
                .stdin(Stdio::from(OwnedFd::from(stream)))
                .stdout(Stdio::from(OwnedFd::from(output)))
                .stderr(Stdio::null())
                .spawn();
            daemon.unwrap().wait().unwrap();
        })
    }
}

/// Commits a tree without parents to the main branch.
pub(super) fn commit_tree(repo: &Repository, tree: Oid) {
    let me = git2::Signature::new("u", "u@x", &git2::Time::new(0, 0)).unwrap();
    let commit = repo.commit(None, &me, &me, "m", &repo.find_tree(tree).unwrap(), &[]).unwrap();
    repo.reference("refs/heads/main", commit, true, "").unwrap();
}

/// Writes a tree object byte by byte, without git's checks.
pub(super) fn raw_tree(repo: &Repository, entries: &[(&str, &[u8], Oid)]) -> Oid {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(mode.as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(id.as_bytes());
    }
    repo.odb().unwrap().write(git2::ObjectType::Tree, &bytes).unwrap()
}

/// A server on a loopback socket.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(super) address: std::net::SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(
        scheme: &str,
        path: &str,
        handle: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, ending) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, end, handle) = (Arc::clone(&connections), Arc::clone(&ending), Arc::new(handle));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                counted.fetch_add(1, Ordering::Relaxed);
                let handle = Arc::clone(&handle);
                std::thread::spawn(move || handle(stream));
            }
        });
        Self {
            url: format!("{scheme}://{address}/{path}"),
            address,
            connections,
            ending,
            thread: Some(thread),
        }
    }

    /// Sends `first`, then `bytes` repeatedly with a pause after each.
    pub(super) fn endless(first: &'static [u8], bytes: &'static [u8], pause: Duration) -> Self {
        Self::start("git", "config.git", move |mut stream| {
            let _ = stream.read(&mut [0; 1024]);
            let mut next = first;
            while stream.write_all(next).is_ok() {
                std::thread::sleep(pause);
                next = bytes;
            }
        })
    }

    /// Sends the length of a protocol line, and then the line one byte at a time.
    pub(crate) fn trickling() -> Self {
        Self::endless(b"fff0", b"x", Duration::from_millis(50))
    }

    /// Accepts connections, but never sends a byte.
    pub(super) fn silent() -> Self {
        Self::start(
            "git",
            "config.git",
            |mut stream| while stream.read(&mut [0; 1024]).is_ok_and(|n| n > 0) {},
        )
    }

    /// Answers every HTTP request with 401.
    pub(super) fn unauthorized() -> Self {
        Self::start("http", "config.git", |mut stream| {
            let mut request = [0; 4096];
            while stream.read(&mut request).is_ok_and(|n| n > 0) {
                let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
