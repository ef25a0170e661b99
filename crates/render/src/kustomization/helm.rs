//! `helmCharts` and `helmGlobals`.

use serde_json::{Map, Value as Json};

use super::parts::{Text, location_of};
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use object::Location;
use yaml::Reading;

/// The default directory of charts, relative to the kustomization.
const CHART_HOME: &str = "charts";

/// A chart to render.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelmChart {
    /// The name of its directory.
    pub name: String,
    /// Its version, which is part of the directory name if `repo` is set.
    pub version: String,
    /// The repository from which kustomize would download it.
    pub repo: String,
    /// The name of the release.
    pub release_name: String,
    /// A template for the release name.
    pub name_template: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The values file that replaces the chart's own.
    pub values_file: Option<Text>,
    /// Values files that override the first one.
    pub additional_values_files: Vec<Text>,
    /// Values to merge with the values file.
    pub values_inline: Map<String, Json>,
    pub values_merge: ValuesMerge,
    /// True to include the definitions in `crds/`.
    pub include_crds: bool,
    /// True to omit hooks.
    pub skip_hooks: bool,
    /// Available API versions, in addition to the built-in ones.
    pub api_versions: Vec<String>,
    pub kube_version: String,
    pub location: Location,
    /// Its path in the file.
    pub field: String,
}

/// The way in which `valuesInline` is merged with the values file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ValuesMerge {
    /// The inline values win.
    #[default]
    Override,
    /// The values of the file win.
    Merge,
    /// The inline values replace the file.
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
        // `skipTests` has no effect because tests are always omitted. `debug` only changes the output, and `devel`
        // the download.
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

/// Takes `chartHome`. `configHome`, the directory of Helm's own configuration, has no effect.
pub(crate) fn take_chart_home(fields: &mut Fields<'_>) -> Result<String> {
    fields.string("configHome")?;
    let home = fields.string("chartHome")?;
    Ok(if home.is_empty() { CHART_HOME.to_owned() } else { home })
}

/// Reads `chartHome` from `helmGlobals`.
pub(crate) fn read_helm_globals(located: &Located<'_>) -> Result<String> {
    let mut fields = located.fields()?;
    let home = take_chart_home(&mut fields)?;
    fields.finish()?;
    Ok(home)
}

/// Returns the default directory of charts.
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
