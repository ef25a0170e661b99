//! Measures one root that includes 1,000 overlays of 4 objects and 50 namespaces: `cargo bench --bench root`.
//!
//! The times are CPU times of the process, so other load on the machine has little effect. The benchmark fails if
//! the time per overlay doubles from 125 to 1,000 overlays.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock of its process"
)]

mod overlays;

use object::tree::FileTree;
use overlays::{BASE, NAMESPACES, cpu_seconds, root, root_overlay};
use render::render;

const REPEATS: usize = 5;
const SIZES: [usize; 4] = [125, 250, 500, 1000];

fn tree(count: usize) -> FileTree {
    let mut tree = FileTree::default();
    for (name, text) in BASE {
        tree.insert(format!("base/{name}"), text.as_bytes());
    }
    for number in 0..count {
        tree.insert(format!("overlays/{number}/kustomization.yaml"), root_overlay(number, 2).into_bytes());
    }
    for (path, text) in root(count) {
        tree.insert(path, text.into_bytes());
    }
    tree
}

/// Returns the lowest CPU time of several runs.
fn least(mut run: impl FnMut()) -> f64 {
    let times = (0..REPEATS).map(|_| {
        let before = cpu_seconds();
        run();
        cpu_seconds() - before
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let mut each: Vec<f64> = Vec::new();
    for count in SIZES {
        let tree = tree(count);
        let whole = least(|| assert_eq!(render(&tree, "").unwrap().objects.len(), count * 4 + NAMESPACES));
        println!("{count} overlays of one root: {whole:.3} CPU-s, {:.2} ms each", whole * 1e3 / count as f64);
        each.push(whole / count as f64);
    }
    let apart_tree = tree(1000);
    let apart = least(|| {
        for number in 0..1000 {
            render(&apart_tree, &format!("overlays/{number}")).unwrap();
        }
    });
    println!("1000 overlays apart: {apart:.3} CPU-s");
    let (first, last) = (each.first().unwrap(), each.last().unwrap());
    assert!(*last < first * 2.0, "the time per overlay grows: {each:?}");
}
