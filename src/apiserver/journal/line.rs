//! One line of the journal: `digest json`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use object::{Key, Object};
use store::{GroupResource, JournalEntry};

/// The number of hex digits of the digest before each line.
const DIGEST: usize = 16;

/// The content of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// Everything before this line was synced. Revisions up to this one may have been used.
    Mark(u64),
    Write(JournalEntry),
}

#[derive(Serialize, Deserialize)]
struct Mark {
    reserved: u64,
}

#[derive(Serialize, Deserialize)]
struct Write<O> {
    revision: u64,
    group: String,
    resource: String,
    key: Key,
    object: Option<O>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Parsed {
    Mark(Mark),
    Write(Write<Object>),
}

pub(super) fn encode_mark(reserved: u64, into: &mut Vec<u8>) {
    encode(&Mark { reserved }, into);
}

pub(super) fn encode_entry(entry: &JournalEntry, into: &mut Vec<u8>) {
    let write = Write {
        revision: entry.revision,
        group: entry.resource.group.clone(),
        resource: entry.resource.resource.clone(),
        key: entry.key.clone(),
        object: entry.object.as_deref(),
    };
    encode(&write, into);
}

fn encode(line: &impl Serialize, into: &mut Vec<u8>) {
    let json = serde_json::to_vec(line).expect("JSON objects have string keys, so they serialize");
    into.extend(digest(&json).into_bytes());
    into.push(b' ');
    into.extend(json);
    into.push(b'\n');
}

/// Decodes a line, including its line end.
pub(super) fn decode(line: &[u8]) -> Result<Line, String> {
    let line = line.strip_suffix(b"\n").ok_or("it is incomplete")?;
    let (sum, json) = line.split_at_checked(DIGEST).ok_or("it is too short")?;
    let json = json.strip_prefix(b" ").ok_or("its digest is not followed by a space")?;
    if sum != digest(json).as_bytes() {
        return Err("its digest is wrong".into());
    }
    Ok(match serde_json::from_slice(json).map_err(|e| e.to_string())? {
        Parsed::Mark(Mark { reserved }) => Line::Mark(reserved),
        Parsed::Write(Write { revision, group, resource, key, object }) => Line::Write(JournalEntry {
            revision,
            resource: GroupResource::new(group, resource),
            key,
            object: object.map(Arc::new),
        }),
    })
}

fn digest(json: &[u8]) -> String {
    object::hex(Sha256::digest(json).get(..DIGEST / 2).unwrap_or_default())
}
