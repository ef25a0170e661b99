//! Many overlays of one commit after the other: on all cores, and each only when something it saw has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{RenderError, Rendered, Seen, render};
use object::tree::{Entry, FileTree};

/// Renders the overlays of successive commits and keeps what did not change.
///
/// # Guarantees
/// The result for an overlay is what [`render`] makes of it in the given tree. An overlay is rendered again only when a file, link or
/// directory of its [`Closure`](super::Closure) changed, or when it could not be rendered before.
#[derive(Debug)]
pub struct Renderer {
    threads: NonZeroUsize,
    /// The tree the kept results were rendered from.
    tree: FileTree,
    kept: BTreeMap<String, Arc<Rendered>>,
}

/// What became of the overlays of one commit.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The rendering of each overlay, or what is wrong with it.
    pub overlays: BTreeMap<String, Result<Arc<Rendered>, RenderError>>,
    /// How many of them were rendered anew.
    pub rendered: usize,
}

impl Renderer {
    /// A renderer that works on a number of threads at once.
    pub fn new(threads: NonZeroUsize) -> Self {
        Self { threads, tree: FileTree::default(), kept: BTreeMap::new() }
    }

    /// Renders overlays of a tree; results of overlays that are not asked for are forgotten.
    pub fn render(&mut self, tree: &FileTree, roots: &BTreeSet<String>) -> Outcome {
        let changes = Changes::between(&self.tree, tree);
        let unchanged = |root: &&String| self.kept.get(*root).is_some_and(|kept| !changes.touch(kept));
        let (same, anew): (Vec<&String>, Vec<&String>) = roots.iter().partition(unchanged);
        let rendered = anew.len();
        let mut overlays: BTreeMap<String, Result<Arc<Rendered>, RenderError>> = same
            .into_iter()
            .filter_map(|root| Some((root.clone(), Ok(self.kept.get(root)?.clone()))))
            .collect();
        overlays.extend(self.render_anew(tree, &anew));
        self.kept = overlays
            .iter()
            .filter_map(|(root, result)| Some((root.clone(), result.as_ref().ok()?.clone())))
            .collect();
        self.tree = tree.clone();
        Outcome { overlays, rendered }
    }

    /// Each thread takes every n-th overlay; nothing is shared but the tree, which nobody changes.
    fn render_anew(
        &self,
        tree: &FileTree,
        roots: &[&String],
    ) -> Vec<(String, Result<Arc<Rendered>, RenderError>)> {
        let threads = self.threads.get().min(roots.len());
        let every_nth = |first: usize| {
            let mine = roots.iter().skip(first).step_by(threads.max(1));
            mine.map(|root| ((*root).clone(), render(tree, root).map(Arc::new))).collect::<Vec<_>>()
        };
        if threads <= 1 {
            return every_nth(0);
        }
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || every_nth(first))).collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }
}

/// The paths at which two trees differ.
struct Changes<'a> {
    paths: BTreeSet<&'a str>,
    /// Directories, with `/` at the end, in which a file or link appeared or vanished.
    directories: BTreeSet<String>,
}

impl<'a> Changes<'a> {
    fn between(old: &'a FileTree, new: &'a FileTree) -> Self {
        let mut changes = Self { paths: BTreeSet::new(), directories: BTreeSet::new() };
        let (mut olds, mut news) = (old.below("").peekable(), new.below("").peekable());
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return changes,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match order {
                std::cmp::Ordering::Less => changes.add_listed(olds.next()),
                std::cmp::Ordering::Greater => changes.add_listed(news.next()),
                std::cmp::Ordering::Equal => {
                    if let (Some((path, old)), Some((_, new))) = (olds.next(), news.next())
                        && !same(old, new)
                    {
                        changes.paths.insert(path);
                    }
                }
            }
        }
    }

    fn add_listed(&mut self, entry: Option<(&'a str, &Entry)>) {
        let Some((path, _)) = entry else { return };
        self.paths.insert(path);
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.directories.insert(format!("{directory}/"));
    }

    fn touch(&self, rendered: &Rendered) -> bool {
        let seen = &rendered.closure.seen;
        if self.paths.len() < seen.len() {
            return self.paths.iter().any(|path| seen.contains_key(*path))
                || self.directories.iter().any(|path| seen.contains_key(path));
        }
        seen.iter().any(|(path, seen)| match seen {
            Seen::Names(_) => self.directories.contains(path),
            Seen::File(_) | Seen::Link(_) | Seen::Absent => self.paths.contains(path.as_str()),
        })
    }
}

fn same(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::File(a), Entry::File(b)) => Arc::ptr_eq(a, b) || a == b,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLAYS: usize = 20;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        tree.insert("base/kustomization.yaml", *b"resources: [c.yaml]");
        tree.insert("base/c.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}");
        for number in 0..OVERLAYS {
            let text = format!("namePrefix: o{number}-\nresources: [../../base]\n");
            tree.insert(format!("overlays/{number}/kustomization.yaml"), text.into_bytes());
        }
        tree.insert("plain/a.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
        tree
    }

    fn roots() -> BTreeSet<String> {
        (0..OVERLAYS).map(|number| format!("overlays/{number}")).chain(["plain".to_owned()]).collect()
    }

    fn renderer() -> Renderer {
        Renderer::new(NonZeroUsize::new(4).unwrap())
    }

    fn check(change: impl FnOnce(&mut FileTree), expected: usize) {
        let (mut renderer, mut tree) = (renderer(), tree());
        assert_eq!(renderer.render(&tree, &roots()).rendered, OVERLAYS + 1);
        change(&mut tree);
        let outcome = renderer.render(&tree, &roots());
        assert_eq!(outcome.rendered, expected);
        for (root, result) in &outcome.overlays {
            let alone = render(&tree, root);
            assert_eq!(result.as_ref().map(|rendered| &**rendered), alone.as_ref(), "{root}");
        }
    }

    #[test]
    fn only_what_saw_a_change_is_rendered_again() {
        check(|_| {}, 0);
        check(|tree| tree.insert("unrelated.yaml", *b"x"), 0);
        check(|tree| tree.insert("overlays/3/kustomization.yaml", *b"resources: [../../base]"), 1);
        check(
            |tree| tree.insert("base/c.yaml", *b"{apiVersion: v1, kind: Secret, metadata: {name: c}}"),
            OVERLAYS,
        );
        check(
            |tree| tree.insert("plain/b.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"),
            1,
        );
        check(|tree| tree.insert("base/kustomization.yml", *b"resources: []"), OVERLAYS);
    }

    #[test]
    fn what_could_not_be_rendered_is_tried_again() {
        let (mut renderer, mut tree) = (renderer(), tree());
        let broken: BTreeSet<String> = ["absent".to_owned()].into();
        assert!(renderer.render(&tree, &broken).overlays["absent"].is_err());
        tree.insert("absent/kustomization.yaml", *b"resources: [../base]");
        assert!(renderer.render(&tree, &broken).overlays["absent"].is_ok());
    }
}
