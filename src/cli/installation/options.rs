//! The options of an installation, and the objects that follow from them.

use anyhow::Context as _;
use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MANAGED_BY, MANAGER, OPERATOR};
use crate::cli::objects::of_text;
use api::crds;

/// The chart as helm renders it for the namespace [`PLACEHOLDER`].
const RENDERED: &str = include_str!("operator.yaml");
/// Stands for the namespace in [`RENDERED`].
const PLACEHOLDER: &str = "release-namespace";
/// Annotation of the Deployment with the options it was installed with, as JSON.
const OPTIONS_ANNOTATION: &str = "gitops.wheelwright.dev/install-options";

/// The options of an installation. The values of the chart have the same names and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::cli) struct Options {
    /// Image of the operator [default: wheelwright, with the version of this program].
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// Number of operators; one leads and the others wait [default: 2].
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<u32>,
    /// Controllers to run: `*` means all, `-name` leaves one out, so that OCM can run it [default: *].
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    controllers: Option<String>,
    /// Hosts that repositories may be on; only these may have private addresses [default: all public hosts].
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    git_hosts: Option<Vec<String>>,
    /// Another argument of `wheelwright operator`; may be repeated.
    #[arg(long = "extra-arg", value_name = "ARG", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_args: Option<Vec<String>>,
}

impl Options {
    /// Returns these options, completed by those of an installation.
    pub(in crate::cli) fn over(self, installed: Self) -> Self {
        let Self { image, replicas, controllers, git_hosts, extra_args } = self;
        Self {
            image: image.or(installed.image),
            replicas: replicas.or(installed.replicas),
            controllers: controllers.or(installed.controllers),
            git_hosts: git_hosts.or(installed.git_hosts),
            extra_args: extra_args.or(installed.extra_args),
        }
    }

    /// Reads the options that a Deployment was installed with.
    pub(in crate::cli) fn of(deployment: &Object) -> Result<Self, serde_json::Error> {
        let annotations = deployment.annotations();
        annotations
            .get(OPTIONS_ANNOTATION)
            .map_or_else(|| Ok(Self::default()), |text| serde_json::from_str(text))
    }
}

/// Returns all objects of an installation in the order in which they are applied: definitions, the namespace,
/// and the objects of the chart, the Deployment last.
pub(in crate::cli) fn manifests(namespace: &str, options: &Options) -> anyhow::Result<Vec<Object>> {
    let mut objects: Vec<Object> = crds::all().iter().map(Object::from_typed).collect();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    objects.push(Object::from_value(own)?);
    let rendered =
        of_text(&RENDERED.replace(PLACEHOLDER, namespace)).context("cannot read the rendered chart")?;
    let (deployments, others): (Vec<_>, Vec<_>) =
        rendered.into_iter().partition(|object| object.kind() == "Deployment");
    let is_wanted =
        |object: &Object| object.kind() != "PodDisruptionBudget" || options.replicas.is_none_or(|n| n > 1);
    objects.extend(others.into_iter().filter(is_wanted));
    for mut deployment in deployments {
        configure(&mut deployment, options)?;
        objects.push(deployment);
    }
    for object in objects.iter_mut().filter(|object| object.kind() != "Namespace") {
        let labels = object.metadata_mut().entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(MANAGED_BY.into(), MANAGER.into());
        }
    }
    Ok(objects)
}

/// Sets the fields of the Deployment that the options determine, and records the options.
fn configure(deployment: &mut Object, options: &Options) -> anyhow::Result<()> {
    let Options { image, replicas, controllers, git_hosts, extra_args } = options;
    if let Some(replicas) = replicas {
        deployment.field_mut("spec").insert("replicas".into(), json!(replicas));
    }
    let pod = deployment.field_mut("spec").get_mut("template").and_then(|template| template.get_mut("spec"));
    let container =
        pod.and_then(|pod| pod.pointer_mut("/containers/0")).context("the Deployment has no container")?;
    if let Some(image) = image {
        container["image"] = json!(image);
    }
    let Some(Value::Array(arguments)) = container.get_mut("args") else {
        anyhow::bail!("the container has no args")
    };
    if let Some(controllers) = controllers {
        let given =
            |argument: &Value| argument.as_str().is_some_and(|text| text.starts_with("--controllers="));
        arguments.retain(|argument| !given(argument));
        arguments.insert(place(arguments, "--listen="), json!(format!("--controllers={controllers}")));
    }
    let hosts = git_hosts.iter().flatten().filter(|host| !host.is_empty());
    let hosts = hosts.map(|host| json!(format!("--git-hosts={host}"))).collect::<Vec<_>>();
    let at = place(arguments, "--webhook-listen=");
    arguments.splice(at..at, hosts);
    arguments
        .extend(extra_args.iter().flatten().filter(|argument| !argument.is_empty()).map(|text| json!(text)));
    debug_assert_eq!(deployment.name(), OPERATOR);
    let annotations = json!({ OPTIONS_ANNOTATION: serde_json::to_string(options)? });
    deployment.metadata_mut().insert("annotations".into(), annotations);
    Ok(())
}

/// Returns the index of an argument, or the end of the list.
fn place(arguments: &[Value], start: &str) -> usize {
    let is_it = |argument: &Value| argument.as_str().is_some_and(|text| text.starts_with(start));
    arguments.iter().position(is_it).unwrap_or(arguments.len())
}
