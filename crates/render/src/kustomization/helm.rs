//! `helmCharts` and `helmGlobals`.

use serde_json::{Map, Value as Json};

use super::parts::{Text, location_of};
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use object::Location;
use yaml::Reading;

/// The directory of charts, from the kustomization.
const CHART_HOME: &str = "charts";

/// A chart to inflate.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmChart {
    /// The name of its directory.
    pub name: String,
    /// Its version, which names a directory if there is a `repo` too.
    pub version: String,
    /// The repository that kustomize would pull it from.
    pub repo: String,
    /// The name of the release.
    pub release_name: String,
    /// A template of the name of the release.
    pub name_template: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The values file in the place of the chart's.
    pub values_file: Option<Text>,
    /// Values files that count more.
    pub additional_values_files: Vec<Text>,
    /// Values that are merged with the values file.
    pub values_inline: Map<String, Json>,
    /// The way in which they are merged.
    pub values_merge: ValuesMerge,
    /// If true, the definitions in `crds/` are included.
    pub include_crds: bool,
    /// If true, hooks are left out.
    pub skip_hooks: bool,
    /// API versions, in addition to what Kubernetes has.
    pub api_versions: Vec<String>,
    /// The version of Kubernetes.
    pub kube_version: String,
    /// Its place.
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The merge of `valuesInline` with a values file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValuesMerge {
    /// The inline values count more.
    #[default]
    Override,
    /// The values of the file count more.
    Merge,
    /// The file does not count at all.
    Replace,
}

impl ValuesMerge {
    fn read(located: &Located<'_>) -> Result<Self> {
        match located.string()?.as_str() {
            "" | "override" => Ok(Self::Override),
            "merge" => Ok(Self::Merge),
            "replace" => Ok(Self::Replace),
            other => Err(located
                .error(Reason::InvalidValue, format!("must be merge, override or replace, not {other:?}"))),
        }
    }
}

impl HelmChart {
    /// Reads an entry of `helmCharts`.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let chart = Self::take(&mut fields, located)?;
        fields.finish()?;
        Ok(chart)
    }

    /// Takes the fields of a chart.
    pub(crate) fn take(fields: &mut Fields<'_>, located: &Located<'_>) -> Result<Self> {
        let chart = Self {
            name: fields.string("name")?,
            version: fields.string("version")?,
            repo: fields.string("repo")?,
            release_name: fields.string("releaseName")?,
            name_template: fields.string("nameTemplate")?,
            namespace: fields.string("namespace")?,
            values_file: fields.one("valuesFile", Text::read)?.filter(|file| !file.text.is_empty()),
            additional_values_files: fields.list("additionalValuesFiles", Text::read)?,
            values_inline: fields.one("valuesInline", read_values)?.unwrap_or_default(),
            values_merge: fields.one("valuesMerge", ValuesMerge::read)?.unwrap_or_default(),
            include_crds: fields.bool("includeCRDs")?,
            skip_hooks: fields.bool("skipHooks")?,
            api_versions: fields.strings("apiVersions")?,
            kube_version: fields.string("kubeVersion")?,
            location: location_of(located),
            field: located.field.clone(),
        };
        // Tests are left out in any case, `debug` prints more and `devel` pulls more.
        for without_effect in ["skipTests", "debug", "devel"] {
            fields.bool(without_effect)?;
        }
        if chart.name.is_empty() {
            return Err(located.error(Reason::InvalidValue, "the chart has no name"));
        }
        if !chart.release_name.is_empty() && !chart.name_template.is_empty() {
            let message = "releaseName and nameTemplate exclude each other";
            return Err(located.error(Reason::InvalidValue, message));
        }
        Ok(chart)
    }
}

/// Takes `chartHome`. Helm's own configuration, in `configHome`, has no effect.
pub(crate) fn take_chart_home(fields: &mut Fields<'_>) -> Result<String> {
    fields.string("configHome")?;
    let home = fields.string("chartHome")?;
    Ok(if home.is_empty() { CHART_HOME.to_owned() } else { home })
}

/// Reads `helmGlobals`: `chartHome`.
pub(crate) fn read_helm_globals(located: &Located<'_>) -> Result<String> {
    let mut fields = located.fields()?;
    let home = take_chart_home(&mut fields)?;
    fields.finish()?;
    Ok(home)
}

/// Returns the directory of charts of a kustomization without `helmGlobals`.
pub(crate) fn default_chart_home() -> String {
    CHART_HOME.to_owned()
}

fn read_values(located: &Located<'_>) -> Result<Map<String, Json>> {
    match located.node.to_json(Reading::Yaml11) {
        Ok(Json::Object(values)) => Ok(values),
        Ok(_) => Err(located.error(Reason::InvalidValue, "the values must be a map")),
        Err((line, unreadable)) => {
            Err(Box::new(located.error(Reason::InvalidValue, unreadable.0).line(line)))
        }
    }
}
