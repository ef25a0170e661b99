//! Bodies in protobuf, as Go's typed clients send built-in kinds; read into the JSON they stand for.
//!
//! Answers are JSON always, which those clients take too. The numbering comes from the API's own Go types
//! (`tests/kube/protofields`); `fields.txt` has a line for each kind and each type, and an indented line for
//! each field: its number, its name in JSON (`+` where its fields stand beside the others) and its type; `[]`
//! is a list, `{}` a map, `?` what JSON leaves out when it is zero.

mod decode;

pub(super) use decode::decode;
