//! Bodies in protobuf, as Go's typed clients send built-in kinds, converted to JSON.
//!
//! Answers are always JSON, which these clients accept too. The numbers come from the API's own Go types
//! (`tests/kube/protofields`). `fields.txt` has a line for each kind and each type, and an indented line for
//! each field: its number, its name in JSON (`+` for an inlined field) and its type; `[]` is a list, `{}` a
//! map, `?` a field that JSON omits when it is zero.

mod decode;

pub(super) use decode::decode;
