//! The config repository of the demo: a bare repository made from `examples-repo/`, with a method for each commit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use git2::{Index, Oid, Repository, RepositoryInitOptions, Signature};
use include_dir::{Dir, include_dir};
use ring::rand::{SecureRandom as _, SystemRandom};
use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, PrivateKey, SshSig};

use crate::git::entry;
use object::tree::FileTree;

static EXAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/examples-repo");
const VERSION: &str = "overlays/prod/patches/version.yaml";
const PACE: &str = "overlays/prod/patches/pace.yaml";
const ADDON: &str = "base/addons/managed-serviceaccount";

/// A bare repository, and the files of its latest commit.
pub(super) struct ConfigRepository {
    pub path: PathBuf,
    /// The key that signs reports.
    pub key: PrivateKey,
    files: BTreeMap<String, String>,
}

/// A commit of the status branch.
pub(super) struct StatusCommit {
    pub id: String,
    pub subject: String,
}

impl ConfigRepository {
    /// Creates the repository, without commits.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        // If HEAD names a branch that does not exist, a clone checks out nothing.
        let mut options = RepositoryInitOptions::new();
        options.bare(true).initial_head("main");
        Repository::init_opts(&path, &options)
            .with_context(|| format!("cannot create the repository {}", path.display()))?;
        let mut files = BTreeMap::new();
        collect(&EXAMPLES, &mut files);
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
        let key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
        Ok(Self { path, key, files })
    }

    /// Verifies the signature of a commit on the status branch, and returns git's output.
    pub(super) fn verify(&self, commit: &str) -> Result<String> {
        let repo = Repository::open_bare(&self.path)?;
        let (signature, payload) = repo.extract_signature(&Oid::from_str(commit)?, None)?;
        let signature = SshSig::from_pem(&*signature).context("the signature cannot be read")?;
        self.key.public_key().verify("git", &payload, &signature).context("the signature is wrong")?;
        let fingerprint = self.key.fingerprint(HashAlg::Sha256);
        Ok(format!("Good \"git\" signature with ED25519 key {fingerprint}"))
    }

    /// Commits the examples, with a policy that rolls back failed versions and with times short enough to watch.
    pub(super) fn commit_examples(&mut self, soak: &str, deadline: &str) -> Result<String> {
        self.edit(PACE, "value: 5s", &format!("value: {soak}"))?;
        self.edit(
            &format!("{ADDON}/addon.yaml"),
            "progressDeadline: 10m",
            &format!("progressDeadline: {deadline}"),
        )?;
        self.edit(
            &format!("{ADDON}/kustomization.yaml"),
            "  - addon.yaml\n",
            "  - addon.yaml\n  - rollout-policy.yaml\n",
        )?;
        self.commit("fleet: managed-serviceaccount 0.9.0 on every cluster")
    }

    /// Returns the files of the next version, without committing them.
    pub(super) fn upgrade(&self) -> Result<FileTree> {
        let mut files = self.files.clone();
        edit(&mut files, VERSION, "0.9.0", "0.10.0")?;
        Ok(files.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect())
    }

    pub(super) fn commit_upgrade(&mut self) -> Result<String> {
        self.edit(VERSION, "0.9.0", "0.10.0")?;
        self.commit("managed-serviceaccount: 0.10.0")
    }

    pub(super) fn commit_mistake(&mut self) -> Result<String> {
        let template = self
            .files
            .get(&format!("{ADDON}/template-0.10.0.yaml"))
            .context("examples-repo has no template 0.10.0")?;
        let template = template
            .replace("managed-serviceaccount-0.10.0", "managed-serviceaccount-0.10.1")
            .replace(":v0.10.0", ":v0.10.1-rc9");
        self.files.insert(format!("{ADDON}/template-0.10.1.yaml"), template);
        self.edit(
            &format!("{ADDON}/kustomization.yaml"),
            "  - template-0.10.0.yaml\n",
            "  - template-0.10.0.yaml\n  - template-0.10.1.yaml\n",
        )?;
        self.edit(VERSION, "0.10.0", "0.10.1")?;
        self.commit("managed-serviceaccount: 0.10.1")
    }

    /// Lists the commits of a branch, newest first; empty if the branch does not exist.
    pub(super) fn log(&self, branch: &str) -> Result<Vec<StatusCommit>> {
        let repository = Repository::open_bare(&self.path)?;
        let Ok(tip) = repository.refname_to_id(&format!("refs/heads/{branch}")) else {
            return Ok(Vec::new());
        };
        let mut walk = repository.revwalk()?;
        walk.push(tip)?;
        let mut log = Vec::new();
        for id in walk {
            let commit = repository.find_commit(id?)?;
            let subject = commit.summary().ok().flatten().unwrap_or_default().to_owned();
            log.push(StatusCommit { id: commit.id().to_string(), subject });
        }
        Ok(log)
    }

    /// Reads a file at the tip of a branch; `None` if the file or the branch does not exist.
    pub(super) fn file(&self, branch: &str, path: &str) -> Result<Option<String>> {
        let repository = Repository::open_bare(&self.path)?;
        let Ok(tip) = repository.refname_to_id(&format!("refs/heads/{branch}")) else { return Ok(None) };
        let tree = repository.find_commit(tip)?.tree()?;
        let Ok(entry) = tree.get_path(Path::new(path)) else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(repository.find_blob(entry.id())?.content()).into_owned()))
    }

    fn edit(&mut self, path: &str, from: &str, to: &str) -> Result<()> {
        edit(&mut self.files, path, from, to)
    }

    fn commit(&self, message: &str) -> Result<String> {
        let repository = Repository::open_bare(&self.path)?;
        let mut index = Index::new()?;
        for (path, text) in &self.files {
            let id = repository.blob(text.as_bytes())?;
            index.add(&entry(path.clone(), id))?;
        }
        let tree = repository.find_tree(index.write_tree_to(&repository)?)?;
        let author = Signature::now("Platform team", "platform@example.com")?;
        let parent =
            repository.refname_to_id("refs/heads/main").ok().and_then(|id| repository.find_commit(id).ok());
        let parents: Vec<_> = parent.iter().collect();
        Ok(repository
            .commit(Some("refs/heads/main"), &author, &author, message, &tree, &parents)?
            .to_string())
    }
}

fn edit(files: &mut BTreeMap<String, String>, path: &str, from: &str, to: &str) -> Result<()> {
    let text = files.get_mut(path).with_context(|| format!("examples-repo has no {path}"))?;
    let edited = text.replace(from, to);
    anyhow::ensure!(edited != *text, "examples-repo/{path} does not say {from:?}");
    *text = edited;
    Ok(())
}

fn collect(dir: &Dir<'_>, files: &mut BTreeMap<String, String>) {
    for file in dir.files() {
        files.insert(
            file.path().to_string_lossy().into_owned(),
            file.contents_utf8().unwrap_or_default().to_owned(),
        );
    }
    dir.dirs().for_each(|dir| collect(dir, files));
}
