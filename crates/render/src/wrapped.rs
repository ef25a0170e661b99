//! Objects that send the rendering of another directory to clusters.
//!
//! OCM's kinds for clusters contain manifests. Instead of a copy that someone has to renew after each change, such an
//! object can name a directory: a kustomization, a chart, or plain manifests.

use super::build::Build;
use super::decode::Result;
use super::error::{Reason, RenderError};
use super::kustomization::{Text, at};
use super::limits::MAX_NESTING;
use super::resource::Resource;
use super::source::PathTarget;
use object::Gvk;
use yaml::{Node, Value};

/// Annotation with the path of the directory, from the directory of the file that contains the object.
const ANNOTATION: &str = "gitops.wheelwright.dev/manifests";

/// The kind whose manifests can contain variables.
const TEMPLATE: &str = "AddOnTemplate";

/// The kinds that contain manifests, each with the path to its `manifests`.
const KINDS: [(&str, &str, &[&str]); 3] = [
    ("addon.open-cluster-management.io", TEMPLATE, &["spec", "agentSpec", "workload"]),
    (
        "work.open-cluster-management.io",
        "ManifestWorkReplicaSet",
        &["spec", "manifestWorkTemplate", "workload"],
    ),
    ("work.open-cluster-management.io", "ManifestWork", &["spec", "workload"]),
];

impl Build<'_> {
    /// Appends the objects of the directory that an object names to its manifests.
    ///
    /// # Errors
    /// Fails if the object cannot contain manifests, or if the directory cannot be rendered.
    pub(super) fn wrap(&mut self, resource: &mut Resource) -> Result<()> {
        let Some(path) = resource.string_map("annotations").get(ANNOTATION).map(|path| (*path).to_owned())
        else {
            return Ok(());
        };
        let field = format!("metadata.annotations[{ANNOTATION}]");
        let path = Text { text: path, location: resource.location.clone(), field };
        let refuse = |reason, message: String| at(&path, Box::new(RenderError::new(reason, "", message)));
        let gvk = resource.gvk();
        let known = KINDS.iter().find(|(group, kind, _)| gvk.group == *group && gvk.kind == *kind);
        let Some((_, _, fields)) = known.filter(|_| resource.release_namespace.is_none()) else {
            let kinds = KINDS.map(|(_, kind, _)| kind).join(", ");
            let error = refuse(
                Reason::InvalidValue,
                format!("{} cannot take manifests from a directory", resource.id()),
            );
            return Err(error.hint(format!("use one of the kinds {kinds}, outside of a chart")).into());
        };
        let parent = path.location.file.rsplit_once('/').map_or("", |(parent, _)| parent);
        let PathTarget::Directory(dir) = self.find(parent, &path)? else {
            return Err(refuse(
                Reason::InvalidValue,
                format!("{:?} is a file; name its directory", path.text),
            ));
        };
        let mut manifests = self.manifests(&dir, &path)?;
        if gvk.kind == TEMPLATE
            && let Some((id, text)) = manifests.iter_mut().find_map(|one| Some((one.id(), lost_text(one)?)))
        {
            let message = format!("{id} contains {text:?}, which an add-on would replace with nothing");
            let hint = "send it with a ManifestWorkReplicaSet, which has no variables";
            return Err(refuse(Reason::Unsupported, message).hint(hint).into());
        }
        let not_a_list =
            || refuse(Reason::InvalidValue, format!("{}.manifests is not a list", fields.join(".")));
        let workload = fields.iter().try_fold(&mut *resource.node, |node, field| node.map_at(field));
        let workload = workload.filter(|workload| workload.as_map().is_some()).ok_or_else(not_a_list)?;
        let mut items = match workload.remove("manifests") {
            Some(Node { value: Value::List(items), .. }) => items,
            Some(node) if !node.is_null() => return Err(not_a_list()),
            Some(_) | None => Vec::new(),
        };
        items.extend(manifests.into_iter().map(|manifest| manifest.node.into_inner()));
        workload.set("manifests", Value::List(items));
        Ok(())
    }

    /// Renders a directory on its own, or reuses the result for the same files.
    fn manifests(&mut self, dir: &str, path: &Text) -> Result<Vec<Resource>> {
        let refuse = |reason, message: String| at(path, Box::new(RenderError::new(reason, "", message)));
        if self.wrapped.iter().any(|outer| outer == dir) {
            return Err(refuse(
                Reason::Cycle,
                format!("the manifests of {:?} contain themselves", path.text),
            ));
        }
        if self.wrapped.len() >= MAX_NESTING {
            let message = format!("manifests contain manifests more than {MAX_NESTING} levels deep");
            return Err(refuse(Reason::TooLarge, message));
        }
        let rendered = self.remembered(format!("{dir}\0\0"), |build| {
            build.wrapped.push(dir.to_owned());
            let mut made = build.run(dir);
            build.wrapped.pop();
            if let Ok(made) = &mut made {
                settle_namespaces(made);
            }
            made
        });
        rendered.map_err(|mut error| {
            error.through.insert(0, path.location.file.clone());
            at(path, error)
        })
    }
}

/// Returns the first text in double braces that cannot be the name of a variable, such as an expression in an alert rule.
/// As in OCM, it would be replaced with nothing.
fn lost_text(resource: &mut Resource) -> Option<String> {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut found = None;
    resource.node.for_each(&mut |node| {
        let text = node.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
        let mut tags = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
        let lost = tags.find(|tag| !is_name(tag)).map(|tag| format!("{{{{{tag}}}}}"));
        found = found.take().or(lost);
    });
    found
}

/// Puts objects of a chart that set no namespace into the namespace of their release, as Helm does. A kind that is not
/// known to be cluster-scoped counts as namespaced.
fn settle_namespaces(resources: &mut [Resource]) {
    let text = |node: &Node, path: &[&str]| {
        let found = path.iter().try_fold(node, |node, field| node.get(field));
        found.map(Node::text).unwrap_or_default().to_owned()
    };
    let definitions = resources.iter().filter(|resource| resource.kind() == "CustomResourceDefinition");
    let cluster_scoped: Vec<(String, String)> = definitions
        .filter(|definition| text(&definition.node, &["spec", "scope"]) == "Cluster")
        .map(|definition| {
            (text(&definition.node, &["spec", "group"]), text(&definition.node, &["spec", "names", "kind"]))
        })
        .collect();
    for resource in resources {
        let Gvk { group, kind, .. } = resource.gvk();
        let is_placed = !resource.namespace().is_empty() || resource.is_cluster_scoped();
        if let Some(namespace) = resource.release_namespace.clone()
            && !is_placed
            && !cluster_scoped.contains(&(group, kind))
        {
            resource.set_namespace(&namespace);
        }
    }
}
