//! Git notes that report the states of commits.
//!
//! `git log --notes=wheelwright` shows them with the commits. A note has one line for each status name, so that
//! several hubs and people can share it.

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Oid, Repository};
use jiff::Timestamp;

use super::commit::{not_before, signature};
use super::push::{Attempt, Retry, local_tip, swap};
use super::{Error, Mirror};
use object::text;

/// The reference of the notes.
pub(super) const NOTES: &str = "refs/notes/wheelwright";
/// The maximum length of a note that can get another line: about 300 lines.
const MAX_NOTE_BYTES: usize = 64 << 10;
/// The maximum length of a line's text, in characters.
const LINE: usize = 140;

/// A line in the note of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The commit id.
    pub commit: String,
    /// The name of the status, which starts the line. Lines with other names stay.
    pub context: String,
    /// The rest of the line.
    pub text: String,
    /// The time of author and committer.
    pub time: Timestamp,
}

impl Mirror {
    /// Writes a line in the note of a commit. Other notes, other lines and their history stay.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the note is too long for another line, [`Error::PushRejected`] if the
    /// server rejects the push, and [`Error::PushContended`] if other clients won every race. Otherwise, see
    /// [`Mirror::fetch`].
    pub fn push_note(&self, note: &Note, retry: &Retry) -> Result<(), Error> {
        let pushed = self.retry(NOTES, retry, || match self.remote().local() {
            Some(path) => {
                let explain = |e: git2::Error| Error::remote(self.remote().url(), &e);
                let repo = Repository::open(path).map_err(explain)?;
                let tip = local_tip(&repo, NOTES).map_err(explain)?;
                match write(&repo, tip, note).map_err(explain)? {
                    Some(id) => swap(&repo, NOTES, tip, id).map_err(explain),
                    None => Ok(Attempt::Unchanged),
                }
            }
            None => {
                let repo = self.repository()?;
                let tip = self.tip(&repo, NOTES)?;
                match write(&repo, tip, note).map_err(|e| Error::cache(&e))? {
                    Some(id) => self.send_commit(&repo, NOTES, tip, id),
                    None => Ok(Attempt::Unchanged),
                }
            }
        });
        self.keep_small()?;
        pushed.map(drop)
    }
}

/// Creates the commit that adds a line to a note; `None` if the note already has the line.
fn write(repo: &Repository, tip: Option<Oid>, note: &Note) -> Result<Option<Oid>, git2::Error> {
    let Note { commit, context, text, time } = note;
    let commit = Oid::from_str(commit)?.to_string();
    let parent = tip.map(|tip| repo.find_commit(tip)).transpose()?;
    let notes = match &parent {
        Some(parent) => parent.tree()?,
        None => repo.find_tree(repo.treebuilder(None)?.write()?)?,
    };
    // Git reads notes in directories of any depth. One level keeps commits small when there are many notes.
    let (two, rest) = commit.split_at(2);
    let deeper = format!("{two}/{}/{}", rest.get(..2).unwrap_or_default(), rest.get(2..).unwrap_or_default());
    let usual = format!("{two}/{rest}");
    let places = [&usual, &commit, &deeper];
    let found = places.iter().find_map(|path| Some((*path, notes.get_path(path.as_ref()).ok()?.id())));
    let before = match found {
        Some((_, blob)) => repo.find_blob(blob)?.content().to_vec(),
        None => Vec::new(),
    };
    let before = String::from_utf8_lossy(&before);
    let line = format!("{context}: {}", text::plain(text, LINE));
    if before.lines().any(|other| other == line) {
        return Ok(None);
    }
    let is_ours =
        |other: &&str| other.strip_prefix(context.as_str()).is_some_and(|rest| rest.starts_with(": "));
    let lines = before.lines().filter(|other| !is_ours(other)).chain([line.as_str()]);
    let content = lines.fold(String::new(), |note, line| note + line + "\n");
    if content.len() > MAX_NOTE_BYTES {
        let what = format!("the note of {commit} is longer than {} KiB", MAX_NOTE_BYTES >> 10);
        return Err(git2::Error::from_str(&what));
    }
    let path = found.map_or(&usual, |(path, _)| path).as_str();
    let blob = repo.blob(content.as_bytes())?;
    let tree = TreeUpdateBuilder::new().upsert(path, blob, FileMode::Blob).create_updated(repo, &notes)?;
    let tree = repo.find_tree(tree)?;
    let author = signature(None, not_before(parent.as_ref(), *time))?;
    let message = format!("Note of {commit}\n\n{line}\n");
    let parents: Vec<_> = parent.iter().collect();
    repo.commit(None, &author, &author, &message, &tree, &parents).map(Some)
}
