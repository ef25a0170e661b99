//! Loads a chart from a tree of files (Helm's `chart/loader`).

mod archive;
mod ignore;
mod metadata;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use metadata::{Dependency, Metadata};

use self::archive::Room;
use self::ignore::Rules;
use crate::error::Error;
use crate::object::Files;
use crate::value::{Fields, Map, Value};

/// Maximum depth of nested charts.
const MAX_DEPTH: usize = 20;
/// Maximum bytes of all files of a chart. Helm's limit is 5 MB per file.
pub const MAX_BYTES: usize = 64 << 20;

/// The mark at the start of UTF-8 files, which Helm removes.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Files by path, relative to the chart directory.
pub type Tree = BTreeMap<String, Arc<[u8]>>;

/// A chart with its subcharts.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) metadata: Metadata,
    pub(crate) values: Map,
    /// The content of `values.schema.json`.
    pub(crate) schema: Option<Rc<[u8]>>,
    pub(crate) templates: BTreeMap<String, String>,
    pub(crate) files: Files,
    pub(crate) dependencies: Vec<Chart>,
}

impl Chart {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Collects the manifests in `crds/` of this chart and its subcharts, with their paths.
    pub(crate) fn crds(&self, parent: &str, crds: &mut Vec<(String, String)>) {
        let path = full_path(parent, self.name());
        let is_manifest = |name: &str| {
            name.starts_with("crds/") && [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
        };
        let mut files: Vec<_> = self.files.0.iter().filter(|(name, _)| is_manifest(name)).collect();
        files.sort_by(|(a, _), (b, _)| walk_order(a, b));
        for (name, bytes) in files {
            crds.push((format!("{path}/{name}"), String::from_utf8_lossy(bytes).into_owned()));
        }
        for dependency in &self.dependencies {
            dependency.crds(&path, crds);
        }
    }
}

/// Returns the path that identifies the templates of a chart.
pub(crate) fn full_path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/charts/{name}") }
}

/// Sorts paths like a directory walk: by the names at each level.
fn walk_order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// Unpacks a chart archive (`.tgz`).
///
/// # Errors
/// Fails if the archive is damaged, exceeds a limit, or has entries that a chart cannot have.
pub fn unpack(archive: &[u8]) -> Result<Tree, Error> {
    archive::unpack(archive, &mut Room::new())
}

/// Loads a chart. Also returns the bytes of its files, with those of packed subcharts.
pub(crate) fn load(tree: &Tree, is_packed: bool) -> Result<(Chart, usize), Error> {
    let mut room = Room::new();
    tree.values().try_for_each(|bytes| room.take(bytes.len()))?;
    let mut files = borrowed(tree);
    if !is_packed {
        let rules = tree.get(".helmignore").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let rules = Rules::parse(&rules.unwrap_or_default())
            .map_err(|reason| Error::new(reason).in_file(".helmignore", None))?;
        files.retain(|path, _| !rules.ignore(path));
    }
    let chart = chart(files, 0, &mut room)?;
    Ok((chart, room.taken()))
}

fn borrowed(tree: &Tree) -> BTreeMap<String, &[u8]> {
    tree.iter().map(|(path, bytes)| (path.clone(), bytes.strip_prefix(BOM).unwrap_or(bytes))).collect()
}

fn chart(files: BTreeMap<String, &[u8]>, depth: usize, room: &mut Room) -> Result<Chart, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::budget(
            "subcharts",
            format!("charts are nested more than {MAX_DEPTH} levels deep"),
        ));
    }
    let Some(source) = files.get("Chart.yaml") else {
        return Err(Error::new("Chart.yaml file is missing".to_owned()));
    };
    let mut metadata = Metadata::parse(&text("Chart.yaml", source)?)?;
    let mut values = Map::new(Fields::new());
    let (mut schema, mut templates, mut others) = (None, BTreeMap::new(), BTreeMap::new());
    let mut subcharts: BTreeMap<String, BTreeMap<String, &[u8]>> = BTreeMap::new();
    for (path, bytes) in files {
        match path.as_str() {
            "Chart.yaml" | "Chart.lock" => {}
            "values.yaml" => values = values_of(&text(&path, bytes)?)?,
            "values.schema.json" => schema = Some(bytes.into()),
            "requirements.yaml" | "requirements.lock" => {
                if path == "requirements.yaml" {
                    metadata.add_requirements(&text(&path, bytes)?)?;
                }
                if metadata.api_version == "v1" {
                    others.insert(path, bytes.into());
                }
            }
            _ if path.starts_with("templates/") => {
                templates.insert(path, String::from_utf8_lossy(bytes).into_owned());
            }
            _ => match path.strip_prefix("charts/") {
                Some(rest) if !rest.ends_with(".prov") => {
                    let (name, inner) = rest.split_once('/').unwrap_or((rest, ""));
                    subcharts.entry(name.to_owned()).or_default().insert(inner.to_owned(), bytes);
                }
                _ => {
                    others.insert(path, bytes.into());
                }
            },
        }
    }
    let mut dependencies = Vec::new();
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let subchart = subchart(&name, files, depth + 1, room);
        dependencies.push(subchart.map_err(|error| {
            error.within(format!("error unpacking subchart {name} in {}", metadata.name))
        })?);
    }
    Ok(Chart { metadata, values, schema, templates, files: Files(Rc::new(others)), dependencies })
}

/// Loads an entry of `charts/`. Errors name the file in the chart that holds it.
fn subchart(
    name: &str,
    mut files: BTreeMap<String, &[u8]>,
    depth: usize,
    room: &mut Room,
) -> Result<Chart, Error> {
    let path = format!("charts/{name}");
    let file = files.remove("");
    if !name.ends_with(".tgz") {
        return chart(files, depth, room).map_err(|error| match &error.file {
            Some(file) => Error { file: Some(format!("{path}/{file}")), ..error },
            None => error,
        });
    }
    let packed = file.ok_or_else(|| Error::new("it is a directory, not an archive"));
    let subchart = packed.and_then(|packed| {
        let tree = archive::unpack(packed, room)?;
        chart(borrowed(&tree), depth, room)
    });
    subchart.map_err(|error| error.in_file(&path, None))
}

fn text(path: &str, bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::new("the file is not UTF-8".to_owned()).in_file(path, None))
}

/// Reads a values file of a chart and merges its documents.
fn values_of(source: &str) -> Result<Map, Error> {
    let documents = crate::yaml::read_all(source).map_err(|reason| {
        Error::new(format!("cannot load values.yaml: error converting YAML to JSON: {reason}"))
    })?;
    let mut values = Map::new(Fields::new());
    for document in documents {
        match document {
            Value::Map(map) => values = crate::values::merged(&values, &map),
            Value::Missing | Value::Nil => {}
            _ => return Err(Error::new("cannot load values.yaml: it is not a map".to_owned())),
        }
    }
    Ok(values)
}
