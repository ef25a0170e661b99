//! Patches: strategic merge patches and JSON patches, by target or by the name they carry.

mod apply;
mod entry;
mod items;
mod json6902;
mod row;
mod source;
mod strategic;

pub(super) use row::{JSON_6902, PATCH, STRATEGIC_MERGE};
