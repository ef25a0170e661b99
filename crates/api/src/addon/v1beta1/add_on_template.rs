//! AddOnTemplate in v1beta1, with the spec of v1alpha1.

use crate::addon::v1alpha1::AddOnTemplateSpec;
use crate::names;

kind! {
    /// AddOnTemplate defines an add-on by the objects of its agent.
    AddOnTemplate {
        group: names::ADDON_GROUP,
        version: "v1beta1",
        plural: "addontemplates",
        scope: Cluster,
        spec(required): AddOnTemplateSpec,
        columns: [("ADDON NAME", "string", ".spec.addonName")],
    }
}
