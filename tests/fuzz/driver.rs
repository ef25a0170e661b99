//! Runs a fuzz target: a test of code that handles external bytes.
//!
//! In a normal build, a target runs on its seeds and its corpus. A build with `--cfg fuzzing`, as made by
//! `tests/fuzz/run`, passes them to libFuzzer, which mutates them and keeps those that reach new code.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A target and the material for its inputs.
pub(crate) struct Target<'a> {
    /// The part of the test's name between `any_bytes_are_` and `_or_`, without an article.
    pub(crate) name: &'a str,
    /// Panics if it mishandles the input.
    pub(crate) run: &'a dyn Fn(&[u8]),
    pub(crate) seeds: &'a [Vec<u8>],
    /// Words that are meaningful to the target.
    #[cfg_attr(not(fuzzing), allow(dead_code, reason = "it is libFuzzer that inserts them"))]
    pub(crate) words: &'a [&'a str],
}

impl Target<'_> {
    /// Runs the target on each known input.
    #[cfg(not(fuzzing))]
    pub(crate) fn fuzz(&self) {
        self.inputs().iter().for_each(|input| (self.run)(input));
    }

    /// Returns the seeds and the inputs that libFuzzer found earlier, which are stored one per line in base64.
    fn inputs(&self) -> Vec<Vec<u8>> {
        let file = format!("tests/fuzz/corpus/{}.txt", self.name);
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|dir| dir.join(&file)).find(|f| f.exists());
        let text = std::fs::read_to_string(file.expect("a corpus, which may be empty")).expect("text");
        let found = text.lines().map(|line| STANDARD.decode(line).expect("a line in base64"));
        self.seeds.iter().cloned().chain(found).collect()
    }
}

#[cfg(fuzzing)]
mod libfuzzer {
    #![allow(unsafe_code, reason = "libFuzzer is a library in C++")]

    use std::cell::Cell;
    use std::ffi::{CString, c_char, c_int};
    use std::path::PathBuf;

    use libfuzzer_sys as _;

    use super::Target;

    type Run = &'static dyn Fn(&[u8]);

    thread_local! {
        static RUN: Cell<Option<Run>> = const { Cell::new(None) };
    }

    unsafe extern "C" {
        fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> c_int;
        fn LLVMFuzzerRunDriver(
            count: *mut c_int,
            arguments: *mut *mut *mut c_char,
            run: unsafe extern "C" fn(*const u8, usize) -> c_int,
        ) -> c_int;
    }

    /// The name must match the declaration in `libfuzzer-sys`.
    #[unsafe(no_mangle)]
    extern "C" fn rust_fuzzer_test_input(input: &[u8]) -> i32 {
        if let Some(run) = RUN.get() {
            run(input);
        }
        0
    }

    impl Target<'_> {
        /// Runs the target in libFuzzer, with the arguments in `FUZZ_ARGUMENTS`; its inputs are in a directory of
        /// `FUZZ_DIR` named after the target. libFuzzer then exits the process.
        pub(crate) fn fuzz(&self) {
            let dir = PathBuf::from(std::env::var_os("FUZZ_DIR").expect("a directory"));
            let inputs = dir.join(self.name);
            std::fs::create_dir_all(&inputs).expect("a directory for inputs");
            for (i, input) in self.inputs().iter().enumerate() {
                std::fs::write(inputs.join(format!("known-{i}")), input).expect("an input");
            }
            let escape = |word: &&str| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
            let words: String = self.words.iter().map(|word| format!("\"{}\"\n", escape(word))).collect();
            let dictionary = dir.join(format!("{}.dict", self.name));
            std::fs::write(&dictionary, words).expect("a dictionary");
            let given = std::env::var("FUZZ_ARGUMENTS").unwrap_or_default();
            let given = given.split_whitespace().map(str::to_owned);
            let ours = [
                "fuzz".to_owned(),
                format!("-dict={}", dictionary.display()),
                format!("-artifact_prefix={}/{}-", dir.display(), self.name),
            ];
            let all = ours.into_iter().chain(given).chain([inputs.display().to_string()]);
            let all: Vec<_> =
                all.map(|argument| CString::new(argument).expect("a text").into_raw()).collect();
            let (mut count, mut all) = (c_int::try_from(all.len()).expect("few arguments"), all);
            all.push(std::ptr::null_mut());
            let mut all = all.as_mut_ptr();
            // SAFETY: the driver calls the target only on this thread and exits the process before it returns, so
            // neither the target nor the arguments are used after they are dropped.
            unsafe {
                RUN.set(Some(std::mem::transmute::<&dyn Fn(&[u8]), Run>(self.run)));
                LLVMFuzzerRunDriver(&raw mut count, &raw mut all, LLVMFuzzerTestOneInput);
            }
            panic!("libFuzzer did not start");
        }
    }
}
