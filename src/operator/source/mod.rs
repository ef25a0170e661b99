//! The source controller: keeps the [`Source`](reconcile::Source) of every `ConfigRepo` up to date, pushes
//! reports, and sends commit statuses and notifications.
//!
//! A repository is fetched when its interval has passed, when a local repository changes, when its spec or an
//! annotation requests it, and after a failure. Waits after failures grow until one of its Secrets changes. The
//! controllers decide what a commit means.

mod artifacts;
mod cache;
mod charts;
mod commit_status;
mod controller;
mod delivery;
mod failure;
mod fetch_places;
mod mirrors;
mod notification;
mod report_commit;
mod secrets;
mod webhook;

pub use controller::SourceController;
pub(crate) use controller::message;
pub use mirrors::SourceOptions;
pub(crate) use mirrors::{artifact_ref, history, ref_spec, verification};
pub(crate) use webhook::Webhooks;
