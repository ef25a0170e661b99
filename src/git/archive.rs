//! Unpacks archives (`.tar.gz`) to trees, with the limits of a commit.
//!
//! An archive may only have what a commit can have: files, links and directories below the root, each of them once.

use std::collections::BTreeMap;
use std::io::{self, Read, Take};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::read::{fold, is_name};
use super::{Error, TreeLimits};
use object::text::plain;
use object::tree::{Collision, FileTree};

/// The maximum size of an extended header: a path and the target of a link, with room for attributes.
const MAX_HEADER: u64 = 16 << 10;

type Packed<'a> = Take<MultiGzDecoder<&'a [u8]>>;

/// The paths in the extended headers before an entry, which are longer than its own header allows.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
}

struct Unpacker<'a> {
    limits: &'a TreeLimits,
    extended: Extended,
    found: FileTree,
    files: usize,
    bytes: usize,
}

/// Unpacks an archive.
///
/// # Errors
/// Returns [`Error::Content`] if the archive is damaged, exceeds a limit, or has entries that a commit cannot have.
pub(super) fn unpack(packed: &[u8], limits: &TreeLimits) -> Result<FileTree, Error> {
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::Content("the archive is not compressed with gzip".into()));
    }
    // Headers, and large files, which are not read, count too.
    let limit = 2 * u64::try_from(limits.total_bytes).unwrap_or(u64::MAX / 2);
    let mut archive = Archive::new(MultiGzDecoder::new(packed).take(limit));
    let (extended, found) = (Extended::default(), FileTree::default());
    let mut unpacker = Unpacker { limits, extended, found, files: 0, bytes: 0 };
    let unpacked = unpacker.unpack(&mut archive);
    let mut rest = archive.into_inner();
    // The checksum is at the end.
    let unpacked = unpacked.and_then(|()| io::copy(&mut rest, &mut io::sink()).map_err(damaged));
    if rest.limit() == 0 {
        return Err(Error::Content(format!("the archive has more than {} MiB when unpacked", limit >> 20)));
    }
    unpacked?;
    let mut found = unpacker.found;
    compare(&mut found)?;
    Ok(found)
}

impl Unpacker<'_> {
    /// Reads the entries. The crate would read extended headers of any size to memory, so they are read here.
    fn unpack(&mut self, archive: &mut Archive<Packed<'_>>) -> Result<(), Error> {
        for (count, entry) in archive.entries().map_err(damaged)?.raw(true).enumerate() {
            if count >= self.limits.entries {
                let reason = format!("the archive has more than {} entries", self.limits.entries);
                return Err(Error::Content(reason));
            }
            let mut entry = entry.map_err(damaged)?;
            match entry.header().entry_type() {
                EntryType::XGlobalHeader => {}
                EntryType::GNULongName => self.extended.path = Some(without_nul(read_header(&mut entry)?)),
                EntryType::GNULongLink => self.extended.target = Some(without_nul(read_header(&mut entry)?)),
                EntryType::XHeader => self.extend(&read_header(&mut entry)?)?,
                kind => {
                    let Extended { path, target } = std::mem::take(&mut self.extended);
                    let path = path.unwrap_or_else(|| entry.path_bytes().into_owned());
                    if let Some(path) = self.path(&path, kind)? {
                        self.insert(path, &mut entry, target)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads an extended header of POSIX.
    fn extend(&mut self, header: &[u8]) -> Result<(), Error> {
        for extension in PaxExtensions::new(header) {
            let extension = extension.map_err(damaged)?;
            match extension.key_bytes() {
                b"path" => self.extended.path = Some(extension.value_bytes().to_vec()),
                b"linkpath" => self.extended.target = Some(extension.value_bytes().to_vec()),
                b"size" => return Err(Error::Content("the archive has a file of more than 8 GiB".into())),
                _ => {}
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        path: String,
        entry: &mut Entry<'_, Packed<'_>>,
        target: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let limits = self.limits;
        self.files += 1;
        if self.files > limits.files {
            return Err(Error::Content(format!("the archive has more than {} files", limits.files)));
        }
        if self.found.entry(&path).is_some() {
            return Err(refuse(&path, "it is in the archive twice"));
        }
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {}
            EntryType::Symlink => {
                let own = || entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = String::from_utf8(target.unwrap_or_else(own));
                let target = target.map_err(|_| refuse(&path, "the target of the link is not UTF-8"))?;
                self.found.insert_link(path, target);
                return Ok(());
            }
            _ => return Err(refuse(&path, "it is neither a file, a symbolic link nor a directory")),
        }
        let size = usize::try_from(entry.size()).unwrap_or(usize::MAX);
        if size > limits.file_bytes {
            self.found.insert_large(path, limits.file_bytes);
            return Ok(());
        }
        self.bytes += size;
        if self.bytes > limits.total_bytes {
            let limit = limits.total_bytes >> 20;
            return Err(Error::Content(format!(
                "the files of the archive are larger than {limit} MiB in total"
            )));
        }
        let mut content = Vec::with_capacity(size);
        entry.read_to_end(&mut content).map_err(damaged)?;
        if content.len() != size {
            return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        self.found.insert(path, content);
        Ok(())
    }

    /// Returns the path of a file or link; `None` for a directory.
    fn path(&self, name: &[u8], kind: EntryType) -> Result<Option<String>, Error> {
        let limits = self.limits;
        let name = str::from_utf8(name).map_err(|_| refuse("", "a file name in it is not UTF-8"))?;
        // `tar -C directory .` writes `./` and `./a`.
        let path = name.strip_prefix("./").unwrap_or(name);
        if kind == EntryType::Directory && matches!(path, "" | ".") {
            return Ok(None);
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        if !path.split('/').all(is_name) {
            return Err(refuse(name, "it is not a path below the root that a checkout could have"));
        }
        if path.len() > limits.path_bytes {
            return Err(refuse(path, &format!("its path is longer than {} bytes", limits.path_bytes)));
        }
        if path.split('/').count() > limits.depth + 1 {
            return Err(refuse(path, &format!("more than {} directories inside each other", limits.depth)));
        }
        Ok(Some(path.to_owned()).filter(|_| kind != EntryType::Directory))
    }
}

/// Reads an extended header.
fn read_header(entry: &mut Entry<'_, Packed<'_>>) -> Result<Vec<u8>, Error> {
    if entry.size() > MAX_HEADER {
        return Err(Error::Content(format!("a header of the archive has more than {MAX_HEADER} bytes")));
    }
    let mut header = Vec::new();
    entry.read_to_end(&mut header).map_err(damaged)?;
    Ok(header)
}

/// Returns a path in the headers of GNU, which end with a NUL.
fn without_nul(mut header: Vec<u8>) -> Vec<u8> {
    header.pop_if(|last| *last == 0);
    header
}

/// Records paths that collide, and refuses paths below a file or link.
fn compare(found: &mut FileTree) -> Result<(), Error> {
    let paths: Vec<String> = found.below("").map(|(path, _)| path.to_owned()).collect();
    let mut folded = BTreeMap::new();
    for path in &paths {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let (part, is_directory) = (path.get(..end).unwrap_or_default(), end < path.len());
            if is_directory && found.entry(part).is_some() {
                return Err(refuse(path, "it is below a file or link of the archive"));
            }
            let (directory, name) = part.rsplit_once('/').unwrap_or(("", part));
            let first = folded.entry((directory, fold(name))).or_insert(part);
            if *first != part {
                found.insert_collision(Collision { first: (*first).to_owned(), second: part.to_owned() });
            }
        }
    }
    Ok(())
}

fn refuse(path: &str, reason: &str) -> Error {
    let path = if path.is_empty() { "the archive".into() } else { plain(path, 200) };
    Error::Content(format!("cannot read {path}: {reason}"))
}

fn damaged(error: io::Error) -> Error {
    Error::Content(format!("the archive is damaged: {}", plain(&error.to_string(), 200)))
}

#[cfg(test)]
#[path = "tests/archive.rs"]
mod tests;
