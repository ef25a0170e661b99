//! `namespace`.

use crate::decode::{Located, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::FieldSpec;
use crate::resource::Resource;
use crate::yaml::{Node, Tag, Value};
use object::Place;

/// A namespace and how it is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace {
    /// The namespace.
    pub name: String,
    /// Whether only objects without one get it.
    pub unset_only: bool,
    /// Which subjects of role bindings get it.
    pub subjects: Subjects,
}

/// Which subjects of role bindings get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// Those that are called `default`.
    #[default]
    NamedDefault,
    /// All service accounts.
    ServiceAccounts,
    /// None.
    Nobody,
}

impl Subjects {
    /// Reads `setRoleBindingSubjects`.
    pub(crate) fn read(located: &Located<'_>) -> Result<Self> {
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

/// Sets the namespace of all objects, and of what refers to objects in it.
///
/// # Errors
/// Where two objects become one and the same, or something else than a text stands where a namespace should be.
pub(crate) fn apply(resources: &mut [Resource], namespace: &Namespace, specs: &[FieldSpec]) -> Result<()> {
    for resource in resources.iter_mut().filter(|resource| !resource.is_empty()) {
        resource.remember();
        set_all(resource, namespace, specs)?;
    }
    let mut seen: std::collections::BTreeMap<_, &Place> = std::collections::BTreeMap::new();
    for resource in resources.iter() {
        if let Some(first) = seen.insert(resource.id(), &resource.place) {
            let message = format!(
                "{} becomes the same object as another when the namespace is {}",
                resource.id(),
                namespace.name
            );
            let error = RenderError::at(Reason::DuplicateObject, &resource.place, message).field("namespace");
            return Err(Box::new(error.related(first)));
        }
    }
    Ok(())
}

fn set_all(resource: &mut Resource, namespace: &Namespace, specs: &[FieldSpec]) -> Result<()> {
    let mut set = |node: &mut Node| {
        if namespace.unset_only && !node.text().is_empty() && !node.is_null() {
            return Ok(());
        }
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
                item.set("namespace", crate::yaml::Scalar::unsettled(""));
            }
            if let Some(namespace) = item.get_mut("namespace") {
                set(namespace)?;
            }
        }
    }
    Ok(())
}
