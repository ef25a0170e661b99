//! Scratch.
use std::io::Write;
use std::path::Path;
use wheelwright::render::render;
use wheelwright::tree::FileTree;

fn main() {
    // lines: tree-dir \t root \t out-file
    let mut last: Option<(String, FileTree)> = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let parts: Vec<&str> = line.split('\t').collect();
        if last.as_ref().is_none_or(|(dir, _)| dir != parts[0]) {
            let mut tree = FileTree::default();
            read_tree(Path::new(parts[0]), "", &mut tree);
            last = Some((parts[0].into(), tree));
        }
        let tree = &last.as_ref().unwrap().1;
        let result = std::panic::catch_unwind(|| render(tree, parts[1]));
        let out = match result {
            Ok(Ok(rendered)) => {
                assert!(rendered.closure.holds_in(tree), "{}", parts[1]);
                rendered.to_yaml()
            }
            Ok(Err(error)) => format!("ERROR {}\n{error}\n", error.reason.as_str()),
            Err(_) => "ERROR Panic\n".into(),
        };
        std::fs::File::create(parts[2]).unwrap().write_all(out.as_bytes()).unwrap();
    }
}

fn read_tree(dir: &Path, prefix: &str, tree: &mut FileTree) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            read_tree(&entry.path(), &format!("{path}/"), tree);
        } else if kind.is_symlink() {
            tree.insert_link(path, std::fs::read_link(entry.path()).unwrap().to_string_lossy().into_owned());
        } else {
            tree.insert(path, std::fs::read(entry.path()).unwrap());
        }
    }
}
