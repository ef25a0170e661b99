//! From a commit to the objects that will be sent.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use api::gitops::v1alpha1::ConfigRepo;
use engine::sync::{self, Desired, Problem, Rendered};
use object::Key;
use object::text;
use object::tree::{Checkout, FileTree};
use reconcile::{Change, Index, Read, View};
use render::{self, Place, RenderError, Renderer};

/// Most objects of one repository: its inventory lists them all in one status, at some 150 bytes each.
const MAX_OBJECTS: usize = 5000;

/// What repositories rendered to last: only a new commit or path costs a rendering, not every status write.
#[derive(Default)]
struct Renderings(BTreeMap<Key, Renderer>);

impl Index for Renderings {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observe(&mut self, change: &dyn Any) {
        if let Some(Change { old: Some(old), new: None }) = change.downcast_ref::<Change<ConfigRepo>>() {
            self.0.remove(&Key::of(&**old));
        }
    }
}

impl Renderings {
    fn render(&mut self, repo: Key, tree: &FileTree, root: &str) -> Result<Arc<render::Rendered>, String> {
        let renderer = self.0.entry(repo).or_insert_with(|| Renderer::new(NonZeroUsize::MIN));
        let mut outcome = renderer.render(tree, &BTreeSet::from([root.to_owned()]));
        let result =
            outcome.overlays.remove(root).expect("a renderer answers for every overlay it is asked for");
        result.map_err(|error| one_line(&error))
    }
}

/// What of the repository is followed, as people write it.
pub(super) fn reference(repo: &ConfigRepo) -> String {
    let of = &repo.spec.r#ref;
    let named = [&of.commit, &of.semver, &of.tag, &of.branch].into_iter().find(|name| !name.is_empty());
    named.map_or("main", String::as_str).to_owned()
}

/// Renders a commit; an error names the file and says what to do.
pub(super) fn desired(
    repo: &ConfigRepo,
    checkout: &Checkout,
    view: &impl View,
) -> Result<Vec<Desired>, Vec<Problem>> {
    if follows_its_own_report(repo) {
        let message = "spec.report.branch is the branch that is followed, so every report would be a new commit to apply; give the report a branch of its own";
        return Err(vec![Problem { reason: "InvalidSpec", message: message.into(), origin: String::new() }]);
    }
    if repo.spec.verify.is_some() {
        let message = "spec.verify asks for signatures to be checked, which this version cannot; remove it to apply commits unchecked";
        return Err(vec![Problem { reason: "NotSupported", message: message.into(), origin: String::new() }]);
    }
    let rendered = rendered(repo, checkout, view).map_err(|problem| vec![problem])?;
    if rendered.len() > MAX_OBJECTS {
        let message = format!(
            "the repository renders to {} objects and {MAX_OBJECTS} is the limit; split it into several ConfigRepos",
            rendered.len()
        );
        return Err(vec![Problem { reason: "TooManyObjects", message, origin: String::new() }]);
    }
    sync::desired(&Key::of(repo), rendered, !repo.spec.service_account_name.is_empty())
}

/// A report that is pushed to the branch it reports on would never end.
fn follows_its_own_report(repo: &ConfigRepo) -> bool {
    let Some(report) = &repo.spec.report else { return false };
    let same_url = report.url.is_empty() || report.url == repo.spec.url;
    same_url && report.branch == reference(repo)
}

fn rendered(repo: &ConfigRepo, checkout: &Checkout, view: &impl View) -> Result<Vec<Rendered>, Problem> {
    let root = repo.spec.path.trim_matches('/');
    let problem = |message: String| Problem { reason: "RenderFailed", message, origin: String::new() };
    if !checkout.tree.is_dir(root.trim_start_matches("./")) && !root.contains("..") {
        return Err(problem(format!(
            "spec.path: there is no directory {:?} in the repository",
            text::plain(root, 200)
        )));
    }
    let rendered =
        view.index(|renderings: &mut Renderings| renderings.render(Key::of(repo), &checkout.tree, root));
    let rendered = rendered.map_err(|unread| problem(unread.to_string()))?.map_err(problem)?;
    let place = |place: &Place| {
        if place.line == 0 { place.file.clone() } else { format!("{}:{}", place.file, place.line) }
    };
    Ok(rendered
        .objects
        .iter()
        .map(|one| Rendered { object: one.object.clone(), origin: place(&one.origin) })
        .collect())
}

/// `file:line: field: message; hint`, without the excerpt, which needs lines of its own.
fn one_line(error: &RenderError) -> String {
    let bare = RenderError { excerpt: Vec::new(), hint: None, through: Vec::new(), ..error.clone() };
    let hint = error.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    format!("{bare}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_rendered_once_however_often_it_is_planned() {
        let mut tree = FileTree::default();
        tree.insert("a.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
        let (mut renderings, key) = (Renderings::default(), || Key::namespaced("config", "fleet"));
        let first = renderings.render(key(), &tree, "").unwrap();
        assert!(Arc::ptr_eq(&first, &renderings.render(key(), &tree.clone(), "").unwrap()));

        tree.insert("a.yaml", *b"{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}");
        assert_eq!(renderings.render(key(), &tree, "").unwrap().objects[0].object.name(), "b");
        assert!(renderings.render(key(), &tree, "absent").is_err());
    }
}
