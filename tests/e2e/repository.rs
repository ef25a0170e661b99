//! The config repository of a test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files, such as those in `examples-repo/`, that a test edits and commits.
pub(crate) struct Repository {
    pub(crate) path: PathBuf,
    files: BTreeMap<String, String>,
}

impl Repository {
    pub(crate) fn create(dir: &Path) -> Self {
        let mut repository = Self::empty(dir);
        let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples-repo"));
        read_dir(examples, "", &mut repository.files);
        repository
    }

    pub(crate) fn empty(dir: &Path) -> Self {
        let path = dir.join("fleet.git");
        let mut options = git2::RepositoryInitOptions::new();
        git2::Repository::init_opts(&path, options.bare(true).initial_head("main")).unwrap();
        Self { path, files: BTreeMap::new() }
    }

    pub(crate) fn edit(&mut self, path: &str, from: &str, to: &str) {
        let text = self.files.get_mut(path).unwrap();
        assert!(text.contains(from), "{path} does not say {from}");
        *text = text.replace(from, to);
    }

    pub(crate) fn write(&mut self, path: &str, text: &str) {
        self.files.insert(path.into(), text.into());
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.files.remove(path).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        let repository = git2::Repository::open_bare(&self.path).unwrap();
        let mut index = git2::Index::new().unwrap();
        for (path, text) in &self.files {
            let id = repository.blob(text.as_bytes()).unwrap();
            index.add(&wheelwright::git::entry(path.clone(), id)).unwrap();
        }
        let tree = repository.find_tree(index.write_tree_to(&repository).unwrap()).unwrap();
        let author = git2::Signature::now("Test", "test@example.com").unwrap();
        let parent =
            repository.refname_to_id("refs/heads/main").ok().map(|id| repository.find_commit(id).unwrap());
        let parents: Vec<_> = parent.iter().collect();
        repository
            .commit(Some("refs/heads/main"), &author, &author, message, &tree, &parents)
            .unwrap()
            .to_string()
    }

    /// Returns the only hub's `summary.json` at the tip of the status branch.
    pub(crate) fn summary(&self) -> Option<String> {
        let repository = git2::Repository::open_bare(&self.path).unwrap();
        let tip = repository.refname_to_id("refs/heads/status").ok()?;
        let tree = repository.find_commit(tip).unwrap().tree().unwrap();
        let hubs = repository.find_tree(tree.get_name("hubs").unwrap().id()).unwrap();
        assert_eq!((tree.len(), hubs.len()), (1, 1));
        let hub = repository.find_tree(hubs.get(0).unwrap().id()).unwrap();
        let entry = hub.get_name("summary.json").unwrap();
        Some(String::from_utf8(repository.find_blob(entry.id()).unwrap().content().to_vec()).unwrap())
    }
}

fn read_dir(dir: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            read_dir(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, std::fs::read_to_string(entry.path()).unwrap());
        }
    }
}
