//! Traces of a commit's path, for OpenTelemetry collectors.
//!
//! The id of a trace is the start of the commit id, so that every process can derive it without communication.
//! All operators that fetch a commit put their spans into one trace, before and after a restart. Without an
//! endpoint, nothing here runs.

mod export;
mod message;
mod spans;

pub use export::TraceOptions;
pub(super) use spans::{FetchTimes, Tracer};
