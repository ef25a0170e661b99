//! The store on disk: one file of writes, with a digest for each line. A write is synced before it is visible
//! or acknowledged.
//!
//! The file starts with the content of the store and continues with every later write. When it has grown far
//! beyond its initial content, a new file is written next to it and replaces it with an atomic rename.
//!
//! Each batch of writes that is synced together starts with a [`line::Line::Mark`], which records that
//! everything before it was synced. A batch torn by a crash can therefore be told apart from damage, in
//! whatever order its pages reached the disk: no mark follows it. It was never acknowledged, and is dropped.
//! Damage before the last mark is an error that names file and line.
//!
//! If a batch fails on disk, it is truncated and its writes are undone before their responses, so that nobody
//! has seen them. The next write tries the disk again.

mod file;
mod line;
#[cfg(test)]
mod tests;
mod writer;

pub use file::JournalError;
pub(super) use file::{End, read};
pub(super) use writer::{Before, Durable, Journal, Stores};
