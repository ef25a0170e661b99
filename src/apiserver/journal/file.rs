//! The journal file: read at the start, appended to, and rewritten when it gets long.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::lock::private;
use super::line::{self, Line};
use store::JournalEntry;

pub(super) const FILE: &str = "store.journal";
/// A journal is rewritten when it is this many times longer than its initial content, and at least this long.
const GROWTH: u64 = 4;
const SMALLEST: u64 = 16 << 20;
/// Revisions are reserved in blocks of this size. After a restart, the server continues after the reserved
/// block, so that no revision is used twice.
const RESERVED: u64 = 1_000_000;

/// A journal that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file operation failed.
    #[error("cannot {attempt} {path}")]
    Io {
        /// The failed attempt.
        attempt: &'static str,
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A synced line is damaged.
    #[error("{path} is damaged at line {line}: {reason}")]
    Damaged {
        path: String,
        /// The line number, starting at 1.
        line: usize,
        /// The error in the line.
        reason: String,
    },
}

pub(super) fn io<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { attempt, path: path.display().to_string(), source }
}

/// The end of a journal file.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct End {
    /// Revisions up to this one may have been used.
    pub(in super::super) reserved: u64,
    /// The number of bytes up to the end of the last valid line.
    pub(super) length: u64,
}

/// Reads the journal in a directory, and passes its writes to `replay`, oldest first. A missing file means no
/// writes. A torn batch at the end is skipped.
///
/// # Errors
/// Fails if the file cannot be read, or is damaged before its last mark.
pub(in super::super) fn read(dir: &Path, mut replay: impl FnMut(JournalEntry)) -> Result<End, JournalError> {
    let path = dir.join(FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(End::default()),
        Err(e) => return Err(io("open", &path)(e)),
    };
    let mut reader = BufReader::new(&file);
    let (mut end, mut text, mut damage) = (End::default(), Vec::new(), None);
    for number in 1.. {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text).map_err(io("read", &path))?;
        if bytes == 0 {
            break;
        }
        match (line::decode(&text), &damage) {
            (Ok(line), None) => {
                match line {
                    Line::Mark(reserved) => end.reserved = end.reserved.max(reserved),
                    Line::Write(entry) => replay(entry),
                }
                end.length += bytes as u64;
            }
            (Ok(Line::Mark(_)), Some((line, reason))) => {
                let (path, line, reason) = (path.display().to_string(), *line, String::clone(reason));
                return Err(JournalError::Damaged { path, line, reason });
            }
            (Err(reason), None) => damage = Some((number, reason)),
            (Ok(Line::Write(_)) | Err(_), Some(_)) => {}
        }
    }
    if let Some((line, reason)) = damage {
        tracing::warn!(
            path = %path.display(), line, error = reason,
            "the last writes were torn by a crash; they were never acknowledged and are dropped"
        );
    }
    Ok(end)
}

/// A journal file to which writes are appended.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    pub(super) file: File,
    /// The number of synced bytes.
    length: u64,
    /// The number of bytes of the initial content.
    base: u64,
    reserved: u64,
}

impl JournalFile {
    /// Writes and syncs a new file next to the current one. Revisions up to `revision` have been used.
    ///
    /// # Errors
    /// Fails if the directory is not writable. The new file is then removed.
    pub(super) fn beside(
        dir: &Path,
        content: impl Iterator<Item = JournalEntry>,
        revision: u64,
    ) -> Result<Self, JournalError> {
        let (path, new) = (dir.join(FILE), new_path(dir));
        let reserved = revision + RESERVED;
        let written = write_new(&new, content, reserved);
        if written.is_err() {
            // The new file takes up space that the journal may need. A failed removal changes nothing about the
            // error.
            let _ = fs::remove_file(&new);
        }
        let (file, length) = written?;
        Ok(Self { path, file, length, base: length, reserved })
    }

    /// Continues the file that was read up to this end.
    ///
    /// # Errors
    /// Fails if there is no file, or if it cannot be truncated at its end.
    pub(super) fn resume(dir: &Path, end: &End) -> Result<Self, JournalError> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().write(true).open(&path).map_err(io("open", &path))?;
        // A base of 0 makes `is_long` true once the file reaches its minimum size, so it is rewritten when
        // there is space.
        let mut resumed = Self { path, file, length: end.length, base: 0, reserved: end.reserved };
        resumed.restore()?;
        Ok(resumed)
    }

    /// Replaces the current file.
    ///
    /// # Errors
    /// Fails if the directory is not writable. After a crash, either file may then remain.
    pub(super) fn replace(&self, dir: &Path) -> Result<(), JournalError> {
        fs::rename(new_path(dir), &self.path).map_err(io("replace", &self.path))?;
        File::open(dir).and_then(|d| d.sync_all()).map_err(io("sync", dir))
    }

    /// Appends writes in the order of their revisions, and returns when they are on disk.
    ///
    /// # Errors
    /// Returns the disk error. The file is then unchanged, unless [`JournalFile::restore`] failed too: then it
    /// must be rewritten.
    pub(super) fn append<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a JournalEntry>,
    ) -> Result<(), JournalError> {
        let (mut lines, mut last) = (Vec::new(), 0);
        for entry in entries {
            line::encode_entry(entry, &mut lines);
            last = entry.revision;
        }
        let reserved = if last < self.reserved { self.reserved } else { last + RESERVED };
        let mut bytes = Vec::new();
        line::encode_mark(reserved, &mut bytes);
        bytes.append(&mut lines);
        self.check_present()?;
        self.file.write_all(&bytes).map_err(io("append to", &self.path))?;
        self.file.sync_data().map_err(io("sync", &self.path))?;
        self.length += u64::try_from(bytes.len()).unwrap_or_default();
        self.reserved = reserved;
        Ok(())
    }

    /// Checks that the file still has a name. Lines appended to a removed file would be lost at the next start.
    ///
    /// # Errors
    /// Fails if the file was removed or replaced by somebody else. The server does not write a new file,
    /// because the directory may belong to another hub by now.
    pub(super) fn check_present(&self) -> Result<(), JournalError> {
        let metadata = self.file.metadata().map_err(io("read", &self.path))?;
        if metadata.nlink() == 0 {
            let error = std::io::Error::other("the file was removed; stop the hub, and restore the file");
            return Err(io("append to", &self.path)(error));
        }
        Ok(())
    }

    /// Truncates the rest of a failed append or of a torn batch.
    ///
    /// # Errors
    /// Returns the disk error.
    pub(super) fn restore(&mut self) -> Result<(), JournalError> {
        self.file.set_len(self.length).map_err(io("truncate", &self.path))?;
        self.file.seek(SeekFrom::Start(self.length)).map_err(io("truncate", &self.path))?;
        self.file.sync_data().map_err(io("sync", &self.path))
    }

    /// Returns true if a rewrite would make the file much shorter.
    pub(super) fn is_long(&self) -> bool {
        self.length > (self.base * GROWTH).max(SMALLEST)
    }

    /// Postpones the next rewrite until the file has grown by the same factor again.
    pub(super) fn postpone(&mut self) {
        self.base = self.length;
    }
}

fn new_path(dir: &Path) -> PathBuf {
    dir.join(format!("{FILE}.new"))
}

fn write_new(
    path: &Path,
    content: impl Iterator<Item = JournalEntry>,
    reserved: u64,
) -> Result<(File, u64), JournalError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let file = private(&mut options).open(path).map_err(io("create", path))?;
    let mut out = BufWriter::new(file);
    let mut text = Vec::new();
    line::encode_mark(reserved, &mut text);
    for entry in content {
        out.write_all(&text).map_err(io("write", path))?;
        text.clear();
        line::encode_entry(&entry, &mut text);
    }
    // The caller names the file only after it is fully synced.
    line::encode_mark(reserved, &mut text);
    out.write_all(&text).map_err(io("write", path))?;
    let mut file = out.into_inner().map_err(|e| io("write", path)(e.into_error()))?;
    file.sync_all().map_err(io("sync", path))?;
    let length = file.stream_position().map_err(io("read", path))?;
    Ok((file, length))
}
