//! `wheelwright events`.

use std::collections::VecDeque;
use std::process::ExitCode;

use anyhow::anyhow;
use futures::stream::LocalBoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionNames;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use object::{Metadata as _, Object};

use crate::cli::connect::HubArgs;
use crate::cli::output::{Style, Ui, age};
use crate::cli::runtime::block_on;
use crate::cli::writer::{Format, failed, print};
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use crate::shell::stop_on_signal;
use api::crds;
use api::names::{ADDON_GROUP, CLUSTER_GROUP, GITOPS_GROUP, OPERATOR_GROUP, WORK_GROUP};
use object::text::plain;

/// The API's limit for a note, in characters.
const LONGEST_NOTE: usize = 1_024;
/// The longest name to print: the API's limit for object names.
const LONGEST_NAME: usize = 253;

/// Show the events of the fleet, newest last.
///
/// The events are about repositories, placements, clusters, add-ons, works, certificate requests and
/// registration operators. An API server keeps events for an hour, unless it is configured otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Object whose events to show, such as `configrepo/fleet` or `managedcluster/aws-1`. Default: all
    /// objects.
    #[arg(long = "for", value_name = "KIND/NAME")]
    about: Option<String>,
    /// Namespace of the objects. Default: all namespaces.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Show only warnings.
    #[arg(long)]
    warnings: bool,
    /// Keep running until Ctrl-C, and show each new event.
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    hub: HubArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let about = args.about.as_deref().map(EventSubject::read).transpose()?;
    let wanted = |event: &Event| args.wants(about.as_ref(), event);
    block_on(async {
        let hub = args.hub.connect().await?;
        let access: Api<Event> = match &args.namespace {
            Some(namespace) => Api::namespaced(hub, namespace),
            None => Api::all(hub),
        };
        let list = access.list(&ListParams::default()).await.map_err(failed("list events".into()))?;
        let mut events: Vec<Event> = list.items.into_iter().filter(wanted).collect();
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
            watch(wanted, &access, version, ui).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints matching events until a signal arrives.
async fn watch(
    wanted: impl Fn(&Event) -> bool,
    access: &Api<Event>,
    version: String,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let stop = stop_on_signal();
    let mut events = NewEvents { access, version, stream: None, listed: VecDeque::new() };
    while let Some(event) = stop.run_until_cancelled(events.next()).await {
        let event = event.map_err(failed("watch events".into()))?;
        if wanted(&event) {
            ui.line(line(&event, now(), ui.style()))?;
        }
    }
    Ok(())
}

/// The events after a version. If the version is too old for a watch (410), the events are listed instead.
struct NewEvents<'a> {
    access: &'a Api<Event>,
    version: String,
    stream: Option<LocalBoxStream<'static, kube::Result<WatchEvent<Event>>>>,
    listed: VecDeque<Event>,
}

impl NewEvents<'_> {
    async fn next(&mut self) -> kube::Result<Event> {
        loop {
            if let Some(event) = self.listed.pop_front() {
                return Ok(event);
            }
            match self.receive().await {
                Ok(None) => {}
                Ok(Some(event)) => return Ok(event),
                Err(kube::Error::Api(status)) if status.code == 410 => self.list().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next message of the watch. API servers end watches after a while; the next watch resumes from
    /// the last version.
    async fn receive(&mut self) -> kube::Result<Option<Event>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let watched = self.access.watch(&WatchParams::default().timeout(290), &self.version).await?;
                none.insert(watched.boxed_local())
            }
        };
        match stream.try_next().await? {
            Some(WatchEvent::Added(event) | WatchEvent::Modified(event)) => {
                if let Some(version) = &event.metadata.resource_version {
                    self.version.clone_from(version);
                }
                return Ok(Some(event));
            }
            Some(WatchEvent::Deleted(_)) => {}
            Some(WatchEvent::Bookmark(mark)) => self.version = mark.metadata.resource_version,
            Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status)),
            None => self.stream = None,
        }
        Ok(None)
    }

    /// Lists the events after the version, and drops the watch.
    async fn list(&mut self) -> kube::Result<()> {
        let list = self.access.list(&ListParams::default()).await?;
        let since = number(&self.version);
        let version = |event: &Event| number(event.metadata.resource_version.as_deref().unwrap_or_default());
        let mut new: Vec<Event> = list.items.into_iter().filter(|event| version(event) > since).collect();
        new.sort_by_key(version);
        self.listed = new.into();
        self.version = list.metadata.resource_version.unwrap_or_default();
        self.stream = None;
        Ok(())
    }
}

/// Returns a resource version as a number; 0 if it is not numeric.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

struct EventSubject {
    kind: String,
    name: String,
}

impl EventSubject {
    /// Parses KIND/NAME. Like kubectl, accepts the name of a kind, its plural or a short name.
    fn read(text: &str) -> Result<Self, CommandError> {
        let Some((wanted, name)) = text.split_once('/') else {
            let error = anyhow!("--for wants KIND/NAME");
            return Err(CommandError::hinted(error, "for example --for configrepo/fleet"));
        };
        let requests = CustomResourceDefinitionNames {
            kind: CertificateSigningRequest::KIND.into(),
            plural: CertificateSigningRequest::URL_PATH_SEGMENT.into(),
            ..CustomResourceDefinitionNames::default()
        };
        let kinds: Vec<_> = crds::all().into_iter().map(|one| one.spec.names).chain([requests]).collect();
        let wanted = wanted.to_lowercase();
        let is_wanted = |names: &&CustomResourceDefinitionNames| {
            let mut short = names.short_names.iter().flatten();
            names.kind.to_lowercase() == wanted || names.plural == wanted || short.any(|one| *one == wanted)
        };
        let Some(names) = kinds.iter().find(is_wanted) else {
            let kinds: Vec<String> = kinds.iter().map(|names| names.kind.to_lowercase()).collect();
            let error = anyhow!("--for: {wanted:?} is not a kind of the fleet");
            return Err(CommandError::hinted(error, format!("the kinds are {}", kinds.join(", "))));
        };
        Ok(Self { kind: names.kind.clone(), name: name.to_owned() })
    }
}

impl Args {
    fn wants(&self, subject: Option<&EventSubject>, event: &Event) -> bool {
        let about = event.regarding.clone().unwrap_or_default();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let group = text(&about.api_version).split('/').next().unwrap_or_default().to_owned();
        let groups = [CLUSTER_GROUP, WORK_GROUP, ADDON_GROUP, GITOPS_GROUP, OPERATOR_GROUP];
        let is_ours = groups.contains(&group.as_str())
            || about.kind.as_deref() == Some(CertificateSigningRequest::KIND);
        let is_named = subject.is_none_or(|EventSubject { kind, name }| {
            about.kind.as_ref() == Some(kind) && about.name.as_ref() == Some(name)
        });
        let is_there = self.namespace.as_ref().is_none_or(|namespace| text(&about.namespace) == *namespace);
        let is_loud = !self.warnings || event.type_.as_deref() == Some("Warning");
        is_ours && is_named && is_there && is_loud
    }
}

/// Returns the time at which an event was last seen.
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    #[tokio::test]
    async fn a_watch_from_a_forgotten_version_shows_the_events_since_then() {
        let event = |version: &str| {
            let metadata =
                json!({"name": format!("e{version}"), "namespace": "n", "resourceVersion": version});
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, "eventTime": null})
        };
        let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old",
            "reason": "Expired", "code": 410});
        let items = [event("12"), event("9"), event("11"), event("10")];
        let list = json!({"kind": "EventList", "apiVersion": "events.k8s.io/v1", "items": items,
            "metadata": {"resourceVersion": "30"}});
        let answers = [
            (200_u16, json!({"type": "ADDED", "object": event("10")})),
            (200, json!({"type": "ERROR", "object": gone})),
            (200, list.clone()),
            (410, gone),
            (200, list),
            (200, json!({"type": "ADDED", "object": event("31")})),
        ];
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            seen.lock().unwrap().push(query.contains("resourceVersion=30"));
            let (status, answer) = answers.lock().unwrap().pop_front().unwrap();
            let body = Body::from(format!("{answer}\n").into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap()) }
        });
        let access: Api<Event> = Api::all(kube::Client::new(service, "default"));
        let mut events =
            NewEvents { access: &access, version: "9".into(), stream: None, listed: VecDeque::new() };
        for name in ["e10", "e11", "e12", "e31"] {
            assert_eq!(events.next().await.unwrap().name(), name);
        }
        assert_eq!(*asked.lock().unwrap(), [false, false, false, true, false, true]);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_all_kinds() {
        let read =
            |text: &str| EventSubject::read(text).map(|EventSubject { kind, name }| format!("{kind}/{name}"));
        for (text, subject) in [
            ("configrepo/fleet", "ConfigRepo/fleet"),
            ("RolloutPolicies/p", "RolloutPolicy/p"),
            ("certificatesigningrequests/a", "CertificateSigningRequest/a"),
        ] {
            assert_eq!(read(text).unwrap(), subject);
        }
        let refused = read("foo/bar").unwrap_err();
        assert_eq!(refused.error.to_string(), "--for: \"foo\" is not a kind of the fleet");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("configrepo, ") && hint.ends_with("certificatesigningrequest"), "{hint}");
    }

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
    fn an_event_does_not_control_the_terminal() {
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "A\u{1b}[2K", "note": "n\u{1b}[2K",
            "regarding": {"kind": "K\r", "namespace": "n\u{7}", "name": "x\u{1b}]0;t\u{7}\n"},
        }))
        .unwrap();
        let shown = line(&event, "2026-01-01T00:15:00Z".parse().unwrap(), Style::PLAIN);
        assert!(!shown.contains(char::is_control) && shown.contains("K n/x]0;t: n"), "{shown:?}");
    }
}
