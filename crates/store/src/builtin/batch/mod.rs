//! `batch`: jobs.

mod cron_job;
mod job;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&cron_job::KIND, &job::KIND];
