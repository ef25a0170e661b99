//! Compares the output of the renderer with the output of kustomize, for a corpus.
//!
//! Usage: `cargo run --example render_corpus -- FOLDER [--verbose]`. `FOLDER/input` contains repositories, and
//! `FOLDER/expected/PATH/objects.yaml` the output of `kubectl kustomize FOLDER/input/PATH`. Reports exact matches,
//! matches after YAML parsing, and mismatches. Exits with 1 unless everything matches exactly.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use object::tree::FileTree;
use render::render;
use yaml::{Reading, documents};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().ok_or("usage: render_corpus FOLDER [--verbose]")?);
    let verbose = arguments.iter().any(|argument| argument == "--verbose");
    let mut tree = FileTree::default();
    read_tree(&folder.join("input"), "", &mut tree)?;
    let mut expected = BTreeMap::new();
    find_expected(&folder.join("expected"), "", &mut expected)?;
    let (mut exact, mut equal, mut wrong) = (0, 0, 0);
    for (root, text) in &expected {
        match render(&tree, root) {
            Ok(rendered) if rendered.to_yaml() == *text => exact += 1,
            Ok(rendered) => {
                let made = rendered.to_yaml();
                let same = parsed(&made) == parsed(text);
                if same {
                    equal += 1
                } else {
                    wrong += 1
                }
                println!("{} {root}", if same { "text differs:" } else { "DIFFERS:" });
                if verbose {
                    show_difference(text, &made);
                }
            }
            Err(error) => {
                wrong += 1;
                println!("ERROR: {root}\n  {error}");
            }
        }
    }
    println!("{} overlays: {exact} exact, {equal} equal after parsing, {wrong} wrong", expected.len());
    Ok(if equal + wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parsed(text: &str) -> Vec<Option<serde_json::Value>> {
    documents(text.as_bytes())
        .unwrap_or_default()
        .iter()
        .map(|node| node.to_json(Reading::Objects).ok())
        .collect()
}

fn show_difference(expected: &str, made: &str) {
    let (expected, made): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), made.lines().collect());
    let first =
        expected.iter().zip(&made).position(|(a, b)| a != b).unwrap_or(expected.len().min(made.len()));
    for (name, lines) in [("expected", &expected), ("made", &made)] {
        println!("  {name} from line {}:", first.saturating_sub(2) + 1);
        for line in lines.iter().skip(first.saturating_sub(2)).take(8) {
            println!("    {line}");
        }
    }
}

fn read_tree(dir: &Path, prefix: &str, tree: &mut FileTree) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_tree(&entry.path(), &format!("{path}/"), tree)?;
        } else if kind.is_symlink() {
            tree.insert_link(path, std::fs::read_link(entry.path())?.to_string_lossy().into_owned());
        } else {
            tree.insert(path, std::fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn find_expected(
    dir: &Path,
    prefix: &str,
    found: &mut BTreeMap<String, String>,
) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            find_expected(&entry.path(), &format!("{prefix}{name}/"), found)?;
        } else if name == "objects.yaml" {
            found.insert(prefix.trim_end_matches('/').to_owned(), std::fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}
