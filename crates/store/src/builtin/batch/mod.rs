//! `batch`: jobs.

mod cron_job;
mod job;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&cron_job::KIND, &job::KIND];
