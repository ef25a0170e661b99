//! The thread that waits for the disk, and the two stores: one with all writes, one with the durable writes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::super::lock::DirectoryLock;
use super::super::signals::Signals;
use super::file::{End, JournalError, JournalFile, io};
use store::{JournalEntry, Store};

/// The store that writes change, and the store that reads and watches use.
#[derive(Debug)]
pub(in super::super) struct Stores {
    head: Mutex<Store>,
    /// The state on disk; `None` if the hub is in memory only and every write is visible at once.
    durable: Option<Mutex<Store>>,
}

impl Stores {
    /// Creates stores in which every write is visible at once.
    pub(in super::super) fn in_memory(mut store: Store) -> Self {
        store.keep_journal();
        Self { head: Mutex::new(store), durable: None }
    }

    /// Creates stores in which a write is visible once it is on disk.
    pub(in super::super) fn on_disk(store: Store) -> Self {
        Self { head: Mutex::new(store.branch()), durable: Some(Mutex::new(store)) }
    }

    /// Returns the store that reads see.
    pub(in super::super) fn shown(&self) -> MutexGuard<'_, Store> {
        lock(self.durable.as_ref().unwrap_or(&self.head))
    }

    /// Returns the store that writes change. A thread may lock the durable store while it holds the head; the
    /// reverse order deadlocks.
    pub(in super::super) fn head(&self) -> MutexGuard<'_, Store> {
        lock(&self.head)
    }

    /// Drops the writes that did not reach the disk.
    fn undo(&self, head: &mut Store) {
        let durable = self.shown();
        head.fall_back(&durable);
    }
}

/// Locks a store even after a panic in another request, because changes of the store are all or nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The size in memory from which a write is large, in bytes.
const LARGE: usize = 64 << 10;

/// A write on its way to the disk.
#[derive(Debug)]
pub(in super::super) struct Durable {
    done: oneshot::Receiver<Result<(), String>>,
    bytes: usize,
}

impl Durable {
    /// Returns true if many concurrent writes of this size would use too much memory.
    pub(in super::super) fn is_large(&self) -> bool {
        self.bytes > LARGE
    }

    /// Waits until the write is on disk and visible.
    ///
    /// # Errors
    /// Returns the reason if the write failed.
    pub(in super::super) async fn wait(self) -> Result<(), String> {
        self.done.await.unwrap_or_else(|_| Err("the journal is closed".into()))
    }
}

/// The queue of writes. A separate thread waits for the disk.
#[derive(Debug)]
pub(in super::super) struct Journal {
    /// `None` only while the journal is dropped.
    batches: Option<mpsc::Sender<Batch>>,
    failure: Arc<Mutex<Option<String>>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Batch {
    entries: Vec<JournalEntry>,
    done: oneshot::Sender<Result<(), String>>,
}

impl Batch {
    pub(super) fn new(entries: Vec<JournalEntry>) -> (Self, Durable) {
        let (done, wait) = oneshot::channel();
        let bytes = entries.iter().map(JournalEntry::weight).sum();
        (Self { entries, done }, Durable { done: wait, bytes })
    }
}

impl Drop for Journal {
    /// Waits until the queue is on disk and the directory lock is released.
    fn drop(&mut self) {
        self.batches = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has released the lock too.
            let _ = writer.join();
        }
    }
}

impl Journal {
    /// Starts a journal with the current content in a locked directory. `signals` announces durable writes.
    ///
    /// # Errors
    /// Fails if the directory is not writable, and the current file does not have this content.
    pub(in super::super) fn start(
        dir: &Path,
        stores: Arc<Stores>,
        signals: Arc<Signals>,
        (directory_lock, before): (DirectoryLock, Before),
    ) -> Result<Self, JournalError> {
        let failure = Arc::new(Mutex::new(None));
        let mut writer = Writer::start(dir, stores, signals, failure.clone(), &before)?;
        let (batches, inbox) = mpsc::channel();
        let run = move || {
            // Keep the directory locked while this thread may write to it.
            let _lock = directory_lock;
            writer.run(&inbox);
        };
        let writer = std::thread::Builder::new()
            .name("journal".into())
            .spawn(run)
            .map_err(io("start the writer of", dir))?;
        Ok(Self { batches: Some(batches), failure, writer: Some(writer) })
    }

    /// Queues writes in the order of their revisions, under the lock of the head. An empty list only waits for
    /// earlier writes.
    pub(in super::super) fn append(&self, entries: Vec<JournalEntry>) -> Durable {
        let (batch, durable) = Batch::new(entries);
        if let Some(batches) = &self.batches {
            // If the writer has ended, it drops the batch, and the caller sees that.
            let _ = batches.send(batch);
        }
        durable
    }

    /// Returns the error of the last write, if it failed.
    pub(in super::super) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }
}

/// The content of the disk when a journal starts.
#[derive(Debug, Default)]
pub(in super::super) struct Before {
    /// The end of the current file.
    pub(in super::super) end: End,
    /// The writes since the file was read.
    pub(in super::super) since: Vec<JournalEntry>,
}

pub(super) struct Writer {
    dir: PathBuf,
    /// `None` if the file must be rewritten.
    pub(super) file: Option<JournalFile>,
    stores: Arc<Stores>,
    signals: Arc<Signals>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Writer {
    /// Writes the first file. On a full disk, continues with the current file.
    pub(super) fn start(
        dir: &Path,
        stores: Arc<Stores>,
        signals: Arc<Signals>,
        failure: Arc<Mutex<Option<String>>>,
        before: &Before,
    ) -> Result<Self, JournalError> {
        let mut writer = Self { dir: dir.to_owned(), file: None, stores, signals, failure };
        let Err(error) = writer.begin().map(drop) else { return Ok(writer) };
        let Before { end, since } = before;
        let resumed = JournalFile::resume(dir, end).and_then(|mut file| {
            if !since.is_empty() {
                file.append(since.iter())?;
            }
            Ok(file)
        });
        match resumed {
            Ok(file) => {
                tracing::warn!(%error, "cannot write a new journal file; continuing with the current one");
                writer.file = Some(file);
                Ok(writer)
            }
            Err(_) => Err(error),
        }
    }

    /// Writes batches until all senders are dropped.
    pub(super) fn run(&mut self, inbox: &mpsc::Receiver<Batch>) {
        while let Ok(first) = inbox.recv() {
            // Batches queued while the disk was busy are written together.
            let batches: Vec<Batch> = std::iter::once(first).chain(inbox.try_iter()).collect();
            match self.write(&batches) {
                Ok(()) => self.show(batches),
                Err(error) => self.refuse(&error, batches, inbox),
            }
            self.shorten();
        }
    }

    fn begin(&mut self) -> Result<&mut JournalFile, JournalError> {
        let (content, revision) = {
            let store = self.stores.shown();
            (store.snapshot().collect::<Vec<_>>(), store.revision())
        };
        // Only this thread changes the durable store, so the file is complete.
        let file = JournalFile::beside(&self.dir, content.into_iter(), revision)?;
        self.file = None;
        file.replace(&self.dir)?;
        Ok(self.file.insert(file))
    }

    fn write(&mut self, batches: &[Batch]) -> Result<(), JournalError> {
        let entries = || batches.iter().flat_map(|batch| &batch.entries);
        if entries().next().is_none() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.begin()?,
        };
        file.append(entries())
    }

    fn show(&mut self, batches: Vec<Batch>) {
        let mut written = Vec::new();
        let mut waiting = Vec::new();
        {
            let mut store = self.stores.shown();
            for batch in batches {
                for entry in batch.entries {
                    written.push((entry.resource.clone(), entry.revision));
                    store.follow(entry);
                }
                waiting.push(batch.done);
            }
        }
        if !written.is_empty() {
            *lock(&self.failure) = None;
        }
        self.signals.notify(written.iter().map(|(resource, revision)| (resource, *revision)));
        answer(waiting, &Ok(()));
    }

    /// Undoes the writes that failed on disk, and all writes that were based on them.
    fn refuse(&mut self, error: &JournalError, batches: Vec<Batch>, inbox: &mpsc::Receiver<Batch>) {
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        tracing::error!(%error, %cause, "the write failed and was undone; the next write retries the disk");
        let reason = format!("{error}: {cause}");
        *lock(&self.failure) = Some(reason.clone());
        let restored = self.file.as_mut().map(JournalFile::restore).transpose();
        if let Err(error) = restored {
            tracing::error!(%error, "a new journal file will be written");
            self.file = None;
        }
        let waiting = {
            let mut head = self.stores.head();
            self.stores.undo(&mut head);
            batches.into_iter().chain(inbox.try_iter()).map(|batch| batch.done).collect()
        };
        answer(waiting, &Err(reason));
    }

    /// Rewrites the file if that makes it much shorter.
    fn shorten(&mut self) {
        if !self.file.as_ref().is_some_and(JournalFile::is_long) {
            return;
        }
        let begun = self.file.as_ref().map_or(Ok(()), JournalFile::check_present);
        if let Err(error) = begun.and_then(|()| self.begin().map(drop)) {
            tracing::warn!(%error, "cannot write a new journal file; the current one keeps growing");
            if let Some(old) = &mut self.file {
                old.postpone();
            }
        }
    }
}

fn answer(waiting: Vec<oneshot::Sender<Result<(), String>>>, outcome: &Result<(), String>) {
    for done in waiting {
        // The requester may have disconnected.
        let _ = done.send(outcome.clone());
    }
}
