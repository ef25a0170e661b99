//! From a commit to the objects that will be sent.

use crate::api::gitops::v1alpha1::ConfigRepo;
use crate::engine::sync::{self, Desired, Problem, Rendered};
use crate::object::{Key, Object};
use crate::text;
use crate::tree::{Checkout, Entry};

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
    let root = repo.spec.path.trim_matches('/').trim_start_matches("./");
    let problem = |file: &str, message: String| Problem { reason: "RenderFailed", message, origin: file.into() };
    if !checkout.tree.is_dir(root) {
        return Err(problem("", format!("spec.path: there is no directory {:?} in the repository", text::plain(root, 200))));
    }
    let mut rendered = Vec::new();
    for (path, entry) in checkout.tree.below(root).filter(|(path, _)| path.ends_with(".yaml") || path.ends_with(".yml")) {
        let Entry::File(bytes) = entry else { return Err(problem(path, "symbolic links are not followed".into())) };
        if path.ends_with("kustomization.yaml") {
            return Err(problem(path, "kustomizations are not rendered yet".into()));
        }
        let text = std::str::from_utf8(bytes).map_err(|e| problem(path, format!("it is not UTF-8: {e}")))?;
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(text).map_err(|e| problem(path, e.to_string()))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let object = Object::from_value(document).map_err(|e| problem(path, e.to_string()))?;
            rendered.push(Rendered { object, origin: path.to_owned() });
        }
    }
    Ok(rendered)
}
