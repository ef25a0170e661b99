//! Go's text/template: `lex` and `parse` build trees, and `exec` runs them.
//!
//! The reference is `text/template` and `text/template/parse` of Go 1.26. Nodes keep their positions and texts for
//! errors.

mod call;
pub(crate) mod compare;
pub(crate) mod exec;
mod lex;
pub(crate) mod node;
pub(crate) mod number;
pub(crate) mod parse;
mod set;

pub(crate) use exec::Env;
pub(crate) use set::Set;
