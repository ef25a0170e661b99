//! Patches: strategic merge patches and JSON patches, selected by target or by the name in the patch.

mod apply;
mod entry;
mod items;
mod json6902;
mod row;
mod source;
mod strategic;

pub(super) use row::{JSON_6902, PATCH, STRATEGIC_MERGE};
