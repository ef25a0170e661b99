//! Records the computations that have begun on disk, so that one that kills the process is not repeated endlessly.
//!
//! Untrusted input may make a computation use up all memory, despite its limits. Each computation has a file from
//! before its start until it ends, or until the process shuts down in an orderly way. A file that exists when the
//! process starts therefore shows that the process was killed during that computation.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use object::hex;

/// The number of times that the process may die during a computation. It may die for other reasons too, so a
/// single death proves little.
const MAX_ENDS: usize = 3;
/// The time without an attempt after which a record with fewer deaths expires. A refused computation gets another
/// attempt each time that this has passed, because the cause may be gone.
const EXPIRES_AFTER: Duration = Duration::from_secs(3600);

/// The directory of started computations.
#[derive(Debug)]
pub(super) struct Attempts {
    dir: PathBuf,
    /// The running computations by file; `None` once the process is shutting down.
    running: Mutex<Option<BTreeMap<PathBuf, Running>>>,
    /// The lock for computations during which the process has died. Only one of them runs at a time, so that the
    /// next death is not blamed on another.
    suspect: Mutex<()>,
}

/// The running computations of one input.
#[derive(Debug)]
struct Running {
    /// The record before the first of them began.
    before: Record,
    attempts: usize,
    /// True if the process has survived one that ended.
    is_survived: bool,
}

/// The number of times that the process died during a computation, and when that was written.
#[derive(Clone, Copy, Debug)]
struct Record {
    ends: usize,
    written: Option<SystemTime>,
}

/// A computation that has begun.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    attempts: &'a Attempts,
    file: PathBuf,
    _suspect: Option<MutexGuard<'a, ()>>,
}

impl Attempts {
    /// Sets the directory, which is created at the first attempt.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), running: Mutex::new(Some(BTreeMap::new())), suspect: Mutex::default() }
    }

    /// Begins a computation of an input. If the process has died during it, waits until no other such computation
    /// runs.
    ///
    /// Returns the message to show if the process died too often during this computation. Disk errors never block
    /// a computation.
    pub(super) fn begin(&self, name: &str, input: &str) -> Result<Attempt<'_>, String> {
        let file = self.dir.join(hex(Sha256::digest(format!("{name}\n{input}"))));
        let running = self.running().as_ref().and_then(|running| Some(running.get(&file)?.before));
        let before = running.unwrap_or_else(|| Record::read(&file));
        let ends = before.ends;
        if ends >= MAX_ENDS && before.is_recent() {
            return Err(format!(
                "the process died {ends} times while computing it; it is retried one hour after the last time, \
                 or for another commit"
            ));
        }
        let suspect = (ends > 0).then(|| self.suspect.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(running) = self.running().as_mut() {
            let written =
                fs::create_dir_all(&self.dir).and_then(|()| fs::write(&file, (ends + 1).to_string()));
            if let Err(error) = written {
                tracing::warn!(%error, path = %self.dir.display(), "cannot record the start of a computation");
            }
            // An input may be computed twice at the same time; then the record before the first one is kept.
            let first = Running { before, attempts: 0, is_survived: false };
            running.entry(file.clone()).or_insert(first).attempts += 1;
        }
        Ok(Attempt { attempts: self, file, _suspect: suspect })
    }

    /// Restores all records, because the process is shutting down. Computations that are running or begin until
    /// its end are not blamed.
    pub(super) fn close(&self) {
        for (file, running) in self.running().take().unwrap_or_default() {
            running.before.restore(&file);
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<BTreeMap<PathBuf, Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn read(file: &Path) -> Self {
        let written = fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
        let ends =
            fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        let record = Self { ends, written };
        if record.is_recent() || ends >= MAX_ENDS { record } else { Self { ends: 0, written } }
    }

    /// Returns true if the last death was recent.
    fn is_recent(self) -> bool {
        // A time in the future means that the clock has been set back since.
        self.written.is_some_and(|at| at.elapsed().is_ok_and(|age| age < EXPIRES_AFTER))
    }

    /// Writes the record with its original time, because a computation did not complete.
    fn restore(self, file: &Path) {
        let restored = if self.ends == 0 { fs::remove_file(file) } else { self.write(file) };
        if let Err(error) = restored {
            tracing::warn!(%error, path = %file.display(), "cannot restore the record of a computation that did not run");
        }
    }

    fn write(self, file: &Path) -> std::io::Result<()> {
        fs::write(file, self.ends.to_string())?;
        let Some(written) = self.written else { return Ok(()) };
        fs::File::options().write(true).open(file)?.set_modified(written)
    }
}

impl Attempt<'_> {
    /// Ends the attempt, because the process has survived the computation.
    pub(super) fn end(self) {
        self.leave(true);
    }

    /// Withdraws the attempt, because the computation did not run. Earlier deaths still count.
    pub(super) fn withdraw(self) {
        self.leave(false);
    }

    /// Removes or restores the record once the last computation of the input ends.
    fn leave(self, is_survived: bool) {
        let mut guard = self.attempts.running();
        let left = guard.as_mut().and_then(|running| {
            let one = running.get_mut(&self.file)?;
            one.attempts -= 1;
            one.is_survived |= is_survived;
            (one.attempts == 0).then(|| running.remove(&self.file))?
        });
        match (left, &*guard) {
            (Some(left), _) if !left.is_survived => left.before.restore(&self.file),
            // The file is absent if it could not be written.
            (Some(_), _) => drop(fs::remove_file(&self.file)),
            (None, None) if is_survived => drop(fs::remove_file(&self.file)),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_that_crashed_the_process_three_times_is_not_retried() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = || Attempts::new(&dir.path().join("attempts"));
        for _ in 0..MAX_ENDS {
            // Simulates a kill of the process.
            let _ = attempts().begin("rendered commit", "one").unwrap();
        }
        let refused = attempts().begin("rendered commit", "one").unwrap_err();
        assert!(refused.starts_with("the process died 3 times while computing it"), "{refused}");
        attempts().begin("rendered commit", "two").unwrap().end();

        let file = dir.path().join("attempts").read_dir().unwrap().next().unwrap().unwrap().path();
        let an_hour_passes = || {
            let written = fs::metadata(&file).unwrap().modified().unwrap();
            fs::File::options()
                .write(true)
                .open(&file)
                .unwrap()
                .set_modified(written - EXPIRES_AFTER)
                .unwrap();
        };
        an_hour_passes();
        let _ = attempts().begin("rendered commit", "one").unwrap();
        let refused = attempts().begin("rendered commit", "one").unwrap_err();
        assert!(refused.starts_with("the process died 4 times while computing it"), "{refused}");
        an_hour_passes();
        attempts().begin("rendered commit", "one").unwrap().end();
        attempts().begin("rendered commit", "one").unwrap().end();
    }

    #[test]
    fn setting_the_clock_back_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..MAX_ENDS {
            let _ = Attempts::new(dir.path()).begin("rendered commit", "one").unwrap();
        }
        let file = dir.path().read_dir().unwrap().next().unwrap().unwrap().path();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        fs::File::options().write(true).open(file).unwrap().set_modified(written + EXPIRES_AFTER).unwrap();
        Attempts::new(dir.path()).begin("rendered commit", "one").unwrap().end();
    }

    #[test]
    fn an_orderly_end_of_the_process_counts_for_no_computation() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = || Attempts::new(dir.path());
        let count = || dir.path().read_dir().unwrap().count();
        for _ in 0..2 * MAX_ENDS {
            let attempts = attempts();
            let _under_way = attempts.begin("rendered commit", "one").unwrap();
            assert_eq!(count(), 1);
            attempts.close();
            let _late = attempts.begin("rendered commit", "two").unwrap();
            assert_eq!(count(), 0);
        }
        for _ in 0..MAX_ENDS {
            let _ = attempts().begin("rendered commit", "one").unwrap();
            let attempts = attempts();
            if let Ok(_under_way) = attempts.begin("rendered commit", "one") {
                attempts.close();
            }
        }
        attempts().begin("rendered commit", "one").expect_err("what an orderly end found is kept");
    }

    #[test]
    fn an_attempt_that_is_undone_does_not_change_the_count() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = || Attempts::new(dir.path());
        attempts().begin("rendered commit", "new").unwrap().withdraw();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        for _ in 0..MAX_ENDS {
            let _ = attempts().begin("rendered commit", "one").unwrap();
            if let Ok(waited) = attempts().begin("rendered commit", "one") {
                waited.withdraw();
            }
        }
        attempts().begin("rendered commit", "one").expect_err("it has ended the process three times");
    }

    #[test]
    fn an_attempt_that_is_undone_does_not_prolong_a_refusal() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..MAX_ENDS {
            let _ = Attempts::new(dir.path()).begin("rendered commit", "one").unwrap();
        }
        let file = dir.path().read_dir().unwrap().next().unwrap().unwrap().path();
        let written = fs::metadata(&file).unwrap().modified().unwrap() - EXPIRES_AFTER;
        fs::File::options().write(true).open(&file).unwrap().set_modified(written).unwrap();
        for _ in 0..2 {
            Attempts::new(dir.path()).begin("rendered commit", "one").unwrap().withdraw();
            assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), written);
        }
    }

    #[test]
    fn an_input_that_is_computed_twice_keeps_its_record_until_both_have_ended() {
        let dir = tempfile::tempdir().unwrap();
        let count = || dir.path().read_dir().unwrap().count();
        for is_survived in [false, true] {
            let attempts = Attempts::new(dir.path());
            let [first, second] = [(); 2].map(|()| attempts.begin("rendered commit", "one").unwrap());
            second.leave(is_survived);
            assert_eq!(count(), 1);
            first.end();
            assert_eq!(count(), 0);
        }
        let attempts = Attempts::new(dir.path());
        // The process is killed during both.
        let _under_way = [(); 2].map(|()| attempts.begin("rendered commit", "one").unwrap());
        let ends = Record::read(&dir.path().read_dir().unwrap().next().unwrap().unwrap().path()).ends;
        assert_eq!(ends, 1, "the process ended once");
    }

    #[test]
    fn computations_that_were_under_way_at_an_end_begin_one_after_another() {
        let dir = tempfile::tempdir().unwrap();
        let inputs = ["one", "two"];
        let ended = Attempts::new(dir.path());
        let _under_way = inputs.map(|input| ended.begin("rendered commit", input).unwrap());

        let attempts = Attempts::new(dir.path());
        let running = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for input in inputs {
                let (attempts, running) = (&attempts, &running);
                scope.spawn(move || {
                    let attempt = attempts.begin("rendered commit", input).unwrap();
                    assert_eq!(running.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    // A computation that has not killed the process does not wait.
                    attempts.begin("rendered commit", &format!("new {input}")).unwrap().end();
                    std::thread::yield_now();
                    running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    attempt.end();
                });
            }
        });
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_finished_computation_leaves_nothing_and_a_full_disk_blocks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = Attempts::new(dir.path());
        for _ in 0..2 * MAX_ENDS {
            attempts.begin("rendered commit", "one").unwrap().end();
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        Attempts::new(&file).begin("rendered commit", "one").unwrap().end();
    }
}
