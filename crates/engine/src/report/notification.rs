//! The states of a repository that people on call learn about, and the messages about them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::commit_state::WAITS_FOR_APPROVAL;
use super::link::may_have_credentials;
use super::message::{Outcome, headline, phrase, worst};
use super::{FleetReport, Workload, commit_link, digest};
use crate::rollout::ClusterState;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::NotifiedState::{ApprovalNeeded, RolledBack, RolloutFailed};
use api::gitops::v1alpha1::{ConfigRepo, NotificationType, NotifiedState};
use api::names::gitops_conditions::STALLED;
use object::text::{plain, short_commit};

/// The reasons for which a repository is stalled because of the health of its objects.
const UNHEALTHY: [&str; 2] = ["HealthCheckFailed", "HealthTimeout"];
/// Maximum length of a cause, in characters.
const CAUSE: usize = 600;

/// A state of a repository, for people on call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The state.
    pub state: NotifiedState,
    /// The hash of the state with its details. Equal situations are reported once. Empty after a recovery.
    pub digest: String,
    /// The commit that caused it.
    pub commit: String,
    /// The cause, as text for people.
    pub cause: String,
    /// The command that shows more, or what to do.
    pub command: String,
}

/// Returns the most urgent reason for which a repository needs a person; `None` if it needs nobody. `is_unreachable` is
/// true if its git server has not responded for a while.
pub fn problem(repo: &ConfigRepo, fleet: &FleetReport, is_unreachable: bool) -> Option<Situation> {
    let of_workloads = |states| of_workloads(states, fleet);
    // A failed rollout says more than the health of its set.
    let is_unhealthy = UNHEALTHY.contains(&fleet.condition.0.as_str());
    let failed = is_unhealthy.then(|| of_workloads(&[RolloutFailed, RolledBack])).flatten();
    failed
        .or_else(|| of_repository(repo, fleet, is_unreachable))
        .or_else(|| of_workloads(&[RolloutFailed, RolledBack, ApprovalNeeded]))
}

fn of_repository(repo: &ConfigRepo, fleet: &FleetReport, is_unreachable: bool) -> Option<Situation> {
    let FleetReport { repo: name, seen, condition: (reason, message), .. } = fleet;
    let (state, command) = match () {
        () if fleet.ready => return None,
        () if WAITS_FOR_APPROVAL.contains(&reason.as_str()) => {
            (NotifiedState::ApprovalNeeded, format!("wheelwright repo approve {name}"))
        }
        () if repo.holds(STALLED) => (NotifiedState::Stalled, "wheelwright status".to_owned()),
        () if is_unreachable => (NotifiedState::Unreachable, "wheelwright doctor".to_owned()),
        () => return None,
    };
    let status = repo.status.as_ref();
    let plan = status.map(|status| status.held_plan.as_str()).unwrap_or_default();
    let deletions = status.and_then(|status| status.held_deletions.as_ref());
    let deletions = deletions.map(|held| held.approval.as_str()).unwrap_or_default();
    // A server that is down fails in more than one way.
    let detail = if state == NotifiedState::Unreachable { "" } else { reason.as_str() };
    let details = [("reason", detail), ("commit", seen), ("plan", plan), ("deletions", deletions)];
    let details = details.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Situation {
        digest: digest_of(&state, details.into()),
        state,
        commit: seen.clone(),
        cause: plain(&format!("{reason}: {message}"), CAUSE),
        command,
    })
}

/// Returns the first of the states that a workload has.
fn of_workloads(states: &[NotifiedState], fleet: &FleetReport) -> Option<Situation> {
    states.iter().find_map(|state| {
        let all: Vec<&Workload> =
            fleet.workloads().filter(|workload| state_of(workload).as_ref() == Some(state)).collect();
        Some(of_state(state.clone(), *all.first()?, &all, fleet))
    })
}

fn of_state(state: NotifiedState, first: &Workload, all: &[&Workload], fleet: &FleetReport) -> Situation {
    let failed = || first.clusters.iter().find(|cluster| cluster.has_failed());
    let detail = match &state {
        NotifiedState::RolloutFailed => {
            failed().map(|cluster| format!("{}: {}", cluster.name, cluster.message))
        }
        NotifiedState::RolledBack => first.holds.first().cloned(),
        NotifiedState::ApprovalNeeded
        | NotifiedState::Recovered
        | NotifiedState::Stalled
        | NotifiedState::Unreachable
        | NotifiedState::Other(_) => {
            first.approvals.first().map(|token| format!("{} waits for the approval {token}", first.name))
        }
    };
    let phrase = worst(all.iter().copied()).map(phrase);
    let cause: Vec<String> = phrase.into_iter().chain(detail).collect();
    let details = all.iter().map(|workload| {
        let revisions = workload.rollouts.iter().map(|rollout| rollout.desired.as_str());
        let revisions = revisions.collect::<Vec<_>>().join(" ");
        let is_approval = state == NotifiedState::ApprovalNeeded;
        (workload.name.clone(), if is_approval { workload.approvals.join(" ") } else { revisions })
    });
    let command = match first.rollouts.as_slice() {
        [] => "wheelwright status".to_owned(),
        [_, ..] => format!("wheelwright rollout status {}", first.name),
    };
    Situation {
        digest: digest_of(&state, details.collect()),
        state,
        commit: fleet.applied.clone(),
        cause: plain(&cause.join("; "), CAUSE),
        command,
    }
}

/// Returns the state of a workload that needs a person.
fn state_of(workload: &Workload) -> Option<NotifiedState> {
    match Outcome::from_workload(workload) {
        Outcome::Failed(_) => Some(NotifiedState::RolloutFailed),
        Outcome::Returning(..) | Outcome::Quarantined(_) | Outcome::RolledBack(_) => {
            Some(NotifiedState::RolledBack)
        }
        Outcome::Behind(_) | Outcome::Broken(_) | Outcome::Done => {
            (!workload.approvals.is_empty()).then_some(NotifiedState::ApprovalNeeded)
        }
    }
}

fn digest_of(state: &NotifiedState, mut details: BTreeMap<String, String>) -> String {
    details.insert(String::new(), state.as_str().to_owned());
    digest(&details)
}

/// Returns the recovery from a state that was reported; `None` if it is not over, or was a recovery. There must be no
/// [`problem`].
pub fn recovery(repo: &ConfigRepo, fleet: &FleetReport, reported: &NotifiedState) -> Option<Situation> {
    // A cluster that does not respond may never do so.
    let has_ended =
        |state: &ClusterState| state.is_settled() || matches!(state, ClusterState::Unreachable { .. });
    let is_over = match reported {
        NotifiedState::Recovered => false,
        // The commit may wait for something else.
        NotifiedState::Unreachable => {
            repo.status.as_ref().is_some_and(|status| status.unreachable_since.is_none())
        }
        NotifiedState::Stalled | NotifiedState::ApprovalNeeded | NotifiedState::Other(_) => fleet.ready,
        NotifiedState::RolloutFailed | NotifiedState::RolledBack => {
            let mut clusters = fleet.workloads().flat_map(|workload| &workload.clusters);
            fleet.ready && clusters.all(|cluster| has_ended(&cluster.state))
        }
    };
    is_over.then(|| recovered(fleet))
}

fn recovered(fleet: &FleetReport) -> Situation {
    let FleetReport { applied, condition: (reason, message), .. } = fleet;
    let cause = match fleet.ready {
        true => format!("{} is applied; {}", short_commit(applied), headline(fleet)),
        false => format!("the git server responds; {reason}: {message}"),
    };
    Situation {
        state: NotifiedState::Recovered,
        digest: String::new(),
        commit: applied.clone(),
        cause: plain(&cause, CAUSE),
        command: "wheelwright status".into(),
    }
}

/// A message about a situation.
pub struct Message<'a> {
    /// The ID of the message.
    pub id: &'a str,
    /// The uid of the hub.
    pub hub: &'a str,
    /// The namespace and name of the repository.
    pub repo: &'a str,
    /// The URL of the repository.
    pub url: &'a str,
    /// The time of the message.
    pub time: jiff::Timestamp,
    /// The situation of the repository.
    pub situation: &'a Situation,
}

impl Message<'_> {
    /// Returns the body of the message; empty for an unknown format.
    pub fn body(&self, format: &NotificationType) -> String {
        match format {
            NotificationType::CloudEvents => self.cloud_event().to_string(),
            NotificationType::Slack => json!({"text": self.slack_text()}).to_string(),
            NotificationType::Other(_) => String::new(),
        }
    }

    /// Returns the URL of the repository; empty if it may contain credentials.
    fn shareable_url(&self) -> &str {
        if may_have_credentials(self.url) { "" } else { self.url }
    }

    /// Returns the message as a CloudEvent
    /// ([specification](https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md)).
    fn cloud_event(&self) -> Value {
        let Self { id, hub, repo, url: _, time, situation } = self;
        let url = self.shareable_url();
        let Situation { state, digest: _, commit, cause, command } = situation;
        let link = commit_link(url, commit).unwrap_or_default();
        let data = [
            ("repository", *repo),
            ("url", url),
            ("state", state.as_str()),
            ("cause", cause),
            ("commit", commit),
            ("link", &link),
            ("command", command),
        ];
        let present = data.into_iter().filter(|(_, value)| !value.is_empty());
        let data: Map<String, Value> = present.map(|(field, value)| (field.into(), value.into())).collect();
        let mut event = json!({
            "specversion": "1.0",
            "id": id,
            "type": format!("dev.wheelwright.configrepo.{}", state.as_str()),
            "source": format!("/hubs/{hub}/configrepos/{repo}"),
            "time": time.to_string(),
            "datacontenttype": "application/json",
            "data": data,
        });
        // An attribute must not be empty.
        if let Some(event) = event.as_object_mut().filter(|_| !commit.is_empty()) {
            event.insert("subject".into(), commit.as_str().into());
        }
        event
    }

    /// Returns the message in the markup of Slack
    /// ([formatting](https://docs.slack.dev/messaging/formatting-message-text)).
    fn slack_text(&self) -> String {
        let Situation { state, digest: _, commit, cause, command } = self.situation;
        let short = escaped(short_commit(commit));
        let commit = match commit_link(self.shareable_url(), commit) {
            Some(link) => format!("<{}|{short}> ", escaped(&link)),
            None if commit.is_empty() => String::new(),
            None => format!("`{short}` "),
        };
        let (repo, cause, command) = (escaped(self.repo), escaped(cause), escaped(command));
        format!("*{repo}* {}: {cause}\n{commit}`{command}`", words(state))
    }
}

fn words(state: &NotifiedState) -> &str {
    match state {
        NotifiedState::Recovered => ":white_check_mark: has recovered",
        NotifiedState::Stalled => ":red_circle: is stalled",
        NotifiedState::ApprovalNeeded => ":raised_hand: needs an approval",
        NotifiedState::Unreachable => ":red_circle: cannot be fetched",
        NotifiedState::RolloutFailed => ":red_circle: has a failed rollout",
        NotifiedState::RolledBack => ":red_circle: has a rollback",
        NotifiedState::Other(other) => other,
    }
}

/// Escapes the three characters that have a meaning in the markup of Slack, so that no text mentions people or hides a
/// link.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
#[path = "tests/notification.rs"]
mod tests;
