//! Revisions of repositories as trees.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use super::CommandError;
use crate::git::{self, Credentials, Error, History, Mirror, RefSpec, Remote, Verification};
use object::tree::Checkout;

/// The commit that a repository has checked out.
pub(crate) const HEAD: &str = "HEAD";

/// Returns the URL of a repository: a URL or a directory of this machine; the one around the working
/// directory where none is named.
///
/// # Errors
/// There is no such directory, it cannot be read, or the working directory is in no repository.
pub(crate) fn repository(repo: Option<&str>) -> Result<String, CommandError> {
    match repo {
        Some(repo) if Path::new(repo).is_dir() => absolute(Path::new(repo)),
        // A URL, or the form of ssh: host:path.
        Some(repo) if repo.contains(':') => Ok(repo.to_owned()),
        Some(repo) => Err(CommandError::hinted(
            anyhow!("there is no directory {repo}"),
            "name the directory of a repository, or a URL such as https://git.example.com/platform/fleet.git",
        )),
        None => {
            let here = std::env::current_dir().context("cannot find the working directory")?;
            let around = here.ancestors().find(|parent| parent.join(".git").exists());
            let around = around.ok_or_else(|| {
                CommandError::hinted(
                    anyhow!("the working directory is in no repository"),
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

/// Reads a revision: of a directory in place, else from a mirror that does not outlive the command.
///
/// # Errors
/// The repository cannot be read, or it has no such revision.
pub(crate) fn checkout(url: &str, revision: &str) -> Result<Arc<Checkout>, CommandError> {
    let hint = "a revision is a branch, a tag, a commit id of 40 digits, or HEAD; in a directory, also what git rev-parse takes and the \
                branch of a remote, once it is fetched";
    fetch(url, revision, None)?.map_err(|error| match error {
        Some(error @ Error::MissingRef { .. }) => CommandError::hinted(error, hint),
        Some(error) => error.into(),
        None => CommandError::hinted(anyhow!("{revision:?} is not a revision"), hint),
    })
}

/// Says why the signatures of a revision do not count; `None` if they do.
///
/// # Errors
/// The repository cannot be read.
pub(crate) fn refused_signature(
    url: &str,
    revision: &str,
    verification: Verification,
) -> Result<Option<String>, CommandError> {
    match fetch(url, revision, Some(verification))? {
        Ok(_) => Ok(None),
        Err(Some(error @ Error::NotVerified { .. })) => Ok(Some(error.to_string())),
        Err(Some(error)) => Err(error.into()),
        Err(None) => Err(anyhow!("{revision:?} is not a revision").into()),
    }
}

/// Reads a revision. Fails with the error of git; with none if no reference can have that name.
fn fetch(
    url: &str,
    revision: &str,
    verification: Option<Verification>,
) -> Result<Result<Arc<Checkout>, Option<Error>>, CommandError> {
    let remote = Remote::parse(url)?;
    if let Some(directory) = remote.local() {
        return Ok(git::checkout(directory, revision, verification.as_ref()).map_err(Some));
    }
    let cache = tempfile::tempdir().context("cannot create a temporary directory")?;
    let mut mirror = Mirror::open(cache.path(), remote, Credentials::default())?;
    mirror.verification = verification;
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
            done => return Ok(done.map_err(Some)),
        }
    }
    Ok(Err(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_missing_and_a_revision_of_another_form_are_refused_with_the_way_out() {
        let hint = |refused: CommandError| refused.hint.unwrap();
        let typo = repository(Some("flet")).unwrap_err();
        assert_eq!(typo.error.to_string(), "there is no directory flet");
        assert!(hint(typo).starts_with("name the directory of a repository, or a URL"));
        for url in ["https://git.example.com/fleet.git", "git@git.example.com:fleet.git", "forge:fleet.git"] {
            assert_eq!(repository(Some(url)).unwrap(), url);
        }

        let dir = tempfile::tempdir().unwrap();
        git2::Repository::init_bare(dir.path()).unwrap();
        let missing = checkout(dir.path().to_str().unwrap(), "main~1").unwrap_err();
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
            let found = checkout(clone.to_str().unwrap(), revision).map(|found| found.revision.clone());
            assert_eq!(found.map_err(|error| error.error.to_string()), Ok(expected.clone()), "{revision}");
        }
    }
}
