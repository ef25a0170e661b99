//! Packed charts (`.tgz`), as `helm package` writes them (Helm's `chart/loader/archive`).
//!
//! Unlike Helm, this module refuses links, duplicate names and archives that are damaged after their last file.

use std::io::{self, Read, Take};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use super::{MAX_BYTES, Tree};
use crate::error::Error;

/// Maximum number of entries in all archives of a chart, far above that of the largest public charts.
const MAX_ENTRIES: usize = 10_000;
/// Maximum length of a path in an archive.
const MAX_PATH: usize = 1024;

type Packed<'a> = Take<MultiGzDecoder<&'a [u8]>>;

/// The remaining size of a chart with its packed subcharts.
pub(super) struct Room {
    bytes: usize,
    entries: usize,
}

impl Room {
    pub(super) fn new() -> Self {
        Self { bytes: MAX_BYTES, entries: MAX_ENTRIES }
    }

    /// Returns the bytes that were taken.
    pub(super) fn taken(&self) -> usize {
        MAX_BYTES - self.bytes
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }

    fn take_entry(&mut self) -> Result<(), Error> {
        self.entries = self.entries.checked_sub(1).ok_or_else(|| {
            Error::budget("files", format!("the archives of the chart have more than {MAX_ENTRIES} entries"))
        })?;
        Ok(())
    }
}

fn too_large() -> Error {
    Error::budget("files", format!("the chart has more than {MAX_BYTES} bytes"))
}

/// Unpacks an archive. The paths are relative to the chart directory.
///
/// # Errors
/// Fails if the archive is damaged, exceeds the room, or has entries that a chart cannot have.
pub(super) fn unpack(packed: &[u8], room: &mut Room) -> Result<Tree, Error> {
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Err(Error::new("the file is not a gzip archive"));
    }
    let limit = u64::try_from(room.bytes).unwrap_or(u64::MAX).saturating_add(1);
    let mut archive = Archive::new(MultiGzDecoder::new(packed).take(limit));
    let files = files(&mut archive, room);
    let mut rest = archive.into_inner();
    // The checksum is at the end.
    let files = files.and_then(|files| {
        io::copy(&mut rest, &mut io::sink()).map_err(damaged)?;
        Ok(files)
    });
    if rest.limit() == 0 {
        return Err(too_large());
    }
    files
}

fn files(archive: &mut Archive<Packed<'_>>, room: &mut Room) -> Result<Tree, Error> {
    let mut files = Tree::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        room.take_entry()?;
        let name = name(&entry)?;
        let is_file = match entry.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => false,
            EntryType::Regular | EntryType::Continuous => !name.ends_with('/'),
            _ => return Err(Error::new(format!("{name:?} is neither a file nor a directory"))),
        };
        if !is_file {
            continue;
        }
        let path = path_in_chart(&name)?;
        let size = usize::try_from(entry.size()).unwrap_or(usize::MAX);
        room.take(size)?;
        let mut bytes = Vec::with_capacity(size);
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() != size {
            return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
        }
        let bytes = bytes.strip_prefix(super::BOM).unwrap_or(&bytes).into();
        if files.insert(path, bytes).is_some() {
            return Err(Error::new(format!("{name:?} is in the archive twice")));
        }
    }
    if files.is_empty() {
        return Err(Error::new("no files in chart archive"));
    }
    Ok(files)
}

fn name(entry: &Entry<'_, Packed<'_>>) -> Result<String, Error> {
    let name = entry.path_bytes();
    if name.len() > MAX_PATH {
        return Err(Error::budget("path", format!("a path in the archive has more than {MAX_PATH} bytes")));
    }
    let name = str::from_utf8(&name).map_err(|_| Error::new("a path in the archive is not UTF-8"))?;
    // Helm on Windows once packed charts with backslashes.
    Ok(name.replace('\\', "/"))
}

/// Returns the path of an entry without the directory that holds the chart.
fn path_in_chart(name: &str) -> Result<String, Error> {
    let (directory, path) = name.split_once('/').unwrap_or_default();
    let is_drive = path.as_bytes().get(1..3) == Some(b":/");
    if directory.is_empty() || is_drive || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(Error::new(format!("{name:?} is not a path in the directory of a chart")));
    }
    Ok(path.to_owned())
}

fn damaged(reason: io::Error) -> Error {
    Error::new(format!("the archive is damaged: {reason}"))
}
