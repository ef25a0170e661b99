//! Measures the cost of rendering: `cargo bench --bench render`.
//!
//! 1,000 overlays of 4 objects on one base: all of them on one thread and on all cores, all of them again after a
//! change to one, and with one `kubectl kustomize` process each if kubectl is installed.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

mod overlays;

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use object::tree::FileTree;
use overlays::{BASE, overlay};
use render::{Rendered, render};

const OVERLAYS: usize = 1000;
/// Number of kubectl processes, from which the mean is computed.
const KUBECTL_RUNS: usize = 30;
const REPEATS: usize = 5;

fn tree() -> FileTree {
    let mut tree = FileTree::default();
    for (name, text) in BASE {
        tree.insert(format!("base/{name}"), text.as_bytes());
    }
    for number in 0..OVERLAYS {
        tree.insert(format!("overlays/{number}/kustomization.yaml"), overlay(number, 2).into_bytes());
    }
    tree
}

/// Renders overlays on several threads. Each thread renders every n-th overlay.
fn render_all(tree: &FileTree, roots: &[String], threads: usize) -> Vec<Rendered> {
    let every_nth = |first: usize| {
        let roots = roots.iter().skip(first).step_by(threads);
        roots.map(|root| render(tree, root).unwrap()).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || every_nth(first))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Returns the fastest of several runs, because other load on the machine only adds time.
fn fastest(mut run: impl FnMut() -> Duration) -> Duration {
    (0..REPEATS).map(|_| run()).min().unwrap()
}

fn main() {
    let (tree, roots) =
        (tree(), (0..OVERLAYS).map(|number| format!("overlays/{number}")).collect::<Vec<_>>());
    let full = |threads: usize| {
        fastest(|| {
            let start = Instant::now();
            let rendered = render_all(&tree, &roots, threads);
            let time = start.elapsed();
            assert_eq!(rendered.len(), OVERLAYS);
            time
        })
    };
    let alone = full(1);
    println!("{OVERLAYS} overlays of 4 objects, 1 thread: {alone:.1?}, {:.1?} each", alone / OVERLAYS as u32);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if cores > 1 {
        let together = full(cores);
        println!(
            "the same on {cores} threads: {together:.1?}, {:.2} times as fast",
            alone.as_secs_f64() / together.as_secs_f64()
        );
    }
    let mut last: Vec<Rendered> = roots.iter().map(|root| render(&tree, root).unwrap()).collect();
    let (mut changed, mut replicas) = (tree.clone(), 2);
    let one = fastest(|| {
        replicas += 1;
        changed.insert("overlays/500/kustomization.yaml", overlay(500, replicas).into_bytes());
        let start = Instant::now();
        let mut anew = 0;
        for (root, rendered) in roots.iter().zip(&mut last) {
            if !rendered.closure.holds_in(&changed) {
                *rendered = render(&changed, root).unwrap();
                anew += 1;
            }
        }
        let time = start.elapsed();
        assert_eq!(anew, 1);
        time
    });
    println!(
        "1 of {OVERLAYS} changed: {one:.2?}, {:.2} % of the full cost",
        100.0 * one.as_secs_f64() / alone.as_secs_f64()
    );
    match kubectl(&tree) {
        Some(each) => {
            let ours = alone.as_secs_f64() / OVERLAYS as f64;
            println!(
                "kubectl kustomize, a process for each: {each:.1?} each, {:.0} times as long",
                each.as_secs_f64() / ours
            );
        }
        None => println!("kubectl is not on the path, so there is nothing to compare with"),
    }
}

/// Returns the mean time of a process, after checking that both programs print the same text.
fn kubectl(tree: &FileTree) -> Option<Duration> {
    Command::new("kubectl").arg("version").arg("--client").output().ok()?;
    let dir = tempfile::tempdir().unwrap();
    for (path, entry) in tree.below("") {
        if let object::tree::TreeEntry::File(bytes) = entry {
            let full = dir.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(full, bytes).unwrap();
        }
    }
    let mut total = Duration::ZERO;
    for number in 0..KUBECTL_RUNS {
        let root = format!("overlays/{number}");
        let start = Instant::now();
        let output = Command::new("kubectl").arg("kustomize").arg(dir.path().join(&root)).output().unwrap();
        total += start.elapsed();
        let ours = render(tree, &root).unwrap().to_yaml();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), ours, "{root}");
    }
    Some(total / KUBECTL_RUNS as u32)
}
