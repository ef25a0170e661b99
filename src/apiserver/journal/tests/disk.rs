//! The journal on a failing disk: a sync, a truncation, a rename, and a missing file.

use std::fs::OpenOptions;
use std::sync::{Mutex, mpsc};

use super::super::writer::{Batch, Writer};
use super::*;

/// A journal whose writer the test runs step by step.
struct Disk {
    dir: tempfile::TempDir,
    stores: Arc<Stores>,
    writer: Writer,
}

impl Disk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let stores = Arc::new(Stores::on_disk(Store::new(1, now())));
        let signals = Arc::new(Signals::default());
        let failure = Arc::new(Mutex::new(None));
        let writer = Writer::start(dir.path(), stores.clone(), signals, failure, &Before::default()).unwrap();
        Self { dir, stores, writer }
    }

    /// Writes a config map.
    async fn write(&mut self, name: &str) -> Result<(), String> {
        let written = {
            let mut head = self.stores.head();
            create(&mut head, name);
            head.take_journal()
        };
        let (batch, durable) = Batch::new(written);
        let (batches, inbox) = mpsc::channel();
        batches.send(batch).unwrap();
        drop(batches);
        self.writer.run(&inbox);
        durable.wait().await
    }

    /// Checks the state that requests see, that the next write is based on, and that a restart reads.
    fn holds(&self, expected: &[&str]) {
        assert_eq!(names(&self.stores.shown()), expected, "shown");
        assert_eq!(names(&self.stores.head()), expected, "the head");
        assert_eq!(names(&restored(self.dir.path())), expected, "restored");
    }
}

#[tokio::test]
async fn a_failed_sync_shows_nothing_and_loses_nothing() {
    let mut disk = Disk::new();
    disk.write("a").await.unwrap();
    // This file accepts writes, but syncing and truncating it fails.
    disk.writer.file.as_mut().unwrap().file = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let refused = disk.write("b").await.unwrap_err();
    assert!(refused.starts_with("cannot sync "), "{refused}");
    disk.holds(&["a"]);
    // The truncation failed, so the next write starts a new file.
    disk.write("c").await.unwrap();
    disk.holds(&["a", "c"]);
}

#[tokio::test]
async fn a_failed_rename_shows_nothing_and_loses_nothing() {
    let mut disk = Disk::new();
    disk.write("a").await.unwrap();
    let (path, moved) = (disk.dir.path().join(FILE), disk.dir.path().join("kept"));
    disk.writer.file = None;
    // A file cannot replace a directory.
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    let refused = disk.write("b").await.unwrap_err();
    assert!(refused.starts_with("cannot replace "), "{refused}");
    fs::remove_dir(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    disk.holds(&["a"]);
    disk.write("c").await.unwrap();
    disk.holds(&["a", "c"]);
}

#[tokio::test]
async fn a_journal_without_its_file_refuses_writes() {
    let mut disk = Disk::new();
    disk.write("a").await.unwrap();
    fs::remove_file(disk.dir.path().join(FILE)).unwrap();
    for name in ["b", "c"] {
        let refused = disk.write(name).await.unwrap_err();
        assert!(refused.contains("the file was removed"), "{refused}");
    }
    assert_eq!(names(&disk.stores.shown()), ["a"]);
    assert!(!disk.dir.path().join(FILE).exists(), "the directory may be another hub's");
}

#[tokio::test]
async fn a_start_on_a_full_disk_continues_with_the_existing_file() {
    let mut disk = Disk::new();
    disk.write("a").await.unwrap();
    let full = disk.dir.path().join("store.journal.new");
    // A file cannot replace a directory. This fails like a new file on a full disk.
    fs::create_dir(&full).unwrap();
    // The last batch is torn.
    let path = disk.dir.path().join(FILE);
    let length = fs::metadata(&path).unwrap().len();
    std::io::Write::write_all(&mut OpenOptions::new().append(true).open(&path).unwrap(), b"torn").unwrap();
    let begin = |dir: &Path, since: Option<&str>| {
        let (entries, end) = content(dir).unwrap();
        let mut store = Store::restore(2, entries, end.reserved, now());
        store.keep_journal();
        if let Some(name) = since {
            create(&mut store, name);
        }
        let before = Before { end, since: store.take_journal() };
        let stores = Arc::new(Stores::on_disk(store));
        let (signals, failure) = (Arc::new(Signals::default()), Arc::new(Mutex::new(None)));
        let writer = Writer::start(dir, stores.clone(), signals, failure, &before);
        writer.map(|writer| (stores, writer))
    };
    let (stores, writer) = begin(disk.dir.path(), None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), length);
    (disk.stores, disk.writer) = (stores, writer);
    disk.holds(&["a"]);
    disk.write("b").await.unwrap();
    disk.holds(&["a", "b"]);
    // Writes of the start itself are appended.
    let (stores, writer) = begin(disk.dir.path(), Some("c")).unwrap();
    (disk.stores, disk.writer) = (stores, writer);
    disk.holds(&["a", "b", "c"]);
    // The file is rewritten when there is space again.
    fs::remove_dir(&full).unwrap();
    begin(disk.dir.path(), None).unwrap();
    assert_eq!(names(&restored(disk.dir.path())), ["a", "b", "c"]);
    // Without a file to continue, the start fails.
    fs::create_dir(&full).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(begin(disk.dir.path(), None).is_err());
}
