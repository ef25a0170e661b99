//! `semver` and `semverCompare`.

use std::rc::Rc;

use super::{Function, Type};
use crate::object::Object;
use crate::semver::{Version, satisfies};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("semver", &[Type::Str], |call| {
        Ok(Value::Object(Rc::new(Object::Version(Version::parse(call.str(0))?))))
    }),
    Function::new("semverCompare", &[Type::Str, Type::Str], |call| {
        // Check the constraint first, because its error takes precedence.
        satisfies(call.str(0), &Version::parse("0.0.0")?)?;
        Ok(Value::Bool(satisfies(call.str(0), &Version::parse(call.str(1))?)?))
    }),
];
