//! `events.k8s.io`: the events of the core group, with other field names.

mod event;

use super::BuiltinKind;

pub(super) static KINDS: &[&BuiltinKind] = &[&event::KIND];
