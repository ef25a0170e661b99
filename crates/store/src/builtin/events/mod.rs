//! `events.k8s.io`: the events of the core group under other field names.

mod event;

use super::BuiltinKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltinKind] = &[&event::KIND];
