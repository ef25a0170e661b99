//! The parts of a kustomization.

use std::collections::BTreeMap;

use regex::Regex;

use crate::object::Gvk;
use crate::render::decode::{Fields, Located, Result};
use crate::render::error::{Place, Reason};
use crate::render::pattern::anchored;

/// A string that somebody wrote, and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// The string.
    pub text: String,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A file to read something from, or the thing itself.
#[derive(Clone, Debug)]
pub(crate) enum Source<T> {
    /// The thing.
    Inline(T),
    /// A path.
    File(Text),
}

/// Labels, and where they go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    /// The labels.
    pub pairs: BTreeMap<String, String>,
    /// Also into selectors and templates.
    pub include_selectors: bool,
    /// Also into templates.
    pub include_templates: bool,
    /// Also into these fields.
    pub fields: Vec<FieldSpec>,
    /// Where it stands.
    pub place: Place,
}

/// Fields of some kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    /// The kinds; empty parts mean any.
    pub gvk: Gvk,
    /// The path, its parts separated by `/`.
    pub path: String,
    /// Whether the field is made where it is absent.
    pub create: bool,
}

/// A change of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    /// The image's name, as a pattern.
    pub name: String,
    /// What the name becomes.
    pub new_name: String,
    /// What the tag becomes.
    pub new_tag: String,
    /// What is put behind the tag.
    pub tag_suffix: String,
    /// What the digest becomes.
    pub digest: String,
    /// Where it stands.
    pub place: Place,
}

/// A number of replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    /// The name of the object, before or after changes.
    pub name: String,
    /// The number.
    pub count: i64,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A patch and what it applies to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patch {
    /// A file.
    pub path: Option<Text>,
    /// The patch itself.
    pub inline: Option<Text>,
    /// The objects.
    pub target: Option<Selector>,
    /// What the patch may change beyond content.
    pub options: PatchOptions,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// What a patch may change beyond content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatchOptions {
    /// The name.
    pub allow_name_change: bool,
    /// The kind.
    pub allow_kind_change: bool,
}

/// Objects by patterns of their names and by their labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    /// Pattern of the group.
    pub group: Option<Regex>,
    /// Pattern of the version.
    pub version: Option<Regex>,
    /// Pattern of the kind.
    pub kind: Option<Regex>,
    /// Pattern of the name.
    pub name: Option<Regex>,
    /// Pattern of the namespace.
    pub namespace: Option<Regex>,
    /// Conditions on labels.
    pub labels: Vec<crate::render::labels::Requirement>,
    /// Conditions on annotations, of the same form.
    pub annotations: Vec<crate::render::labels::Requirement>,
}

/// Values that are copied from one object to others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replacement {
    /// Where the value comes from.
    pub source: Option<SourceSelector>,
    /// The value itself.
    pub source_value: Option<String>,
    /// Where it goes.
    pub targets: Vec<TargetSelector>,
}

/// One field of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceSelector {
    /// Group, version and kind; empty parts mean any.
    pub gvk: Gvk,
    /// The name; empty means any.
    pub name: String,
    /// The namespace; empty means any.
    pub namespace: String,
    /// The field's path.
    pub field_path: String,
    /// A part of the field.
    pub options: FieldOptions,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// Fields of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetSelector {
    /// The objects.
    pub select: Option<Selector>,
    /// Objects that are not meant.
    pub reject: Vec<Selector>,
    /// The paths of the fields.
    pub field_paths: Vec<Text>,
    /// A part of the fields, and whether they are made.
    pub options: FieldOptions,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A part of a text, and whether a field is made where it is absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldOptions {
    /// What separates the parts.
    pub delimiter: String,
    /// Which part, from 0; before the first where it is negative, behind the last where it is too large.
    pub index: i64,
    /// Whether the field is made.
    pub create: bool,
}

/// A value that is put into texts, as `$(NAME)`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Var {
    /// The name in the texts.
    pub name: String,
    /// The object: group, version and kind.
    pub gvk: Gvk,
    /// Its name.
    pub object: String,
    /// Its namespace.
    pub namespace: String,
    /// The field of the object.
    pub field_path: String,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// A ConfigMap or Secret that is made of files and texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether it changes one that exists.
    pub behavior: Behavior,
    /// Files of `key=value` lines.
    pub envs: Vec<Text>,
    /// `key=value` texts.
    pub literals: Vec<Text>,
    /// Files, as `path` or `key=path`.
    pub files: Vec<Text>,
    /// The type of a Secret.
    pub secret_type: String,
    /// Its own options.
    pub options: Option<GeneratorOptions>,
    /// Where it stands.
    pub place: Place,
    /// Its path in the file.
    pub field: String,
}

/// How a generated object meets one of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// There must be none.
    #[default]
    Create,
    /// It takes the other's place.
    Replace,
    /// It adds to the other.
    Merge,
}

/// Options of generated objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Their annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether names go without the hash of the content.
    pub disable_name_suffix_hash: bool,
    /// Whether they cannot be changed.
    pub immutable: bool,
}

/// The order of the output.
#[derive(Clone, Debug)]
pub(crate) enum SortOptions {
    /// As read.
    Fifo,
    /// By kind.
    Legacy {
        /// Kinds that come first, in order.
        first: Vec<String>,
        /// Kinds that come last, in order.
        last: Vec<String>,
    },
}

fn place_of(located: &Located<'_>) -> Place {
    Place { file: located.file.into(), line: located.line }
}

impl Text {
    /// Reads a string.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        Ok(Self { text: located.string()?, place: place_of(located), field: located.field.clone() })
    }
}

impl Label {
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let label = Self {
            pairs: fields.string_map("pairs")?,
            include_selectors: fields.bool("includeSelectors")?,
            include_templates: fields.bool("includeTemplates")?,
            fields: fields.list("fields", FieldSpec::read)?,
            place: place_of(located),
        };
        fields.finish()?;
        Ok(label)
    }
}

/// Takes group, version and kind.
fn take_gvk(fields: &mut Fields<'_>) -> Result<Gvk> {
    Ok(Gvk { group: fields.string("group")?, version: fields.string("version")?, kind: fields.string("kind")? })
}

impl FieldSpec {
    /// Reads a field specification.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let spec = Self { gvk: take_gvk(&mut fields)?, path: fields.string("path")?, create: fields.bool("create")? };
        fields.finish()?;
        Ok(spec)
    }
}

impl Image {
    /// Reads a change of an image.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let image = Self {
            name: fields.string("name")?,
            new_name: fields.string("newName")?,
            new_tag: fields.string("newTag")?,
            tag_suffix: fields.string("tagSuffix")?,
            digest: fields.string("digest")?,
            place: place_of(located),
        };
        fields.finish()?;
        Ok(image)
    }
}

impl Replica {
    /// Reads a number of replicas.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let count = fields.one("count", Located::integer)?.unwrap_or_default();
        let replica = Self { name: fields.string("name")?, count, place: place_of(located), field: located.field.clone() };
        fields.finish()?;
        Ok(replica)
    }
}

impl Patch {
    /// Reads a patch.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let not_empty = |text: Option<Text>| text.filter(|text| !text.text.trim().is_empty());
        let patch = Self {
            path: not_empty(fields.one("path", Text::read)?),
            inline: not_empty(fields.one("patch", Text::read)?),
            target: fields.one("target", Selector::read)?,
            options: fields.one("options", PatchOptions::read)?.unwrap_or_default(),
            place: place_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        match (&patch.path, &patch.inline) {
            (Some(_), None) | (None, Some(_)) => Ok(patch),
            (None, None) => Err(located.error(Reason::InvalidValue, "one of patch and path is needed")),
            (Some(_), Some(_)) => Err(located.error(Reason::InvalidValue, "patch and path exclude each other")),
        }
    }
}

impl PatchOptions {
    /// Reads the options of a patch.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let options = Self { allow_name_change: fields.bool("allowNameChange")?, allow_kind_change: fields.bool("allowKindChange")? };
        fields.finish()?;
        Ok(options)
    }
}

impl Selector {
    /// Reads a selector of patterns.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        Self::read_as(located, str::to_owned)
    }

    /// Reads a selector of names that are not patterns.
    pub(crate) fn read_exact(located: &Located<'_>) -> Result<Self> {
        Self::read_as(located, regex::escape)
    }

    fn read_as(located: &Located<'_>, to_pattern: fn(&str) -> String) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut pattern = |name| {
            fields.one(name, |value: &Located<'_>| {
                let text = value.string()?;
                let compile = |text: &str| anchored(text).map_err(|why| value.error(Reason::InvalidValue, why));
                (!text.is_empty()).then(|| compile(&to_pattern(&text))).transpose()
            })
        };
        let mut selector = Self {
            group: pattern("group")?.flatten(),
            version: pattern("version")?.flatten(),
            kind: pattern("kind")?.flatten(),
            name: pattern("name")?.flatten(),
            namespace: pattern("namespace")?.flatten(),
            ..Self::default()
        };
        let requirements =
            |value: &Located<'_>| crate::render::labels::parse(&value.string()?).map_err(|why| value.error(Reason::InvalidValue, why));
        selector.labels = fields.one("labelSelector", requirements)?.unwrap_or_default();
        selector.annotations = fields.one("annotationSelector", requirements)?.unwrap_or_default();
        fields.finish()?;
        Ok(selector)
    }

    /// Whether no name is asked for, only labels and annotations.
    pub(crate) fn names_nothing(&self) -> bool {
        let patterns = [&self.group, &self.version, &self.kind, &self.name, &self.namespace];
        patterns.iter().all(|pattern| pattern.is_none())
    }

    /// Whether group, version and kind match.
    pub(crate) fn matches_gvk(&self, gvk: &Gvk) -> bool {
        matches(&self.group, &gvk.group) && matches(&self.version, &gvk.version) && matches(&self.kind, &gvk.kind)
    }

    /// Whether a name matches.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        matches(&self.name, name)
    }

    /// Whether a namespace matches.
    pub(crate) fn matches_namespace(&self, namespace: &str) -> bool {
        matches(&self.namespace, namespace)
    }
}

fn matches(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
}

impl Replacement {
    /// Reads a replacement, or the path of a file of them.
    pub(crate) fn read_source(located: &Located<'_>) -> Result<Source<Self>> {
        let mut fields = located.fields()?;
        let path = fields.one("path", Text::read)?.filter(|path| !path.text.is_empty());
        let replacement = Self::take(&mut fields)?;
        fields.finish()?;
        match path {
            Some(_) if replacement.source.is_some() || !replacement.targets.is_empty() => {
                Err(located.error(Reason::InvalidValue, "path and an inline replacement exclude each other"))
            }
            Some(path) => Ok(Source::File(path)),
            None => Ok(Source::Inline(replacement.check(located)?)),
        }
    }

    /// Reads a replacement of a file of them.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let replacement = Self::take(&mut fields)?;
        fields.finish()?;
        replacement.check(located)
    }

    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            source: fields.one("source", SourceSelector::read)?,
            source_value: fields.one("sourceValue", Located::string)?,
            targets: fields.list("targets", TargetSelector::read)?,
        })
    }

    fn check(self, located: &Located<'_>) -> Result<Self> {
        match (&self.source, &self.source_value) {
            (Some(_), Some(_)) => Err(located.error(Reason::InvalidValue, "source and sourceValue exclude each other")),
            (None, None) => Err(located.error(Reason::InvalidValue, "a replacement needs a source")),
            _ if self.targets.is_empty() => Err(located.error(Reason::InvalidValue, "a replacement needs targets")),
            _ => Ok(self),
        }
    }
}

impl SourceSelector {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let selector = Self {
            gvk: take_gvk(&mut fields)?,
            name: fields.string("name")?,
            namespace: fields.string("namespace")?,
            field_path: fields.string("fieldPath")?,
            options: fields.one("options", FieldOptions::read)?.unwrap_or_default(),
            place: place_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        Ok(selector)
    }
}

impl TargetSelector {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let selector = Self {
            select: fields.one("select", Selector::read_exact)?,
            reject: fields.list("reject", Selector::read_exact)?,
            field_paths: fields.list("fieldPaths", Text::read)?,
            options: fields.one("options", FieldOptions::read)?.unwrap_or_default(),
            place: place_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        if selector.select.is_none() {
            return Err(located.error(Reason::InvalidValue, "a target needs select"));
        }
        Ok(selector)
    }
}

impl FieldOptions {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let index = fields.one("index", Located::integer)?.unwrap_or_default();
        let options = Self { delimiter: fields.string("delimiter")?, index, create: fields.bool("create")? };
        fields.string("encoding")?;
        fields.finish()?;
        Ok(options)
    }
}

impl Var {
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut var = Self { name: fields.string("name")?, place: place_of(located), field: located.field.clone(), ..Self::default() };
        fields
            .one("objref", |object| {
                let mut fields = object.fields()?;
                let api_version = fields.string("apiVersion")?;
                let gvk = take_gvk(&mut fields)?;
                let (name, namespace) = (fields.string("name")?, fields.string("namespace")?);
                fields.finish()?;
                Ok((api_version, gvk, name, namespace))
            })?
            .into_iter()
            .for_each(|(api_version, gvk, name, namespace)| {
                let named = Gvk::parse(&api_version, &gvk.kind);
                var.gvk = match api_version.as_str() {
                    "" => gvk,
                    version if version.contains('/') => named,
                    _ => Gvk { group: gvk.group, ..named },
                };
                (var.object, var.namespace) = (name, namespace);
            });
        let field_path = fields.one("fieldref", |field| {
            let mut fields = field.fields()?;
            let path = fields.string("fieldPath")?;
            fields.finish()?;
            Ok(path)
        })?;
        fields.finish()?;
        var.field_path = field_path.filter(|path| !path.is_empty()).unwrap_or_else(|| "metadata.name".into());
        Ok(var)
    }
}

impl Generator {
    /// Reads a generator of ConfigMaps or Secrets.
    pub(crate) fn read(located: &Located<'_>, secret: bool) -> Result<Self> {
        let mut fields = located.fields()?;
        let mut generator = Self::take(&mut fields, located)?;
        if secret {
            generator.secret_type = fields.string("type")?;
        }
        fields.finish()?;
        generator.check(located)
    }

    /// Takes the fields that ConfigMaps and Secrets share.
    pub(crate) fn take(fields: &mut Fields<'_>, located: &Located<'_>) -> Result<Self> {
        let mut envs = fields.list("envs", Text::read)?;
        envs.extend(fields.one("env", Text::read)?.filter(|env| !env.text.is_empty()));
        Ok(Self {
            name: fields.string("name")?,
            namespace: fields.string("namespace")?,
            behavior: fields.one("behavior", Behavior::read)?.unwrap_or_default(),
            envs,
            literals: fields.list("literals", Text::read)?,
            files: fields.list("files", Text::read)?,
            secret_type: String::new(),
            options: fields.one("options", GeneratorOptions::read)?,
            place: place_of(located),
            field: located.field.clone(),
        })
    }

    /// Refuses a generator without a name.
    pub(crate) fn check(self, located: &Located<'_>) -> Result<Self> {
        if self.name.is_empty() {
            return Err(located.error(Reason::InvalidValue, "a generated object needs a name"));
        }
        Ok(self)
    }
}

impl Behavior {
    fn read(located: &Located<'_>) -> Result<Self> {
        match located.string()?.as_str() {
            "replace" => Ok(Self::Replace),
            "merge" => Ok(Self::Merge),
            // kustomize takes any other word for create, and there are such words out there.
            _ => Ok(Self::Create),
        }
    }
}

impl GeneratorOptions {
    /// Reads the options of generated objects.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let options = Self {
            labels: fields.string_map("labels")?,
            annotations: fields.string_map("annotations")?,
            disable_name_suffix_hash: fields.bool("disableNameSuffixHash")?,
            immutable: fields.bool("immutable")?,
        };
        fields.finish()?;
        Ok(options)
    }

    /// Own options over those of all generators.
    pub(crate) fn merged(own: Option<&Self>, all: Option<&Self>) -> Self {
        let mut merged = own.cloned().unwrap_or_default();
        if let Some(all) = all {
            for (mine, theirs) in [(&mut merged.labels, &all.labels), (&mut merged.annotations, &all.annotations)] {
                for (key, value) in theirs {
                    mine.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            merged.disable_name_suffix_hash |= all.disable_name_suffix_hash;
            merged.immutable |= all.immutable;
        }
        merged
    }
}

impl SortOptions {
    /// Kinds that come before and after all others where nobody says another order.
    pub(crate) const FIRST: [&'static str; 22] = [
        "Namespace",
        "ResourceQuota",
        "StorageClass",
        "CustomResourceDefinition",
        "ServiceAccount",
        "PodSecurityPolicy",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "ConfigMap",
        "Secret",
        "Endpoints",
        "Service",
        "LimitRange",
        "PriorityClass",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Deployment",
        "StatefulSet",
        "CronJob",
        "PodDisruptionBudget",
    ];
    /// Kinds that come after all others.
    pub(crate) const LAST: [&'static str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

    /// The order by kind that is used where nothing is said.
    pub(crate) fn legacy() -> Self {
        let owned = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Self::Legacy { first: owned(&Self::FIRST), last: owned(&Self::LAST) }
    }

    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let order = fields.take("order");
        let legacy = fields.take("legacySortOptions");
        fields.finish()?;
        let order_text = order.as_ref().map(Located::string).transpose()?.unwrap_or_default();
        let place = order.as_ref().unwrap_or(located);
        match (order_text.as_str(), legacy) {
            ("fifo", Some(legacy)) => Err(legacy.error(Reason::InvalidValue, "goes with order legacy, not with fifo")),
            ("fifo", None) => Ok(Self::Fifo),
            ("legacy", None) => Ok(Self::legacy()),
            ("legacy", Some(legacy)) => {
                let mut fields = legacy.fields()?;
                let options = Self::Legacy { first: fields.strings("orderFirst")?, last: fields.strings("orderLast")? };
                fields.finish()?;
                Ok(options)
            }
            (other, _) => Err(place.error(Reason::InvalidValue, format!("must be legacy or fifo, not {other:?}"))),
        }
    }
}
