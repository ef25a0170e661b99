//! Protobuf bodies, which Go's typed clients send for built-in kinds, converted to JSON.
//!
//! Responses are always JSON, which these clients accept too. The field numbers come from the API's own Go
//! types (`tests/kube/protofields`). `fields.txt` has a line for each kind and each type, and an indented line
//! for each field: its number, its JSON name (`+` for an inlined field) and its type. `[]` is a list, `{}` a
//! map, and `?` a field that JSON omits if it is zero.

mod decode;

pub(super) use decode::decode;
