//! `helmCharts` and `HelmChartInflationGenerator`: renders charts of the tree like `kustomize build --enable-helm`.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use crate::accumulator::ResAccumulator;
use crate::build::Build;
use crate::config_object::ConfigObject;
use crate::decode::Result;
use crate::document::Kustomization;
use crate::error::{Reason, RenderError};
use crate::kustomization::{HelmChart, Text, ValuesMerge, at, take_chart_home};
use crate::limits::{CHART_STEP_BYTES, CHART_TEXT_SHARE, MAX_RENDER_BYTES};
use crate::load::objects_of;
use crate::resource::Resource;
use crate::source::PathTarget;
use chart::{Hooks, KUBE_VERSION, Request, Tree, Values, Work};
use object::{Key, Location};
use yaml::{Node, Reading, Value, documents};

/// The kind of its configuration objects.
pub(super) const KIND: &str = "HelmChartInflationGenerator";

/// Helm's default name of a release.
const RELEASE: &str = "release-name";
/// The default namespace of a release.
const NAMESPACE: &str = "default";
/// The file that makes a directory a chart.
const CHART_FILE: &str = "Chart.yaml";
/// The values of a chart.
const VALUES_FILE: &str = "values.yaml";

/// The hook events that occur when a commit is applied. Nothing runs other hooks.
const APPLIED: [&str; 4] = ["pre-install", "post-install", "pre-upgrade", "post-upgrade"];

/// A chart of the tree: a directory, or an archive.
struct Found {
    path: String,
    files: Tree,
    is_packed: bool,
}

impl Build<'_> {
    /// Renders the `helmCharts` of a kustomization.
    ///
    /// # Errors
    /// Fails if a chart is not in the repository or cannot be rendered, or if an object already exists.
    pub(crate) fn inflate_charts(
        &mut self,
        dir: &str,
        kustomization: &Kustomization,
        accumulator: &mut ResAccumulator,
    ) -> Result<()> {
        for chart in &kustomization.helm_charts {
            let mut chart = Cow::Borrowed(chart);
            if chart.namespace.is_empty() {
                self.parts.inherits |= kustomization.namespace.is_empty();
                chart.to_mut().namespace = self.namespace();
            }
            let mut made = self.chart_part(dir, &chart, &kustomization.chart_home)?;
            for resource in &mut made {
                resource.origin = self.configured(KIND);
            }
            let absorbed = accumulator.resmap.absorb_new(made);
            absorbed.map_err(|error| Box::new(error.related(&chart.location)))?;
        }
        Ok(())
    }

    /// Returns true if a directory is a chart.
    ///
    /// # Errors
    /// Fails if `Chart.yaml` is too large to read.
    pub(crate) fn is_chart(&self, dir: &str) -> Result<bool> {
        Ok(self.source.file_at(&joined(dir, CHART_FILE))?.is_some())
    }

    /// Renders a chart directory with its own values.
    ///
    /// # Errors
    /// Fails if the chart cannot be rendered.
    pub(crate) fn chart_alone(&mut self, dir: &str) -> Result<Vec<Resource>> {
        let location = Location { file: joined(dir, CHART_FILE), line: 0 };
        let files =
            self.source.files(dir).map_err(|error| RenderError { file: location.file.clone(), ..*error })?;
        let name = name_of(&files);
        let namespace = self.parameters.namespace.clone();
        let chart =
            HelmChart { name: name.clone(), release_name: name, namespace, location, ..HelmChart::default() };
        let made = self.rendered(&Found { path: dir.to_owned(), files, is_packed: false }, &chart, &[])?;
        let mut resmap = ResAccumulator::default().resmap;
        resmap.append(made)?;
        Ok(resmap.into_vec())
    }

    /// Returns the objects of a chart that a kustomization lists.
    pub(crate) fn inflate(
        &mut self,
        dir: &str,
        chart: &HelmChart,
        chart_home: &str,
    ) -> Result<Vec<Resource>> {
        let Some(found) = self.find_chart(dir, chart, chart_home)? else { return Ok(Vec::new()) };
        let values = self.values(dir, chart, &found)?;
        self.rendered(&found, chart, &values)
    }

    /// Finds the chart in its home directory, where kustomize would find or download it, or its archive there or in
    /// its repository. Returns None if the archive has to be fetched first.
    fn find_chart(&mut self, dir: &str, chart: &HelmChart, chart_home: &str) -> Result<Option<Found>> {
        let HelmChart { name, version, repo, .. } = chart;
        let is_pulled = !version.is_empty() && !repo.is_empty();
        let pulled = format!("{chart_home}/{name}-{version}");
        let path = if is_pulled { format!("{pulled}/{name}") } else { format!("{chart_home}/{name}") };
        let here = |error| at_chart(chart, error);
        if let Some(PathTarget::Directory(path)) = self.source.find(dir, &path).map_err(here)? {
            let files = self.source.files(&path).map_err(here)?;
            return Ok(Some(Found { path, files, is_packed: false }));
        }
        if repo.is_empty() {
            let message = format!("the chart {name:?} is not in this repository: there is no {path:?}");
            return Err(absent(chart, chart_home, Reason::NotFound, message));
        }
        if is_pulled
            && let Some(PathTarget::File(path, archive)) =
                self.source.find(dir, &format!("{pulled}.tgz")).map_err(here)?
        {
            return unpacked(path, &archive, chart).map(Some);
        }
        let reference = reference(chart, chart_home)?;
        match self.source.chart(&reference) {
            Some(archive) => unpacked(reference, &archive, chart).map(Some),
            None => {
                let message = format!("the chart {name:?} {version} of {repo:?} was not fetched");
                let error = || absent(chart, chart_home, Reason::Remote, message);
                self.unfetched.get_or_insert_with(error).charts.push(reference);
                Ok(None)
            }
        }
    }

    /// Returns the values files in the order in which kustomize passes them to Helm.
    fn values(&self, dir: &str, chart: &HelmChart, found: &Found) -> Result<Vec<Values>> {
        let read = |file: &Text| self.source.read(dir, &file.text).map_err(|error| at(file, error));
        let (file, bytes) = match &chart.values_file {
            Some(file) => read(file)?,
            None => {
                let bytes = found.files.get(VALUES_FILE).cloned().unwrap_or_default();
                (joined(&found.path, VALUES_FILE), bytes)
            }
        };
        let text = match (chart.values_inline.is_empty(), chart.values_merge) {
            (true, _) => text_of(&bytes),
            (false, ValuesMerge::Replace) => Json::Object(chart.values_inline.clone()).to_string(),
            (false, merge) => {
                let (of_file, inline) = (values_of(&file, &bytes)?, chart.values_inline.clone());
                let (mut values, more) = match merge {
                    ValuesMerge::Merge => (inline, of_file),
                    ValuesMerge::Override | ValuesMerge::Replace => (of_file, inline),
                };
                merge_into(&mut values, more).map_err(|key| {
                    let message = format!("{key:?} is another type of value in {file:?}");
                    let error = RenderError::at(Reason::InvalidValue, &chart.location, message);
                    Box::new(error.field(format!("{}.valuesInline", chart.field)))
                })?;
                Json::Object(values).to_string()
            }
        };
        let mut files = vec![Values { file, text }];
        for more in &chart.additional_values_files {
            let (file, bytes) = read(more)?;
            files.push(Values { file, text: text_of(&bytes) });
        }
        Ok(files)
    }

    /// Renders a chart and reads its objects.
    fn rendered(&mut self, found: &Found, chart: &HelmChart, values: &[Values]) -> Result<Vec<Resource>> {
        let refused = |error| refused(error, found, chart, values);
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let release = match chart.name_template.as_str() {
            "" => or(&chart.release_name, RELEASE),
            template => chart::release_name(template).map_err(refused)?,
        };
        let namespace = or(&chart.namespace, NAMESPACE);
        let key = Key::namespaced(namespace.clone(), release.clone());
        let rendered = chart::render(&Request {
            files: &found.files,
            // kustomize unpacks what it downloads.
            is_packed: false,
            values,
            set: &[],
            release: &release,
            namespace: &namespace,
            kube_version: &or(&chart.kube_version, KUBE_VERSION),
            api_versions: &chart.api_versions,
            include_crds: chart.include_crds,
            hooks: if chart.skip_hooks { Hooks::Omitted } else { Hooks::WithoutTests },
            fresh: self.parameters.random.of(&key),
            limits: Work { bytes: MAX_RENDER_BYTES, ..Work::MAX },
        });
        let rendered = match rendered {
            Err(error) if error.is_fresh => {
                self.undrawn.get_or_insert_with(|| refused(error)).undrawn.push(key);
                return Ok(Vec::new());
            }
            rendered => rendered.map_err(refused)?,
        };
        let steps = usize::try_from(rendered.work.steps).unwrap_or(usize::MAX);
        let spent = steps.saturating_mul(CHART_STEP_BYTES) + rendered.work.bytes / CHART_TEXT_SHARE;
        let crds = rendered.crds.iter().map(|(file, text)| (file, text, [].as_slice()));
        let documents = rendered.manifests.iter().chain(&rendered.hooks);
        let documents = documents.map(|document| (&document.source, &document.text, &*document.hooks));
        self.source.budget.spend(spent).map_err(|error| at_chart(chart, error))?;
        let mut resources = Vec::new();
        for (source, text, hooks) in crds.chain(documents) {
            let file = found.file(source).unwrap_or_else(|| chart.location.file.clone());
            let mut made = self.objects_of_document(&file, text, hooks, &chart.location)?;
            made.iter_mut().for_each(|resource| resource.release_namespace = Some(namespace.clone()));
            resources.extend(made);
        }
        Ok(resources)
    }

    /// Reads the objects of a document that a template rendered. Line numbers count in the rendered text, so
    /// errors have no line.
    ///
    /// Helm prints a newline after each document. It becomes part of a trailing block scalar.
    fn objects_of_document(
        &self,
        file: &str,
        text: &str,
        hooks: &[String],
        chart: &Location,
    ) -> Result<Vec<Resource>> {
        let text = format!("{text}\n");
        let mut nodes = documents(text.as_bytes()).map_err(|malformed| {
            let message = format!("line {} of the template output: {}", malformed.line, malformed.reason);
            Box::new(RenderError::new(Reason::Malformed, file, message).related(chart))
        })?;
        nodes.iter_mut().for_each(|node| node.for_each(&mut |node| node.line = 0));
        let mut resources = objects_of(nodes, file)?;
        for resource in &mut resources {
            self.source.budget.spend_at(&resource.location, resource.node.memory())?;
            if !hooks.is_empty() && !hooks.iter().any(|event| APPLIED.contains(&event.as_str())) {
                let message =
                    format!("{} is a hook of {}, and nothing runs it", resource.id(), hooks.join(", "));
                let error = RenderError::new(Reason::Unsupported, file, message).related(chart);
                return Err(Box::new(error.hint(
                    "disable the hook in the chart's values, or set skipHooks: true to omit all hooks",
                )));
            }
        }
        Ok(resources)
    }
}

impl Found {
    /// Returns the repository file that Helm names by chart and path. A subchart whose name differs from its
    /// directory is not supported.
    fn file(&self, source: &str) -> Option<String> {
        if self.is_packed {
            return None;
        }
        let paths = [source.split_once('/').map(|(_, path)| path), Some(source)];
        let known = paths.into_iter().flatten().find(|path| self.files.contains_key(*path))?;
        Some(joined(&self.path, known))
    }
}

/// Renders the chart that an object configures.
///
/// # Errors
/// See [`Build::inflate_charts`].
pub(super) fn run(
    build: &mut Build<'_>,
    dir: &str,
    mut config: ConfigObject<'_>,
    accumulator: &mut ResAccumulator,
) -> Result<()> {
    let chart = HelmChart::take(&mut config.fields, &config.located)?;
    let chart_home = take_chart_home(&mut config.fields)?;
    let origin = config.origin();
    config.fields.finish()?;
    let chart = HelmChart { location: config.object.location.clone(), ..chart };
    let mut made = build.chart_part(dir, &chart, &chart_home)?;
    for resource in &mut made {
        resource.origin.clone_from(&origin);
    }
    accumulator.resmap.absorb_new(made)
}

/// Returns the error for a chart that cannot be rendered, at the repository file that caused it.
fn refused(error: chart::Error, found: &Found, chart: &HelmChart, values: &[Values]) -> Box<RenderError> {
    let reason = reason_of(&error);
    let source = error.file.as_deref().unwrap_or_default();
    let is_values = values.iter().any(|values| values.file == source);
    let file = if is_values { Some(source.to_owned()) } else { found.file(source) };
    let refused = match file {
        Some(file) => RenderError::new(reason, file, error.message)
            .line(error.line.unwrap_or_default())
            .related(&chart.location),
        None => {
            let place = if source.is_empty() { String::new() } else { format!("{source}: ") };
            RenderError::at(reason, &chart.location, format!("{place}{}", error.message))
                .field(chart.field.clone())
        }
    };
    Box::new(match error.hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    })
}

fn reason_of(error: &chart::Error) -> Reason {
    match (error.budget, error.is_fresh) {
        (Some(_), _) => Reason::TooLarge,
        (None, true) => Reason::Unsupported,
        (None, false) => Reason::Chart,
    }
}

/// Unpacks the archive of a chart.
fn unpacked(path: String, archive: &[u8], chart: &HelmChart) -> Result<Found> {
    match chart::unpack(archive) {
        Ok(files) => Ok(Found { path, files, is_packed: true }),
        Err(error) => {
            let refused = RenderError::new(reason_of(&error), path, error.message);
            Err(Box::new(refused.related(&chart.location)))
        }
    }
}

/// Returns the reference of a remote chart.
///
/// # Errors
/// Fails if the version is not exact, or if the repository cannot be fetched from.
fn reference(chart: &HelmChart, chart_home: &str) -> Result<String> {
    let HelmChart { name, version, repo, location, field, .. } = chart;
    let refuse = |part: &str, message: String| {
        let error = RenderError::at(Reason::Remote, location, message).field(format!("{field}.{part}"));
        Box::new(error)
    };
    let address = repo.split_once("://").map_or(repo.as_str(), |(_, address)| address);
    if address.split('/').next().is_some_and(|host| host.contains('@')) {
        let message = "the address of a repository may not contain a user name or password".to_owned();
        let hint = "use a login from a Secret (docs/rendering.md, \"Private charts\")";
        return Err(Box::new(refuse("repo", message).hint(hint)));
    }
    if !chart::is_exact_version(version) {
        let message = format!("the version of a chart in {repo:?} must be exact, not {version:?}");
        let hint = "write all three numbers, such as 1.2.3; otherwise, the same commit could render differently later";
        return Err(Box::new(refuse("version", message).hint(hint)));
    }
    if name.contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace()) {
        return Err(refuse("name", format!("{name:?} is not the name of a chart")));
    }
    if !repo.starts_with("https://") && !repo.starts_with("oci://") {
        let message = format!("charts are fetched only over https:// and oci://, not from {repo:?}");
        return Err(Box::new(refuse("repo", message).hint(commit_hint(chart, chart_home))));
    }
    Ok(format!("{}/{name}:{version}", repo.trim_end_matches('/')))
}

/// Returns the error for a chart that the tree lacks.
fn absent(chart: &HelmChart, chart_home: &str, reason: Reason, message: String) -> Box<RenderError> {
    let error = RenderError::at(reason, &chart.location, message).field(chart.field.clone());
    Box::new(error.hint(commit_hint(chart, chart_home)))
}

/// Returns the advice to commit a chart.
fn commit_hint(chart: &HelmChart, chart_home: &str) -> String {
    let HelmChart { name, version, repo, .. } = chart;
    let pull = match repo.strip_prefix("oci://") {
        Some(_) => format!("helm pull {}/{name}", repo.trim_end_matches('/')),
        None if repo.is_empty() => format!("helm pull --repo URL {name}"),
        None => format!("helm pull --repo {repo} {name}"),
    };
    let into = if version.is_empty() || repo.is_empty() { "--untar --untardir" } else { "--destination" };
    let version = if version.is_empty() { String::new() } else { format!(" --version {version}") };
    format!("commit the output of `{pull}{version} {into} {chart_home}`")
}

/// Adds the location of a chart in its kustomization to an error without a location.
fn at_chart(chart: &HelmChart, error: Box<RenderError>) -> Box<RenderError> {
    let HelmChart { location, field, .. } = chart;
    at(&Text { text: String::new(), location: location.clone(), field: field.clone() }, error)
}

fn joined(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// Returns the name in `Chart.yaml`. Returns an empty string if it is missing, which the chart renderer rejects.
fn name_of(files: &Tree) -> String {
    let nodes = files.get(CHART_FILE).and_then(|bytes| documents(bytes).ok()).unwrap_or_default();
    let name = nodes.first().and_then(|node| node.get("name")).map(|name| name.text().to_owned());
    name.unwrap_or_default()
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a values file to merge with other values. Like kustomize, it then reads `yes` as a string and drops keys
/// without a value.
fn values_of(file: &str, bytes: &[u8]) -> Result<Map<String, Json>> {
    let mut nodes =
        documents(bytes).map_err(|malformed| Box::new(RenderError::malformed(file, malformed)))?;
    let invalid =
        |line, reason: String| Box::new(RenderError::new(Reason::InvalidValue, file, reason).line(line));
    let Some(node) = nodes.first_mut() else { return Ok(Map::new()) };
    drop_unwritten(node);
    match node.to_json(Reading::Objects) {
        Ok(Json::Object(values)) => Ok(values),
        Ok(Json::Null) => Ok(Map::new()),
        Ok(_) => Err(invalid(1, "the values are not a map".to_owned())),
        Err((line, unreadable)) => Err(invalid(line, unreadable.0)),
    }
}

/// Removes map keys that have no value, not even `null`.
fn drop_unwritten(node: &mut Node) {
    if let Value::Map(map) = &mut node.value {
        map.retain(|_, entry| !entry.node.is_null() || !entry.node.text().is_empty());
        map.values_mut().for_each(|entry| drop_unwritten(&mut entry.node));
    }
}

/// Merges values like kustomize's `merge2`: maps field by field, and `null` removes a field.
///
/// # Errors
/// Returns the key of two values with different types.
fn merge_into(values: &mut Map<String, Json>, more: Map<String, Json>) -> std::result::Result<(), String> {
    for (key, value) in more {
        match (values.get_mut(&key), value) {
            (_, Json::Null) => {
                values.remove(&key);
            }
            (None | Some(Json::Null), mut value) => {
                drop_nulls(&mut value);
                values.insert(key, value);
            }
            (Some(Json::Object(values)), Json::Object(more)) => {
                merge_into(values, more).map_err(|inner| format!("{key}.{inner}"))?;
            }
            (Some(old), value) => {
                let is_collection = |value: &Json| (value.is_object(), value.is_array());
                if is_collection(old) != is_collection(&value) {
                    return Err(key);
                }
                *old = value;
            }
        }
    }
    Ok(())
}

fn drop_nulls(value: &mut Json) {
    if let Json::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
