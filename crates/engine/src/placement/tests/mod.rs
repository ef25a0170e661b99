//! Claims about placements that need more than one stage, and the hub in memory they run on.

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
