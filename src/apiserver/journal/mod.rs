//! The store on disk: one file of writes, checked line by line, synced before a write is shown or answered.
//!
//! The file begins with everything there was when it was begun and goes on with every write since. When it
//! has grown far beyond that, a new one is begun beside it and takes its place by an atomic rename.
//!
//! Every batch of writes that is synced together begins with a [`line::Line::Mark`], which says that
//! everything before it was synced. So a batch that a crash tore, in whatever order its pages reached the
//! disk, is told from damage: no mark follows it. It was never acknowledged, and is dropped. Damage before
//! the last mark is refused, naming file and line.
//!
//! A batch that the disk refuses is cut off again, and its writes are undone before they are answered: nobody
//! saw them. The next write tries the disk again.

mod file;
mod line;
#[cfg(test)]
mod tests;
mod writer;

pub use file::JournalError;
pub(super) use file::read;
pub(super) use writer::{Durable, Journal, Stores};
