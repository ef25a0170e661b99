//! `namespace`.

use std::collections::BTreeMap;

use crate::budget::MemoryBudget;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::FieldSpec;
use crate::resource::{ResId, Resource};
use crate::transform::transformer::{Transformation, Transformer};
use object::Location;
use yaml::{Node, Scalar, Tag, Value};

/// Sets the namespace of objects.
pub(super) const NAMESPACE: Transformer =
    Transformer { kind: "NamespaceTransformer", read_fields, read_config };

fn read_fields(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let namespace = Namespace { name: fields.string("namespace")?, ..Namespace::default() };
    if namespace.name.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Box::new(move |pass| {
        apply(&mut pass.accumulator.resmap, &namespace, &pass.config.namespace, &pass.build.source.budget)
    })])
}

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let namespace = Namespace {
        name: config.object.namespace().to_owned(),
        unset_only: config.fields.bool("unsetOnly")?,
        subjects: config.fields.one("setRoleBindingSubjects", Subjects::read)?.unwrap_or_default(),
    };
    let specs = config.field_specs()?;
    Ok(Box::new(move |pass| {
        if namespace.name.is_empty() {
            return Ok(());
        }
        apply(&mut pass.accumulator.resmap, &namespace, &specs, &pass.build.source.budget)
    }))
}

/// A namespace and the rules for setting it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    pub name: String,
    /// True if only objects without a namespace get it.
    pub unset_only: bool,
    /// Subjects of role bindings that get it.
    pub subjects: Subjects,
}

/// Subjects of role bindings that get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// Service accounts named `default`.
    #[default]
    NamedDefault,
    /// All service accounts.
    ServiceAccounts,
    /// No subjects.
    Nobody,
}

impl Subjects {
    fn read(located: &Located<'_>) -> Result<Self> {
        match located.string()?.as_str() {
            "" | "defaultOnly" => Ok(Self::NamedDefault),
            "allServiceAccounts" => Ok(Self::ServiceAccounts),
            "none" => Ok(Self::Nobody),
            other => Err(located.error(
                Reason::InvalidValue,
                format!("must be defaultOnly, allServiceAccounts or none, not {other:?}"),
            )),
        }
    }
}

/// Sets the namespace of all objects and of references to them.
///
/// # Errors
/// Fails if two objects get the same identity, or if the field of a namespace is not a string.
pub(crate) fn apply(
    resources: &mut [Resource],
    namespace: &Namespace,
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    // The objects of a chart already have the release namespace wherever the chart sets it.
    let is_meant = |resource: &&mut Resource| !resource.is_empty() && resource.release_namespace.is_none();
    for resource in resources.iter_mut().filter(is_meant) {
        resource.remember();
        set_all(resource, namespace, specs, budget)?;
    }
    let mut seen: BTreeMap<ResId, &Location> = BTreeMap::new();
    for resource in resources.iter() {
        if let Some(first) = seen.insert(resource.id(), &resource.location) {
            let message = format!(
                "{} becomes identical to another object in namespace {}",
                resource.id(),
                namespace.name
            );
            let error =
                RenderError::at(Reason::DuplicateObject, &resource.location, message).field("namespace");
            return Err(Box::new(error.related(first)));
        }
    }
    Ok(())
}

fn set_all(
    resource: &mut Resource,
    namespace: &Namespace,
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    let mut set = |node: &mut Node| {
        if namespace.unset_only && !node.text().is_empty() && !node.is_null() {
            return Ok(());
        }
        budget.spend(namespace.name.len())?;
        set_scalar(node, &namespace.name, Tag::Str)
    };
    let own = FieldSpec { path: "metadata/namespace".into(), create: true, ..FieldSpec::default() };
    if !resource.is_cluster_scoped() {
        visit(resource, &own, Create::Scalar(Tag::Unsettled), &mut set)?;
    }
    let is_binding = |kind: &str| kind == "RoleBinding" || kind == "ClusterRoleBinding";
    let binds = is_binding(resource.kind());
    if binds {
        set_subjects(&mut resource.node, namespace.subjects, &mut set)?;
    }
    let core = resource.api_version() == "v1";
    for spec in specs {
        let is_subject = binds && is_binding(&spec.gvk.kind) && spec.path == "subjects/namespace";
        if spec.path == own.path || (spec.path == "metadata/name" && !core) || is_subject {
            continue;
        }
        visit(resource, spec, Create::Scalar(Tag::Str), &mut set)?;
    }
    Ok(())
}

fn set_subjects(
    node: &mut Node,
    subjects: Subjects,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    let Some(Node { value: Value::List(items), .. }) = node.get_mut("subjects") else { return Ok(()) };
    for item in items {
        let has = |field: &str, text: &str| item.get(field).is_some_and(|node| node.text() == text);
        let is_meant = match subjects {
            Subjects::Nobody => false,
            Subjects::NamedDefault => has("name", "default"),
            Subjects::ServiceAccounts => has("kind", "ServiceAccount"),
        };
        if is_meant {
            if item.get("namespace").is_none_or(Node::is_null) {
                item.set("namespace", Scalar::unsettled(""));
            }
            if let Some(namespace) = item.get_mut("namespace") {
                set(namespace)?;
            }
        }
    }
    Ok(())
}
