//! Renders a chart and values to documents (Helm's `pkg/action/install.go` with `--dry-run=client`).

use crate::budget::{Budget, Work};
use crate::capabilities::capabilities;
use crate::engine::{self, Release};
use crate::error::Error;
use crate::load::{Tree, load};
use crate::manifest::{Document, sorted};
use crate::random::{Draw, Fresh, Purpose};
use crate::semver::{Version, satisfies};
use crate::value::{Fields, Map, Value};
use crate::values::{coalesce_values, merged, set};
use crate::{dependencies, schema};

/// A chart and the parameters of its rendering.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The files of the chart, relative to its directory.
    pub files: &'a Tree,
    /// True if the files come from an archive. Helm applies `.helmignore` only to directories.
    pub is_packed: bool,
    /// Values files. Later ones override earlier ones.
    pub values: &'a [Values],
    /// Texts of `--set`, which override the files.
    pub set: &'a [String],
    /// The name of the release.
    pub release: &'a str,
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The version of Kubernetes, such as `1.36.0`.
    pub kube_version: &'a str,
    /// API versions in addition to the built-in ones.
    pub api_versions: &'a [String],
    /// True to include the files of `crds/`.
    pub include_crds: bool,
    /// The hooks to return.
    pub hooks: Hooks,
    /// Random values and the time. Without them, charts whose documents depend on them are rejected.
    pub fresh: Option<Fresh>,
    /// The maximum work of the rendering.
    pub limits: Work,
}

/// A values file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// The file name in errors.
    pub file: String,
    /// The YAML text.
    pub text: String,
}

/// Selects the hooks to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// All hooks.
    All,
    /// All hooks except tests (`--skip-tests`).
    WithoutTests,
    /// No hooks (`--no-hooks`).
    Omitted,
}

/// The documents of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The definitions in `crds/`, if requested: path and text.
    pub crds: Vec<(String, String)>,
    /// The documents of the release, in installation order.
    pub manifests: Vec<Document>,
    /// The hooks, in the same order.
    pub hooks: Vec<Document>,
    /// The work of the rendering.
    pub work: Work,
}

impl Rendered {
    /// Returns the output of `helm template`.
    pub fn text(&self) -> String {
        let block = |source: &str, text: &str| format!("---\n# Source: {source}\n{text}\n");
        let crds = self.crds.iter().map(|(path, text)| block(path, text));
        let manifests = self.manifests.iter().map(|document| block(&document.source, &document.text));
        let release: String = crds.chain(manifests).collect();
        let hooks: String = self.hooks.iter().map(|hook| block(&hook.source, &hook.text)).collect();
        format!("{}\n{hooks}", release.trim())
    }
}

/// The seeds and times of two renderings, which are compared to detect fresh values in documents.
const COMPARED: [Fresh; 2] = [
    Fresh { seed: [1; 32], now: jiff::Timestamp::constant(1_700_000_000, 0) },
    Fresh { seed: [2; 32], now: jiff::Timestamp::constant(1_854_321_098, 0) },
];

/// Renders a chart.
///
/// # Errors
/// Returns Helm's error for the same chart. Also fails if the chart exhausts a budget, or if a function's result
/// differs in each rendering.
pub fn render(request: &Request<'_>) -> Result<Rendered, Error> {
    if let Some(fresh) = request.fresh {
        return Ok(render_with(request, fresh, Purpose::Documents)?.0);
    }
    let [one, other] = COMPARED;
    let (first, draws) = render_with(request, one, Purpose::Comparison)?;
    let Some(draw) = draws.first() else { return Ok(first) };
    let limits = request.limits.without(first.work);
    let again = Request { limits, ..request.clone() };
    let second = match render_with(&again, other, Purpose::Comparison) {
        Ok((second, _)) => second,
        Err(error) if error.budget.is_some() => return Err(error),
        Err(_) => return Err(Error::fresh(draw)),
    };
    let documents = |rendered: &Rendered| {
        let all = rendered.manifests.iter().chain(&rendered.hooks);
        all.map(|document| (document.source.clone(), document.text.clone())).collect::<Vec<_>>()
    };
    let (documents, others) = (documents(&first), documents(&second));
    let differing = documents.iter().zip(&others).find(|(one, other)| one != other);
    let Some(((source, _), _)) = differing else {
        if documents.len() == others.len() {
            return Ok(Rendered { work: first.work.and(second.work), ..first });
        }
        return Err(Error::fresh(draw));
    };
    Err(Error::fresh(draws.iter().find(|draw| *draw.output == **source).unwrap_or(draw)))
}

/// Returns the release name that a template produces (`--name-template`).
///
/// # Errors
/// Fails if the template is invalid or its output differs in each rendering.
pub fn release_name(template: &str) -> Result<String, Error> {
    let [one, other] = COMPARED;
    let (name, draws) = engine::text(template, one)?;
    let is_same = draws.is_empty() || engine::text(template, other).is_ok_and(|(second, _)| second == name);
    match draws.first() {
        Some(draw) if !is_same => Err(Error::fresh(draw)),
        _ => Ok(name),
    }
}

/// Renders a chart with random values. Also returns the calls that requested them.
fn render_with(
    request: &Request<'_>,
    fresh: Fresh,
    purpose: Purpose,
) -> Result<(Rendered, Vec<Draw>), Error> {
    let (mut chart, bytes) = load(request.files, request.is_packed)?;
    let given = given_values(request)?;
    if chart.metadata.is_library {
        return Err(Error::new("library charts are not installable".to_owned())
            .hint("render a chart that depends on it"));
    }
    dependencies::check(&chart)?;
    dependencies::process(&mut chart, &given)?;
    let capabilities = capabilities(request.kube_version, request.api_versions)?;
    let values = coalesce_values(&chart, &given)?;
    check_kube_version(&chart.metadata.kube_version, &capabilities.kube_version.version)?;
    let release = self::release(request.release, request.namespace);
    let read = Work { steps: 0, bytes };
    let budget = Budget::new(request.limits.without(read));
    schema::check(&chart, &values, &budget)?;
    let checked = read.and(budget.done());
    let limits = request.limits.without(checked);
    let fresh = (fresh, purpose);
    let output = engine::render(&chart, &Release { release, capabilities, values, fresh, limits })?;
    let files = output.files.into_iter().filter(|(path, _)| !path.ends_with("NOTES.txt"));
    let (manifests, mut hooks) = sorted(files)?;
    match request.hooks {
        Hooks::All => {}
        Hooks::WithoutTests => hooks.retain(|hook| !hook.is_test()),
        Hooks::Omitted => hooks.clear(),
    }
    let mut crds = Vec::new();
    if request.include_crds {
        chart.crds("", &mut crds);
    }
    let work = checked.and(output.work);
    Ok((Rendered { crds, manifests, hooks, work }, output.draws))
}

fn given_values(request: &Request<'_>) -> Result<Map, Error> {
    let mut values = Map::new(Fields::new());
    for Values { file, text } in request.values {
        let refused = |reason: String| Error::new(reason).in_file(file, None);
        match crate::yaml::read(text) {
            Ok(Value::Map(map)) => values = merged(&values, &map),
            Ok(Value::Missing | Value::Nil) => {}
            Ok(_) => return Err(refused("the values are not a map".to_owned())),
            Err(reason) => {
                return Err(refused(format!(
                    "failed to parse values: error converting YAML to JSON: {reason}"
                )));
            }
        }
    }
    for text in request.set {
        set(&values, text, false)?;
    }
    Ok(values)
}

fn check_kube_version(constraint: &str, version: &str) -> Result<(), Error> {
    let compatible = constraint.is_empty()
        || Version::parse(version).is_ok_and(|version| satisfies(constraint, &version).unwrap_or(false));
    if compatible {
        return Ok(());
    }
    let text =
        format!("chart requires kubeVersion: {constraint} which is incompatible with Kubernetes {version}");
    Err(Error::new(text).hint("render for another version with --kube-version"))
}

/// Returns `.Release` for a first installation.
pub(crate) fn release(name: &str, namespace: &str) -> Value {
    let fields: Map = [
        ("Name", Value::str(name)),
        ("Namespace", Value::str(namespace)),
        ("IsUpgrade", Value::Bool(false)),
        ("IsInstall", Value::Bool(true)),
        ("Revision", Value::Int(1)),
        ("Service", Value::str("Helm")),
    ]
    .into_iter()
    .collect();
    Value::Map(fields)
}
