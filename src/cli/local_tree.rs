//! Reads local directories as trees for the renderer.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::CommandError;
use super::charts::Charts;
use crate::shell::now;
use object::tree::FileTree;
use object::{Key, KeyFiles, Seed};
use render::limits::MAX_FILE_BYTES;
use render::{
    DirectoriesMemo, Parameters, RandomValues, Reason, RenderError, Rendered, matching_directories,
    render_directories,
};

/// The limits for the number of files and their total size. A larger directory is unlikely to be a config
/// repository.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: usize = 256 << 20;

/// The rendered overlay of a local directory.
pub(crate) struct Local {
    /// The root directory of the tree.
    pub(crate) base: PathBuf,
    /// The result of rendering.
    pub(crate) result: Result<Rendered, RenderError>,
    /// The Helm releases that draw random values.
    pub(crate) drawn: Vec<Key>,
}

/// Draws the seed of the random values of a command. As with Helm, each run has its own, so that nobody else knows
/// the values.
///
/// # Errors
/// Fails if the system has no randomness.
pub(crate) fn draw_seed() -> Result<Seed, CommandError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the system has no randomness"))?;
    Ok(Seed { bytes, time: now() })
}

/// Renders directories of a tree, with keys for encrypted files, and adds the remote charts that they need. Also
/// returns the Helm releases that draw random values.
pub(crate) fn render_tree(
    tree: &mut FileTree,
    directories: &BTreeSet<String>,
    seed: Seed,
    keys: Option<&KeyFiles>,
    charts: &mut Charts,
) -> (Result<Rendered, RenderError>, Vec<Key>) {
    let random = RandomValues { seed: Some(seed), ..RandomValues::default() };
    let keys = keys.cloned().map(Ok);
    let mut parameters = Parameters { random, keys, ..Parameters::default() };
    loop {
        let mut memo = DirectoriesMemo::default();
        match render_directories(tree, directories, &parameters, &mut memo, &|| false) {
            Err(error) if !error.charts.is_empty() => {
                if let Err(CommandError { error: failed, hint }) = charts.add(&error.charts, tree) {
                    let (message, hint) = (failed.to_string(), hint.or(error.hint));
                    let error = RenderError { message, hint, charts: Vec::new(), ..error };
                    return (Err(error), Vec::new());
                }
            }
            Err(error) if !error.undrawn.is_empty() => {
                let undrawn = error.undrawn.iter().cloned();
                parameters.random.since.extend(undrawn.map(|release| (release, seed.time)));
            }
            result => {
                return (result.map(|all| all.rendered), parameters.random.since.into_keys().collect());
            }
        }
    }
}

/// Adds the remote charts that directories need to a tree.
///
/// # Errors
/// Fails if a chart cannot be downloaded.
pub(crate) fn add_charts(
    tree: &mut FileTree,
    directories: &BTreeSet<String>,
    parameters: &Parameters,
    charts: &mut Charts,
) -> Result<(), CommandError> {
    loop {
        let mut memo = DirectoriesMemo::default();
        match render_directories(tree, directories, parameters, &mut memo, &|| false) {
            Err(error) if !error.charts.is_empty() => charts.add(&error.charts, tree)?,
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// Renders a local directory, or those that match a pattern.
///
/// The root of the tree is the directory itself, or the one that contains the matches, or its nearest parent that
/// contains all files that the overlays reference. The search ends at the root of the repository; outside a
/// repository, an overlay can only reference files below this directory.
///
/// # Errors
/// Fails if the directory cannot be read, or if no directory matches.
pub(crate) fn render_directory(
    dir: &Path,
    seed: Seed,
    keys: Option<&KeyFiles>,
    charts: &mut Charts,
) -> Result<Local, CommandError> {
    let (dir, pattern) = split_pattern(dir);
    let dir = dir.canonicalize().with_context(|| format!("cannot read {}", dir.display()))?;
    if !dir.is_dir() {
        return Err(CommandError::hinted(
            anyhow!("{} is not a directory", dir.display()),
            "name the directory of the kustomization",
        ));
    }
    let repository = dir.ancestors().find(|parent| parent.join(".git").exists());
    let highest = repository.unwrap_or(&dir);
    let mut base = dir.clone();
    loop {
        let mut tree = FileTree::default();
        read_tree(&base, "", &mut tree, &mut Read::default())?;
        let directories = directories(&tree, &dir.strip_prefix(&base).unwrap_or(&dir).join(&pattern))?;
        let (mut result, drawn) = render_tree(&mut tree, &directories, seed, keys, charts);
        let leaves = result.as_ref().is_err_and(|error| error.reason == Reason::OutsideRepository);
        match base.parent() {
            Some(parent) if leaves && base != highest => base = parent.to_path_buf(),
            Some(_) | None => {
                if let (true, None, Err(error)) = (leaves, repository, &mut result) {
                    error.hint = Some(OUTSIDE.into());
                }
                return Ok(Local { base, result, drawn });
            }
        }
    }
}

/// Splits a path into a directory and the pattern of directories below it, which starts at the first name with `*`.
fn split_pattern(path: &Path) -> (PathBuf, PathBuf) {
    let is_fixed = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains('*');
    let (dir, pattern) = (path.components().take_while(is_fixed), path.components().skip_while(is_fixed));
    let dir: PathBuf = dir.collect();
    (if dir.as_os_str().is_empty() { ".".into() } else { dir }, pattern.collect())
}

/// Returns the directories of a tree that match a pattern, or the path itself if it has no `*`.
///
/// # Errors
/// Fails if no directory matches.
pub(crate) fn directories(tree: &FileTree, path: &Path) -> Result<BTreeSet<String>, CommandError> {
    let path = path.to_string_lossy();
    if !path.contains('*') {
        return Ok(BTreeSet::from([path.into_owned()]));
    }
    matching_directories(tree, [&*path]).map_err(|pattern| {
        let hint = "`*` matches any part of one name, except a leading dot; files do not match";
        CommandError::hinted(anyhow!("no directory matches {pattern:?}"), hint)
    })
}

/// The hint for an overlay that references files outside its directory.
const OUTSIDE: &str = "outside of a git repository, only files below the directory are read; run git init in the directory that also contains the bases";

/// The number and the size of the files read so far.
#[derive(Default)]
struct Read {
    files: usize,
    bytes: usize,
}

fn read_tree(dir: &Path, prefix: &str, tree: &mut FileTree, read: &mut Read) -> Result<(), CommandError> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        let name = entry.file_name();
        let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else { continue };
        let (path, full) = (format!("{prefix}{name}"), entry.path());
        if kind.is_dir() {
            if name != ".git" {
                // An unreadable directory counts as empty. The renderer reports missing files that the overlay
                // references.
                let _ = read_tree(&full, &format!("{path}/"), tree, read);
            }
        } else if kind.is_symlink() {
            if let Ok(target) = std::fs::read_link(&full) {
                tree.insert_link(path, target.to_string_lossy().into_owned());
            }
        } else if kind.is_file()
            && let Ok(bytes) = read_file(&full, MAX_FILE_BYTES)
        {
            read.bytes += bytes.len();
            tree.insert(path, bytes);
        }
        read.files += 1;
        if read.files > MAX_FILES || read.bytes > MAX_BYTES {
            let (files, bytes) = (MAX_FILES, MAX_BYTES >> 20);
            let error = anyhow!("there are more than {files} files or {bytes} MiB below {}", dir.display());
            return Err(CommandError::hinted(
                error,
                "render it inside of a git repository, or by --repo and --revision",
            ));
        }
    }
    Ok(())
}

/// Reads a file, up to one byte more than a limit.
pub(crate) fn read_file(path: &Path, limit: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the paths of an error relative to the working directory.
pub(crate) fn with_local_paths(mut error: RenderError, base: &Path) -> RenderError {
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: &str| {
        let full = base.join(path);
        match full.strip_prefix(&here).unwrap_or(&full).to_string_lossy().into_owned() {
            empty if empty.is_empty() => ".".into(),
            shown => shown,
        }
    };
    error.file = shown(&error.file);
    error.through = error.through.iter().map(|path| shown(path)).collect();
    for place in &mut error.related {
        place.file = shown(&place.file);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Credentials;

    #[test]
    fn outside_of_a_repository_nothing_above_the_directory_is_read() {
        let above = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = above.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("base/kustomization.yaml", "resources: [map.yaml]\n");
        write("base/map.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}\n");
        write("overlay/kustomization.yaml", "resources: [../base]\n");
        let overlay = above.path().join("overlay").canonicalize().unwrap();
        let mut charts = Charts::new(Credentials::default());
        let local = render_directory(&overlay, Seed::PLACEHOLDER, None, &mut charts).unwrap();
        assert_eq!(local.base, overlay);
        let error = local.result.err().unwrap();
        assert_eq!((error.reason, error.hint.as_deref()), (Reason::OutsideRepository, Some(OUTSIDE)));

        std::fs::create_dir(above.path().join(".git")).unwrap();
        let local = render_directory(&overlay, Seed::PLACEHOLDER, None, &mut charts).unwrap();
        assert_eq!(local.result.unwrap().objects.len(), 1);
    }
}
