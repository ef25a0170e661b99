//! `generators`, `transformers` and `validators`: the built-in ones, configured by objects. Programs and containers are refused.

use super::absorb::{absorb, append};
use super::build::{Build, Gathered};
use super::decode::{Fields, Located, Result};
use super::error::{Reason, RenderError, did_you_mean};
use super::generate::{self, Made};
use super::kustomization::{
    FieldSpec, Generator, Image, Patch, PatchOptions, Replacement, Replica, Selector, Text,
};
use super::resource::{Origin, Resource, set_text};
use super::transform::namespace::{self, Namespace, Subjects};
use super::transform::{images, labels, names, replacements, replicas};
use super::yaml::{Node, Reading};
use object::Place;

const BUILTIN: &str = "builtin";

const TRANSFORMERS: [&str; 14] = [
    "AnnotationsTransformer",
    "HashTransformer",
    "ImageTagTransformer",
    "LabelTransformer",
    "NamespaceTransformer",
    "PatchJson6902Transformer",
    "PatchStrategicMergeTransformer",
    "PatchTransformer",
    "PrefixSuffixTransformer",
    "PrefixTransformer",
    "ReplacementTransformer",
    "ReplicaCountTransformer",
    "SuffixTransformer",
    "ValueAddTransformer",
];

const GENERATORS: [&str; 3] = ["ConfigMapGenerator", "IAMPolicyGenerator", "SecretGenerator"];

/// Refuses what is not built in.
fn check(config: &Resource, path: &Text, known: &[&str], what: &str) -> Result<()> {
    let kind = config.kind();
    let error = |message: String| {
        RenderError::at(Reason::Unsupported, &config.place, message).field(path.field.clone())
    };
    let runs = |name: &str| config.string_map("annotations").contains_key(name);
    if runs("config.kubernetes.io/function") || runs("config.k8s.io/function") {
        return Err(Box::new(error(format!(
            "{kind} is a function in a container or program, and those are not run"
        ))));
    }
    if config.api_version() != BUILTIN {
        let hint = format!("only {what}s with apiVersion: builtin are run: {}", known.join(", "));
        return Err(Box::new(
            error(format!("the {what} {kind} of {:?} is not built in", config.api_version())).hint(hint),
        ));
    }
    if !known.contains(&kind) {
        let hint = did_you_mean(kind, known.iter().copied())
            .unwrap_or_else(|| format!("there are {}", known.join(", ")));
        return Err(Box::new(error(format!("there is no {what} {kind}")).hint(hint)));
    }
    Ok(())
}

/// Where a configuration says it comes from, as it is written onto objects.
fn origin_of(config: &Resource) -> Option<Origin> {
    let configured_in = config.origin.as_ref()?.path.clone();
    let by =
        [config.api_version().into(), config.kind().into(), config.name().into(), config.namespace().into()];
    Some(Origin { path: String::new(), configured_in, configured_by: Some(by) })
}

/// Runs a generator.
///
/// # Errors
/// Where it is not built in or its configuration is wrong.
pub(super) fn generate(
    build: &mut Build<'_>,
    dir: &str,
    path: &Text,
    config: &Resource,
    gathered: &mut Gathered,
) -> Result<()> {
    if config.api_version() == BUILTIN && config.kind() == "HelmChartInflationGenerator" {
        let error = RenderError::at(Reason::Unsupported, &config.place, "Helm charts are not rendered")
            .field(path.field.clone());
        return Err(Box::new(
            error.hint("keep what `helm template` makes of the chart in the repository, as a resource"),
        ));
    }
    check(config, path, &GENERATORS, "generator")?;
    let located = Located::root(&config.place.file, &config.node);
    let made = match config.kind() {
        "ConfigMapGenerator" => Made::ConfigMap,
        "SecretGenerator" => Made::Secret,
        _ => return iam_policy(&located, config, gathered),
    };
    let mut fields = own_fields(&located)?;
    let mut generator = Generator::take(&mut fields, &located)?;
    if made == Made::Secret {
        generator.secret_type = fields.string("type")?;
    }
    fields.finish()?;
    for (own, named) in [(&mut generator.name, config.name()), (&mut generator.namespace, config.namespace())]
    {
        if own.is_empty() {
            *own = named.to_owned();
        }
    }
    generator.place = config.place.clone();
    let mut resource = generate::make(&build.source, dir, &generator, None, made)?;
    resource.origin = origin_of(config);
    absorb(&mut gathered.resources, resource, &generator)
}

/// A ServiceAccount that is bound to one of a cloud.
fn iam_policy(located: &Located<'_>, config: &Resource, gathered: &mut Gathered) -> Result<()> {
    let mut fields = own_fields(located)?;
    let pair = |other: &'static str| {
        move |located: &Located<'_>| {
            let mut fields = located.fields()?;
            let names = (fields.string("name")?, fields.string(other)?);
            fields.finish()?;
            Ok(names)
        }
    };
    let cloud = fields.string("cloud")?;
    let (account, project) = fields.one("serviceAccount", pair("projectId"))?.unwrap_or_default();
    let (name, namespace) = fields.one("kubernetesService", pair("namespace"))?.unwrap_or_default();
    fields.finish()?;
    if cloud != "gke" {
        return Err(located.error(Reason::InvalidValue, format!("cloud must be gke, not {cloud:?}")));
    }
    let mut resource = Resource::new(Node::empty_map(), config.place.clone());
    resource.node.set("apiVersion", Node::string("v1"));
    resource.node.set("kind", Node::string("ServiceAccount"));
    let address = format!("{account}@{project}.iam.gserviceaccount.com");
    resource.set_string_map(
        "annotations",
        [("iam.gke.io/gcp-service-account".to_owned(), address)].into_iter().collect(),
    );
    resource.set_name(&name);
    resource.set_namespace(&namespace);
    resource.origin = origin_of(config);
    append(&mut gathered.resources, vec![resource])
}

/// The fields of a configuration beside those that every object has.
fn own_fields<'a>(located: &Located<'a>) -> Result<Fields<'a>> {
    let mut fields = located.fields()?;
    for common in ["apiVersion", "kind", "metadata"] {
        fields.take(common);
    }
    Ok(fields)
}

fn specs(fields: &mut Fields<'_>) -> Result<Vec<FieldSpec>> {
    fields.list("fieldSpecs", FieldSpec::read)
}

/// Runs a transformer.
///
/// # Errors
/// Where it is not built in, its configuration is wrong, or it does not apply.
pub(super) fn transform(
    build: &mut Build<'_>,
    dir: &str,
    path: &Text,
    config: &Resource,
    gathered: &mut Gathered,
) -> Result<()> {
    check(config, path, &TRANSFORMERS, "transformer")?;
    let located = Located::root(&config.place.file, &config.node);
    let mut fields = own_fields(&located)?;
    let resources = &mut gathered.resources;
    match config.kind() {
        "AnnotationsTransformer" => {
            let (pairs, specs) = (fields.string_map("annotations")?, specs(&mut fields)?);
            fields.finish()?;
            labels::apply(resources, &pairs, &specs)?;
        }
        "LabelTransformer" => {
            let (pairs, specs) = (fields.string_map("labels")?, specs(&mut fields)?);
            fields.finish()?;
            labels::apply(resources, &pairs, &specs)?;
        }
        "ImageTagTransformer" => {
            let (image, specs) =
                (fields.one("imageTag", Image::read)?.unwrap_or_default(), specs(&mut fields)?);
            fields.finish()?;
            images::apply(resources, &image, &specs)?;
        }
        "NamespaceTransformer" => {
            let namespace = Namespace {
                name: config.namespace().to_owned(),
                unset_only: fields.bool("unsetOnly")?,
                subjects: fields.one("setRoleBindingSubjects", Subjects::read)?.unwrap_or_default(),
            };
            let specs = specs(&mut fields)?;
            fields.finish()?;
            if !namespace.name.is_empty() {
                namespace::apply(resources, &namespace, &specs)?;
            }
        }
        "PrefixTransformer" | "SuffixTransformer" | "PrefixSuffixTransformer" => {
            let (prefix, suffix, specs) =
                (fields.string("prefix")?, fields.string("suffix")?, specs(&mut fields)?);
            fields.finish()?;
            if !prefix.is_empty() {
                names::apply(resources, &prefix, &specs, names::End::Prefix)?;
            }
            if !suffix.is_empty() {
                names::apply(resources, &suffix, &specs, names::End::Suffix)?;
            }
        }
        "ReplicaCountTransformer" => {
            let (replica, specs) =
                (fields.one("replica", Replica::read)?.unwrap_or_default(), specs(&mut fields)?);
            fields.finish()?;
            replicas::apply(resources, &replica, &specs)?;
        }
        "HashTransformer" => {
            fields.finish()?;
            names::add_hashes(resources)?;
        }
        _ => patches(build, dir, config, (&located, fields), gathered)?,
    }
    if let Some(origin) = origin_of(config) {
        build.done_by(gathered, &origin);
    }
    gathered.resources.retain(|resource| !resource.is_empty());
    Ok(())
}

/// Runs the transformers that read files.
fn patches(
    build: &mut Build<'_>,
    dir: &str,
    config: &Resource,
    (located, mut fields): (&Located<'_>, Fields<'_>),
    gathered: &mut Gathered,
) -> Result<()> {
    match config.kind() {
        "PatchTransformer" | "PatchJson6902Transformer" => {
            let not_empty = |text: Option<Text>| text.filter(|text| !text.text.trim().is_empty());
            let inline = if config.kind() == "PatchTransformer" { "patch" } else { "jsonOp" };
            let one = Patch {
                path: not_empty(fields.one("path", Text::read)?),
                inline: not_empty(fields.one(inline, Text::read)?),
                target: fields.one("target", Selector::read)?,
                options: fields.one("options", PatchOptions::read)?.unwrap_or_default(),
                place: config.place.clone(),
                field: inline.to_owned(),
            };
            fields.finish()?;
            if one.path.is_some() == one.inline.is_some() {
                return Err(
                    located.error(Reason::InvalidValue, format!("one of {inline} and path is needed"))
                );
            }
            if config.kind() == "PatchTransformer" {
                build.apply_patch(dir, &one, gathered)
            } else {
                build.apply_json_patch(dir, &one, gathered)
            }
        }
        "PatchStrategicMergeTransformer" => {
            let mut texts = fields.list("paths", Text::read)?;
            texts.extend(fields.one("patches", Text::read)?);
            fields.finish()?;
            texts.iter().try_for_each(|text| build.patch_strategic(dir, text, gathered))
        }
        "ReplacementTransformer" => {
            let given = fields.list("replacements", Replacement::read_source)?;
            fields.finish()?;
            let all = build.replacements_of(dir, &given)?;
            replacements::apply(&mut gathered.resources, &all)
        }
        _ => value_add(build, dir, fields, gathered),
    }
}

/// A field that gets a value, and where in the value's path it goes.
struct AddTarget {
    selector: Option<Selector>,
    field_path: String,
    position: i64,
}

impl AddTarget {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let position = fields.one("filePathPosition", Located::integer)?.unwrap_or_default();
        let target = Self {
            selector: fields.one("selector", Selector::read)?,
            field_path: fields.string("fieldPath")?,
            position,
        };
        fields.finish()?;
        if target.field_path.is_empty() {
            return Err(located.error(Reason::InvalidValue, "fieldPath is needed"));
        }
        if position < 0 {
            return Err(located.error(Reason::InvalidValue, "filePathPosition cannot be negative"));
        }
        Ok(target)
    }
}

fn value_add(
    build: &mut Build<'_>,
    dir: &str,
    mut fields: Fields<'_>,
    gathered: &mut Gathered,
) -> Result<()> {
    let value = fields.string("value")?.trim().to_owned();
    let value = if value.is_empty() { dir.rsplit('/').next().unwrap_or_default().to_owned() } else { value };
    let mut targets = fields.list("targets", AddTarget::read)?;
    let file = fields.one("targetFilePath", Text::read)?;
    fields.finish()?;
    if let Some(path) = file.filter(|path| !path.text.is_empty()) {
        let (file, nodes) = build.documents(dir, &path)?;
        for node in &nodes {
            let mut fields = Located::root(&file, node).fields()?;
            targets.extend(fields.list("targets", AddTarget::read)?);
            fields.finish()?;
        }
    }
    for target in &targets {
        let selected = |resource: &Resource| {
            target.selector.as_ref().is_none_or(|selector| resource.is_selected(selector))
        };
        for resource in gathered.resources.iter_mut().filter(|resource| selected(resource)) {
            if target.field_path == "metadata/namespace" {
                let all = Namespace { name: value.clone(), ..Namespace::default() };
                namespace::apply(std::slice::from_mut(resource), &all, &[])?;
                continue;
            }
            add_value(resource, target, &value)?;
        }
    }
    Ok(())
}

fn add_value(resource: &mut Resource, target: &AddTarget, value: &str) -> Result<()> {
    let place = resource.place.clone();
    let wrong = |message: &str| {
        Box::new(RenderError::at(Reason::Target, &place, message).field(target.field_path.clone()))
    };
    let parts = super::fieldspec::split(&target.field_path, '/');
    let (last, parents) = parts.split_last().ok_or_else(|| wrong("the path is empty"))?;
    let mut at = &mut resource.node;
    for part in parents {
        at = at.map_at(part).ok_or_else(|| wrong("the path leads through something that is not a map"))?;
    }
    if at.as_map().is_none() || at.get(last).is_some_and(|node| node.as_scalar().is_none()) {
        return Err(wrong("the path does not lead to a text"));
    }
    let old = at.get(last).map(Node::text).unwrap_or_default();
    let new = if target.position > 0 { insert_part(old, target.position, value) } else { value.to_owned() };
    set_text(at, last, &new);
    Ok(())
}

/// Puts a part into a file path, counted from 1; behind the last where the number is too large.
fn insert_part(path: &str, position: i64, part: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let index = usize::try_from(position - 1).unwrap_or_default().min(parts.len());
    parts.insert(index, part);
    format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
}

/// Runs a validator: a transformer that must not change anything.
///
/// # Errors
/// As [`transform`], and where something changes.
pub(super) fn validate(
    build: &mut Build<'_>,
    dir: &str,
    path: &Text,
    config: &Resource,
    gathered: &mut Gathered,
) -> Result<()> {
    let mut copy = Gathered {
        resources: gathered.resources.clone(),
        config: gathered.config.clone(),
        vars: gathered.vars.clone(),
    };
    transform(build, dir, path, config, &mut copy)?;
    let content = |resources: &[Resource]| {
        resources.iter().map(|resource| resource.node.to_json(Reading::Objects).ok()).collect::<Vec<_>>()
    };
    if content(&copy.resources) == content(&gathered.resources) {
        return Ok(());
    }
    let place: &Place = &config.place;
    let message = format!("the validator {} changes objects", config.kind());
    Err(Box::new(
        RenderError::at(Reason::InvalidValue, place, message)
            .field(path.field.clone())
            .hint("name it in transformers"),
    ))
}
