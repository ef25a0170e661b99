//! From a commit to the objects that will be sent.

use crate::api::gitops::v1alpha1::ConfigRepo;
use crate::engine::sync::{self, Desired, Problem, Rendered};
use crate::object::Key;
use crate::render::{Options, Place, RenderError, render};
use crate::text;
use crate::tree::Checkout;

/// Most objects of one repository: its inventory lists them all in one status, at some 150 bytes each.
const MAX_OBJECTS: usize = 5000;

/// What of the repository is followed, as people write it.
pub(super) fn reference(repo: &ConfigRepo) -> String {
    let of = &repo.spec.r#ref;
    let named = [&of.commit, &of.semver, &of.tag, &of.branch].into_iter().find(|name| !name.is_empty());
    named.map_or("main", String::as_str).to_owned()
}

/// Renders a commit; an error names the file and says what to do.
pub(super) fn desired(repo: &ConfigRepo, checkout: &Checkout) -> Result<Vec<Desired>, Vec<Problem>> {
    if follows_its_own_report(repo) {
        let message = "spec.report.branch is the branch that is followed, so every report would be a new commit to apply; give the report a branch of its own";
        return Err(vec![Problem { reason: "InvalidSpec", message: message.into(), origin: String::new() }]);
    }
    if repo.spec.verify.is_some() {
        let message = "spec.verify asks for signatures to be checked, which this version cannot; remove it to apply commits unchecked";
        return Err(vec![Problem { reason: "NotSupported", message: message.into(), origin: String::new() }]);
    }
    let rendered = rendered(repo, checkout).map_err(|problem| vec![problem])?;
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

fn rendered(repo: &ConfigRepo, checkout: &Checkout) -> Result<Vec<Rendered>, Problem> {
    let root = repo.spec.path.trim_matches('/');
    let problem = |message: String| Problem { reason: "RenderFailed", message, origin: String::new() };
    if !checkout.tree.is_dir(root.trim_start_matches("./")) && !root.contains("..") {
        return Err(problem(format!("spec.path: there is no directory {:?} in the repository", text::plain(root, 200))));
    }
    let rendered = render(&checkout.tree, root, &Options::default()).map_err(|error| problem(one_line(&error)))?;
    let place = |place: &Place| if place.line == 0 { place.file.clone() } else { format!("{}:{}", place.file, place.line) };
    Ok(rendered.objects.into_iter().map(|one| Rendered { object: one.object, origin: place(&one.origin) }).collect())
}

/// `file:line: field: message; hint`, without the excerpt, which needs lines of its own.
fn one_line(error: &RenderError) -> String {
    let bare = RenderError { excerpt: Vec::new(), hint: None, through: Vec::new(), ..error.clone() };
    let hint = error.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    format!("{bare}{hint}")
}
