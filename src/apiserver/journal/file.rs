//! The journal file: it is read at the start, written anew when it is long, and appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::lock::private;
use super::line::{self, Line};
use store::JournalEntry;

pub(super) const FILE: &str = "store.journal";
/// A journal is written anew when it is this many times longer than its initial content, and at least this
/// long.
const GROWTH: u64 = 4;
const SMALLEST: u64 = 16 << 20;
/// Versions are reserved in blocks of this size. After a restart, the server goes on behind the reserved
/// ones, so no version is used twice.
const RESERVED: u64 = 1_000_000;

/// A journal that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system refused.
    #[error("cannot {attempt} {path}")]
    Io {
        /// The attempt.
        attempt: &'static str,
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A line that was synced is damaged.
    #[error("{path} is damaged at line {line}: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// The error in the line.
        why: String,
    },
}

pub(super) fn io<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl FnOnce(std::io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { attempt, path: path.display().to_string(), source }
}

/// The end of a journal that was read.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct End {
    /// Versions up to this one may have been given out.
    pub(in super::super) reserved: u64,
    /// Bytes up to the end of the last good line.
    pub(super) length: u64,
}

/// Reads the journal in a directory, and hands on its writes, oldest first; without a file there are none. A torn
/// batch at the end is left out.
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
            (Ok(Line::Mark(_)), Some((line, why))) => {
                let (path, line, why) = (path.display().to_string(), *line, String::clone(why));
                return Err(JournalError::Damaged { path, line, why });
            }
            (Err(why), None) => damage = Some((number, why)),
            (Ok(Line::Write(_)) | Err(_), Some(_)) => {}
        }
    }
    if let Some((line, why)) = damage {
        tracing::warn!(
            path = %path.display(), line, error = why,
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
    /// Bytes that are synced.
    length: u64,
    /// Bytes of its initial content.
    base: u64,
    reserved: u64,
}

impl JournalFile {
    /// Writes a new file beside the present one, and syncs it; versions up to `revision` were used.
    ///
    /// # Errors
    /// Fails if the directory cannot be written. The new file is then removed.
    pub(super) fn beside(
        dir: &Path,
        content: impl Iterator<Item = JournalEntry>,
        revision: u64,
    ) -> Result<Self, JournalError> {
        let (path, new) = (dir.join(FILE), new_path(dir));
        let reserved = revision + RESERVED;
        let written = write_new(&new, content, reserved);
        if written.is_err() {
            // The new file takes space that the journal may need. If it cannot be removed, the error stays
            // the same.
            let _ = fs::remove_file(&new);
        }
        let (file, length) = written?;
        Ok(Self { path, file, length, base: length, reserved })
    }

    /// Goes on with the file that was read up to this end.
    ///
    /// # Errors
    /// Fails if there is none, or it cannot be cut off at its end.
    pub(super) fn resume(dir: &Path, end: &End) -> Result<Self, JournalError> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().write(true).open(&path).map_err(io("open", &path))?;
        // A base of nothing has it written anew as soon as there is space.
        let mut resumed = Self { path, file, length: end.length, base: 0, reserved: end.reserved };
        resumed.restore()?;
        Ok(resumed)
    }

    /// Replaces the present file.
    ///
    /// # Errors
    /// Fails if the directory cannot be written. After a crash it is then not known which of the two files
    /// remains.
    pub(super) fn replace(&self, dir: &Path) -> Result<(), JournalError> {
        fs::rename(new_path(dir), &self.path).map_err(io("replace", &self.path))?;
        File::open(dir).and_then(|d| d.sync_all()).map_err(io("sync", dir))
    }

    /// Appends writes in the order of versions, and returns when they are on disk.
    ///
    /// # Errors
    /// The error of the disk. The file is then as before, or [`JournalFile::restore`] failed too and the file
    /// must be written anew.
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

    /// Checks that the file has a name still. What is appended to a removed file is lost at the next start.
    ///
    /// # Errors
    /// Fails if the file was removed or replaced by somebody else. No new one is written then, because the
    /// directory may be another hub's.
    pub(super) fn check_present(&self) -> Result<(), JournalError> {
        let metadata = self.file.metadata().map_err(io("read", &self.path))?;
        if metadata.nlink() == 0 {
            let why = std::io::Error::other("the file was removed; stop the hub, and restore the file");
            return Err(io("append to", &self.path)(why));
        }
        Ok(())
    }

    /// Cuts off the rest of a failed append, or of a torn batch.
    ///
    /// # Errors
    /// The error of the disk.
    pub(super) fn restore(&mut self) -> Result<(), JournalError> {
        self.file.set_len(self.length).map_err(io("truncate", &self.path))?;
        self.file.seek(SeekFrom::Start(self.length)).map_err(io("truncate", &self.path))?;
        self.file.sync_data().map_err(io("sync", &self.path))
    }

    /// Returns whether a new file would be much shorter.
    pub(super) fn is_long(&self) -> bool {
        self.length > (self.base * GROWTH).max(SMALLEST)
    }

    /// Delays the next new file until this one has grown as much again.
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
    // The file gets its name only after all of it is synced.
    line::encode_mark(reserved, &mut text);
    out.write_all(&text).map_err(io("write", path))?;
    let mut file = out.into_inner().map_err(|e| io("write", path)(e.into_error()))?;
    file.sync_all().map_err(io("sync", path))?;
    let length = file.stream_position().map_err(io("read", path))?;
    Ok((file, length))
}
