//! AddOnDeploymentConfig in v1beta1, with the spec of v1alpha1.

use crate::addon::v1alpha1::AddOnDeploymentConfigSpec;
use crate::names;

kind! {
    /// AddOnDeploymentConfig says how the agents of add-ons are deployed on clusters: variables, nodes,
    /// registries, proxies and resources.
    AddOnDeploymentConfig {
        group: names::ADDON_GROUP,
        version: "v1beta1",
        plural: "addondeploymentconfigs",
        scope: Namespaced,
        spec(required): AddOnDeploymentConfigSpec,
    }
}
