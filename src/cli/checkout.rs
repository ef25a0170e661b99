//! Reads revisions of repositories as trees.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use k8s_openapi::ByteString;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::CommandError;
use crate::git::{
    self, Arrivals, ArtifactRef, ArtifactRepository, Blobs, Credentials, Downloads, Egress, Error, History,
    Mirror, PathChange, RefSpec, Remote, Verification,
};
use crate::shell::now;
use object::tree::Checkout;

/// The commit that is checked out in a repository.
pub(crate) const HEAD: &str = "HEAD";
/// The environment variable that holds a token for HTTPS.
const TOKEN: &str = "WHEELWRIGHT_GIT_TOKEN";
/// The hint about the syntax of a revision.
const REVISION: &str = "a revision is a branch, a tag, a commit id of 40 digits, or HEAD; in a directory, also what git rev-parse takes and the \
                        branch of a remote, once it is fetched; in a registry, a tag or a digest";
/// The hint about the sources of credentials.
const CREDENTIALS: &str = "name a directory with the keys of a credentials Secret as files with --git-secret DIR, or set \
                           WHEELWRIGHT_GIT_TOKEN to a token for https; check that the repository exists";
/// The hint about the source of logins for charts.
const CHART_LOGINS: &str = "name a directory with --git-secret DIR, and put the logins into its file .dockerconfigjson, such as a copy of \
                            ~/.config/helm/registry/config.json after helm registry login";

/// Returns the URL of `repo`, which is a URL or a local directory. The default is the repository that contains the
/// working directory.
///
/// # Errors
/// Fails if the directory does not exist or is not a repository, or the working directory is not in a repository.
pub(crate) fn repository(repo: Option<&str>) -> Result<String, CommandError> {
    match repo {
        Some(repo) if Path::new(repo).is_dir() => {
            let path = absolute(Path::new(repo))?;
            if !git::is_repository(Path::new(&path)) {
                let hint = "name the top directory of a repository; git init makes one";
                return Err(CommandError::hinted(anyhow!("{path} is not a git repository"), hint));
            }
            Ok(path)
        }
        // A URL, or the SSH form host:path.
        Some(repo) if repo.contains(':') => Ok(repo.to_owned()),
        Some(repo) => Err(CommandError::hinted(
            anyhow!("directory {repo} does not exist"),
            "name the directory of a repository, or a URL such as https://git.example.com/platform/fleet.git",
        )),
        None => {
            let here = std::env::current_dir().context("cannot find the working directory")?;
            let around = here.ancestors().find(|parent| parent.join(".git").exists());
            let around = around.ok_or_else(|| {
                CommandError::hinted(
                    anyhow!("the working directory is not in a git repository"),
                    "name one with --repo",
                )
            })?;
            absolute(around)
        }
    }
}

fn absolute(path: &Path) -> Result<String, CommandError> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The repository of a command, and the credentials for its URL.
#[derive(Debug, clap::Args)]
pub(crate) struct RepositoryArgs {
    /// Directory or URL of the repository. Default: the repository that contains the working directory.
    #[arg(long, value_name = "DIR|URL")]
    pub(crate) repo: Option<String>,
    /// Directory with the credentials for URLs, with one file for each key of a credentials Secret. Its file
    /// `.dockerconfigjson` has the logins for remote charts. Without the directory, the variable
    /// `WHEELWRIGHT_GIT_TOKEN` can contain a token for HTTPS.
    #[arg(long, value_name = "DIR")]
    git_secret: Option<PathBuf>,
}

impl RepositoryArgs {
    /// Opens the repository.
    ///
    /// # Errors
    /// Fails if the repository does not exist, or the credentials are invalid.
    pub(crate) fn open(&self) -> Result<Revisions, CommandError> {
        self.open_other(self.repo.as_deref())
    }

    /// Returns the credentials.
    ///
    /// # Errors
    /// Fails if the credentials are invalid.
    pub(crate) fn credentials(&self) -> Result<Credentials, CommandError> {
        credentials(self.git_secret.as_deref(), std::env::var(TOKEN).ok())
    }

    /// Opens another repository with the same credentials.
    ///
    /// # Errors
    /// Fails if the repository does not exist, or the credentials are invalid.
    pub(crate) fn open_other(&self, repo: Option<&str>) -> Result<Revisions, CommandError> {
        Revisions::open(&repository(repo)?, self.credentials()?)
    }
}

/// Returns the credentials from the files in `dir`, or else from `token`.
fn credentials(dir: Option<&Path>, token: Option<String>) -> Result<Credentials, CommandError> {
    let token = token.filter(|token| !token.is_empty());
    let data = match (dir, token) {
        (Some(dir), _) => {
            files(dir).with_context(|| format!("cannot read the credentials in {}", dir.display()))?
        }
        (None, Some(token)) => BTreeMap::from([("token".to_owned(), ByteString(token.into_bytes()))]),
        (None, None) => return Ok(Credentials::default()),
    };
    Ok(Credentials::from_secret(&data).map_err(hinted)?.at(now()))
}

/// Reads the files of a directory. The files of a Secret volume are symlinks into a subdirectory, which is
/// skipped.
fn files(dir: &Path) -> std::io::Result<BTreeMap<String, ByteString>> {
    let mut data = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().is_file() {
            let name = entry.file_name().to_string_lossy().into_owned();
            data.insert(name, ByteString(std::fs::read(entry.path())?));
        }
    }
    Ok(data)
}

/// A repository to read revisions from.
#[derive(Debug)]
pub(crate) struct Revisions {
    /// The URL, or the directory.
    url: String,
    /// The directory of the repository, or of what was fetched from it, which lasts as long as the command.
    directory: PathBuf,
    fetched: Option<(TempDir, Fetched)>,
}

/// What was fetched from a URL.
#[derive(Debug)]
enum Fetched {
    Mirror(RefCell<Mirror>),
    Artifacts(ArtifactRepository),
}

impl Revisions {
    fn open(url: &str, credentials: Credentials) -> Result<Self, CommandError> {
        let temporary = || tempfile::tempdir().context("cannot create a temporary directory");
        if git::is_artifact(url) {
            let cache = temporary()?;
            let directory = cache.path().to_owned();
            let (egress, cancel) = (Egress::Anywhere, CancellationToken::new());
            let downloads =
                Downloads { credentials, egress, cancel, arrivals: Arc::new(Arrivals::default()) };
            let blobs = Blobs::new(directory.clone(), "artifacts");
            let artifacts = ArtifactRepository::open(url, downloads, blobs, None)?;
            return Ok(Self {
                url: url.to_owned(),
                directory,
                fetched: Some((cache, Fetched::Artifacts(artifacts))),
            });
        }
        let remote = Remote::parse(url)?;
        if let Some(directory) = remote.local() {
            return Ok(Self { url: url.to_owned(), directory: directory.to_owned(), fetched: None });
        }
        let cache = temporary()?;
        let directory = Mirror::directory(cache.path(), &remote);
        let mut mirror = Mirror::open(cache.path(), remote, credentials).map_err(hinted)?;
        mirror.keeps_whole_history = true;
        let fetched = Some((cache, Fetched::Mirror(RefCell::new(mirror))));
        Ok(Self { url: url.to_owned(), directory, fetched })
    }

    /// Returns the URLs of the repository: its own URL, and the remotes of a local directory.
    pub(crate) fn urls(&self) -> Vec<String> {
        let remotes = if self.fetched.is_none() { git::remote_urls(&self.directory) } else { Vec::new() };
        std::iter::once(self.url.clone()).chain(remotes).collect()
    }

    /// Reads a revision.
    ///
    /// # Errors
    /// Fails if the repository cannot be read, the revision does not exist, or its name is not a valid reference
    /// name.
    pub(crate) fn checkout(&self, revision: &str) -> Result<Arc<Checkout>, CommandError> {
        let mut mirror = match &self.fetched {
            None => return git::checkout(&self.directory, revision).map_err(hinted),
            Some((_, Fetched::Artifacts(_))) if revision == HEAD => {
                let hint =
                    "name the tag or the digest of an artifact: `render --revision TAG`, `plan --head TAG`";
                return Err(CommandError::hinted(anyhow!("{} has no HEAD", self.url), hint));
            }
            Some((_, Fetched::Artifacts(artifacts))) => {
                let fetched = ArtifactRef::parse(revision)
                    .and_then(|want| artifacts.fetch(&want, History::default(), None));
                return fetched.map_err(hinted);
            }
            Some((_, Fetched::Mirror(mirror))) => mirror.borrow_mut(),
        };
        let named = || {
            [RefSpec::commit(revision), RefSpec::branch(revision), RefSpec::tag(revision)]
                .into_iter()
                .flatten()
                .collect()
        };
        let candidates: Vec<RefSpec> = if revision == HEAD { vec![RefSpec::Head] } else { named() };
        let mut failure = None;
        for want in candidates {
            match mirror.fetch(&want, History::default()) {
                Err(error @ Error::MissingRef { .. }) => failure = failure.or(Some(error)),
                done => return done.map_err(hinted),
            }
        }
        Err(match failure {
            Some(error) => hinted(error),
            None => CommandError::hinted(anyhow!("{revision:?} is not a revision"), REVISION),
        })
    }

    /// Returns the reason why the signatures of a commit are not accepted; `None` if they are.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub(crate) fn refused_signature(
        &self,
        revision: &str,
        checkout: &Checkout,
        how: &Verification,
    ) -> Result<Option<String>, CommandError> {
        match git::verify_commit(&self.directory, revision, checkout, how) {
            Ok(()) => Ok(None),
            Err(error @ Error::NotVerified { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(hinted(error)),
        }
    }

    /// Returns the commits that changed a file or a directory, newest first, from `commit` back, up to `max`. There is at
    /// least one; see [`git::changes`].
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub(crate) fn changes(
        &self,
        commit: &str,
        of: &str,
        max: usize,
    ) -> Result<Vec<PathChange>, CommandError> {
        git::changes(&self.directory, commit, of, max).map_err(hinted)
    }

    /// Returns the content of a file in a commit; `None` if the commit has no such file.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub(crate) fn file(&self, commit: &str, file: &str) -> Result<Option<Vec<u8>>, CommandError> {
        git::file(&self.directory, commit, file).map_err(hinted)
    }

    /// Returns the reason why a commit rewinds a reference; `None` if it does not.
    ///
    /// # Errors
    /// Fails if the repository cannot be read.
    pub(crate) fn rewind(
        &self,
        want: &RefSpec,
        commit: &str,
        history: History<'_>,
    ) -> Result<Option<Error>, CommandError> {
        match git::check_rewind(&self.directory, want, commit, history) {
            Ok(()) => Ok(None),
            Err(error @ Error::Rewound { .. }) => Ok(Some(error)),
            Err(error) => Err(hinted(error)),
        }
    }
}

/// Adds the command's hint to a git error.
pub(super) fn hinted(error: Error) -> CommandError {
    match error {
        Error::Auth { url, reason } => {
            CommandError::hinted(anyhow!("{url} refuses access: {reason}"), CREDENTIALS)
        }
        Error::ChartAuth { chart, host: _, reason } => {
            CommandError::hinted(anyhow!("cannot fetch the chart {chart}: {reason}"), CHART_LOGINS)
        }
        Error::Credentials(_) => CommandError::hinted(error, CREDENTIALS),
        Error::MissingRef { .. } => CommandError::hinted(error, REVISION),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::forge::Forge;
    use crate::git::tests::web::{Behavior, Web};
    use crate::git::{Keyring, SignedPart};

    fn open(directory: &Path) -> Revisions {
        Revisions::open(directory.to_str().unwrap(), Credentials::default()).unwrap()
    }

    #[test]
    fn an_invalid_repository_or_revision_is_refused_with_a_hint() {
        let hint = |refused: CommandError| refused.hint.unwrap();
        let typo = repository(Some("flet")).unwrap_err();
        assert_eq!(typo.error.to_string(), "directory flet does not exist");
        assert!(hint(typo).starts_with("name the directory of a repository, or a URL"));
        for url in ["https://git.example.com/fleet.git", "git@git.example.com:fleet.git", "forge:fleet.git"] {
            assert_eq!(repository(Some(url)).unwrap(), url);
        }

        let dir = tempfile::tempdir().unwrap();
        let named = || repository(dir.path().to_str());
        let empty = named().unwrap_err();
        assert!(empty.error.to_string().ends_with(" is not a git repository"), "{}", empty.error);
        assert!(hint(empty).contains("git init"));
        git2::Repository::init_bare(dir.path()).unwrap();
        assert!(named().is_ok());
        let missing = open(dir.path()).checkout("main~1").unwrap_err();
        assert!(missing.error.to_string().starts_with("revision main~1 does not exist in "));
        assert!(hint(missing).contains("in a directory, also what git rev-parse takes"));
    }

    #[test]
    fn the_clone_of_a_pull_request_has_the_branches_of_its_remote() {
        let dir = tempfile::tempdir().unwrap();
        let (origin, clone) = (dir.path().join("origin"), dir.path().join("clone"));
        let commit = |repo: &git2::Repository, branch: &str, content: &str| {
            let mut tree = repo.treebuilder(None).unwrap();
            tree.insert("a", repo.blob(content.as_bytes()).unwrap(), 0o100_644).unwrap();
            let tree = repo.find_tree(tree.write().unwrap()).unwrap();
            let me = git2::Signature::now("a", "a@example.com").unwrap();
            let reference = format!("refs/heads/{branch}");
            let parent = repo.find_reference(&reference).ok().and_then(|tip| tip.peel_to_commit().ok());
            let parents: Vec<_> = parent.iter().collect();
            repo.commit(Some(&reference), &me, &me, "c", &tree, &parents).unwrap().to_string()
        };
        let bare = git2::Repository::init_bare(&origin).unwrap();
        let (one, two) = (commit(&bare, "main", "1"), commit(&bare, "main", "2"));
        let report = commit(&bare, "wheelwright/status", "3");
        bare.set_head("refs/heads/main").unwrap();
        let repo = git2::Repository::clone(origin.to_str().unwrap(), &clone).unwrap();
        repo.set_head_detached(repo.refname_to_id("HEAD").unwrap()).unwrap();
        repo.find_branch("main", git2::BranchType::Local).unwrap().delete().unwrap();
        let next = commit(&repo, "change", "4");
        for (revision, expected) in [
            ("main", &two),
            ("origin/main", &two),
            ("origin/main~1", &one),
            (&one[..10], &one),
            ("wheelwright/status", &report),
            ("change", &next),
            (HEAD, &two),
        ] {
            let found = open(&clone).checkout(revision).map(|found| found.revision.clone());
            assert_eq!(found.map_err(|error| error.error.to_string()), Ok(expected.clone()), "{revision}");
        }
    }

    #[test]
    fn a_private_repository_is_read_with_the_files_of_a_directory() {
        let forge = Forge::new();
        let (first, second) = (forge.commit("main", &[("a", "1")]), forge.commit("main", &[("a", "2")]));
        let report = forge.commit("wheelwright/status", &[("README.md", "")]);
        // base64 of git:hunter22
        let authorization = Some("Basic Z2l0Omh1bnRlcjIy".to_owned());
        let web = Web::start(&forge, Behavior { authorization, ..Behavior::default() });
        let dir = tempfile::tempdir().unwrap();
        // In a Secret volume, the files are symlinks into the directory `..data`.
        let volume = dir.path().join("..data");
        std::fs::create_dir(&volume).unwrap();
        let keep = |token: &str| {
            for (key, value) in web.secret(&[("token", token)]) {
                std::fs::write(volume.join(&key), value.0).unwrap();
                let _ = std::os::unix::fs::symlink(volume.join(&key), dir.path().join(&key));
            }
        };
        let open = || Revisions::open(&web.url, credentials(Some(dir.path()), None).unwrap()).unwrap();
        keep("wrong");
        let refused = open().checkout("main").unwrap_err();
        let (said, hint) = (refused.error.to_string(), refused.hint.unwrap());
        assert!(said.contains("refuses access") && !said.contains("Secret"), "{said}");
        assert!(hint.contains("--git-secret DIR") && hint.contains(TOKEN), "{hint}");

        keep("hunter22");
        let private = open();
        for (revision, expected) in [("main", &second), (&*first, &first), ("wheelwright/status", &report)] {
            assert_eq!(private.checkout(revision).unwrap().revision, *expected, "{revision}");
        }
        let missing = private.checkout("nowhere").unwrap_err();
        assert!(missing.hint.unwrap().starts_with("a revision is"));
    }

    #[test]
    fn the_commit_that_was_read_is_verified_and_not_the_one_that_its_branch_moves_on_to() {
        let forge = Forge::new();
        let (server, directory) = (forge.serve(), forge.root().join("config.git"));
        let signers = "u ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGI/4dyK7GSFY0TLi4wflXO1OYM97wGp184JXH8dmJ+f";
        let secret = BTreeMap::from([("allowed_signers".to_owned(), ByteString(signers.into()))]);
        let keys = Arc::new(Keyring::from_secret(&secret).unwrap());
        let how = Verification { keys, part: SignedPart::Tip, accepted: None, now: now() };
        for url in [server.url.as_str(), directory.to_str().unwrap()] {
            let revisions = Revisions::open(url, Credentials::default()).unwrap();
            let first = forge.commit("main", &[("a", "1")]);
            let read = revisions.checkout("main").unwrap();
            forge.commit("main", &[("a", "2")]);
            let refused = revisions.refused_signature("main", &read, &how).unwrap();
            assert_eq!(refused, Some(format!("commit {first} is refused: it has no signature")), "{url}");
        }
    }

    #[test]
    fn a_token_of_the_environment_counts_where_no_directory_is_named() {
        let token = |text: &str| format!("{:?}", credentials(None, Some(text.into())).unwrap());
        assert!(token("hunter22").contains("password: true") && !token("hunter22").contains("hunter22"));
        assert_eq!(credentials(None, Some(String::new())).unwrap(), Credentials::default());
        let dir = tempfile::tempdir().unwrap();
        let refused = credentials(Some(dir.path()), Some("hunter22".into())).unwrap_err();
        assert!(refused.error.to_string().contains("none of the keys"), "{}", refused.error);
        let missing = credentials(Some(&dir.path().join("secret")), None).unwrap_err();
        assert!(missing.error.to_string().starts_with("cannot read the credentials in "));

        let remote = "git@git.example:fleet.git";
        let refused = Revisions::open(remote, Credentials::default()).unwrap_err();
        assert!(refused.error.to_string().contains("ssh-privatekey") && refused.hint.is_some());
    }
}
