//! Renders several directories of a tree as one. Each is rendered separately, and again only after a file that it
//! read has changed. Together, they have the limits of one rendering.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::closure::Closure;
use super::error::{Reason, RenderError};
use super::limits::{MAX_DIRECTORIES, MAX_MEMO_BYTES, MAX_RENDER_BYTES, MAX_ROOTS};
use super::memo::RenderMemo;
use super::parameters::Parameters;
use super::{Input, Rendered, Used, render_one};
use object::tree::FileTree;
use object::{ObjectRef, RenderedObject};

/// The result of rendering several directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedDirectories {
    /// The objects of all directories, in the order of their paths, and the files on which they depend.
    pub rendered: Rendered,
    /// The number of objects of each directory.
    pub directories: BTreeMap<String, usize>,
}

/// The last rendering of each directory, for [`render_directories`].
#[derive(Clone, Debug, Default)]
pub struct DirectoriesMemo(BTreeMap<String, Arc<LastRendering>>);

#[derive(Debug)]
struct LastRendering {
    rendered: Rendered,
    used: Used,
    memo: RenderMemo,
}

/// Returns the directories that match patterns.
///
/// In a pattern, `*` matches any part of one name. As in a shell, it does not match a leading dot. Files, links and
/// submodules do not match.
///
/// # Errors
/// Returns the first pattern that matches no directory.
pub fn matching_directories<'p>(
    tree: &FileTree,
    patterns: impl IntoIterator<Item = &'p str>,
) -> Result<BTreeSet<String>, &'p str> {
    let mut all = BTreeSet::new();
    for pattern in patterns {
        let mut found = BTreeSet::from([String::new()]);
        for segment in pattern.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
            found = found.iter().flat_map(|dir| children(tree, dir, segment)).collect();
        }
        if found.is_empty() {
            return Err(pattern);
        }
        all.append(&mut found);
    }
    Ok(all)
}

/// Returns the directories directly below a directory whose names match a segment of a pattern.
fn children(tree: &FileTree, dir: &str, segment: &str) -> BTreeSet<String> {
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    if !segment.contains('*') {
        let child = format!("{prefix}{segment}");
        return BTreeSet::from_iter(tree.is_dir(&child).then_some(child));
    }
    let below = tree.below(dir).filter_map(|(path, _)| path.get(prefix.len()..)?.split_once('/'));
    let names: BTreeSet<&str> = below.map(|(name, _)| name).collect();
    let matching = names.into_iter().filter(|name| matches(segment, name));
    matching.map(|name| format!("{prefix}{name}")).collect()
}

/// Returns true if a name matches a segment of a pattern.
fn matches(segment: &str, name: &str) -> bool {
    let Some((first, rest)) = segment.split_once('*') else { return segment == name };
    if first.is_empty() && name.starts_with('.') {
        return false;
    }
    let Some(after_first) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let after_middle = middle.split('*').try_fold(after_first, |left, part| Some(left.split_once(part)?.1));
    after_middle.is_some_and(|left| left.ends_with(last))
}

/// Renders directories of a tree, each like [`render_again`](super::render_again), and reuses the last rendering of
/// those that have not changed.
///
/// # Errors
/// See [`render_again`](super::render_again). Also fails if there are too many directories, or if two of them contain
/// the same object. [`RenderError::undrawn`] and [`RenderError::charts`] cover all directories.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
pub fn render_directories(
    tree: &FileTree,
    directories: &BTreeSet<String>,
    parameters: &Parameters,
    memo: &mut DirectoriesMemo,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<RenderedDirectories, RenderError> {
    if directories.len() > MAX_ROOTS {
        let count = directories.len();
        let message =
            format!("this is one of {count} directories to render, and at most {MAX_ROOTS} are allowed");
        let first = shown(directories.first().map_or("", String::as_str));
        return Err(RenderError::new(Reason::TooLarge, first, message).hint("use several ConfigRepos"));
    }
    memo.0.retain(|dir, _| directories.contains(dir));
    let input = Input { tree, parameters, is_cancelled };
    let (mut all, mut used, mut incomplete) = (RenderedDirectories::default(), Used::default(), None);
    for dir in directories {
        match memo.render(dir, &input, &mut used) {
            Ok(rendered) => all.append(dir, rendered),
            Err(error) if error.charts.is_empty() && error.undrawn.is_empty() => return Err(error),
            Err(error) => {
                let first: &mut RenderError = incomplete.get_or_insert_with(|| error.clone());
                first.charts.extend(error.charts);
                first.undrawn.extend(error.undrawn);
            }
        }
    }
    match incomplete {
        Some(error) => Err(with_all_inputs(error, &all.rendered.closure)),
        None => all.check_ids().map(|()| all),
    }
}

/// Completes the lists of an error about missing inputs. The charts include those that other directories have read,
/// because the caller may replace the charts of the tree by them.
fn with_all_inputs(mut error: RenderError, read: &Closure) -> RenderError {
    if !error.charts.is_empty() {
        error.charts.extend(read.charts());
        error.charts.sort();
        error.charts.dedup();
    }
    error.undrawn.sort();
    error.undrawn.dedup();
    error
}

impl DirectoriesMemo {
    /// Renders a directory, unless it has not changed since its last rendering and that rendering fits within the
    /// limits.
    #[expect(
        clippy::result_large_err,
        reason = "one error a rendering, never in a hot path; callers match on its fields"
    )]
    fn render(&mut self, dir: &str, input: &Input<'_>, used: &mut Used) -> Result<Rendered, RenderError> {
        let last = self.0.get(dir);
        let after = |last: &LastRendering| used.plus(last.used).filter(|_| last.holds_for(input));
        if let Some((last, after)) = last.and_then(|last| Some((last, after(last)?))) {
            *used = after;
            return Ok(last.rendered.clone());
        }
        let mut memo = last.map(|last| last.memo.clone()).unwrap_or_default();
        let before = *used;
        let rendered = render_one(input, dir, &mut memo, used)?;
        let last = LastRendering { rendered: rendered.clone(), used: used.minus(before), memo };
        if before.bytes < MAX_MEMO_BYTES {
            self.0.insert(dir.to_owned(), Arc::new(last));
        } else {
            self.0.remove(dir);
        }
        Ok(rendered)
    }
}

impl LastRendering {
    fn holds_for(&self, input: &Input<'_>) -> bool {
        self.memo.has(input.parameters) && self.rendered.closure.holds_in(input.tree)
    }
}

impl Used {
    /// Returns the sum, if it is within the limits of a rendering.
    fn plus(self, other: Self) -> Option<Self> {
        let sum = Self { bytes: self.bytes + other.bytes, entered: self.entered + other.entered };
        (sum.bytes <= MAX_RENDER_BYTES && sum.entered <= MAX_DIRECTORIES).then_some(sum)
    }

    fn minus(self, other: Self) -> Self {
        Self { bytes: self.bytes - other.bytes, entered: self.entered - other.entered }
    }
}

impl RenderedDirectories {
    fn append(&mut self, dir: &str, mut rendered: Rendered) {
        self.directories.insert(dir.to_owned(), rendered.objects.len());
        self.rendered.objects.append(&mut rendered.objects);
        self.rendered.closure.seen.append(&mut rendered.closure.seen);
    }

    /// Checks that no two directories contain the same object.
    #[expect(
        clippy::result_large_err,
        reason = "one error a rendering, never in a hot path; callers match on its fields"
    )]
    fn check_ids(&self) -> Result<(), RenderError> {
        let mut known: BTreeMap<ObjectRef, (&str, &RenderedObject)> = BTreeMap::new();
        let mut objects = self.rendered.objects.iter();
        for (dir, count) in &self.directories {
            for rendered in objects.by_ref().take(*count) {
                let mut id = rendered.object.reference();
                id.gvk.version.clear();
                let Some((first_dir, first)) = known.insert(id, (dir, rendered)) else { continue };
                if first_dir != dir {
                    let (one, other) = (shown(first_dir), shown(dir));
                    let object = rendered.object.reference();
                    let message = format!("the directories {one:?} and {other:?} both contain {object}");
                    let error = RenderError::at(Reason::DuplicateObject, &rendered.origin, message);
                    return Err(error
                        .related(&first.origin)
                        .hint("only one directory may contain an object"));
                }
            }
        }
        Ok(())
    }
}

fn shown(dir: &str) -> &str {
    if dir.is_empty() { "." } else { dir }
}
