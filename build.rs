//! Links `wheelwright-agent`, which every cluster keeps in memory, with less data and code (docs/benchmarks.md).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_optimized = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // On this target, rustc links with its own lld, which knows both options.
    if is_optimized && [target("ARCH"), target("OS"), target("ENV")] == ["x86_64", "linux", "gnu"] {
        // Stores most relocations in a bit instead of 24 bytes, and functions with the same instructions once.
        for option in ["-Wl,-z,pack-relative-relocs", "-Wl,--icf=all"] {
            println!("cargo::rustc-link-arg-bin=wheelwright-agent={option}");
        }
    }
}
