//! The fields of a kustomization.
//!
//! Every field of kustomize v5 is read. Fields that would fetch or run something are rejected by name, and unknown
//! fields are mistakes. Transformers read their own fields.

use super::decode::{Fields, Located, Result};
use super::error::Reason;
use super::kustomization::{
    BuildMetadata, Generator, GeneratorOptions, HelmChart, SortOptions, Text, Var, default_chart_home,
    read_helm_globals,
};
use super::transform::{TRANSFORMERS, Transformation, Transformer};
use yaml::{Entry, Node, Tag};

/// The possible names of a kustomization. A directory may contain only one of them.
pub(super) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const KUSTOMIZATION: &str = "Kustomization";
const COMPONENT: &str = "Component";

/// A kustomization or component.
#[derive(Default)]
pub(super) struct Kustomization {
    /// True for a component, which changes objects that others accumulated.
    pub is_component: bool,
    /// Paths of object files and directories. `bases` come last.
    pub resources: Vec<Text>,
    /// Paths of components.
    pub components: Vec<Text>,
    /// Files of OpenAPI definitions that mark fields with labels, annotations and references.
    pub crds: Vec<Text>,
    /// Files that extend the fields that transformers know.
    pub configurations: Vec<Text>,
    /// Files, directories or inline objects that configure generators.
    pub generators: Vec<Text>,
    /// Files, directories or inline objects that configure transformers.
    pub transformers: Vec<Text>,
    /// Files, directories or inline objects that configure validators.
    pub validators: Vec<Text>,
    /// The transformations of its fields, in the order of [`TRANSFORMERS`].
    pub transformations: Vec<(&'static Transformer, Vec<Transformation>)>,
    /// Variables to substitute into texts.
    pub vars: Vec<Var>,
    /// ConfigMaps to generate.
    pub config_maps: Vec<Generator>,
    /// Secrets to generate.
    pub secrets: Vec<Generator>,
    /// Charts to render.
    pub helm_charts: Vec<HelmChart>,
    /// The directory of charts, relative to the kustomization.
    pub chart_home: String,
    /// The namespace of its objects, and of chart releases without a namespace.
    pub namespace: String,
    /// Options for all generators.
    pub generator_options: Option<GeneratorOptions>,
    pub sort: Option<SortOptions>,
    /// The annotations and labels to add about the origin of objects.
    pub build_metadata: BuildMetadata,
    /// A file with schemas.
    pub openapi_path: Option<Text>,
}

impl Kustomization {
    /// Reads a kustomization.
    ///
    /// # Errors
    /// Fails on the first mistake, with its line and field.
    pub(super) fn read(file: &str, node: &Node) -> Result<Self> {
        let root = Located::root(file, node);
        let mut fields = root.fields()?;
        let is_component = read_type(&mut fields, &root)?;
        refuse_deprecated(&mut fields)?;
        let mut kustomization = Self { is_component, ..Self::default() };
        kustomization.read_fields(&mut fields)?;
        fields.finish()?;
        let says_nothing =
            |(key, entry): (&String, &Entry)| key == "apiVersion" || key == "kind" || is_unset(&entry.node);
        if node.as_map().is_some_and(|map| map.iter().all(says_nothing)) {
            return Err(root.error(Reason::InvalidValue, "the kustomization is empty"));
        }
        Ok(kustomization)
    }

    fn read_fields(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        self.resources = fields.list("resources", Text::read)?;
        self.resources.extend(fields.list("bases", Text::read)?);
        self.components = fields.list("components", Text::read)?;
        self.crds = fields.list("crds", Text::read)?;
        self.configurations = fields.list("configurations", Text::read)?;
        self.generators = fields.list("generators", Text::read)?;
        self.transformers = fields.list("transformers", Text::read)?;
        self.validators = fields.list("validators", Text::read)?;
        self.config_maps = fields.list("configMapGenerator", |item| Generator::read(item, false))?;
        self.secrets = fields.list("secretGenerator", |item| Generator::read(item, true))?;
        self.generator_options = fields.one("generatorOptions", GeneratorOptions::read)?;
        self.helm_charts = fields.list("helmCharts", HelmChart::read)?;
        self.chart_home = fields.one("helmGlobals", read_helm_globals)?.unwrap_or_else(default_chart_home);
        self.namespace = fields.string("namespace")?;
        self.build_metadata = fields.one("buildMetadata", read_build_metadata)?.unwrap_or_default();
        self.openapi_path = fields.one("openapi", read_openapi)?.flatten();
        self.sort = fields.one("sortOptions", SortOptions::read)?;
        self.vars = fields.list("vars", Var::read)?;
        for &transformer in TRANSFORMERS {
            self.transformations.push((transformer, (transformer.read_fields)(fields)?));
        }
        Ok(())
    }
}

/// Returns true if a field counts as absent. For kustomize, an empty list is not absent.
fn is_unset(node: &Node) -> bool {
    node.as_scalar().is_some_and(|scalar| scalar.tag == Tag::Null || scalar.text.is_empty())
}

/// Reads `apiVersion`, `kind` and `metadata`. Returns true for components.
fn read_type(fields: &mut Fields<'_>, root: &Located<'_>) -> Result<bool> {
    let kind = fields.take("kind");
    let is_component = match kind.as_ref().map(Located::string).transpose()?.as_deref() {
        None | Some("" | KUSTOMIZATION) => false,
        Some(COMPONENT) => true,
        Some(other) => {
            let location = kind.as_ref().unwrap_or(root);
            return Err(location.error(
                Reason::InvalidValue,
                format!("must be {KUSTOMIZATION} or {COMPONENT}, not {other}"),
            ));
        }
    };
    let expected =
        if is_component { "kustomize.config.k8s.io/v1alpha1" } else { "kustomize.config.k8s.io/v1beta1" };
    if let Some(api_version) = fields.take("apiVersion") {
        let written = api_version.string()?;
        if !written.is_empty() && written != expected {
            return Err(api_version.error(Reason::InvalidValue, format!("must be {expected}, not {written}")));
        }
    }
    fields.one("metadata", |metadata| {
        let mut fields = metadata.fields()?;
        fields.string("name")?;
        fields.string("namespace")?;
        fields.string_map("labels")?;
        fields.string_map("annotations")?;
        fields.finish()
    })?;
    Ok(is_component)
}

/// Rejects the field that `helmCharts` replaced.
fn refuse_deprecated(fields: &mut Fields<'_>) -> Result<()> {
    match fields.take("helmChartInflationGenerator").filter(|found| !found.node.is_empty()) {
        Some(found) => {
            let error = found.error(Reason::Unsupported, "the field is deprecated and not supported");
            Err(Box::new(
                error.hint("use helmCharts and helmGlobals instead; `kustomize edit fix` converts the field"),
            ))
        }
        None => Ok(()),
    }
}

fn read_build_metadata(located: &Located<'_>) -> Result<BuildMetadata> {
    let mut metadata = BuildMetadata::default();
    for item in located.items()? {
        match item.string()?.as_str() {
            "originAnnotations" => metadata.origin = true,
            "transformerAnnotations" => metadata.transformers = true,
            "managedByLabel" => metadata.managed_by = true,
            other => {
                let message = format!(
                    "must be originAnnotations, transformerAnnotations or managedByLabel, not {other:?}"
                );
                return Err(item.error(Reason::InvalidValue, message));
            }
        }
    }
    Ok(metadata)
}

fn read_openapi(located: &Located<'_>) -> Result<Option<Text>> {
    let mut fields = located.fields()?;
    let path = fields.one("path", Text::read)?;
    let version = fields.take("version");
    fields.finish()?;
    match version {
        Some(version) if path.is_some() => {
            Err(version.error(Reason::InvalidValue, "version and path are mutually exclusive"))
        }
        Some(version) if version.string()? != "v1.21.2" => {
            Err(version.error(Reason::InvalidValue, "the only built-in version is v1.21.2"))
        }
        Some(_) | None => Ok(path),
    }
}
