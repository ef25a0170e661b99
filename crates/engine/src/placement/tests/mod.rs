//! Claims about placements that need more than one stage, and the hub in memory they run on.

mod external_edits;
mod golden;
mod harness;
mod layout;
mod properties;
mod schedules;
