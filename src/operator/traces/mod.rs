//! Traces of the way of a commit, for collectors of OpenTelemetry.
//!
//! The id of a trace is the begin of the commit id, so that every process finds it without a message from
//! another one. All operators that fetch a commit put their spans into one trace, before and after a restart.
//! Without an endpoint nothing here runs.

mod export;
mod message;
mod spans;

pub use export::TraceOptions;
pub(super) use spans::{FetchTimes, Tracer};
