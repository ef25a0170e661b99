//! Writes objects for commands, and prints the results.

use std::time::Duration;

use anyhow::anyhow;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connect::HubArgs;
use super::output::Ui;
use super::{CommandError, CommandResult};
use crate::shell::{self, list_all};
use api::names::CLI;
use object::{Gvk, Key, Kind, Metadata as _, Object};

/// The delays between attempts after conflicts, as in client-go's `DefaultBackoff`, which is meant for objects
/// that controllers write too.
const CONFLICT_WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// Options of commands that write.
#[derive(Debug, Default, clap::Args)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    pub(super) hub: HubArgs,
    /// Send the change as a dry run: the API server validates it, but does not store it.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// `--output` of commands that write or list objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// The objects as a JSON list.
    Json,
    /// The objects as YAML documents.
    Yaml,
    /// The names of the objects, in the format of kubectl.
    Name,
}

/// Writes to an API server and collects the output.
pub(super) struct Writer {
    client: kube::Client,
    dry_run: bool,
    output: Format,
    lines: Vec<String>,
    objects: Vec<Object>,
}

/// Returns an API client for a kind, in a namespace unless it is empty.
pub(super) fn api<K: Kind>(client: &kube::Client, namespace: &str) -> Api<DynamicObject> {
    let Gvk { group, version, kind } = Gvk::of::<K>();
    let names = GroupVersionKind::gvk(&group, &version, &kind);
    api_of_resource(client, &ApiResource::from_gvk_with_plural(&names, &K::plural(&())), namespace)
}

/// Returns an API client for a built-in kind, in a namespace unless it is empty.
pub(super) fn api_of(client: &kube::Client, gvk: &Gvk, namespace: &str) -> Api<DynamicObject> {
    api_of_resource(client, &resource_of(gvk), namespace)
}

/// Returns the resource of a built-in kind.
pub(super) fn resource_of(gvk: &Gvk) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind))
}

/// Returns an object as the API server sent it.
pub(super) fn untyped(object: &DynamicObject) -> anyhow::Result<Object> {
    Ok(Object::from_value(serde_json::to_value(object)?)?)
}

fn api_of_resource(client: &kube::Client, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
    match namespace {
        "" => Api::all_with(client.clone(), resource),
        namespace => Api::namespaced_with(client.clone(), namespace, resource),
    }
}

/// Repeats a read and a change of an object while the change fails with a conflict, because another client wrote
/// the object in between.
pub(super) async fn retry_on_conflict<T>(
    attempt: impl AsyncFn() -> Result<kube::Result<T>, CommandError>,
) -> Result<kube::Result<T>, CommandError> {
    for wait in CONFLICT_WAITS {
        match attempt().await? {
            Err(kube::Error::Api(status)) if status.code == 409 => sleep(wait).await,
            done => return Ok(done),
        }
    }
    attempt().await
}

/// Returns a function that converts an API error to a command error with a hint.
pub(super) fn failed(attempt: String) -> impl FnOnce(kube::Error) -> CommandError {
    move |error| {
        let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
        let message = anyhow!("cannot {attempt}: {}", shell::message(&error));
        match code {
            403 => CommandError::hinted(
                message,
                "use a kubeconfig with this permission, or ask an administrator for it",
            ),
            404 => CommandError::hinted(
                message,
                "check the name, and that the API server is a hub: wheelwright doctor shows what is missing",
            ),
            _ => message.into(),
        }
    }
}

fn typed<K: Kind>(object: &DynamicObject) -> anyhow::Result<K> {
    Ok(serde_json::from_value(serde_json::to_value(object)?)?)
}

/// Reads an object; returns `None` if it does not exist.
pub(super) async fn find<K: Kind>(client: &kube::Client, key: &Key) -> Result<Option<K>, CommandError> {
    let found = api::<K>(client, &key.namespace)
        .get_opt(&key.name)
        .await
        .map_err(failed(format!("read {} {key}", K::kind(&()))))?;
    Ok(found.as_ref().map(typed::<K>).transpose()?)
}

/// Reads an object that must exist. `hint` is the command that lists the existing names.
pub(super) async fn get<K: Kind>(client: &kube::Client, key: &Key, hint: &str) -> Result<K, CommandError> {
    let missing = || CommandError::hinted(anyhow!("there is no {} {key}", K::kind(&())), hint);
    find::<K>(client, key).await?.ok_or_else(missing)
}

/// Lists the objects of a kind that match a label selector, sorted by key.
pub(super) async fn list<K: Kind>(
    client: &kube::Client,
    namespace: &str,
    selector: &str,
) -> Result<Vec<K>, CommandError> {
    let found = list_all(&api::<K>(client, namespace), ListParams::default().labels(selector))
        .await
        .map_err(failed(format!("list {}", K::plural(&()))))?;
    let mut objects = found.iter().map(typed::<K>).collect::<Result<Vec<_>, _>>()?;
    objects.sort_by_key(|object| Key::of(object));
    Ok(objects)
}

impl WriteArgs {
    /// Returns the arguments for writes to a hub with text output.
    pub(super) fn new(hub: HubArgs) -> Self {
        Self { hub, ..Self::default() }
    }

    pub(super) async fn connect(&self) -> Result<Writer, CommandError> {
        let client = self.hub.connect().await?;
        let Self { hub: _, dry_run, output } = *self;
        Ok(Writer { client, dry_run, output, lines: Vec::new(), objects: Vec::new() })
    }
}

impl Writer {
    /// Returns the client, for reads.
    pub(super) fn client(&self) -> &kube::Client {
        &self.client
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Adds a line to the text output.
    pub(super) fn add_line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Adds an object to the output.
    pub(super) fn add_object<K: Kind>(&mut self, object: &DynamicObject) -> Result<K, CommandError> {
        let typed: K = typed(object)?;
        self.objects.push(Object::from_typed(&typed));
        Ok(typed)
    }

    /// Applies an object; fields of other managers are kept. A dry run shows the object without the fields of the
    /// API server, so that it can be committed to a repository.
    pub(super) async fn apply<K: Kind>(&mut self, object: &K) -> Result<K, CommandError> {
        let key = Key::of(object);
        let params = PatchParams { dry_run: self.dry_run, ..PatchParams::apply(CLI).force() };
        let patch = Object::from_typed(object);
        let applied =
            api::<K>(&self.client, &key.namespace).patch(&key.name, &params, &Patch::Apply(&patch)).await;
        let applied = applied.map_err(failed(format!("apply {} {key}", K::kind(&()))))?;
        if self.dry_run {
            self.show(patch);
            return Ok(typed(&applied)?);
        }
        self.add_object(&applied)
    }

    /// Applies an object of a built-in kind; fields of other managers are kept.
    pub(super) async fn apply_object(&mut self, object: &Object) -> Result<(), CommandError> {
        let params = PatchParams { dry_run: self.dry_run, ..PatchParams::apply(CLI).force() };
        let api = api_of(&self.client, &object.gvk(), object.namespace());
        let applied = api
            .patch(object.name(), &params, &Patch::Apply(object))
            .await
            .map_err(failed(format!("apply {} {}", object.kind(), object.key())))?;
        self.show(untyped(&applied)?);
        Ok(())
    }

    /// Adds an object of any kind to the output.
    pub(super) fn show(&mut self, object: Object) {
        self.objects.push(object);
    }

    /// Creates an object, for [`retry_on_conflict`].
    pub(super) async fn try_create<K: Kind>(
        &self,
        object: &K,
    ) -> Result<kube::Result<DynamicObject>, CommandError> {
        let params = PostParams { dry_run: self.dry_run, field_manager: Some(CLI.into()) };
        let access = api::<K>(&self.client, &Key::of(object).namespace);
        let object: DynamicObject = serde_json::from_value(Object::from_typed(object).into_value())?;
        Ok(access.create(&params, &object).await)
    }

    /// Creates an object. If one with this name exists, leaves it unchanged and returns `None`.
    pub(super) async fn create<K: Kind>(&mut self, object: &K) -> Result<Option<K>, CommandError> {
        let key = Key::of(object);
        match self.try_create(object).await? {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            created => Ok(Some(
                self.add_object(&created.map_err(failed(format!("create {} {key}", K::kind(&()))))?)?,
            )),
        }
    }

    /// Merge-patches an object, for [`retry_on_conflict`].
    pub(super) async fn try_merge<K: Kind>(&self, key: &Key, patch: &Value) -> kube::Result<DynamicObject> {
        let params = PatchParams { dry_run: self.dry_run, ..PatchParams::default() };
        api::<K>(&self.client, &key.namespace).patch(&key.name, &params, &Patch::Merge(patch)).await
    }

    /// Merge-patches an object.
    pub(super) async fn merge<K: Kind>(&mut self, key: &Key, patch: Value) -> Result<K, CommandError> {
        let patched = self.try_merge::<K>(key, &patch).await;
        self.add_object(&patched.map_err(failed(format!("change {} {key}", K::kind(&()))))?)
    }

    /// Merge-patches the spec of an object based on its current state, with [`retry_on_conflict`]. `hint` is as in
    /// [`get`].
    pub(super) async fn update<K: Kind>(
        &mut self,
        key: &Key,
        hint: &str,
        change: impl Fn(&K) -> Result<Value, CommandError>,
    ) -> Result<K, CommandError> {
        let patched = retry_on_conflict(async || {
            let object = get::<K>(&self.client, key, hint).await?;
            let version = &object.meta().resource_version;
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": change(&object)?});
            Ok(self.try_merge::<K>(key, &patch).await)
        })
        .await?;
        self.add_object(&patched.map_err(failed(format!("change {} {key}", K::kind(&()))))?)
    }

    /// Deletes an object; returns `false` if it does not exist.
    pub(super) async fn delete<K: Kind>(&mut self, key: &Key) -> Result<bool, CommandError> {
        let Some(object) = find::<K>(&self.client, key).await? else { return Ok(false) };
        let params = DeleteParams { dry_run: self.dry_run, ..DeleteParams::background() };
        match api::<K>(&self.client, &key.namespace).delete(&key.name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
            deleted => deleted.map_err(failed(format!("delete {} {key}", K::kind(&()))))?,
        };
        self.objects.push(Object::from_typed(&object));
        Ok(true)
    }

    /// Prints the lines or the objects.
    pub(super) fn finish(self, ui: &mut Ui) -> CommandResult {
        match self.output {
            Format::Text => {
                let mark = if self.dry_run { " (dry run)" } else { "" };
                for line in &self.lines {
                    ui.line(format!("{line}{mark}"))?;
                }
            }
            format => print(ui, format, &self.objects)?,
        }
        Ok(std::process::ExitCode::SUCCESS)
    }
}

/// Prints objects in an output format.
pub(super) fn print(ui: &mut Ui, format: Format, objects: &[Object]) -> Result<(), CommandError> {
    match format {
        Format::Json => ui.json(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))?,
        Format::Yaml => {
            for object in objects {
                ui.text(format!("---\n{}\n", serde_saphyr::to_string(object)?.trim_end()))?;
            }
        }
        Format::Text | Format::Name => {
            for object in objects {
                let Gvk { group, version: _, kind } = object.gvk();
                let group = if group.is_empty() { group } else { format!(".{group}") };
                ui.line(format!("{}{group}/{}", kind.to_lowercase(), object.name()))?;
            }
        }
    }
    Ok(())
}

/// Reads the objects that a user named. Each must exist.
pub(super) async fn must_exist<K: Kind>(
    client: &kube::Client,
    names: &[String],
    hint: &str,
) -> Result<Vec<K>, CommandError> {
    let mut found = Vec::new();
    for name in names {
        found.push(get::<K>(client, &Key::cluster(name), hint).await?);
    }
    debug_assert!(found.iter().zip(names).all(|(object, name)| object.name() == name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use axum::http::{Method, Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;

    use super::*;

    impl Writer {
        pub(in crate::cli) fn new(client: kube::Client) -> Self {
            let (lines, objects) = Default::default();
            Self { client, dry_run: false, output: Format::Text, lines, objects }
        }
    }

    /// Returns a client for a server that answers the first `conflicts` patches with a conflict and records the
    /// methods.
    fn server(conflicts: usize, methods: Arc<Mutex<Vec<Method>>>) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut methods = methods.lock().unwrap();
            methods.push(request.method().clone());
            let patches = methods.iter().filter(|method| **method == Method::PATCH).count();
            let is_conflict = request.method() == Method::PATCH && patches <= conflicts;
            let (code, body) = if is_conflict {
                (409, json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}))
            } else {
                let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": "1"});
                (200, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
            };
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_with_conflicts_is_retried_a_few_times() {
        for (conflicts, succeeds, requests) in [(0, true, 2), (3, true, 8), (4, false, 8)] {
            let methods = Arc::new(Mutex::new(Vec::new()));
            let client = server(conflicts, Arc::clone(&methods));
            let mut writer = Writer::new(client);
            let key = Key::namespaced("n", "a");
            let changed = writer.update::<ConfigMap>(&key, "", |_| Ok(json!({}))).await;
            assert_eq!((changed.is_ok(), methods.lock().unwrap().len()), (succeeds, requests), "{conflicts}");
        }
    }
}
