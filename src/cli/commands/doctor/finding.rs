//! The result of a check.

use serde::Serialize;

use crate::cli::output::Style;
use crate::cli::{CommandError, writer};
use crate::shell::with_causes;
use object::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli::commands) enum Health {
    Good,
    /// It works, but a person should look at it.
    Warning,
    /// It does not work.
    Bad,
    /// The check failed to run.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli::commands) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    pub(in crate::cli::commands) health: Health,
    /// The observation, as a sentence.
    pub(super) message: String,
    /// The advice; empty if there is nothing to do.
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn good(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, health: Health::Good, message: message.into(), advice: String::new() }
    }

    pub(in crate::cli::commands) fn warning(
        check: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { check, health: Health::Warning, message: message.into(), advice: advice.into() }
    }

    pub(super) fn bad(check: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, health: Health::Bad, message: message.into(), advice: advice.into() }
    }

    /// Returns the finding for a check that failed to run.
    pub(super) fn unknown(check: &'static str, CommandError { error, hint }: CommandError) -> Self {
        let advice = hint.unwrap_or_else(|| "check the API server: kubectl get --raw /readyz".into());
        Self { check, health: Health::Unknown, message: with_causes(error.as_ref()), advice }
    }

    pub(in crate::cli::commands) fn text(&self, style: Style) -> String {
        let (mark, colour) = match self.health {
            Health::Good => ('✓', "32"),
            Health::Warning => ('!', "33"),
            Health::Bad => ('✗', "31"),
            Health::Unknown => ('?', "31"),
        };
        let advice = if self.advice.is_empty() { String::new() } else { format!("    {}\n", self.advice) };
        format!("{} {:<13} {}\n{advice}", style.colour(colour, &mark.to_string()), self.check, self.message)
    }
}

/// Lists all objects of a kind, or returns a finding if they cannot be read.
pub(super) async fn all<K: Kind>(
    check: &'static str,
    client: &kube::Client,
    namespace: &str,
) -> Result<Vec<K>, Finding> {
    writer::list::<K>(client, namespace, "").await.map_err(|error| Finding::unknown(check, error))
}

/// Joins the first names of a list, and adds the number of remaining names.
pub(super) fn few<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const NAMED: usize = 5;
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    text
}
