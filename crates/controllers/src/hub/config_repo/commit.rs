//! Renders a commit and completes its objects, once for all plans that need them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::paths::{self, Paths};
use super::random_values;
use super::sealing::Sealer;
use crate::followed::{follows, url_of};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode, RenderedPath, SecretHandling};
use engine::sync::{Desired, ObjectId, Problem};
use object::tree::Checkout;
use object::{Key, Metadata as _, RenderedObject};
use reconcile::{Cancel, Memo, Read, ReadErrorReason, Source, SourceIdentity, View};
use render::{Closure, DirectoriesMemo, Parameters, RenderError, RenderedDirectories, render_directories};

/// Maximum number of objects in a repository. The caches hold each object twice, from the commit and from the hub,
/// which takes 100 MB for 5,000 objects of 10 kB.
const MAX_OBJECTS: usize = 5000;

/// Time limit for rendering a ConfigRepo. 5,000 objects render in seconds, so a repository that takes minutes is a
/// mistake.
const DEADLINE: SignedDuration = SignedDuration::from_secs(120);

/// The objects of a commit, or the reason that it cannot be applied.
pub(super) type Completed = Result<Arc<Desired>, Incomplete>;

/// The reason that a commit cannot be applied.
#[derive(Clone, Debug)]
pub(super) enum Incomplete {
    /// The commit has mistakes.
    Problems(Arc<Vec<Problem>>),
    /// These chart releases need random values first.
    Undrawn(Arc<Vec<Key>>),
    /// The commit refers to these remote charts, and one of them must be fetched first.
    Unfetched(Arc<Vec<String>>),
}

/// The input for completing the objects of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completion {
    repo: Key,
    /// The directories to render.
    paths: Paths,
    /// The namespace for objects that set none.
    namespace: String,
    /// True if the objects must be in the namespace of the ConfigRepo.
    is_confined: bool,
    parameters: Parameters,
    sealer: Sealer,
    checkout: Arc<Checkout>,
}

/// A completed commit, and the files from which it was rendered.
#[derive(Clone, Debug)]
struct CompletedCommit {
    completion: Completion,
    /// The directories that were rendered, and the numbers of their objects.
    directories: BTreeMap<String, usize>,
    /// `None` if the commit could not be rendered.
    closure: Option<Arc<Closure>>,
    completed: Completed,
    /// The last renderings of the directories, from this commit or an earlier one.
    memo: DirectoriesMemo,
}

/// Returns the source, if it matches the current spec.
pub(super) fn source(repo: &ConfigRepo, view: &impl View) -> Option<Arc<Source>> {
    view.source(&Key::of(repo)).filter(|source| source.identity == SourceIdentity::of(repo))
}

/// Returns the completed objects of a commit for a ConfigRepo.
///
/// # Errors
/// Returns the problems of the spec or the commit, or a read that must be repeated.
pub(super) fn completed(repo: &ConfigRepo, checkout: &Arc<Checkout>, view: &impl View) -> Read<Completed> {
    if let Some(problem) = spec_problem(repo) {
        return Ok(Err(Incomplete::of(vec![problem])));
    }
    match view.memo(Completion::of(repo, checkout, view)?) {
        Ok(memo) => Ok(memo.completed.clone()),
        Err(error) if error.reason == ReadErrorReason::Failed => {
            let problem = Problem::of_commit("RenderFailed", error.to_string());
            Ok(Err(Incomplete::of(vec![problem])))
        }
        Err(error) => Err(error),
    }
}

/// Returns the remote charts from which a completed commit was rendered.
///
/// # Errors
/// Fails if a read must be repeated.
pub(super) fn charts(repo: &ConfigRepo, checkout: &Arc<Checkout>, view: &impl View) -> Read<Vec<String>> {
    let memo = view.memo(Completion::of(repo, checkout, view)?)?;
    Ok(memo.closure.as_ref().map(|closure| closure.charts()).unwrap_or_default())
}

/// Returns the directories from which a completed commit was rendered, if the spec has patterns for them.
///
/// # Errors
/// Fails if a read must be repeated.
pub(super) fn paths(
    repo: &ConfigRepo,
    checkout: &Arc<Checkout>,
    view: &impl View,
) -> Read<Vec<RenderedPath>> {
    if repo.spec.paths.is_empty() {
        return Ok(Vec::new());
    }
    let memo = view.memo(Completion::of(repo, checkout, view)?)?;
    Ok(paths::rows(&memo.directories))
}

/// Returns the combined objects of several ConfigRepos of one repository, for each of several commits. A commit
/// that cannot be rendered has none.
///
/// # Errors
/// Fails if a read must be repeated.
pub(super) fn wanted(of: &[(&ConfigRepo, &Arc<Checkout>)], view: &impl View) -> Read<Arc<Wanted>> {
    let completions = of.iter().map(|(repo, checkout)| Completion::of(repo, checkout, view));
    match view.memo(Completions(completions.collect::<Read<_>>()?)) {
        Err(error) if error.reason == ReadErrorReason::Failed => Ok(Arc::default()),
        wanted => wanted,
    }
}

/// The objects by commit id.
pub(super) type Wanted = BTreeMap<String, BTreeSet<ObjectId>>;

/// The input for the objects of several ConfigRepos.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Completions(Vec<Completion>);

impl Memo for Completions {
    const NAME: &'static str = "rendered commits of other ConfigRepos";
    type Output = Wanted;

    fn input(&self) -> String {
        let inputs: Vec<String> = self.0.iter().map(Memo::input).collect();
        inputs.join(", ")
    }

    fn deadline(&self) -> SignedDuration {
        self.0.iter().map(Memo::deadline).fold(SignedDuration::ZERO, SignedDuration::saturating_add)
    }

    fn compute(&self, _: Option<&Self::Output>, cancel: &Cancel) -> Self::Output {
        let mut wanted = Wanted::new();
        for one in &self.0 {
            let ids = one.compute(None, cancel).completed.map(|desired| desired.ids()).unwrap_or_default();
            wanted.entry(one.checkout.revision.clone()).or_default().extend(ids);
        }
        wanted
    }
}

impl Memo for Completion {
    const NAME: &'static str = "rendered commit";
    type Output = CompletedCommit;

    fn input(&self) -> String {
        let Self { repo, paths, namespace, is_confined, parameters: _, sealer: _, checkout } = self;
        format!("{repo} {paths} {namespace} {is_confined} {}", checkout.revision)
    }

    fn deadline(&self) -> SignedDuration {
        DEADLINE
    }

    /// Completes the commit, unless the last completion of the ConfigRepo has the same inputs.
    fn compute(&self, last: Option<&CompletedCommit>, cancel: &Cancel) -> CompletedCommit {
        if let Some(last) = last.filter(|last| last.holds_for(self)) {
            return CompletedCommit { completion: self.clone(), ..last.clone() };
        }
        let mut memo = last.map(|last| last.memo.clone()).unwrap_or_default();
        let (directories, closure, completed) = match self.render(&mut memo, cancel) {
            Ok(RenderedDirectories { rendered, directories }) => {
                (directories, Some(Arc::new(rendered.closure)), self.complete(rendered.objects, last))
            }
            Err(incomplete) => (BTreeMap::new(), None, Err(incomplete)),
        };
        let completed = completed.map(Arc::new);
        CompletedCommit { completion: self.clone(), directories, closure, completed, memo }
    }
}

impl Incomplete {
    fn of(problems: Vec<Problem>) -> Self {
        Self::Problems(Arc::new(problems))
    }
}

impl Completion {
    fn of(repo: &ConfigRepo, checkout: &Arc<Checkout>, view: &impl View) -> Read<Self> {
        let namespace = match repo.spec.default_namespace.as_str() {
            "" => repo.namespace(),
            namespace => namespace,
        };
        let source = source(repo, view);
        Ok(Self {
            repo: Key::of(repo),
            paths: Paths::of(&repo.spec),
            namespace: namespace.to_owned(),
            is_confined: !repo.spec.service_account_name.is_empty(),
            parameters: Parameters {
                namespace: repo.spec.default_namespace.clone(),
                random: random_values::known(repo, source.as_deref()),
                keys: source.as_ref().and_then(|source| source.keys.clone()),
            },
            sealer: Sealer::of(repo, view),
            checkout: Arc::clone(checkout),
        })
    }

    /// Renders the commit, reusing parts of the last rendering.
    fn render(&self, memo: &mut DirectoriesMemo, cancel: &Cancel) -> Result<RenderedDirectories, Incomplete> {
        let failed = |message: String| Incomplete::of(vec![Problem::of_commit("RenderFailed", message)]);
        let tree = &self.checkout.tree;
        let directories = self.paths.directories(tree).map_err(failed)?;
        let rendered =
            render_directories(tree, &directories, &self.parameters, memo, &|| cancel.is_cancelled());
        rendered.map_err(|error| match (error.charts.is_empty(), error.undrawn.is_empty()) {
            (false, _) => Incomplete::Unfetched(Arc::new(error.charts)),
            (true, false) => Incomplete::Undrawn(Arc::new(error.undrawn)),
            (true, true) => failed(one_line(&error)),
        })
    }

    /// Completes the rendered objects that have changed since the last commit.
    fn complete(
        &self,
        rendered: Vec<Arc<RenderedObject>>,
        last: Option<&CompletedCommit>,
    ) -> Result<Desired, Incomplete> {
        if rendered.len() > MAX_OBJECTS {
            let message = format!(
                "the repository renders to {} objects, but at most {MAX_OBJECTS} are allowed; split it into several ConfigRepos",
                rendered.len()
            );
            return Err(Incomplete::of(vec![Problem::of_commit("TooManyObjects", message)]));
        }
        let last = last.filter(|last| {
            let completion = &last.completion;
            (&completion.repo, &completion.namespace) == (&self.repo, &self.namespace)
        });
        let last = last.and_then(|last| last.completed.as_deref().ok());
        let rendered = self.sealer.seal(&self.namespace, rendered).map_err(Incomplete::of)?;
        let desired = Desired::complete(&self.repo, &self.namespace, rendered, self.is_confined, last);
        desired.map_err(Incomplete::of)
    }
}

impl CompletedCommit {
    /// Returns true if a completion with other inputs has the same result. A failed rendering is valid only for
    /// its own commit.
    fn holds_for(&self, completion: &Completion) -> bool {
        let Completion { repo, paths, namespace, is_confined, parameters, sealer, checkout } =
            &self.completion;
        let is_same_spec = (repo, paths, namespace, is_confined, sealer)
            == (
                &completion.repo,
                &completion.paths,
                &completion.namespace,
                &completion.is_confined,
                &completion.sealer,
            );
        let tree = &completion.checkout.tree;
        let has_same_directories =
            || paths.directories(tree).is_ok_and(|found| found.iter().eq(self.directories.keys()));
        let is_same_tree = Arc::ptr_eq(checkout, &completion.checkout)
            || self.closure.as_ref().is_some_and(|closure| closure.holds_in(tree) && has_same_directories());
        is_same_spec && is_same_tree && *parameters == completion.parameters
    }
}

/// Returns the problem of a ConfigRepo whose Secrets another tool would apply without encryption, or that follows its
/// own reports: each would be a new commit to apply.
fn spec_problem(repo: &ConfigRepo) -> Option<Problem> {
    if repo.spec.secrets != SecretHandling::Plain && repo.spec.mode == ConfigRepoMode::Observe {
        let message =
            "spec.secrets: Sealed needs spec.mode: Apply, because another tool would apply the plaintext";
        return Some(Problem::of_commit("InvalidSpec", message));
    }
    let report = repo.spec.report.as_ref()?;
    let message = "spec.report.branch is also the followed branch, so every report would be a new commit to apply; use a separate branch for reports";
    follows(repo, url_of(report, repo), &report.branch).then(|| Problem::of_commit("InvalidSpec", message))
}

/// Formats an error as `file:line: field: message; hint`, without the excerpt, which needs separate lines.
fn one_line(error: &RenderError) -> String {
    let bare = RenderError {
        excerpt: Vec::new(),
        related: Vec::new(),
        hint: None,
        through: Vec::new(),
        ..error.clone()
    };
    let related = error.related.iter().map(|location| format!("; see {location}"));
    let hint = error.hint.iter().map(|hint| format!("; hint: {hint}"));
    format!("{bare}{}", related.chain(hint).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::tree::FileTree;

    const A: &[u8] = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    const B: &[u8] = b"{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";

    fn completion(path: &str, files: &[(&str, &[u8])]) -> Completion {
        let tree: FileTree = files.iter().map(|(path, bytes)| (*path, *bytes)).collect();
        let checkout = Arc::new(Checkout { revision: "1".into(), tree });
        Completion {
            repo: Key::namespaced("config", "fleet"),
            paths: Paths::One(path.into()),
            namespace: "config".into(),
            is_confined: false,
            parameters: Parameters::default(),
            sealer: Sealer::Plain,
            checkout,
        }
    }

    fn name(memo: &CompletedCommit) -> &str {
        memo.completed.as_ref().unwrap().objects[0].object.name()
    }

    #[test]
    fn a_commit_that_changes_no_rendered_file_shares_the_objects_of_the_last_one() {
        let first = completion("prod", &[("prod/a.yaml", A)]).compute(None, &Cancel::default());
        let unrelated = completion("prod", &[("prod/a.yaml", A), ("README.md", B)])
            .compute(Some(&first), &Cancel::default());
        assert!(Arc::ptr_eq(first.completed.as_ref().unwrap(), unrelated.completed.as_ref().unwrap()));

        let changed = completion("prod", &[("prod/a.yaml", B)]).compute(Some(&first), &Cancel::default());
        assert_eq!((name(&first), name(&changed)), ("a", "b"));
    }

    #[test]
    fn another_path_or_confinement_completes_the_commit_again() {
        let files: &[(&str, &[u8])] = &[("prod/a.yaml", A), ("test/b.yaml", B)];
        let first = completion("prod", files).compute(None, &Cancel::default());
        assert_eq!(name(&completion("test", files).compute(Some(&first), &Cancel::default())), "b");
        let confined = Completion { is_confined: true, ..first.completion.clone() }
            .compute(Some(&first), &Cancel::default());
        assert!(!Arc::ptr_eq(first.completed.as_ref().unwrap(), confined.completed.as_ref().unwrap()));
    }

    #[test]
    fn a_new_directory_that_matches_completes_the_commit_again() {
        let matching = |files: &[(&str, &[u8])]| {
            let paths = Paths::Matching(vec!["clusters/*".into()]);
            Completion { paths, ..completion("", files) }
        };
        let files: &[(&str, &[u8])] = &[("clusters/eu/a.yaml", A), ("clusters/us/b.yaml", B)];
        let first = matching(&files[..1]).compute(None, &Cancel::default());
        let unrelated = [files[0], ("README.md", B)];
        let unrelated = matching(&unrelated).compute(Some(&first), &Cancel::default());
        assert!(Arc::ptr_eq(first.completed.as_ref().unwrap(), unrelated.completed.as_ref().unwrap()));
        let second = matching(files).compute(Some(&first), &Cancel::default());
        assert_eq!(second.directories, [("clusters/eu".into(), 1), ("clusters/us".into(), 1)].into());
        let [one, other] = [&first, &second].map(|memo| &memo.completed.as_ref().unwrap().objects[0]);
        assert!(Arc::ptr_eq(one, other), "the unchanged directory shares its objects");
    }

    #[test]
    fn another_default_namespace_completes_the_same_commit_again() {
        let first = completion("prod", &[("prod/a.yaml", A)]).compute(None, &Cancel::default());
        let moved = Completion { namespace: "shop".into(), ..first.completion.clone() };
        let moved = moved.compute(Some(&first), &Cancel::default());
        let namespace = |memo: &CompletedCommit| {
            memo.completed.as_ref().unwrap().objects[0].reference.key.namespace.clone()
        };
        assert_eq!((namespace(&first), namespace(&moved)), ("config".into(), "shop".into()));
    }

    #[test]
    fn several_config_repos_have_the_time_of_each_to_render() {
        let one = completion("prod", &[]);
        assert_eq!(Completions(vec![one.clone(), one]).deadline(), DEADLINE * 2);
    }

    #[test]
    fn a_mistake_with_a_second_location_is_one_line() {
        let twice = completion("", &[("a.yaml", A), ("b.yaml", A)]).compute(None, &Cancel::default());
        let Err(Incomplete::Problems(problems)) = twice.completed else { panic!("it rendered") };
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.message.starts_with("b.yaml:1: "), "{}", problem.message);
        assert!(problem.message.contains("; see a.yaml:1"), "{}", problem.message);
    }

    #[test]
    fn a_cancelled_rendering_stops() {
        let cancel = Cancel::default();
        cancel.cancel();
        let stopped = completion("prod", &[("prod/a.yaml", A)]).compute(None, &cancel);
        let Err(Incomplete::Problems(problems)) = stopped.completed else { panic!("it went on") };
        assert!(problems[0].message.contains("the rendering was canceled"), "{}", problems[0]);
    }

    #[test]
    fn a_commit_that_cannot_be_rendered_is_rendered_once() {
        let failing = completion("prod", &[("prod/a.yaml", b"{")]);
        let first = failing.compute(None, &Cancel::default());
        let second = failing.compute(Some(&first), &Cancel::default());
        let (Err(Incomplete::Problems(one)), Err(Incomplete::Problems(other))) =
            (&first.completed, &second.completed)
        else {
            panic!("it was rendered")
        };
        assert!(Arc::ptr_eq(one, other));
        let mended = completion("prod", &[("prod/a.yaml", A)]).compute(Some(&first), &Cancel::default());
        assert_eq!(name(&mended), "a");
    }
}
