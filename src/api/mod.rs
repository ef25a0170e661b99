//! Wire types: what API servers store and clients send, field by field.

pub mod names;
