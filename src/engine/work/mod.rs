//! Works on a spoke: what of them is applied, what it reports back, what is left to remove.

mod jsonpath;

pub use jsonpath::{PathError, find};
