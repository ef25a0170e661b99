//! The merge rules for lists and maps of Kubernetes' built-in kinds.
//!
//! The rules come from Kubernetes' OpenAPI document (`x-kubernetes-list-type`, `x-kubernetes-list-map-keys`,
//! `x-kubernetes-map-type`, `x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`).
//! `tools/builtin-lists.py` reduces it to the types that have a rule or lead to one. CRDs have the same extensions
//! in their schemas, so [`Position`] walks both.
//!
//! The table has a line for each kind and each type, and an indented line for each field of the preceding type:
//!
//! ```text
//! kind apps/v1 Deployment namespaced apps.v1.Deployment
//! type core.v1.PodSpec
//!  containers keys=name merge=name items=core.v1.Container
//! ```
//! A type may be `atomic`. The words of a field are its list or map type for server-side apply (`set`,
//! `keys=KEY[:DEFAULT],…`, `atomic` or `granular`) and its patch strategy (`merge[=KEY]`, `retain` or `replace`).
//! `of=`, `items=` and `values=` name the type of the field, of its list items or of its map values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::Gvk;

/// The rules for the built-in kinds of the Kubernetes release named in `builtin_lists.txt`.
pub static BUILTIN: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("builtin_lists.txt")));

/// The kinds and types of one Kubernetes release, reduced to their merge rules.
#[derive(Debug, Default)]
pub struct Table {
    /// Rows by `apiVersion`, then by kind.
    kinds: BTreeMap<&'static str, BTreeMap<&'static str, KindRow>>,
    types: BTreeMap<&'static str, Type>,
}

#[derive(Debug)]
struct KindRow {
    namespaced: bool,
    root: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Type {
    atomic: bool,
    fields: BTreeMap<&'static str, Field>,
}

#[derive(Debug, Default)]
struct Field {
    list: Option<ListType<'static>>,
    map: Option<MapType>,
    patch: PatchStrategy<'static>,
    leads: Option<(Relation, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Of,
    Items,
    Values,
}

/// The ownership of list items in server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType<'a> {
    /// The list is owned and replaced as a whole; the default without a rule.
    Atomic,
    /// Items are values, each owned separately.
    Set,
    /// Items are objects, identified by these keys.
    Map(Vec<MapKey<'a>>),
}

/// A field that identifies the items of a [`ListType::Map`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey<'a> {
    /// The name of the field.
    pub name: &'a str,
    /// The value of an item without the field.
    pub default: Option<Value>,
}

/// The ownership of map entries and object fields in server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Each field is owned separately; the default without a rule.
    Granular,
    /// The map or object is owned and replaced as a whole.
    Atomic,
}

/// The rules for a field in a strategic merge patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy<'a> {
    /// A list merges with the live list: by `merge_key`, or as a set of values if there is no key.
    pub merge: bool,
    /// The field that identifies the items of a merging list.
    pub merge_key: Option<&'a str>,
    /// The field accepts `$retainKeys`.
    pub retain_keys: bool,
    /// The field is replaced as a whole, even if it is an object.
    pub replace: bool,
}

/// A place in an object, with the merge rules of its schema.
///
/// An unknown place has the default rules, and so do all places below it, so callers need no special case.
#[derive(Clone, Copy, Debug, Default)]
pub enum Position<'a> {
    /// An unknown place.
    #[default]
    Unknown,
    /// A place in a built-in kind.
    Builtin(Builtin<'a>),
    /// A place in the schema of a CRD version (`openAPIV3Schema`) or of an OpenAPI document.
    Schema {
        /// The schema of this place.
        schema: &'a Value,
        /// The document's `definitions`, to resolve `$ref`s.
        definitions: Option<&'a Value>,
    },
}

/// A place in a built-in kind.
#[derive(Clone, Copy, Debug)]
pub struct Builtin<'a> {
    table: &'a Table,
    rule: Option<&'a Field>,
    inside: Option<(Relation, &'static str)>,
}

impl Table {
    /// Parses a table in the format of `tools/builtin-lists.py`, skipping lines it does not understand.
    pub fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current = "";
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match (line.starts_with(' '), words.next()) {
                (true, Some(field)) => {
                    let ty = table.types.entry(current).or_default();
                    ty.fields.insert(field, Field::parse(words));
                }
                (false, Some("type")) => {
                    current = words.next().unwrap_or_default();
                    table.types.entry(current).or_default().atomic = words.next() == Some("atomic");
                }
                (false, Some("kind")) => {
                    if let (Some(api_version), Some(kind), Some(scope)) =
                        (words.next(), words.next(), words.next())
                    {
                        let row = KindRow { namespaced: scope == "namespaced", root: words.next() };
                        table.kinds.entry(api_version).or_default().insert(kind, row);
                    }
                }
                (false, Some(_)) | (_, None) => {}
            }
        }
        table
    }

    /// Returns the root of objects of a kind; [`Position::Unknown`] for kinds that are not in the table.
    pub fn root(&self, api_version: &str, kind: &str) -> Position<'_> {
        let root = self.row(api_version, kind).and_then(|row| row.root);
        root.map_or(Position::Unknown, |name| {
            Position::Builtin(Builtin { table: self, rule: None, inside: Some((Relation::Of, name)) })
        })
    }

    /// Returns the root of objects of a kind; see [`Table::root`].
    pub(crate) fn root_of(&self, gvk: &Gvk) -> Position<'_> {
        self.root(&gvk.api_version(), &gvk.kind)
    }

    /// Returns whether a kind is namespaced; `None` for kinds that are not in the table.
    pub fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        self.row(api_version, kind).map(|row| row.namespaced)
    }

    fn row(&self, api_version: &str, kind: &str) -> Option<&KindRow> {
        self.kinds.get(api_version)?.get(kind)
    }
}

impl Field {
    fn parse(words: impl Iterator<Item = &'static str>) -> Self {
        let mut field = Self::default();
        for word in words {
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("set", None) => field.list = Some(ListType::Set),
                ("keys", Some(keys)) => {
                    field.list = Some(ListType::Map(keys.split(',').map(MapKey::parse).collect()))
                }
                ("atomic", None) => field.map = Some(MapType::Atomic),
                ("granular", None) => field.map = Some(MapType::Granular),
                ("merge", key) => (field.patch.merge, field.patch.merge_key) = (true, key),
                ("retain", None) => field.patch.retain_keys = true,
                ("replace", None) => field.patch.replace = true,
                ("of", Some(ty)) => field.leads = Some((Relation::Of, ty)),
                ("items", Some(ty)) => field.leads = Some((Relation::Items, ty)),
                ("values", Some(ty)) => field.leads = Some((Relation::Values, ty)),
                _ => {}
            }
        }
        field
    }
}

impl MapKey<'static> {
    fn parse(word: &'static str) -> Self {
        let (name, default) =
            word.split_once(':').map_or((word, None), |(name, default)| (name, Some(default)));
        Self { name, default: default.map(Value::from) }
    }
}

impl<'a> Position<'a> {
    /// Returns the root of a CRD's `openAPIV3Schema`.
    pub fn schema(schema: &'a Value) -> Self {
        Self::Schema { schema, definitions: None }
    }

    /// Returns the place of a field, if this is an object, or of an entry, if this is a map.
    pub fn field(self, name: &str) -> Self {
        match self {
            Self::Unknown => Self::Unknown,
            Self::Builtin(here) => here.field(name),
            Self::Schema { schema, definitions } => {
                let field = schema
                    .get("properties")
                    .and_then(|fields| fields.get(name))
                    .or_else(|| schema.get("additionalProperties"));
                field.map_or(Self::Unknown, |field| Self::resolved(field, definitions))
            }
        }
    }

    /// Returns the place of the items, if this is a list.
    pub fn items(self) -> Self {
        match self {
            Self::Builtin(Builtin { table, inside: Some((Relation::Items, ty)), .. }) => {
                Self::Builtin(Builtin { table, rule: None, inside: Some((Relation::Of, ty)) })
            }
            Self::Unknown | Self::Builtin(_) => Self::Unknown,
            Self::Schema { schema, definitions } => {
                schema.get("items").map_or(Self::Unknown, |items| Self::resolved(items, definitions))
            }
        }
    }

    /// Follows one `$ref` but not a chain of them, because a document could have a cycle.
    fn resolved(schema: &'a Value, definitions: Option<&'a Value>) -> Self {
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
        let target = name.and_then(|name| definitions?.get(name));
        Self::Schema { schema: target.unwrap_or(schema), definitions }
    }

    /// Returns how server-side apply owns the list at this place.
    pub fn list_type(self) -> ListType<'a> {
        match self {
            Self::Unknown => ListType::Atomic,
            Self::Builtin(here) => here.rule.and_then(|rule| rule.list.clone()).unwrap_or(ListType::Atomic),
            Self::Schema { schema, definitions } => match text(schema, "x-kubernetes-list-type") {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(schema_keys(schema, definitions)),
                _ => ListType::Atomic,
            },
        }
    }

    /// Returns how server-side apply owns the map or object at this place.
    pub fn map_type(self) -> MapType {
        let atomic = match self {
            Self::Unknown => false,
            Self::Builtin(here) => here.is_atomic_map(),
            Self::Schema { schema, .. } => text(schema, "x-kubernetes-map-type") == Some("atomic"),
        };
        if atomic { MapType::Atomic } else { MapType::Granular }
    }

    /// Returns how a strategic merge patch treats the value at this place.
    pub fn patch_strategy(self) -> PatchStrategy<'a> {
        match self {
            Self::Unknown => PatchStrategy::default(),
            Self::Builtin(here) => here.rule.map(|rule| rule.patch.clone()).unwrap_or_default(),
            Self::Schema { schema, .. } => {
                let words = text(schema, "x-kubernetes-patch-strategy").unwrap_or_default();
                let has = |word| words.split(',').any(|w| w == word);
                PatchStrategy {
                    merge: has("merge"),
                    merge_key: text(schema, "x-kubernetes-patch-merge-key"),
                    retain_keys: has("retainKeys"),
                    replace: has("replace"),
                }
            }
        }
    }

    /// Returns true if the object at this place has declared fields, rather than the entries of a map.
    pub(crate) fn has_declared_fields(self) -> bool {
        match self {
            Self::Unknown => false,
            Self::Builtin(here) => matches!(here.inside, Some((Relation::Of, _))),
            Self::Schema { schema, .. } => schema.get("properties").is_some(),
        }
    }

    /// Returns true if this place is known.
    pub fn is_known(self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

impl<'a> Builtin<'a> {
    fn field(self, name: &str) -> Position<'a> {
        match self.inside {
            Some((Relation::Of, ty)) => {
                let rule = self.table.types.get(ty).and_then(|ty| ty.fields.get(name));
                let known = |rule: &'a Field| {
                    Position::Builtin(Builtin { table: self.table, rule: Some(rule), inside: rule.leads })
                };
                rule.map_or(Position::Unknown, known)
            }
            Some((Relation::Values, ty)) => {
                Position::Builtin(Builtin { table: self.table, rule: None, inside: Some((Relation::Of, ty)) })
            }
            Some((Relation::Items, _)) | None => Position::Unknown,
        }
    }

    /// Returns true if the map is atomic. A field may override the rule of its type.
    fn is_atomic_map(self) -> bool {
        match (self.rule.and_then(|rule| rule.map), self.inside) {
            (Some(rule), _) => rule == MapType::Atomic,
            (None, Some((Relation::Of, ty))) => self.table.types.get(ty).is_some_and(|ty| ty.atomic),
            (None, _) => false,
        }
    }
}

fn text<'a>(schema: &'a Value, word: &str) -> Option<&'a str> {
    schema.get(word).and_then(Value::as_str)
}

fn schema_keys<'a>(schema: &'a Value, definitions: Option<&'a Value>) -> Vec<MapKey<'a>> {
    let item = schema.get("items").map(|items| Position::resolved(items, definitions));
    let default = |name: &str| match item {
        Some(Position::Schema { schema, .. }) => schema.get("properties")?.get(name)?.get("default").cloned(),
        _ => None,
    };
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    keys.filter_map(Value::as_str).map(|name| MapKey { name, default: default(name) }).collect()
}

#[cfg(test)]
mod tests;
