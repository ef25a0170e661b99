//! The store on disk: one file of writes with a digest for each line. A write is synced before it is visible
//! or answered.
//!
//! The file begins with the content of the store and continues with every later write. When it has grown far
//! beyond the initial content, a new file is written beside it, and an atomic rename replaces the old one.
//!
//! Every batch of writes that is synced together begins with a [`line::Line::Mark`], which records that
//! everything before it was synced. So a batch that a crash tore is distinguished from damage, whatever the
//! order of its pages on the disk: no mark follows it. It was never acknowledged, and is dropped. Damage
//! before the last mark is an error that names file and line.
//!
//! If the disk refuses a batch, the batch is cut off again, and its writes are undone before they are
//! answered, so nobody saw them. The next write tries the disk again.

mod file;
mod line;
#[cfg(test)]
mod tests;
mod writer;

pub use file::JournalError;
pub(super) use file::{End, read};
pub(super) use writer::{Before, Durable, Journal, Stores};
