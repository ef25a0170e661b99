//! `wheelwright events`.

use std::process::ExitCode;

use anyhow::anyhow;
use futures::TryStreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use object::{Metadata as _, Object};

use super::block_on;
use crate::cli::connect::HubArgs;
use crate::cli::output::{Style, Ui};
use crate::cli::writer::{Format, failed, print};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use crate::shell::stop_on_signal;
use api::names::{ADDON_GROUP, CLUSTER_GROUP, GITOPS_GROUP, WORK_GROUP};
use object::text::plain;

/// Longest note that is shown.
const LONGEST_NOTE: usize = 400;
/// Longest name that is shown: that of an object.
const LONGEST_NAME: usize = 253;

/// Show the events about the fleet: repositories, placements, clusters, add-ons and works. The newest is last.
///
/// An API server keeps events for an hour, unless it is configured otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only events about this object, such as configrepo/fleet or managedcluster/aws-1.
    #[arg(long = "for", value_name = "KIND/NAME")]
    about: Option<String>,
    /// Only events about objects of this namespace.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only warnings.
    #[arg(long)]
    warnings: bool,
    /// Go on until Ctrl-C, and show each new event.
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// How the events are printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if args.about.as_ref().is_some_and(|about| !about.contains('/')) {
        let error = anyhow!("--for wants KIND/NAME");
        return Err(CommandError::hinted(error, "for example --for configrepo/fleet"));
    }
    block_on(async {
        let hub = args.hub.connect().await?;
        let access: Api<Event> = match &args.namespace {
            Some(namespace) => Api::namespaced(hub, namespace),
            None => Api::all(hub),
        };
        let list = access.list(&ListParams::default()).await.map_err(failed("list events".into()))?;
        let mut events: Vec<Event> = list.items.into_iter().filter(|event| args.wants(event)).collect();
        events.sort_by_key(|event| (time(event), event.name().to_owned()));
        if args.output != Format::Text {
            print(ui, args.output, &events.iter().map(Object::from_typed).collect::<Vec<_>>())?;
            return Ok(ExitCode::SUCCESS);
        }
        if events.is_empty() && !args.watch {
            ui.line("no events; an API server keeps them for an hour")?;
        }
        for event in &events {
            ui.line(line(event, now(), ui.style()))?;
        }
        if args.watch {
            let version = list.metadata.resource_version.unwrap_or_default();
            watch(args, &access, &version, ui).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints events until a signal comes or the API server ends the watch.
async fn watch(args: &Args, access: &Api<Event>, version: &str, ui: &mut Ui) -> Result<(), CommandError> {
    let stop = stop_on_signal();
    let watched = access.watch(&WatchParams::default().timeout(290), version).await;
    let mut stream = Box::pin(watched.map_err(failed("watch events".into()))?);
    let mut version = version.to_owned();
    while let Some(next) = stop.run_until_cancelled(stream.try_next()).await {
        match next.map_err(failed("watch events".into()))? {
            Some(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
                version = event.metadata.resource_version.clone().unwrap_or(version);
                if args.wants(&event) {
                    ui.line(line(&event, now(), ui.style()))?;
                }
            }
            Some(WatchEvent::Deleted(_)) => {}
            Some(WatchEvent::Bookmark(mark)) => version = mark.metadata.resource_version,
            Some(WatchEvent::Error(status)) => {
                return Err(failed("watch events".into())(kube::Error::Api(status)));
            }
            // An API server ends watches after a while; the next watch starts where this one ended.
            None => {
                let again = access.watch(&WatchParams::default().timeout(290), &version).await;
                stream = Box::pin(again.map_err(failed("watch events".into()))?);
            }
        }
    }
    Ok(())
}

impl Args {
    fn wants(&self, event: &Event) -> bool {
        let about = event.regarding.clone().unwrap_or_default();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let group = text(&about.api_version).split('/').next().unwrap_or_default().to_owned();
        let is_ours = [CLUSTER_GROUP, WORK_GROUP, ADDON_GROUP, GITOPS_GROUP].contains(&group.as_str());
        let is_named =
            self.about.as_ref().and_then(|about| about.split_once('/')).is_none_or(|(kind, name)| {
                let has = text(&about.kind).to_lowercase();
                let kind = kind.to_lowercase();
                (has == kind || format!("{has}s") == kind) && text(&about.name) == name
            });
        let is_there = self.namespace.as_ref().is_none_or(|namespace| text(&about.namespace) == *namespace);
        let is_loud = !self.warnings || event.type_.as_deref() == Some("Warning");
        is_ours && is_named && is_there && is_loud
    }
}

/// Returns when an event was last seen.
fn time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().map(|series| series.last_observed_time.0);
    let core = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    series.or(core).or(event.event_time.as_ref().map(|time| time.0))
}

fn line(event: &Event, now: Timestamp, style: Style) -> String {
    let about = event.regarding.clone().unwrap_or_default();
    let word = |text: Option<&str>| plain(text.unwrap_or_default(), LONGEST_NAME);
    let namespace = word(about.namespace.as_deref());
    let namespace = if namespace.is_empty() { namespace } else { namespace + "/" };
    let is_warning = event.type_.as_deref() == Some("Warning");
    let reason = format!("{:<22}", word(event.reason.as_deref()));
    let reason = if is_warning { style.colour("31", &reason) } else { reason };
    let count = event
        .series
        .as_ref()
        .map(|series| series.count)
        .or(event.deprecated_count)
        .filter(|count| *count > 1);
    let count = count.map(|count| format!(" (x{count})")).unwrap_or_default();
    format!(
        "{:>4}  {}  {reason}  {} {namespace}{}: {}{count}",
        time(event).map(|time| age(time, now)).unwrap_or_default(),
        if is_warning { "Warning" } else { "Normal " },
        word(about.kind.as_deref()),
        word(about.name.as_deref()),
        plain(event.note.as_deref().unwrap_or_default(), LONGEST_NOTE),
    )
}

/// Returns the time since an event, in the largest unit.
fn age(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line_with_its_age_and_its_count() {
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Warning",
            "reason": "FetchFailed", "note": "no route\nto host",
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:10:00.000000Z"},
            "regarding": {"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "namespace": "n", "name": "fleet"},
        }))
        .unwrap();
        let shown = line(&event, "2026-01-01T00:15:00Z".parse().unwrap(), Style::PLAIN);
        assert_eq!(shown, "  5m  Warning  FetchFailed             ConfigRepo n/fleet: no route to host (x3)");
    }

    #[test]
    fn an_event_does_not_steer_the_terminal() {
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "A\u{1b}[2K", "note": "n\u{1b}[2K",
            "regarding": {"kind": "K\r", "namespace": "n\u{7}", "name": "x\u{1b}]0;t\u{7}\n"},
        }))
        .unwrap();
        let shown = line(&event, "2026-01-01T00:15:00Z".parse().unwrap(), Style::PLAIN);
        assert!(!shown.contains(char::is_control) && shown.contains("K n/x]0;t: n"), "{shown:?}");
    }
}
