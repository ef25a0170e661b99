//! Go's text/template: `lex` and `parse` make trees, `exec` runs them.
//!
//! The reference is Go 1.26's `text/template` and `text/template/parse`. Positions and the texts of nodes are kept,
//! because errors show them.

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
