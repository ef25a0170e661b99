//! Additions to the workloads of a template: environment, credentials, node placement, images, proxy, resources,
//! namespace.
//!
//! As in OCM, only the containers of Deployments and DaemonSets are decorated by default. A manifest of any
//! other kind that creates pods can request the same with an annotation, including for its init containers.
//! Unknown fields are preserved.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Registry, Room, SHOWN, TemplateError};
use crate::resource::plural;
use api::addon::v1alpha1::ProxyConfig;
use api::names::{DECORATE_ANNOTATION, DEFAULT_ADDON_NAMESPACE};
use object::Object;
use object::pattern::compile_within;
use object::text::clip;

/// The mount path of an add-on's hub kubeconfig.
pub(crate) const HUB_KUBECONFIG_PATH: &str = "/managed/hub-kubeconfig";
/// The maximum size of a configuration's compiled container patterns, which takes 5 ms for each cluster.
pub(super) const MAX_PATTERNS: usize = 1 << 20;
/// The size of compiled patterns that costs one comparison for each byte of a container.
const PATTERN_BYTES: usize = 512;
const PROXY_CA_PATH: &str = "/managed/proxy-ca";
const PROXY_CA_KEY: &str = "ca-bundle.crt";
const PROXY_CA_VOLUME: &str = "proxy-ca-bundle";

/// The additions to a workload.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoration {
    /// The name of the add-on.
    pub addon: String,
    /// The environment variables, in order.
    pub env: Vec<(String, String)>,
    /// The secrets to mount.
    pub volumes: Vec<SecretVolume>,
    /// The node selector, which replaces the one in the manifest.
    pub node_selector: Option<Value>,
    /// The tolerations, which replace the ones in the manifest.
    pub tolerations: Option<Value>,
    /// The mirrors. The last one that changes an image wins.
    pub registries: Vec<Registry>,
    /// The proxy environment variables, in order.
    pub proxy: Vec<(String, String)>,
    /// The proxy certificates, in PEM.
    pub proxy_ca: String,
    /// The resource requirements. The last match wins.
    pub resources: Vec<ResourceRule>,
}

/// A secret that is mounted into every container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretVolume {
    /// The name of the volume.
    pub name: String,
    /// The name of the secret.
    pub secret: String,
    /// The mount path.
    pub path: String,
}

/// The resources of matching containers.
#[derive(Clone, Debug)]
pub(super) struct ResourceRule {
    containers: Regex,
    /// The cost in comparisons per byte.
    cost: usize,
    resources: Value,
}

impl ResourceRule {
    /// Parses `resource:name:container`. Each part is a name, `*` or, as in OCM, a regular expression. The size
    /// of the expression is deducted from `bytes`.
    ///
    /// # Errors
    /// Fails if there are not exactly three parts, or if a part is an invalid or too large regular expression.
    pub(super) fn parse(id: &str, resources: Value, bytes: &mut usize) -> Result<Self, TemplateError> {
        let invalid = || TemplateError::ContainerId(clip(id, SHOWN));
        let parts: Vec<&str> = id.split(':').map(|part| if part == "*" { ".+" } else { part }).collect();
        if parts.len() != 3 {
            return Err(invalid());
        }
        let before = *bytes;
        let containers = compile_within(&format!("^{}$", parts.join(":")), bytes).map_err(|_| invalid())?;
        Ok(Self { containers, cost: (before - *bytes).div_ceil(PATTERN_BYTES), resources })
    }
}

impl Decoration {
    /// Sets the proxy of a configuration.
    ///
    /// # Errors
    /// Fails if the certificates are not base64.
    pub(crate) fn set_proxy(&mut self, proxy: &ProxyConfig) -> Result<(), TemplateError> {
        let ProxyConfig { http_proxy, https_proxy, ca_bundle, no_proxy, unknown: _ } = proxy;
        let pairs = [("HTTP_PROXY", http_proxy), ("HTTPS_PROXY", https_proxy), ("NO_PROXY", no_proxy)];
        let set = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        self.proxy = set
            .flat_map(|(name, value)| {
                [(name.to_owned(), value.clone()), (name.to_lowercase(), value.clone())]
            })
            .collect();
        if let Some(bundle) = ca_bundle {
            let pem = STANDARD.decode(bundle).map_err(|e| TemplateError::CaBundle(e.to_string()))?;
            self.proxy_ca = String::from_utf8_lossy(&pem).into_owned();
        }
        Ok(())
    }

    /// Returns true if workloads get the certificates, which have no use without a proxy.
    fn mounts_proxy_ca(&self) -> bool {
        !self.proxy.is_empty() && !self.proxy_ca.is_empty()
    }
}

/// Returns a typed part of a configuration as JSON.
pub(super) fn json<T: Serialize>(part: &T) -> Value {
    serde_json::to_value(part).expect("wire types have string keys, so they serialize")
}

/// Returns the path to the pod spec of a supported workload; `None` for other objects.
fn path_of_pods(object: &Object) -> Option<&'static [&'static str]> {
    let gvk = object.gvk();
    let (is_ocms, path): (bool, &[&str]) = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment" | "DaemonSet") => (true, &["spec", "template", "spec"]),
        ("apps", "StatefulSet" | "ReplicaSet") | ("batch", "Job") => (false, &["spec", "template", "spec"]),
        ("batch", "CronJob") => (false, &["spec", "jobTemplate", "spec", "template", "spec"]),
        ("", "Pod") => (false, &["spec"]),
        _ => return None,
    };
    (is_ocms || asks(object)).then_some(path)
}

/// Returns true if a manifest requests what OCM does only for Deployments and DaemonSets.
fn asks(object: &Object) -> bool {
    object.annotations().get(DECORATE_ANNOTATION) == Some(&"true")
}

/// Decorates the pods of a workload. Other objects are unchanged.
///
/// # Errors
/// Fails if there is no room for the additions, or if a field does not match the Kubernetes schema.
pub(super) fn workload(
    object: &mut Object,
    decoration: &Decoration,
    room: &mut Room,
) -> Result<(), TemplateError> {
    let Some(path) = path_of_pods(object) else { return Ok(()) };
    let lists: &[&'static str] =
        if asks(object) { &["containers", "initContainers"] } else { &["containers"] };
    let id = format!("{}:{}", plural(object.kind()), object.name());
    let mut pod = &mut object.0;
    for &field in path {
        let Some(inner) = pod.get_mut(field) else { return Ok(()) };
        pod = inner.as_object_mut().ok_or_else(|| shape(&id, field, "an object"))?;
    }
    for volume in &decoration.volumes {
        let volume = json!({"name": volume.name, "secret": {"secretName": volume.secret}});
        room.take(size(&volume))?;
        list(pod, "volumes", &id)?.push(volume);
    }
    if decoration.mounts_proxy_ca() {
        let config_map =
            json!({"name": PROXY_CA_VOLUME, "configMap": {"name": proxy_ca_name(&decoration.addon)}});
        list(pod, "volumes", &id)?.push(config_map);
    }
    if let Some(selector) = &decoration.node_selector {
        room.take(size(selector))?;
        pod.insert("nodeSelector".into(), selector.clone());
    }
    if let Some(tolerations) = &decoration.tolerations {
        room.take(size(tolerations))?;
        pod.insert("tolerations".into(), tolerations.clone());
    }
    for &field in lists {
        if !pod.contains_key(field) {
            continue;
        }
        for container in list(pod, field, &id)? {
            let container =
                container.as_object_mut().ok_or_else(|| shape(&id, field, "a list of objects"))?;
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let id = format!("{id}:{name}");
            decorate_container(container, &id, decoration, room)?;
        }
    }
    Ok(())
}

fn shape(workload: &str, field: &'static str, wanted: &'static str) -> TemplateError {
    TemplateError::Shape { workload: workload.to_owned(), field, wanted }
}

/// Returns the size of the JSON of a value.
fn size(value: &Value) -> usize {
    value.to_string().len()
}

fn decorate_container(
    container: &mut Map<String, Value>,
    id: &str,
    decoration: &Decoration,
    room: &mut Room,
) -> Result<(), TemplateError> {
    let env = list(container, "env", id)?;
    for (name, value) in decoration.env.iter().chain(&decoration.proxy) {
        let variable = json!({"name": name, "value": value});
        room.take(size(&variable))?;
        env.push(variable);
    }
    if decoration.mounts_proxy_ca() {
        list(container, "env", id)?
            .push(json!({"name": "CA_BUNDLE_FILE_PATH", "value": format!("{PROXY_CA_PATH}/{PROXY_CA_KEY}")}));
    }
    if list(container, "env", id)?.is_empty() {
        container.remove("env");
    }
    for volume in &decoration.volumes {
        let mount = json!({"name": volume.name, "mountPath": volume.path});
        room.take(size(&mount))?;
        list(container, "volumeMounts", id)?.push(mount);
    }
    if decoration.mounts_proxy_ca() {
        let mount = json!({"name": PROXY_CA_VOLUME, "mountPath": PROXY_CA_PATH});
        list(container, "volumeMounts", id)?.push(mount);
    }
    if let Some(image) = container.get("image").and_then(Value::as_str) {
        room.compare(image, decoration.registries.len())?;
        if let Some(image) = mirror(image, &decoration.registries) {
            room.take(image.len())?;
            container.insert("image".into(), image.into());
        }
    }
    room.compare(id, decoration.resources.iter().map(|rule| rule.cost).sum())?;
    if let Some(rule) = decoration.resources.iter().rev().find(|rule| rule.containers.is_match(id)) {
        room.take(size(&rule.resources))?;
        container.insert("resources".into(), rule.resources.clone());
    }
    Ok(())
}

/// Returns a list of a workload, creating it if it is absent or null.
///
/// # Errors
/// Fails if the field is not a list.
fn list<'a>(
    fields: &'a mut Map<String, Value>,
    name: &'static str,
    id: &str,
) -> Result<&'a mut Vec<Value>, TemplateError> {
    let slot = fields.entry(name).or_insert_with(|| json!([]));
    if slot.is_null() {
        *slot = json!([]);
    }
    slot.as_array_mut().ok_or_else(|| shape(id, name, "a list"))
}

/// Returns the replacement for `image` from the last mirror that changes it.
///
/// A source matches whole path segments. In OCM, `quay.io/ocm` would also match `quay.io/ocm-evil/x`.
fn mirror(image: &str, registries: &[Registry]) -> Option<String> {
    let last = image.rsplit('/').next().unwrap_or(image);
    let ends_segment = |rest: &&str| rest.is_empty() || rest.starts_with(['/', ':', '@']);
    let candidate = |registry: &Registry| {
        let [source, mirror] =
            [&registry.source, &registry.mirror].map(|text| text.strip_suffix('/').unwrap_or(text));
        let (slash, rest) = match source {
            "" if mirror.is_empty() => ("", last),
            "" => ("/", last),
            source => ("", image.strip_prefix(source).filter(ends_segment)?),
        };
        // Copy a long mirror only for an image that it changes.
        let is_same = image.strip_prefix(mirror).and_then(|image| image.strip_prefix(slash)) == Some(rest);
        (!is_same).then(|| format!("{mirror}{slash}{rest}"))
    };
    registries.iter().rev().find_map(candidate)
}

/// Moves the objects of a template into the namespace of the agent. An empty namespace leaves them in place.
///
/// A binding's subject moves only if it is in a namespace of the template; other subjects are foreign service
/// accounts. The first Namespace object is renamed to the namespace of the agent, and others keep their names.
pub(super) fn place(objects: &mut [Object], namespace: &str) {
    if namespace.is_empty() {
        return;
    }
    let is_namespace = |object: &Object| object.kind() == "Namespace";
    let of =
        |object: &Object| if is_namespace(object) { object.name() } else { object.namespace() }.to_owned();
    let ours: BTreeSet<String> = objects.iter().map(of).chain([String::new()]).collect();
    if let Some(first) = objects.iter_mut().find(|object| is_namespace(object)) {
        first.metadata_mut().insert("name".into(), namespace.into());
    }
    for object in objects {
        if !object.namespace().is_empty() {
            object.metadata_mut().insert("namespace".into(), namespace.into());
        }
        if matches!(object.kind(), "RoleBinding" | "ClusterRoleBinding") {
            let subjects = object.0.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten();
            for subject in subjects.filter_map(Value::as_object_mut) {
                let text = |field: &str| subject.get(field).and_then(Value::as_str).unwrap_or_default();
                if text("kind") == "ServiceAccount" && ours.contains(text("namespace")) {
                    subject.insert("namespace".into(), namespace.into());
                }
            }
        }
    }
}

fn proxy_ca_name(addon: &str) -> String {
    format!("{addon}-proxy-ca")
}

/// Returns the ConfigMap with the proxy certificates, in the namespace of the workloads that mount it; `None` if
/// no workload does.
pub(super) fn ca_bundle(addon: &str, decoration: &Decoration, objects: &[Object]) -> Option<Object> {
    if !decoration.mounts_proxy_ca() {
        return None;
    }
    let workload = objects.iter().find(|o| path_of_pods(o).is_some() && !o.namespace().is_empty());
    let namespace = workload.map_or(DEFAULT_ADDON_NAMESPACE, Object::namespace);
    let config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": proxy_ca_name(addon), "namespace": namespace},
        "data": {PROXY_CA_KEY: decoration.proxy_ca},
    });
    Object::from_value(config_map).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{TemplateInput, render};
    use super::*;

    #[test]
    fn a_workload_of_another_shape_is_refused_unchanged() {
        let pod = |containers: Value, volumes: Value| json!({"containers": containers, "volumes": volumes});
        for (pod, wanted) in [
            (pod(json!([{"name": "c", "env": {"A": "b"}}]), json!([])), "env of deployments:d:c"),
            (pod(json!([{"name": "c", "volumeMounts": "m"}]), json!([])), "volumeMounts of deployments:d:c"),
            (pod(json!(["c"]), json!([])), "containers of deployments:d"),
            (pod(json!({"name": "c"}), json!([])), "containers of deployments:d"),
            (pod(json!([]), json!({})), "volumes of deployments:d"),
            (json!("pod"), "spec of deployments:d"),
            (pod(json!([{"name": "c", "env": null}]), json!(null)), ""),
        ] {
            let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "d", "namespace": "ns"}, "spec": {"template": {"spec": pod}}});
            let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [manifest]}},
                "registration": [{"type": "KubeClient"}]});
            let template = &serde_json::from_value(template).unwrap();
            let input = TemplateInput { addon: "a", cluster: "c1", template, config: None, registries: None };
            let refusal = render(&input).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(refusal.starts_with(wanted) && refusal.is_empty() == wanted.is_empty(), "{refusal}");
        }
    }

    #[test]
    fn the_certificates_of_a_proxy_are_deployed_if_a_workload_mounts_them() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
        let template = json!({"addonName": "a", "agentSpec": {"workload": {"manifests": [manifest]}}});
        let template = &serde_json::from_value(template).unwrap();
        for (proxy, want) in [
            (json!({"httpsProxy": "https://p", "caBundle": "Q0E="}), true),
            (json!({"httpsProxy": "https://p"}), false),
            (json!({"caBundle": "Q0E="}), false),
        ] {
            let config = serde_json::from_value(json!({"proxyConfig": proxy})).unwrap();
            let config = Some(&config);
            let input = TemplateInput { addon: "a", cluster: "c1", template, config, registries: None };
            let objects = render(&input).unwrap();
            let is_mounted = objects[0].at(&["spec", "template", "spec", "volumes"]).is_some();
            assert_eq!((is_mounted, objects.len() == 2), (want, want), "{proxy}");
        }
    }
}
