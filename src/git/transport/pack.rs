//! Checks the sizes of a pack's objects while the pack arrives (gitformat-pack(5)).
//!
//! libgit2 limits the result of a delta, but not its base: a pack of 2 MiB can contain a base of 2 GiB.
//!
//! Lines may end with a line feed, and JGit and go-git end all lines with one (gitprotocol-common(5), "pkt-line
//! Format"). libgit2 rejects `shallow` and `unshallow` lines with a line feed (`shallow_pkt` in its
//! `smart_pkt.c`), so this module removes it.

use flate2::{Decompress, FlushDecompress, Status};

use crate::git::pack_limits::{MAX_OBJECT_BYTES, MAX_PACK_OBJECTS};

/// The band of the pack in a response (gitprotocol-pack(5), "Packfile Data").
const PACK_BAND: u8 = 1;
const HEADER_BYTES: usize = 12;
/// The size of an object id in bytes.
const NAME_BYTES: usize = 20;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

/// Parses the response to a request for a pack. One band of its lines contains the pack.
#[derive(Debug)]
pub(super) struct PackReader {
    /// The digits of the next line's length that have arrived.
    length: Vec<u8>,
    /// The number of bytes that are missing in the line.
    rest: usize,
    line: Line,
    pack: Pack,
}

/// The kind of the current line.
#[derive(Debug)]
enum Line {
    /// No byte has arrived yet.
    Start,
    /// It contains a part of the pack.
    Pack,
    /// It may name a commit on the boundary. It is passed on once it is complete.
    Shallow(Vec<u8>),
    Other,
}

/// The state of parsing a pack.
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
    /// The type and the size of an object. `shift` applies to the next seven bits.
    Size { kind: u8, size: u64, shift: u32 },
    /// The distance to the base of a delta.
    Offset,
    /// The id of a delta's base, with the number of missing bytes.
    Name(usize),
    /// The compressed object.
    Data,
    /// The checksum and any bytes after it, which libgit2 checks.
    End,
}

impl PackReader {
    pub(super) fn new() -> Self {
        let pack = Pack { state: State::Header(Vec::new()), objects: 0, inflate: Decompress::new(true) };
        Self { length: Vec::new(), rest: 0, line: Line::Start, pack }
    }

    /// Takes the next bytes of the response, and returns the bytes for libgit2. The error describes the invalid
    /// part.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut passed = Vec::with_capacity(bytes.len());
        while let Some((first, after)) = bytes.split_first() {
            if self.rest == 0 {
                bytes = after;
                self.begin_line(*first, &mut passed)?;
                continue;
            }
            if let Line::Start = self.line {
                self.line = match first {
                    &PACK_BAND => Line::Pack,
                    b's' | b'u' => Line::Shallow(Vec::new()),
                    _ => Line::Other,
                };
                if let Line::Pack | Line::Other = self.line {
                    passed.append(&mut self.length);
                    passed.push(*first);
                    self.rest -= 1;
                    bytes = after;
                    continue;
                }
            }
            let (part, after) = bytes.split_at(self.rest.min(bytes.len()));
            self.rest -= part.len();
            bytes = after;
            match &mut self.line {
                Line::Pack => {
                    self.pack.take(part)?;
                    passed.extend_from_slice(part);
                }
                Line::Shallow(line) => {
                    line.extend_from_slice(part);
                    if self.rest == 0 {
                        passed.extend(without_line_feed(line));
                    }
                }
                Line::Start | Line::Other => passed.extend_from_slice(part),
            }
        }
        Ok(passed)
    }

    /// Takes a digit of a line's length.
    fn begin_line(&mut self, digit: u8, passed: &mut Vec<u8>) -> Result<(), String> {
        if self.length.len() == 4 {
            self.length.clear();
        }
        self.length.push(digit);
        if self.length.len() == 4 {
            let digits = std::str::from_utf8(&self.length).ok();
            let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
            // A length below four is a boundary without content, which libgit2 checks.
            self.rest = length.ok_or("a line without a length")?.saturating_sub(4);
            self.line = Line::Start;
            if self.rest == 0 {
                passed.append(&mut self.length);
            }
        }
        Ok(())
    }
}

/// Returns a line with its length, but without its line feed.
fn without_line_feed(line: &[u8]) -> Vec<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    [format!("{:04x}", line.len() + 4).as_bytes(), line].concat()
}

fn too_large() -> String {
    format!(
        "an object of more than {} MiB; take the file out of the repository, or let the server leave it out \
         (uploadpack.allowFilter)",
        MAX_OBJECT_BYTES >> 20
    )
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
                        return Err(too_large());
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

    /// Starts the first object.
    fn begin(&mut self, objects: u32) -> Result<(), String> {
        if objects as usize > MAX_PACK_OBJECTS {
            return Err(format!("{objects} objects, and {MAX_PACK_OBJECTS} are allowed"));
        }
        self.objects = objects;
        self.state = if objects == 0 { State::End } else { State::SIZE };
        Ok(())
    }

    /// Decompresses a part of an object to find its end. Returns the bytes after it.
    fn inflate<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        let (read, made) = (self.inflate.total_in(), self.inflate.total_out());
        let mut scratch = [0; 16 << 10];
        let status = self
            .inflate
            .decompress(bytes, &mut scratch, FlushDecompress::None)
            .map_err(|error| format!("an object that cannot be unpacked: {error}"))?;
        let taken = usize::try_from(self.inflate.total_in() - read).unwrap_or(bytes.len());
        if self.inflate.total_out() > MAX_OBJECT_BYTES as u64 {
            return Err(too_large());
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
