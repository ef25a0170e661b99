//! The decision about a single manifest of a work.

use serde_json::{Map, Value};

use object::Object;

/// The write that a manifest needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyDecision {
    /// No write: the object is up to date or read-only.
    Leave,
    /// A server-side apply.
    Apply {
        /// The fields to apply.
        object: Object,
        /// True to take fields from other managers.
        force: bool,
        /// The field manager.
        manager: String,
    },
    /// A creation. An existing object is not changed.
    Create(Object),
    /// A merge patch. Either it changes only metadata, and the next plan decides about the content, so that a
    /// conflict in one does not delay the other. Or it updates an object that server-side apply refuses.
    Patch(Map<String, Value>),
    /// The manifest cannot be applied.
    Refuse(ApplyRefusal),
}

/// The reason that a manifest cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyRefusal {
    /// The manifest is invalid, or the API server of the cluster rejects it. Retrying fails too.
    Rejected(String),
    /// The attempt failed, and a retry may succeed.
    Failed(String),
    /// The ignored fields of the manifest cannot be determined.
    IgnoredFields(String),
}
