//! The journal on a disk that tears writes, and its two stores.

mod disk;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::super::lock::DirectoryLock;
use super::super::signals::Signals;
use super::file::FILE;
use super::*;
use object::Object;
use store::{JournalEntry, ListOptions, ResourcePath, Store, WriteOptions};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn config_maps() -> ResourcePath {
    ResourcePath::resource("", "v1", "configmaps").within("default")
}

fn create(store: &mut Store, name: &str) {
    let object = serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
    let object = Object::from_value(object).unwrap();
    store.create(&config_maps(), object, &WriteOptions::manager("test"), now()).unwrap();
}

fn names(store: &Store) -> Vec<String> {
    let list = store.list(&config_maps(), &ListOptions::default()).unwrap();
    list.items.iter().map(|item| item.name().to_owned()).collect()
}

fn start(dir: &Path) -> (Arc<Stores>, Journal) {
    let lock = DirectoryLock::acquire(dir).unwrap();
    let stores = Arc::new(Stores::on_disk(Store::new(1, now())));
    let journal =
        Journal::start(dir, stores.clone(), Arc::new(Signals::default()), (lock, Before::default())).unwrap();
    (stores, journal)
}

/// Writes a config map to the head and queues it.
fn queue(stores: &Stores, journal: &Journal, name: &str) -> Durable {
    let mut head = stores.head();
    create(&mut head, name);
    journal.append(head.take_journal())
}

async fn write(stores: &Stores, journal: &Journal, name: &str) {
    queue(stores, journal, name).wait().await.unwrap();
}

/// Returns the entries of a journal and its end.
fn content(dir: &Path) -> Result<(Vec<JournalEntry>, End), JournalError> {
    let mut entries = Vec::new();
    let end = read(dir, |entry| entries.push(entry))?;
    Ok((entries, end))
}

fn restored(dir: &Path) -> Store {
    let (entries, end) = content(dir).unwrap();
    Store::restore(2, entries, end.reserved, now())
}

#[tokio::test]
async fn acknowledged_writes_are_read_back() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let (stores, journal) = start(&dir);
    for name in ["a", "b"] {
        write(&stores, &journal, name).await;
    }
    assert_eq!(names(&stores.shown()), ["a", "b"]);
    assert_eq!(names(&restored(&dir)), ["a", "b"]);
}

#[tokio::test]
async fn a_version_is_not_given_again_after_a_deletion_and_two_restarts() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let (stores, journal) = start(&dir);
    write(&stores, &journal, "a").await;
    let deleted = {
        let mut head = stores.head();
        head.delete(&config_maps().named("a"), &store::DeleteOptions::default(), now()).unwrap();
        journal.append(head.take_journal())
    };
    deleted.wait().await.unwrap();
    let last = stores.shown().revision();
    drop(journal);
    for _ in 0..2 {
        let stores = Arc::new(Stores::on_disk(restored(&dir)));
        assert!(stores.shown().revision() >= last);
        let lock = DirectoryLock::acquire(&dir).unwrap();
        drop(Journal::start(&dir, stores, Arc::new(Signals::default()), (lock, Before::default())).unwrap());
    }
}

#[tokio::test]
async fn a_write_is_not_shown_before_it_is_on_disk() {
    let stores = Stores::on_disk(Store::new(1, now()));
    create(&mut stores.head(), "a");
    assert!(names(&stores.shown()).is_empty() && names(&stores.head()) == ["a"]);
    let written = stores.head().take_journal();
    written.into_iter().for_each(|entry| stores.shown().follow(entry));
    assert_eq!(names(&stores.shown()), ["a"]);
    assert_eq!(stores.shown().revision(), stores.head().revision());
}

#[test]
fn an_undone_write_leaves_its_version_and_uid_behind() {
    let durable = Store::new(1, now());
    let mut head = durable.branch();
    create(&mut head, "a");
    let undone = head.get(&config_maps().named("a")).unwrap();
    head.fall_back(&durable);
    assert!(names(&head).is_empty());
    create(&mut head, "a");
    let again = head.get(&config_maps().named("a")).unwrap();
    assert_ne!(again.uid(), undone.uid());
    assert_ne!(again.resource_version(), undone.resource_version());
}

/// Returns the lines of a journal with two batches after its initial content. The second batch has two writes.
async fn lines(dir: &Path) -> Vec<Vec<u8>> {
    let (stores, journal) = start(dir);
    write(&stores, &journal, "a").await;
    let batch = {
        let mut head = stores.head();
        create(&mut head, "b");
        create(&mut head, "c");
        journal.append(head.take_journal())
    };
    batch.wait().await.unwrap();
    drop(journal);
    let text = fs::read(dir.join(FILE)).unwrap();
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[tokio::test]
async fn a_file_cut_anywhere_in_its_last_batch_holds_everything_before() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let lines = lines(&dir).await;
    let synced: usize = lines[..lines.len() - 3].iter().map(Vec::len).sum();
    let (whole, all) = (lines.concat(), content(&dir).unwrap().0.len());
    let last = whole.len() - lines[lines.len() - 1].len();
    for cut in synced..=whole.len() {
        fs::write(dir.join(FILE), &whole[..cut]).unwrap();
        let complete = usize::from(cut >= last) + usize::from(cut == whole.len());
        assert_eq!(content(&dir).unwrap().0.len(), all - 2 + complete, "cut at {cut} of {}", whole.len());
    }
}

#[tokio::test]
async fn a_batch_torn_in_its_middle_is_dropped() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut lines = lines(&dir).await;
    // The page with the first write never reached the disk, but the page with the second write did.
    let torn = lines.len() - 2;
    lines[torn].iter_mut().for_each(|byte| *byte = 0);
    fs::write(dir.join(FILE), lines.concat()).unwrap();
    assert_eq!(names(&restored(&dir)), ["a"]);
}

#[tokio::test]
async fn damage_of_what_was_synced_is_refused_by_line() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut lines = lines(&dir).await;
    let synced = lines.len() - 4;
    lines[synced][30] ^= 1;
    fs::write(dir.join(FILE), lines.concat()).unwrap();
    let error = content(&dir).unwrap_err().to_string();
    assert!(error.ends_with(&format!("is damaged at line {}: its digest is wrong", synced + 1)), "{error}");
}

#[test]
fn a_missing_journal_reads_as_empty() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    assert_eq!(content(&dir).unwrap(), (Vec::new(), End::default()));
}
