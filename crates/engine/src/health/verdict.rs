//! The health of a live object.

use super::table::{Meaning, row};
use object::Object;

/// The health of a live object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectHealth {
    /// Its controller has done what the spec asks for, or it has no controller.
    Current,
    /// Its controller is at work, for the reason given.
    InProgress(String),
    /// Its controller has given up, for the reason given.
    Failed(String),
}

impl ObjectHealth {
    /// Judges a live object.
    pub fn of(live: &Object) -> Self {
        if live.is_terminating() {
            return Self::InProgress("it is being deleted".into());
        }
        let Some(row) = row(live) else { return Self::Current };
        match row.judge(live) {
            Ok(None) => Self::Current,
            Ok(Some((Meaning::InProgress, words))) => Self::InProgress(words),
            Ok(Some((Meaning::Failed, words))) => Self::Failed(words),
            Err(error) => Self::InProgress(format!("its status cannot be judged: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
