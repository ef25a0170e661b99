//! The ValidatingAdmissionPolicies of a hub, which restrict who may accept clusters, move them between sets,
//! bind sets, write works and use the operator's identity. They are a file of the chart, so that the chart and
//! the embedded hub share the same text.

/// The policies and their bindings, as YAML documents.
pub const ADMISSION_POLICIES: &str = include_str!("../../charts/wheelwright/files/admission-policies.yaml");

/// Returns the documents of [`ADMISSION_POLICIES`].
pub(super) fn documents() -> impl Iterator<Item = &'static str> {
    ADMISSION_POLICIES.split("\n---\n")
}
