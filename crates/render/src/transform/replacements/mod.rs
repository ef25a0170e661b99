//! `replacements`: copies values from a field of one object to fields of others.

mod apply;
mod fields;
mod row;

pub(super) use row::REPLACEMENT;
