//! What a `kustomization.yaml` says.
//!
//! Every field of kustomize v5 is read; the ones we do not run are refused by name. Unknown fields are mistakes.

mod generator;
mod parts;
mod replacement;
mod selector;

use std::collections::BTreeMap;

use super::decode::{Fields, Located, Result};
use super::error::Reason;
use super::yaml::{Entry, Node, Tag};

pub(super) use generator::{Behavior, Generator, GeneratorOptions};
pub(super) use parts::{
    FieldSpec, Image, Label, Patch, PatchOptions, Replica, SortOptions, Source, Text, Var,
};
pub(super) use replacement::{FieldOptions, Replacement, SourceSelector, TargetSelector};
pub(super) use selector::Selector;

/// The names a kustomization may have; a directory holds one of them at most.
pub(super) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const KUSTOMIZATION: &str = "Kustomization";
const COMPONENT: &str = "Component";

/// A kustomization or component.
#[derive(Clone, Debug, Default)]
pub(super) struct Kustomization {
    /// Whether it is a component, which changes what others gathered.
    pub is_component: bool,
    /// Paths of objects, files and directories; `bases` come last.
    pub resources: Vec<Text>,
    /// Paths of components.
    pub components: Vec<Text>,
    /// Files of OpenAPI definitions that say which fields refer to what.
    pub crds: Vec<Text>,
    /// Files that add to the fields transformers know.
    pub configurations: Vec<Text>,
    /// Files, directories or inline objects that configure generators.
    pub generators: Vec<Text>,
    /// Likewise for transformers.
    pub transformers: Vec<Text>,
    /// Likewise for validators.
    pub validators: Vec<Text>,
    /// The namespace of all objects.
    pub namespace: String,
    /// What names start with.
    pub name_prefix: String,
    /// What names end with.
    pub name_suffix: String,
    /// Labels of objects, selectors and templates.
    pub common_labels: BTreeMap<String, String>,
    /// Labels with a choice of where they go.
    pub labels: Vec<Label>,
    /// Annotations of objects and templates.
    pub common_annotations: BTreeMap<String, String>,
    /// Changes of images.
    pub images: Vec<Image>,
    /// Numbers of replicas.
    pub replicas: Vec<Replica>,
    /// Patches of either kind.
    pub patches: Vec<Patch>,
    /// Strategic merge patches, inline or by path.
    pub patches_strategic_merge: Vec<Text>,
    /// JSON patches.
    pub patches_json6902: Vec<Patch>,
    /// Values that are copied between objects.
    pub replacements: Vec<Source<Replacement>>,
    /// Values that are put into texts.
    pub vars: Vec<Var>,
    /// ConfigMaps to make.
    pub config_maps: Vec<Generator>,
    /// Secrets to make.
    pub secrets: Vec<Generator>,
    /// Options of all generators.
    pub generator_options: Option<GeneratorOptions>,
    /// The order of the output.
    pub sort: Option<SortOptions>,
    /// What is written onto the objects about their origin.
    pub build_metadata: BuildMetadata,
    /// A file with schemas.
    pub openapi_path: Option<Text>,
}

/// What is written onto the objects about where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BuildMetadata {
    /// The file or generator each came from.
    pub origin: bool,
    /// The transformers that changed each.
    pub transformers: bool,
    /// A label that says kustomize.
    pub managed_by: bool,
}

impl BuildMetadata {
    /// Whether origins have to be tracked at all.
    pub(super) fn any(self) -> bool {
        self.origin || self.transformers || self.managed_by
    }
}

impl Kustomization {
    /// Reads a kustomization.
    ///
    /// # Errors
    /// The first mistake, with its line and field.
    pub(super) fn read(file: &str, node: &Node) -> Result<Self> {
        let root = Located::root(file, node);
        let mut fields = root.fields()?;
        let is_component = read_type(&mut fields, &root)?;
        refuse_unsupported(&mut fields)?;
        let mut kustomization = Self { is_component, ..Self::default() };
        kustomization.read_operands(&mut fields)?;
        kustomization.read_operators(&mut fields)?;
        kustomization.read_patches(&mut fields)?;
        fields.finish()?;
        let says_nothing =
            |(key, entry): (&String, &Entry)| key == "apiVersion" || key == "kind" || is_unset(&entry.node);
        if node.as_map().is_some_and(|map| map.iter().all(says_nothing)) {
            return Err(root.error(Reason::InvalidValue, "the kustomization is empty"));
        }
        Ok(kustomization)
    }

    fn read_operands(&mut self, fields: &mut Fields<'_>) -> Result<()> {
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
        self.build_metadata = fields.one("buildMetadata", read_build_metadata)?.unwrap_or_default();
        self.openapi_path = fields.one("openapi", read_openapi)?.flatten();
        Ok(())
    }

    fn read_operators(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        self.namespace = fields.string("namespace")?;
        self.name_prefix = fields.string("namePrefix")?;
        self.name_suffix = fields.string("nameSuffix")?;
        self.common_labels = fields.string_map("commonLabels")?;
        self.labels = fields.list("labels", Label::read)?;
        self.common_annotations = fields.string_map("commonAnnotations")?;
        self.images = fields.list("images", Image::read)?;
        self.images.extend(fields.list("imageTags", Image::read)?);
        self.replicas = fields.list("replicas", Replica::read)?;
        self.sort = fields.one("sortOptions", SortOptions::read)?;
        Ok(())
    }

    fn read_patches(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        self.patches = fields.list("patches", Patch::read)?;
        self.patches_strategic_merge = fields.list("patchesStrategicMerge", Text::read)?;
        self.patches_json6902 = fields.list("patchesJson6902", Patch::read)?;
        self.replacements = fields.list("replacements", Replacement::read_source)?;
        self.vars = fields.list("vars", Var::read)?;
        Ok(())
    }
}

/// Whether a field is as good as absent; an empty list is not, to kustomize.
fn is_unset(node: &Node) -> bool {
    node.as_scalar().is_some_and(|scalar| scalar.tag == Tag::Null || scalar.text.is_empty())
}

/// Reads `apiVersion`, `kind` and `metadata`; true for components.
fn read_type(fields: &mut Fields<'_>, root: &Located<'_>) -> Result<bool> {
    let kind = fields.take("kind");
    let is_component = match kind.as_ref().map(Located::string).transpose()?.as_deref() {
        None | Some("" | KUSTOMIZATION) => false,
        Some(COMPONENT) => true,
        Some(other) => {
            let place = kind.as_ref().unwrap_or(root);
            return Err(place.error(
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

fn refuse_unsupported(fields: &mut Fields<'_>) -> Result<()> {
    for name in ["helmCharts", "helmChartInflationGenerator", "helmGlobals"] {
        if let Some(found) = fields.take(name).filter(|found| !found.node.is_empty()) {
            let error = found.error(Reason::Unsupported, "Helm charts are not rendered");
            return Err(Box::new(
                error.hint("keep what `helm template` makes of the chart in the repository, as a resource"),
            ));
        }
    }
    Ok(())
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
            Err(version.error(Reason::InvalidValue, "version and path exclude each other"))
        }
        Some(version) if version.string()? != "v1.21.2" => {
            Err(version.error(Reason::InvalidValue, "the only version that is built in is v1.21.2"))
        }
        Some(_) | None => Ok(path),
    }
}
