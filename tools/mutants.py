#!/usr/bin/env python3
"""Runs the unit tests of a crate on every change that cargo-mutants lists, with one build for all changes of the crate.

Usage: tests/mutants [GLOB]..., such as: tests/mutants 'crates/engine/src/sync/*.rs'

A copy of the tree gets each function with all its changed bodies; the environment variable MUTANT names the one that runs. A first run
records which tests reach which function, so a change costs only the tests that reach it, quick ones first, until one of them fails. A
change outside of functions is not run. The limit of a run is CPU time, so a busy machine does not end it. The results are in the
directory `mutants` of the target directory: a line for each change. The table is that of docs/mutants.md.
"""

import collections
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutants"
TREE = OUT / "tree"
# Cargo would take the program in the copy for one of the checkout.
TARGET = {"CARGO_TARGET_DIR": str(OUT / "target")}
SAFETY_CORE = [
    "crates/engine/src/rollout/**",
    "crates/engine/src/placement/**",
    "crates/engine/src/sync/**",
    "crates/engine/src/applier/**",
    "crates/engine/src/work/**",
    "crates/engine/src/replica_set/**",
    "crates/controllers/src/hub/config_repo/loosening.rs",
    "crates/controllers/src/hub/config_repo/approval.rs",
    "crates/controllers/src/hub/config_repo/deletion.rs",
    "crates/controllers/src/hub/config_repo/moves.rs",
    "crates/controllers/src/addon_deletion.rs",
    "crates/controllers/src/addon_removal.rs",
]
COLUMNS = ["caught", "never ended", "does not compile", "not run", "survived"]
CANNOT_BE_COPIED = "the function does not compile with a copy of its body"
QUICK = 0.2  # seconds of the tests that run first
MEMORY = 8 << 30  # bytes of a run: a change may allocate without end

RUNTIME = """
pub(crate) mod mutant {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::sync::LazyLock;

    static CURRENT: LazyLock<usize> = LazyLock::new(|| {
        let current = std::env::var("MUTANT").map_or(0, |number| number.parse().unwrap());
        if current > 0 {
            std::panic::set_hook(Box::new(|panic| {
                let file = panic.location().map_or("", |location| location.file());
                // The evaluator of expressions catches panics, so one of its own fails no test.
                if file.contains("crates/NAME/") && !file.ends_with("filter/cel.rs") {
                    std::process::exit(101);
                }
            }));
        }
        current
    });
    static TRACE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("MUTANT_TRACE").ok());
    thread_local! { static REACHED: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) }; }

    pub(crate) fn current(first: usize, last: usize) -> usize {
        if let Some(path) = TRACE.as_ref() && REACHED.with(|reached| reached.borrow_mut().insert(first)) {
            let mut file = std::fs::File::options().append(true).create(true).open(path).unwrap();
            let thread = std::thread::current();
            let test = thread.name().expect("a thread of a test has its name");
            file.write_all(format!("{test}\\t{first}\\n").as_bytes()).unwrap();
        }
        if (first..=last).contains(&*CURRENT) { *CURRENT } else { 0 }
    }
}
"""

TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])'|.""", re.S
)


def listed(crate, globs):
    """The changes of a crate that cargo-mutants lists, numbered from 1."""
    command = [os.environ["CARGO_MUTANTS"], "mutants", "--package", f"wheelwright-{crate}", "--list", "--json"]
    command += [word for glob in globs for word in ("--file", glob)]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return dict(enumerate(found, 1))


def place(mutant):
    """The file and the span of the function of a change."""
    return mutant["file"], json.dumps(mutant["function"]["span"])


def copy_tree(crate):
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for file in files.split():
        if (ROOT / file).is_file():
            (TREE / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, TREE / file)
    with open(TREE / "crates" / crate / "src/lib.rs", "a") as library:
        library.write(RUNTIME.replace("NAME", crate))


def body_start(text, start, end):
    """The offset behind the brace that the last brace of a function closes."""
    opened, last = [], None
    for token in TOKEN.finditer(text, start, end):
        if token.group() == "{":
            opened.append(token.end())
        elif token.group() == "}":
            last = opened.pop()
    return last


def as_returned(return_type, block):
    """A block as the value of a function. All bodies of a function that returns an iterator have one type."""
    iterator = re.match(r"-> impl (Iterator<.*>)", return_type)
    if not iterator:
        return block
    kind = re.sub(r"\s*\+\s*(use\s*<.*>|'\w+)$", "", iterator.group(1))
    return f"Box::new({block}) as Box<dyn {kind} + '_>"


def with_changes(text, mutants):
    """The text of a file in which each function has its changed bodies, behind marks with their numbers."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    offset = lambda position: lines[position["line"] - 1] + position["column"] - 1
    functions = collections.defaultdict(list)
    for number, mutant in mutants:
        span = mutant["function"]["span"]
        functions[offset(span["start"]), offset(span["end"])].append((number, mutant))
    edits = []
    for (start, end), inside in functions.items():
        begin = body_start(text, start, end)
        body, returns = text[begin : end - 1], inside[0][1]["function"]["return_type"]
        first, last = inside[0][0], inside[-1][0]
        new = f"\n/*@-{first}*/ match crate::mutant::current({first}, {last}) {{\n"
        for number, mutant in inside:
            low, high = (offset(mutant["span"][side]) - begin for side in ("start", "end"))
            changed = f"{{{body[:low]}{mutant['replacement']} {body[high:]}}}"
            new += f"/*@{number}*/ {number} => return {as_returned(returns, changed)},\n"
        new += f"/*@-{first}*/ _ => {{}} }}\n"
        new += as_returned(returns, f"{{{body}}}") if as_returned(returns, "") else body
        edits.append((begin, end - 1, new))
        edits.append((start, begin, text[start:begin].replace("const fn", "fn", 1)))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def number_at(path, line):
    """The change to which a line belongs; negative for the unchanged body of a function, and 0 outside of them."""
    for text in reversed((TREE / path).read_text().splitlines()[:line]):
        mark = re.match(r"/\*@(-?\d+)\*/", text)
        if mark:
            return int(mark.group(1))
    return 0


def errors(messages, mutants):
    """The changes that do not compile, each with the reason."""
    found = {}
    for message in (m["message"] for m in messages if m["reason"] == "compiler-message"):
        for span in message["spans"]:
            if message["level"] == "error" and span["is_primary"]:
                number = number_at(span["file_name"], span["line_start"])
                if number < 0:
                    of_function = [n for n, mutant in mutants.items() if place(mutant) == place(mutants[-number])]
                    found |= {n: CANNOT_BE_COPIED for n in of_function}
                else:
                    found[number] = message["message"]
    return found


def build(crate, mutants):
    """The program with all changes that compile, and the others with the reason."""
    broken = {}
    while True:
        for path in {mutant["file"] for mutant in mutants.values()}:
            of_file = [(n, m) for n, m in mutants.items() if m["file"] == path and n not in broken]
            (TREE / path).write_text(with_changes((ROOT / path).read_text(), of_file))
        command = ["cargo", "test", "--package", f"wheelwright-{crate}", "--lib", "--no-run", "--message-format=json"]
        made = subprocess.run(
            command, cwd=TREE, env=os.environ | TARGET, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        messages = [json.loads(line) for line in made.stdout.splitlines()]
        if made.returncode == 0:
            return next(m["executable"] for m in messages if m.get("executable")), broken
        new = errors(messages, mutants)
        if not new or 0 in new:
            sys.exit(f"the program does not compile: {new}\n{made.stderr.decode()[-4000:]}")
        broken |= new


def play(crate, program, tests, variables, seconds):
    """Runs tests of the program of a crate."""
    variables = variables | {
        "RUSTC_BOOTSTRAP": "1",  # for --report-time
        "PROPTEST_CASES": os.environ.get("PROPTEST_CASES", "32"),
        "PROPTEST_MAX_SHRINK_ITERS": "0",
        "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
    }

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return subprocess.run(
        [program, "--test-threads=1", "-Zunstable-options", "--report-time", "--exact", *tests],
        cwd=TREE / "crates" / crate,
        env=os.environ | variables,
        preexec_fn=limit,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def reach(crate, program):
    """The tests that reach each function, by its first change, and the seconds of each test."""
    trace = OUT / "trace"
    trace.unlink(missing_ok=True)
    names = subprocess.run([program, "--list", "--format=terse"], stdout=subprocess.PIPE, text=True, check=True).stdout
    tests = re.findall(r"^(.*): test$", names, re.M)
    done = play(crate, program, tests, {"MUTANT_TRACE": str(trace)}, 3600)
    if done.returncode != 0:
        sys.exit(f"the tests fail on unchanged code:\n{done.stdout[-4000:]}")
    seconds = {name: float(time) for name, time in re.findall(r"^test (\S+) \.\.\. ok <([\d.]+)s>", done.stdout, re.M)}
    reached = collections.defaultdict(set)
    for line in trace.read_text().splitlines():
        name, first = line.split("\t")
        reached[int(first)].add(name)
    return reached, seconds


def judge(crate, program, number, tests, seconds):
    """Runs the tests that reach a change: quick ones, then the others."""
    tests = sorted(tests, key=seconds.get)
    quick, total = [], 0
    while tests and (not quick or total + seconds[tests[0]] <= QUICK):
        total += seconds[tests[0]]
        quick.append(tests.pop(0))
    for batch in (quick, tests):
        limit = 10 + int(4 * sum(seconds[name] for name in batch))
        code = play(crate, program, batch, {"MUTANT": str(number)}, limit).returncode if batch else 0
        if code != 0:
            return "never ended" if code < 0 else "caught"
    return "survived"


def run(crate, globs, output):
    """Judges every change of a crate and prints the rows of its files."""
    sources = f"crates/{crate}/src/"
    mutants = listed(crate, globs)
    copy_tree(crate)
    runnable = {number: mutant for number, mutant in mutants.items() if mutant["function"]}
    program, broken = build(crate, runnable)
    reached, seconds = reach(crate, program)
    firsts, counts = {}, collections.defaultdict(collections.Counter)
    for number, mutant in mutants.items():
        why = broken.get(number, "")
        if number not in runnable or why == CANNOT_BE_COPIED:
            result = "not run"
        elif why:
            result = "does not compile"
        else:
            first = firsts.setdefault(place(mutant), number)
            result = judge(crate, program, number, reached[first], seconds)
        counts[mutant["file"].removeprefix(sources)][result] += 1
        print(result, mutant["name"], why, sep="\t", file=output, flush=True)
        if result == "survived":
            print(f"survived: {mutant['name']}", flush=True)
    for file, count in sorted(counts.items()):
        print(f"| `{file}` | {count.total()} |", " | ".join(str(count[column]) for column in COLUMNS), "|")


def main():
    crates = collections.defaultdict(list)
    for glob in sys.argv[1:] or SAFETY_CORE:
        crates[glob.split("/")[1]].append(glob)
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "results.tsv", "w") as output:
        for crate, globs in crates.items():
            run(crate, globs, output)


main()
