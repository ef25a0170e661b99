//! The decision about one manifest of a work: the write that it needs, or why none is possible.

use serde_json::{Map, Value};

use object::Object;

/// The write that one manifest needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyDecision {
    /// None: the object is as wanted, or it is only read.
    Leave,
    /// Server-side apply.
    Apply {
        /// The fields to apply.
        object: Object,
        /// Whether fields of other managers are taken.
        force: bool,
        /// The field manager.
        manager: String,
    },
    /// Creation; an object that exists stays as it is.
    Create(Object),
    /// A merge patch of the metadata, after which the next plan decides about the content, so that a conflict
    /// about one does not delay the other; or of an object that server-side apply refuses.
    Patch(Map<String, Value>),
    /// No write is possible.
    Refuse(ApplyRefusal),
}

/// Why a manifest cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyRefusal {
    /// The manifest is wrong, or the API server of the cluster rejects it: the next attempt fails too.
    Rejected(String),
    /// The attempt failed, and the next one may succeed.
    Failed(String),
    /// The fields that it leaves to the cluster cannot be found.
    IgnoredFields(String),
}
