//! Checks the sizes of the objects of a pack while the pack arrives (gitformat-pack(5)).
//!
//! libgit2 limits the result of a delta, but not its base: a pack of 2 MiB can hold a base of 2 GiB.

use flate2::{Decompress, FlushDecompress, Status};

use crate::git::pack_limits::{MAX_OBJECT_BYTES, MAX_PACK_OBJECTS};

/// The band of a pack in an answer (gitprotocol-pack(5), "Packfile Data").
const PACK_BAND: u8 = 1;
const HEADER_BYTES: usize = 12;
/// Bytes of an object name.
const NAME_BYTES: usize = 20;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// Reads the answer to a request for a pack. Its lines of one band carry the pack.
#[derive(Debug)]
pub(super) struct PackReader {
    /// The digits of the length of the next line that have arrived.
    length: Vec<u8>,
    /// Bytes of the line that are still to come.
    rest: usize,
    /// Whether the next byte names the band.
    is_start: bool,
    is_pack: bool,
    pack: Pack,
}

/// A pack, object by object.
#[derive(Debug)]
struct Pack {
    state: State,
    objects: u32,
    inflate: Decompress,
}

/// The part of a pack that the next byte belongs to.
#[derive(Debug)]
enum State {
    /// The signature, the version and the number of objects.
    Header(Vec<u8>),
    /// The type and the size of an object; `shift` is that of the next seven bits.
    Size { kind: u8, size: u64, shift: u32 },
    /// How far back the base of a delta is.
    Offset,
    /// The name of the base of a delta, with the bytes that are still to come.
    Name(usize),
    /// The object.
    Data,
    /// The checksum and any bytes after it; libgit2 checks them.
    End,
}

impl PackReader {
    pub(super) fn new() -> Self {
        let pack = Pack { state: State::Header(Vec::new()), objects: 0, inflate: Decompress::new(true) };
        Self { length: Vec::new(), rest: 0, is_start: false, is_pack: false, pack }
    }

    /// Takes the next bytes of the answer. An error says what is wrong.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some((first, after)) = bytes.split_first() {
            if self.rest == 0 {
                bytes = after;
                self.length.push(*first);
                if self.length.len() == 4 {
                    let digits = std::str::from_utf8(&self.length).ok();
                    let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
                    // A length below four marks a boundary without content; libgit2 checks these.
                    self.rest = length.ok_or("a line without a length")?.saturating_sub(4);
                    (self.is_start, self.length) = (true, Vec::new());
                }
                continue;
            }
            if self.is_start {
                (self.is_start, self.is_pack) = (false, *first == PACK_BAND);
                self.rest -= 1;
                bytes = after;
                continue;
            }
            let (line, after) = bytes.split_at(self.rest.min(bytes.len()));
            if self.is_pack {
                self.pack.take(line)?;
            }
            self.rest -= line.len();
            bytes = after;
        }
        Ok(())
    }
}

impl Pack {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some((first, after)) = bytes.split_first() {
            match &mut self.state {
                State::End => return Ok(()),
                State::Data => {
                    bytes = self.inflate(bytes)?;
                    continue;
                }
                State::Header(header) => {
                    header.push(*first);
                    if header.len() == HEADER_BYTES {
                        let count = header.last_chunk().map_or(0, |count| u32::from_be_bytes(*count));
                        self.begin(count)?;
                    }
                }
                State::Size { kind, size, shift } => {
                    if *shift == 0 {
                        (*kind, *size) = ((first >> 4) & 7, u64::from(first & 15));
                    } else {
                        *size |= u64::from(first & 127).checked_shl(*shift).unwrap_or(u64::MAX);
                    }
                    *shift += if *shift == 0 { 4 } else { 7 };
                    if *size > MAX_OBJECT_BYTES as u64 {
                        return Err(format!("an object of more than {} MiB", MAX_OBJECT_BYTES >> 20));
                    }
                    if first & 128 == 0 {
                        self.state = match *kind {
                            OFS_DELTA => State::Offset,
                            REF_DELTA => State::Name(NAME_BYTES),
                            _ => State::Data,
                        };
                    }
                }
                State::Offset if first & 128 == 0 => self.state = State::Data,
                State::Offset => {}
                State::Name(rest) => {
                    *rest -= 1;
                    if *rest == 0 {
                        self.state = State::Data;
                    }
                }
            }
            bytes = after;
        }
        Ok(())
    }

    /// Begins with the first object.
    fn begin(&mut self, objects: u32) -> Result<(), String> {
        if objects as usize > MAX_PACK_OBJECTS {
            return Err(format!("{objects} objects, and {MAX_PACK_OBJECTS} are allowed"));
        }
        self.objects = objects;
        self.state = if objects == 0 { State::End } else { State::SIZE };
        Ok(())
    }

    /// Unpacks a part of an object, to find its end. Returns the bytes after it.
    fn inflate<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        let (read, made) = (self.inflate.total_in(), self.inflate.total_out());
        let mut scratch = [0; 16 << 10];
        let status = self.inflate.decompress(bytes, &mut scratch, FlushDecompress::None);
        let status = status.map_err(|error| format!("an object that cannot be unpacked: {error}"))?;
        let taken = usize::try_from(self.inflate.total_in() - read).unwrap_or(bytes.len());
        if self.inflate.total_out() > MAX_OBJECT_BYTES as u64 {
            return Err(format!("an object of more than {} MiB", MAX_OBJECT_BYTES >> 20));
        }
        if status == Status::StreamEnd {
            self.inflate.reset(true);
            self.objects -= 1;
            self.state = if self.objects == 0 { State::End } else { State::SIZE };
        } else if taken == 0 && self.inflate.total_out() == made {
            return Err("an object that cannot be unpacked".into());
        }
        Ok(bytes.get(taken..).unwrap_or_default())
    }
}

impl State {
    const SIZE: Self = Self::Size { kind: 0, size: 0, shift: 0 };
}

#[cfg(test)]
#[path = "tests/pack.rs"]
mod tests;
