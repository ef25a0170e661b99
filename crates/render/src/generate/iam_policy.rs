//! `IAMPolicyGenerator`: a ServiceAccount that is bound to a cloud account.

use crate::config_object::ConfigObject;
use crate::decode::{Located, Result};
use crate::error::Reason;
use crate::resource::Resource;
use yaml::Node;

/// The kind of its configuration objects.
pub(super) const KIND: &str = "IAMPolicyGenerator";

/// Returns the ServiceAccount.
///
/// # Errors
/// Fails if the configuration is invalid.
pub(super) fn make(mut config: ConfigObject<'_>) -> Result<Resource> {
    let pair = |other: &'static str| {
        move |located: &Located<'_>| {
            let mut fields = located.fields()?;
            let names = (fields.string("name")?, fields.string(other)?);
            fields.finish()?;
            Ok(names)
        }
    };
    let cloud = config.fields.string("cloud")?;
    let (account, project) = config.fields.one("serviceAccount", pair("projectId"))?.unwrap_or_default();
    let (name, namespace) = config.fields.one("kubernetesService", pair("namespace"))?.unwrap_or_default();
    let origin = config.origin();
    config.fields.finish()?;
    if cloud != "gke" {
        return Err(config.located.error(Reason::InvalidValue, format!("cloud must be gke, not {cloud:?}")));
    }
    let mut resource = Resource::new(Node::empty_map(), config.object.location.clone());
    resource.node.set("apiVersion", Node::string("v1"));
    resource.node.set("kind", Node::string("ServiceAccount"));
    let address = format!("{account}@{project}.iam.gserviceaccount.com");
    resource.set_string_map(
        "annotations",
        [("iam.gke.io/gcp-service-account".to_owned(), address)].into_iter().collect(),
    );
    resource.set_name(&name);
    resource.set_namespace(&namespace);
    resource.origin = origin;
    Ok(resource)
}
