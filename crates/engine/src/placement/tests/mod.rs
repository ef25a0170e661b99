//! Tests for placements that involve more than one stage, and their in-memory hub.

mod concerns;
mod external_edits;
mod golden;
mod groups;
mod harness;
mod incremental;
mod layout;
mod limits;
mod properties;
mod schedules;
mod scores;
