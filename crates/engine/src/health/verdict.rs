//! The health of a live object.

use super::table::{Meaning, row};
use object::Object;

/// The health of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectHealth {
    /// The controller has done what the spec requests, or there is no controller.
    Current,
    /// The controller is working, for the given reason.
    InProgress(String),
    /// A rollout to clusters is in progress, for the given reason. It has its own deadlines.
    RollingOut(String),
    /// The controller has given up, for the given reason.
    Failed(String),
}

impl ObjectHealth {
    /// Determines the health of a live object.
    pub fn of(live: &Object) -> Self {
        if live.is_terminating() {
            return Self::InProgress("it is being deleted".into());
        }
        let Some(row) = row(live) else { return Self::Current };
        match row.judge(live) {
            Ok(None) => Self::Current,
            Ok(Some((Meaning::InProgress, words))) => Self::InProgress(words),
            Ok(Some((Meaning::RollingOut, words))) => Self::RollingOut(words),
            Ok(Some((Meaning::Failed, words))) => Self::Failed(words),
            Err(error) => Self::InProgress(format!("cannot evaluate its status: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
