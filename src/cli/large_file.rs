//! Reads files that are too large to fit into memory.

use std::fmt::{self, Formatter};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::CommandError;
use super::objects::{MAX_FILE, of_file};
use object::Object;

/// Parses an item of a list; returns `None` to leave it out.
type ReadItem<'r> = dyn FnMut(&RawValue) -> serde_json::Result<Option<Object>> + 'r;

/// Reads a file of any size. A file above 64 MiB must be a JSON List, whose items `read` parses or leaves out.
/// Smaller files are read at once.
///
/// # Errors
/// Fails if the file cannot be read, or contains something that is not an object.
pub(crate) fn of_large_file(file: &Path, read: &mut ReadItem<'_>) -> Result<Vec<Object>, CommandError> {
    let name = file.display();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    if opened.metadata().with_context(|| format!("cannot read {name}"))?.len() <= MAX_FILE {
        return of_file(file);
    }
    of_list(BufReader::with_capacity(1 << 20, opened), read).map_err(|error| {
        CommandError::hinted(
            anyhow!("cannot read {name}: {error}"),
            "a file of more than 64 MiB must be one List in JSON, as kubectl get --output=json prints it",
        )
    })
}

/// Reads a JSON List item by item.
fn of_list(json: impl io::Read, read: &mut ReadItem<'_>) -> serde_json::Result<Vec<Object>> {
    let mut objects = Vec::new();
    let mut json = serde_json::Deserializer::from_reader(json);
    json.deserialize_map(List(&mut |item| read(item).map(|object| objects.extend(object))))?;
    json.end()?;
    Ok(objects)
}

/// Passes each item of a List to a function.
struct List<'r>(&'r mut dyn FnMut(&RawValue) -> serde_json::Result<()>);

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("a List")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut has_items = false;
        while let Some(field) = fields.next_key::<String>()? {
            if field == "items" {
                fields.next_value_seed(List(&mut *self.0))?;
                has_items = true;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        has_items.then_some(()).ok_or_else(|| de::Error::missing_field("items"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            number += 1;
            (self.0)(&item).map_err(|error| de::Error::custom(format!("item {number}: {error}")))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(text: &str) -> Result<Vec<String>, String> {
        let mut read = |item: &RawValue| {
            let object: Object = serde_json::from_str(item.get())?;
            Ok((object.kind() != "Left").then_some(object))
        };
        let objects = of_list(text.as_bytes(), &mut read).map_err(|error| error.to_string())?;
        Ok(objects.iter().map(|object| object.name().to_owned()).collect())
    }

    #[test]
    fn the_items_of_a_list_are_read_one_by_one_and_errors_name_them() {
        let list = |last: &str| {
            format!(
                r#"{{"apiVersion": "v1", "items": [
                {{"kind": "A", "metadata": {{"name": "a"}}}}, {{"kind": "Left"}}, {last}], "kind": "List"}}"#
            )
        };
        assert_eq!(names_of(&list(r#"{"kind": "B", "metadata": {"name": "b"}}"#)).unwrap(), ["a", "b"]);
        assert!(names_of(&list("[1]")).unwrap_err().starts_with("item 3: "), "{:?}", names_of(&list("[1]")));
        assert!(names_of(&list("{]")).is_err());
        assert!(names_of(&format!("{}{{", list("{\"kind\": \"B\"}"))).unwrap_err().contains("trailing"));
        assert!(names_of("{\"kind\": \"A\"}").unwrap_err().contains("missing field `items`"));
        assert!(names_of("[]").unwrap_err().contains("expected a List"));
    }
}
