//! From a chart and values to documents (Helm's `pkg/action/install.go` with `--dry-run=client`).

use crate::capabilities::capabilities;
use crate::engine::{self, Release};
use crate::error::Error;
use crate::load::{Tree, load};
use crate::manifest::{Document, sorted};
use crate::semver::{Version, satisfies};
use crate::value::{Fields, Map, Value};
use crate::values::{coalesce_values, merged, set};
use crate::{dependencies, schema};

/// A chart and the facts that it is rendered with.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The files of the chart, below its directory.
    pub files: &'a Tree,
    /// Values files, from the lowest to the highest priority.
    pub values: &'a [String],
    /// Texts of `--set`, which count more than the files.
    pub set: &'a [String],
    /// The name of the release.
    pub release: &'a str,
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The version of Kubernetes, such as `1.36.0`.
    pub kube_version: &'a str,
    /// API versions beside those that every cluster has.
    pub api_versions: &'a [String],
    /// Puts the files of `crds/` before the templates.
    pub include_crds: bool,
    /// Decides the values that templates draw at random.
    pub seed: [u8; 32],
    /// The time that `now` returns.
    pub now: jiff::Timestamp,
}

/// The documents of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The definitions of `crds/`, if asked for: path and text.
    pub crds: Vec<(String, String)>,
    /// The documents of the release, in the order of installation.
    pub manifests: Vec<Document>,
    /// The hooks, in the same order.
    pub hooks: Vec<Document>,
    /// The schemas of values, which are not checked yet.
    pub unchecked_schemas: Vec<String>,
}

impl Rendered {
    /// Returns the text that `helm template` prints.
    pub fn text(&self) -> String {
        let block = |source: &str, text: &str| format!("---\n# Source: {source}\n{text}\n");
        let crds = self.crds.iter().map(|(path, text)| block(path, text));
        let manifests = self.manifests.iter().map(|document| block(&document.source, &document.text));
        let release: String = crds.chain(manifests).collect();
        let hooks: String = self.hooks.iter().map(|hook| block(&hook.source, &hook.text)).collect();
        format!("{}\n{hooks}", release.trim())
    }
}

/// Renders a chart.
///
/// # Errors
/// [`Error`] says what Helm says about the same chart, or names the budget that the chart exhausts.
pub fn render(request: &Request<'_>) -> Result<Rendered, Error> {
    let mut chart = load(request.files)?;
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
    let release = Release { release, capabilities, values, seed: request.seed, now: request.now };
    let outputs = engine::render(&chart, &release)?;
    let outputs = outputs.into_iter().filter(|(path, _)| !path.ends_with("NOTES.txt"));
    let (manifests, hooks) = sorted(outputs)?;
    let mut crds = Vec::new();
    if request.include_crds {
        chart.crds("", &mut crds);
    }
    let mut unchecked_schemas = Vec::new();
    schema::unchecked(&chart, "", &mut unchecked_schemas);
    Ok(Rendered { crds, manifests, hooks, unchecked_schemas })
}

fn given_values(request: &Request<'_>) -> Result<Map, Error> {
    let mut values = Map::new(Fields::new());
    for source in request.values {
        match crate::yaml::read(source) {
            Ok(Value::Map(map)) => values = merged(&values, &map),
            Ok(Value::Missing | Value::Nil) => {}
            Ok(_) => return Err(Error::new("a values file is not a map".to_owned())),
            Err(why) => {
                return Err(Error::new(format!(
                    "failed to parse values: error converting YAML to JSON: {why}"
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

/// Returns `.Release` of a first installation.
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
