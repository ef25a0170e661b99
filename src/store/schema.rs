//! Structural schemas: the shape of objects, as CustomResourceDefinitions declare it and built-in types have it.
//!
//! A schema says which fields there are, how lists and maps are merged, what is filled in, and what is refused. The module
//! holds the data.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The shape of a value.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// JSON type.
    pub type_: Type,
    /// Whether `null` is a value rather than an absence.
    pub nullable: bool,
    /// What an absent field is filled in with.
    pub default: Option<Value>,
    /// Declared fields of an object.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// Shape of the values of an undeclared field (`additionalProperties`).
    pub values: Option<Arc<Schema>>,
    /// Shape of the items of a list.
    pub items: Option<Arc<Schema>>,
    /// How two versions of a list become one.
    pub list: ListType,
    /// Whether an object has one owner as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Whether unknown fields are kept.
    pub preserve: bool,
    /// Whether the value is an object with `apiVersion`, `kind` and `metadata` of its own.
    pub embedded: bool,
    /// Fields that must be present.
    pub required: Vec<String>,
    /// Limits on the value; `None` where there are none.
    pub checks: Option<Box<Checks>>,
}

/// JSON type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// Not declared.
    #[default]
    Any,
    /// An object.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// A whole number or a string.
    IntOrString,
}

/// How two versions of a list become one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Items are values, each at most once.
    Set,
    /// Items are objects told apart by these fields.
    Map(Vec<String>),
}

/// Limits on a value, as JSON schema has them.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The values there are.
    pub enumeration: Vec<Value>,
    /// Regular expression that a string must match somewhere.
    pub pattern: Option<regex::Regex>,
    /// Named format of a string or a number.
    pub format: String,
    /// Least number.
    pub minimum: Option<f64>,
    /// Greatest number.
    pub maximum: Option<f64>,
    /// Whether the least number itself is too small.
    pub exclusive_minimum: bool,
    /// Whether the greatest number itself is too great.
    pub exclusive_maximum: bool,
    /// A number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// Least number of characters.
    pub min_length: Option<u64>,
    /// Greatest number of characters.
    pub max_length: Option<u64>,
    /// Least number of items.
    pub min_items: Option<u64>,
    /// Greatest number of items.
    pub max_items: Option<u64>,
    /// Least number of fields.
    pub min_properties: Option<u64>,
    /// Greatest number of fields.
    pub max_properties: Option<u64>,
    /// Shapes that must all hold.
    pub all_of: Vec<Schema>,
    /// Shapes of which one must hold.
    pub any_of: Vec<Schema>,
    /// Shapes of which exactly one must hold.
    pub one_of: Vec<Schema>,
    /// Shape that must not hold.
    pub not: Option<Schema>,
}

impl Schema {
    /// The shape of the value under a field, `None` where the schema does not know the field.
    pub fn field(&self, name: &str) -> Option<&Arc<Schema>> {
        self.properties.get(name).or(self.values.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_field_goes_before_additional_ones() {
        let any = Arc::new(Schema::default());
        let text = Arc::new(Schema { type_: Type::String, ..Schema::default() });
        let schema = Schema { properties: BTreeMap::from([("a".into(), text)]), values: Some(any), ..Schema::default() };
        assert_eq!(schema.field("a").map(|s| s.type_), Some(Type::String));
        assert_eq!(schema.field("b").map(|s| s.type_), Some(Type::Any));
    }
}
