//! The embedded hub as a process whose disk fills up and that is killed many times.

mod memory;
mod roles;
mod shares;
mod work;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};

use crate::kube::client_of;
use crate::wait::eventually;

/// Number of times to kill the hub in one run; `make chaos` sets more.
fn rounds() -> usize {
    std::env::var("HUB_KILLS").map_or(6, |text| text.parse().expect("HUB_KILLS is a number"))
}

struct Hub {
    child: Child,
    data: PathBuf,
}

impl Hub {
    /// Starts the hub and returns once it listens, on the same port as before if there is one.
    fn start(data: &Path, listen: &str) -> (Self, String) {
        Self::start_with(Command::new(env!("CARGO_BIN_EXE_wheelwright")), data, listen)
    }

    fn start_with(mut command: Command, data: &Path, listen: &str) -> (Self, String) {
        command.args(["hub", "--listen", listen, "--data"]).arg(data);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("the hub says where it listens").unwrap();
        let address = line.strip_prefix("the hub listens on https://").unwrap().to_owned();
        lines.next().unwrap().unwrap();
        (Self { child, data: data.to_owned() }, address)
    }

    async fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(client_of(&self.data.join("admin.kubeconfig")).await, "default")
    }

    /// Limits the size of the hub's files; `unlimited` removes the limit.
    fn limit_files(&self, size: &str) {
        let status = Command::new("prlimit")
            .args(["--pid", &self.child.id().to_string(), &format!("--fsize={size}:unlimited")])
            .status();
        assert!(status.expect("prlimit of util-linux is installed").success());
    }

    fn journal_size(&self) -> u64 {
        std::fs::metadata(self.data.join("store.journal")).unwrap().len()
    }

    fn kill(&mut self) {
        // Killing a child that has already exited is harmless.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.kill();
    }
}

fn config_map(name: &str, text: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some(name.into()), ..Default::default() },
        data: Some(BTreeMap::from([("text".to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Returns the names and versions of all objects.
async fn state(api: &Api<ConfigMap>) -> Vec<(String, String)> {
    let list = api.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(|one| (one.name_any(), one.resource_version().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_changes_nothing_and_the_hub_resumes_when_there_is_space() {
    let dir = tempfile::tempdir().unwrap();
    let (mut hub, _) = Hub::start(&dir.path().join("data"), "127.0.0.1:0");
    let api = hub.config_maps().await;
    let post = PostParams::default();
    eventually("the namespace has what every namespace has", async || state(&api).await.len() == 1).await;
    let map = api.create(&post, &config_map("kept", "short")).await.unwrap();
    let before = state(&api).await;
    hub.limit_files(&(hub.journal_size() + 1000).to_string());
    let long = "x".repeat(100_000);
    for attempt in 0..3 {
        let refused = api.create(&post, &config_map(&format!("new-{attempt}"), &long)).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 500), "{refused}");
        let mut changed = map.clone();
        changed.data = config_map("", &long).data;
        api.replace("kept", &post, &changed).await.unwrap_err();
        assert_eq!(state(&api).await, before);
    }
    // Small writes succeed before and after the hub reports that it is healthy again.
    hub.limit_files("unlimited");
    let made = api.create(&post, &config_map("made", &long)).await.unwrap();
    let listed = api.list(&ListParams::default()).await.unwrap();
    assert!(listed.metadata.resource_version >= made.metadata.resource_version);
    let before = state(&api).await;
    hub.kill();
    let (hub, _) = Hub::start(&dir.path().join("data"), "127.0.0.1:0");
    assert_eq!(state(&hub.config_maps().await).await, before);
}

/// The events that a watcher received: the last version, and the resulting state.
#[derive(Default)]
struct Seen {
    last: u64,
    state: BTreeMap<String, u64>,
}

impl Seen {
    fn event(&mut self, event: WatchEvent<ConfigMap>) {
        let (object, deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => return,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        let version: u64 = object.resource_version().unwrap().parse().unwrap();
        assert!(version > self.last, "version {version} after {}", self.last);
        self.last = version;
        if deleted {
            self.state.remove(&object.name_any());
        } else {
            self.state.insert(object.name_any(), version);
        }
    }
}

/// Watches from a version until the hub exits.
async fn watch(api: Api<ConfigMap>, from: u64, seen: Arc<Mutex<Seen>>) {
    let stream = api.watch(&WatchParams::default(), &from.to_string()).await.unwrap();
    pin_mut!(stream);
    while let Some(Ok(event)) = stream.next().await {
        seen.lock().unwrap().event(event);
    }
}

/// Writes until the hub exits; returns the acknowledged version of the last write to each name.
async fn write(api: Api<ConfigMap>, round: usize) -> BTreeMap<String, Option<u64>> {
    let mut answered = BTreeMap::new();
    for i in 0.. {
        let name = format!("c{}", i % 7);
        let outcome = if i % 5 == 4 {
            api.delete(&name, &DeleteParams::default()).await.map(|_| None)
        } else {
            let object = config_map(&name, &format!("{round}-{i}"));
            let made = match api.create(&PostParams::default(), &object).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    api.replace(&name, &PostParams::default(), &object).await
                }
                other => other,
            };
            made.map(|object| Some(object.resource_version().unwrap().parse().unwrap()))
        };
        match outcome {
            Ok(version) => drop(answered.insert(name, version)),
            Err(kube::Error::Api(status)) if status.code == 404 => drop(answered.insert(name, None)),
            // The hub has exited, so the outcome of this write is unknown.
            Err(_) => {
                answered.remove(&name);
                return answered;
            }
        }
    }
    unreachable!("the hub is killed")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_is_killed_again_and_again_loses_nothing_and_gives_no_version_twice() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (mut hub, address) = Hub::start(&data, "127.0.0.1:0");
    let mut highest = 0;
    for round in 0..rounds() {
        let api = hub.config_maps().await;
        let list = api.list(&ListParams::default()).await.unwrap();
        let from: u64 = list.metadata.resource_version.clone().unwrap().parse().unwrap();
        assert!(from >= highest, "the list of round {round} is at {from}, {highest} was seen before");
        let version = |one: &ConfigMap| one.resource_version().unwrap().parse::<u64>().unwrap();
        let state = list.items.iter().map(|one| (one.name_any(), version(one))).collect();
        let seen = Arc::new(Mutex::new(Seen { last: from, state }));
        let watching = tokio::spawn(watch(api.clone(), from, seen.clone()));
        let writing = tokio::spawn(write(api.clone(), round));
        eventually("many writes were seen", async || seen.lock().unwrap().last > from + 40).await;
        hub.kill();
        let answered = writing.await.unwrap();
        watching.await.unwrap();
        let seen = Arc::into_inner(seen).unwrap().into_inner().unwrap();
        highest = seen.last;
        (hub, _) = Hub::start(&data, &address);
        let now: BTreeMap<String, u64> = state_of(&hub).await;
        for (name, version) in &answered {
            assert_eq!(now.get(name), version.as_ref(), "round {round}: the answered write of {name}");
        }
        for (name, version) in seen.state.iter().filter(|(name, _)| answered.contains_key(*name)) {
            // The watch may end before it shows the last writes, but it never shows a write that does not exist.
            assert!(now.get(name).is_none_or(|now| now >= version), "round {round}: {name} was at {version}");
        }
        highest = highest.max(answered.values().flatten().max().copied().unwrap_or_default());
    }
}

async fn state_of(hub: &Hub) -> BTreeMap<String, u64> {
    let state = state(&hub.config_maps().await).await;
    state.into_iter().map(|(name, version)| (name, version.parse().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_certificate_of_the_administrator_and_every_file_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let certificate = || {
        let text = std::fs::read_to_string(data.join("admin.kubeconfig")).unwrap();
        text.lines().find(|line| line.contains("client-certificate-data")).unwrap().to_owned()
    };
    let (hub, _) = Hub::start(&data, "127.0.0.1:0");
    let first = certificate();
    drop(hub);
    let (hub, _) = Hub::start(&data, "127.0.0.1:0");
    assert_eq!(certificate(), first);
    hub.config_maps().await.list(&ListParams::default()).await.unwrap();
    for path in std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).chain([data.clone()]) {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", path.display());
    }
}

/// More idle connections than the hub keeps open.
const SILENT: usize = 700;

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let (hub, address) = Hub::start(&dir.path().join("data"), "127.0.0.1:0");
    let api = hub.config_maps().await;
    // This client's connection is open and authenticated before the flood.
    api.list(&ListParams::default()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    api.list(&ListParams::default()).await.unwrap();
    hub.config_maps().await.list(&ListParams::default()).await.unwrap();
    // The hub closed the oldest connections to make room, long before their handshakes timed out.
    for stream in &mut silent[..100] {
        let end = tokio::io::AsyncReadExt::read(stream, &mut [0]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}
