//! The store on disk: one file of writes, checked line by line, synced before a write is answered.
//!
//! The file begins with everything there was when it was begun and goes on with every write since. When it has grown far beyond
//! that, a new one is begun beside it and takes its place by an atomic rename. A line that was torn by a crash is the last one;
//! it was never acknowledged, and is cut off. Damage anywhere else is refused, naming file and line.

use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::hub::Signals;
use super::lock::DirectoryLock;
use object::{Key, Object};
use store::{Entry, GroupResource};

const FILE: &str = "store.journal";
/// A journal is written anew when it is this much longer than what it began with, and at least this long.
const GROWTH: u64 = 4;
const SMALLEST: u64 = 16 << 20;
/// Hex digits of the digest before each line.
const DIGEST: usize = 16;

/// Resolves when a write is on disk, or says why it never will be.
pub(super) type Durable = std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// A journal that cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system refused.
    #[error("cannot {attempt} {path}")]
    Io {
        /// What was tried.
        attempt: &'static str,
        /// On which file.
        path: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line in the middle is not what was written.
    #[error("{path} is damaged at line {line}: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// The end of the file that takes writes; a thread of its own waits for the disk.
#[derive(Debug)]
pub(super) struct Journal {
    /// `None` while it is dropped.
    orders: Option<mpsc::Sender<Order>>,
    state: Arc<State>,
    writer: Option<JoinHandle<()>>,
}

impl Drop for Journal {
    /// Waits until everything queued is on disk and the lock of the directory is released.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has released the lock too.
            let _ = writer.join();
        }
    }
}

#[derive(Debug, Default)]
struct State {
    length: AtomicU64,
    /// Length right after the last rewrite.
    base: AtomicU64,
    failure: OnceLock<String>,
}

enum Order {
    Append { lines: Vec<u8>, written: Vec<(GroupResource, u64)>, done: oneshot::Sender<()> },
    Rewrite(Vec<Entry>),
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    group: String,
    resource: String,
    key: Key,
    object: Option<Object>,
}

/// Reads what a journal in a directory holds; nothing where there is none. A torn last line is cut off.
///
/// # Errors
/// Where the file cannot be read, or is damaged before its end.
pub(super) fn read(dir: &Path) -> Result<Vec<Entry>, JournalError> {
    let path = dir.join(FILE);
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io("open", &path)(e)),
    };
    let length = file.metadata().map_err(io("read", &path))?.len();
    let mut reader = BufReader::new(&file);
    let (mut entries, mut good, mut line) = (Vec::new(), 0u64, Vec::new());
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line).map_err(io("read", &path))?;
        if count == 0 {
            return Ok(entries);
        }
        let end = good + u64::try_from(count).unwrap_or(u64::MAX);
        match decode(&line) {
            Ok(entry) => entries.push(entry),
            Err(_) if end >= length => {
                tracing::warn!(path = %path.display(), bytes = count, "the last write was torn by a crash; it was never acknowledged and is dropped");
                file.set_len(good).map_err(io("truncate", &path))?;
                file.sync_all().map_err(io("sync", &path))?;
                return Ok(entries);
            }
            Err(why) => {
                return Err(JournalError::Damaged {
                    path: path.display().to_string(),
                    line: entries.len() + 1,
                    why,
                });
            }
        }
        good = end;
    }
}

impl Journal {
    /// Begins a journal in a locked directory with what there is; writes announced through `signals` are on disk.
    ///
    /// # Errors
    /// Where the directory cannot be written.
    pub(super) fn start(
        dir: &Path,
        content: impl Iterator<Item = Entry>,
        signals: Arc<Signals>,
        lock: DirectoryLock,
    ) -> Result<Self, JournalError> {
        let state = Arc::new(State::default());
        let mut writer =
            Writer { dir: dir.to_owned(), file: begin(dir, content, &state)?, state: state.clone(), signals };
        let (orders, inbox) = mpsc::channel();
        let run = move || {
            // The directory stays locked for as long as this thread may write to it.
            let _lock = lock;
            writer.run(&inbox);
        };
        let writer = std::thread::Builder::new().name("journal".into()).spawn(run);
        let writer = writer.map_err(io("start the writer of", dir))?;
        Ok(Self { orders: Some(orders), state, writer: Some(writer) })
    }

    /// Queues writes; call it in the order of revisions.
    pub(super) fn append(&self, entries: Vec<Entry>) -> Durable {
        let mut lines = Vec::new();
        entries.iter().for_each(|entry| encode(entry, &mut lines));
        let written = entries.into_iter().map(|e| (e.resource, e.revision)).collect();
        let (done, wait) = oneshot::channel();
        let queued = self.send(Order::Append { lines, written, done });
        let state = self.state.clone();
        Box::pin(async move {
            match (queued, wait.await) {
                (Ok(()), Ok(())) => Ok(()),
                _ => Err(state.failure.get().cloned().unwrap_or_else(|| "the journal is closed".into())),
            }
        })
    }

    /// Replaces the file by one with this content alone, and what is appended after it.
    pub(super) fn rewrite(&self, content: Vec<Entry>) {
        self.state.base.store(u64::MAX / GROWTH, Ordering::Relaxed);
        // A closed journal has said so to every write already.
        let _ = self.send(Order::Rewrite(content));
    }

    fn send(&self, order: Order) -> Result<(), mpsc::SendError<Order>> {
        match &self.orders {
            Some(orders) => orders.send(order),
            None => Err(mpsc::SendError(order)),
        }
    }

    /// Whether a rewrite would make it much shorter.
    pub(super) fn is_long(&self) -> bool {
        let base = self.state.base.load(Ordering::Relaxed);
        self.state.length.load(Ordering::Relaxed) > (base * GROWTH).max(SMALLEST)
    }

    /// Why nothing more can be written, if so.
    pub(super) fn failure(&self) -> Option<String> {
        self.state.failure.get().cloned()
    }
}

struct Writer {
    dir: PathBuf,
    file: File,
    state: Arc<State>,
    signals: Arc<Signals>,
}

impl Writer {
    fn run(&mut self, inbox: &mpsc::Receiver<Order>) {
        while let Ok(first) = inbox.recv() {
            // Whatever has queued up while the disk was busy goes to it together.
            let batch: Vec<Order> = std::iter::once(first).chain(inbox.try_iter()).collect();
            if let Err(error) = self.write(batch) {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(%error, %cause, "writes are refused from now on");
                drop(self.state.failure.set(format!("{error}: {cause}")));
                return;
            }
        }
    }

    fn write(&mut self, batch: Vec<Order>) -> Result<(), JournalError> {
        let path = self.dir.join(FILE);
        let mut waiting = Vec::new();
        for order in batch {
            match order {
                Order::Append { lines, written, done } => {
                    self.file.write_all(&lines).map_err(io("append to", &path))?;
                    self.state.length.fetch_add(u64::try_from(lines.len()).unwrap_or(0), Ordering::Relaxed);
                    waiting.push((written, done));
                }
                Order::Rewrite(content) => self.file = begin(&self.dir, content.into_iter(), &self.state)?,
            }
        }
        self.file.sync_data().map_err(io("sync", &path))?;
        for (written, done) in waiting {
            self.signals.announce(written.iter().map(|(resource, revision)| (resource, *revision)));
            // Whoever asked may have gone away.
            let _ = done.send(());
        }
        Ok(())
    }
}

/// Writes a new file beside the old one and puts it in its place.
fn begin(dir: &Path, content: impl Iterator<Item = Entry>, state: &State) -> Result<File, JournalError> {
    let (path, new) = (dir.join(FILE), dir.join(format!("{FILE}.new")));
    let file = File::create(&new).map_err(io("create", &new))?;
    let mut out = BufWriter::new(file);
    let mut line = Vec::new();
    for entry in content {
        line.clear();
        encode(&entry, &mut line);
        out.write_all(&line).map_err(io("write", &new))?;
    }
    let mut file = out.into_inner().map_err(|e| io("write", &new)(e.into_error()))?;
    file.sync_all().map_err(io("sync", &new))?;
    fs::rename(&new, &path).map_err(io("replace", &path))?;
    File::open(dir).and_then(|d| d.sync_all()).map_err(io("sync", dir))?;
    let length = file.seek(SeekFrom::End(0)).map_err(io("read", &path))?;
    state.length.store(length, Ordering::Relaxed);
    state.base.store(length, Ordering::Relaxed);
    Ok(file)
}

/// `digest json\n`.
fn encode(entry: &Entry, into: &mut Vec<u8>) {
    let line = Line {
        revision: entry.revision,
        group: entry.resource.group.clone(),
        resource: entry.resource.resource.clone(),
        key: entry.key.clone(),
        object: entry.object.as_deref().cloned(),
    };
    let json = serde_json::to_vec(&line).expect("JSON objects have string keys, so they serialise");
    into.extend(digest(&json).into_bytes());
    into.push(b' ');
    into.extend(json);
    into.push(b'\n');
}

fn decode(line: &[u8]) -> Result<Entry, String> {
    let line = line.strip_suffix(b"\n").ok_or("it has no end")?;
    let (sum, json) = line.split_at_checked(DIGEST).ok_or("it is too short")?;
    let json = json.strip_prefix(b" ").ok_or("its digest does not end")?;
    if sum != digest(json).as_bytes() {
        return Err("its digest is wrong".into());
    }
    let Line { revision, group, resource, key, object } =
        serde_json::from_slice(json).map_err(|e| e.to_string())?;
    Ok(Entry { revision, resource: GroupResource::new(group, resource), key, object: object.map(Arc::new) })
}

fn digest(json: &[u8]) -> String {
    object::hex(Sha256::digest(json).get(..DIGEST / 2).unwrap_or_default())
}

fn io<'a>(attempt: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { attempt, path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(revision: u64, name: &str) -> Entry {
        let object =
            serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        Entry {
            revision,
            resource: GroupResource::new("", "configmaps"),
            key: Key::namespaced("default", name),
            object: (name != "gone").then(|| Arc::new(Object::from_value(object).unwrap())),
        }
    }

    async fn written(dir: &Path, appended: &[Entry]) {
        let lock = DirectoryLock::acquire(dir).unwrap();
        let journal = Journal::start(dir, [entry(1, "base")].into_iter(), Arc::default(), lock).unwrap();
        for entry in appended {
            journal.append(vec![entry.clone()]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let appended = [entry(2, "a"), entry(3, "gone"), entry(4, "b\n\"x\"")];
        written(dir.path(), &appended).await;
        let all: Vec<Entry> = [entry(1, "base")].into_iter().chain(appended).collect();
        assert_eq!(read(dir.path()).unwrap(), all);
    }

    #[tokio::test]
    async fn a_file_cut_anywhere_holds_every_write_before_the_cut() {
        let dir = tempfile::tempdir().unwrap();
        let appended = [entry(2, "a"), entry(3, "b")];
        written(dir.path(), &appended).await;
        let path = dir.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let complete = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(read(dir.path()).unwrap().len(), complete, "cut at {cut}");
            assert_eq!(
                fs::read(&path).unwrap().len(),
                complete.checked_sub(1).map_or(0, |last| ends[last]),
                "cut at {cut}"
            );
        }
    }

    #[tokio::test]
    async fn damage_before_the_end_is_refused_by_line() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), &[entry(2, "a"), entry(3, "b")]).await;
        let path = dir.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap().replacen("\"a\"", "\"A\"", 1);
        fs::write(&path, text).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("is damaged at line 2: its digest is wrong"), "{error}");
    }

    #[tokio::test]
    async fn a_rewritten_journal_holds_the_new_base_and_what_followed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(dir.path()).unwrap();
        let journal =
            Journal::start(dir.path(), [entry(1, "old")].into_iter(), Arc::default(), lock).unwrap();
        journal.append(vec![entry(2, "a")]).await.unwrap();
        journal.rewrite(vec![entry(2, "a")]);
        journal.append(vec![entry(3, "b")]).await.unwrap();
        assert_eq!(read(dir.path()).unwrap(), [entry(2, "a"), entry(3, "b")]);
    }
}
