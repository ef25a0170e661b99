//! A record on disk of the computations that have begun, so that one that ends the process does not begin
//! again and again.
//!
//! An input from outside may make a computation take all memory, whatever limits it has. A file exists for
//! each computation from before its beginning until its end. A file that exists at the start of the process
//! is that of a computation that was running when the process ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use object::hex;

/// How often the process may end during one computation. A process ends for other reasons too, and a single
/// end proves little.
const ENDS: usize = 3;
/// Time without an attempt after which the record is forgotten, so that a computation is not refused after
/// the cause is gone.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// The directory of the computations that have begun.
#[derive(Clone, Debug)]
pub(super) struct Attempts(PathBuf);

/// A computation that has begun.
#[derive(Debug)]
pub(super) struct Attempt(PathBuf);

impl Attempts {
    /// Names the directory, which is created at the first attempt.
    pub(super) fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// Begins a computation with an input.
    ///
    /// # Errors
    /// A sentence, if the process ended too often during this computation. A disk that cannot be written
    /// refuses no computation.
    pub(super) fn begin(&self, name: &str, input: &str) -> Result<Attempt, String> {
        let file = self.0.join(hex(Sha256::digest(format!("{name}\n{input}"))));
        let is_fresh = |file: &Path| {
            let written = fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
            written.and_then(|at| at.elapsed().ok()).is_none_or(|age| age < FORGOTTEN)
        };
        let ends = fs::read_to_string(&file).ok().filter(|_| is_fresh(&file));
        let ends = ends.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or_default();
        if ends >= ENDS {
            return Err(format!(
                "the process ended {ends} times during it; it is begun again an hour after the last time, \
                 or for another commit"
            ));
        }
        let written = fs::create_dir_all(&self.0).and_then(|()| fs::write(&file, (ends + 1).to_string()));
        if let Err(error) = written {
            tracing::warn!(%error, directory = %self.0.display(), "cannot note that a computation begins");
        }
        Ok(Attempt(file))
    }
}

impl Attempt {
    /// The process has survived the computation.
    pub(super) fn end(self) {
        // There is none where the disk took no file.
        drop(fs::remove_file(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_computation_that_ended_the_process_three_times_is_not_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = || Attempts::new(&dir.path().join("attempts"));
        for _ in 0..ENDS {
            // The process ends without a word.
            let _ = attempts().begin("rendered commit", "one").unwrap();
        }
        let refused = attempts().begin("rendered commit", "one").unwrap_err();
        assert!(refused.starts_with("the process ended 3 times during it"), "{refused}");
        attempts().begin("rendered commit", "two").unwrap().end();

        let file = dir.path().join("attempts").read_dir().unwrap().next().unwrap().unwrap().path();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        fs::File::options().write(true).open(file).unwrap().set_modified(written - FORGOTTEN).unwrap();
        attempts().begin("rendered commit", "one").unwrap().end();
    }

    #[test]
    fn a_computation_that_ends_leaves_nothing_and_a_disk_that_is_full_refuses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let attempts = Attempts::new(dir.path());
        for _ in 0..2 * ENDS {
            attempts.begin("rendered commit", "one").unwrap().end();
        }
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        Attempts::new(&file).begin("rendered commit", "one").unwrap().end();
    }
}
