//! Converts protobuf to JSON with the table in `fields.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("fields.txt")));

/// The prefix of every body, before the `runtime.Unknown` that wraps it.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting of messages, deeper than any object.
const MAX_DEPTH: usize = 64;
const DAMAGED: &str = "the protobuf message is damaged";

#[derive(Debug, Default)]
struct Table {
    /// Types by `apiVersion` and kind.
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
    types: BTreeMap<&'static str, Vec<Field>>,
}

#[derive(Debug)]
struct Field {
    number: u64,
    name: &'static str,
    type_: &'static str,
    omitted: bool,
}

/// One field on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// Decodes a body. The error says why it is invalid.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let wrapped =
        body.strip_prefix(MAGIC).ok_or("the body does not begin as a Kubernetes object in protobuf")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[] as &[u8]);
    for part in parts(wrapped)? {
        match part {
            (1, Wire::Bytes(meta)) => {
                for part in parts(meta)? {
                    match part {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let unknown = || format!("no kind {kind:?} in version {api_version:?} is known in protobuf");
    let type_ = TABLE.kinds.get(&(api_version.as_str(), kind.as_str())).ok_or_else(unknown)?;
    let mut fields = message(type_, raw, 0)?;
    fields.insert("apiVersion".into(), api_version.into());
    fields.insert("kind".into(), kind.into());
    Ok(Value::Object(fields))
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut fields: &mut Vec<Field> = &mut Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["kind", version, kind, type_] => drop(table.kinds.insert((version, kind), type_)),
                ["type", type_] => fields = table.types.entry(type_).or_default(),
                [number, name, type_] if !line.starts_with('#') => {
                    let (type_, omitted) =
                        type_.strip_suffix('?').map_or((*type_, false), |type_| (type_, true));
                    fields.push(Field { number: number.parse().unwrap_or_default(), name, type_, omitted });
                }
                _ => {}
            }
        }
        table
    }
}

/// Returns the fields of a message. Skips fields that the type does not have.
fn message(type_: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > MAX_DEPTH {
        return Err("the protobuf message is nested too deeply".into());
    }
    let known = TABLE.types.get(type_).map(Vec::as_slice).unwrap_or_default();
    let mut fields = Map::new();
    for (number, wire) in parts(bytes)? {
        let Some(field) = known.iter().find(|field| field.number == number) else { continue };
        if field.name == "+" {
            let Wire::Bytes(inlined) = wire else { return Err(DAMAGED.into()) };
            fields.extend(message(field.type_, inlined, depth + 1)?);
        } else if let Some(item) = field.type_.strip_prefix("[]") {
            let list = fields.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value(item, wire, depth)?);
            }
        } else if let Some(item) = field.type_.strip_prefix("{}") {
            let (key, value) = map_entry(item, wire, depth)?;
            let map = fields.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        } else {
            let value = value(field.type_, wire, depth)?;
            if !(field.omitted && is_zero(&value)) {
                fields.insert(field.name.into(), value);
            }
        }
    }
    Ok(fields)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Array(_) => false,
    }
}

fn map_entry(type_: &str, wire: Wire<'_>, depth: usize) -> Result<(String, Value), String> {
    let Wire::Bytes(entry) = wire else { return Err(DAMAGED.into()) };
    let (mut key, mut found) = (String::new(), None);
    for part in parts(entry)? {
        match part {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => found = Some(value(type_, wire, depth)?),
            _ => {}
        }
    }
    let empty = || value(type_, Wire::Bytes(&[]), depth);
    Ok((key, found.map_or_else(empty, Ok)?))
}

fn value(type_: &str, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    match (type_, wire) {
        // A negative number is encoded as the 64 bits of its two's complement.
        ("int", Wire::Number(n)) => Ok(n.cast_signed().into()),
        ("bool", Wire::Number(n)) => Ok((n != 0).into()),
        ("double", Wire::Double(n)) => Ok(n.into()),
        ("string", Wire::Bytes(text)) => Ok(utf8(text)?.into()),
        ("bytes", Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
        ("strings", Wire::Bytes(list)) => {
            let texts = parts(list)?
                .into_iter()
                .filter_map(|(_, wire)| if let Wire::Bytes(text) = wire { Some(utf8(text)) } else { None });
            Ok(Value::Array(texts.map(|text| text.map(Value::from)).collect::<Result<_, _>>()?))
        }
        ("quantity", Wire::Bytes(inner)) => Ok(first_text(inner, 1)?.into()),
        ("raw", Wire::Bytes(inner)) => {
            let text = first_bytes(inner, 1)?;
            if text.is_empty() {
                Ok(Value::Null)
            } else {
                serde_json::from_slice(text).map_err(|e| e.to_string())
            }
        }
        ("time", Wire::Bytes(inner)) => time(inner, "%Y-%m-%dT%H:%M:%SZ"),
        ("microtime", Wire::Bytes(inner)) => time(inner, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        ("duration", Wire::Bytes(inner)) => Ok(format!("{}ns", first_number(inner, 1)?).into()),
        ("intorstring", Wire::Bytes(inner)) => match first_number(inner, 1)? {
            0 => Ok(first_number(inner, 2)?.into()),
            _ => Ok(first_text(inner, 3)?.into()),
        },
        ("schemaorarray" | "schemaorbool" | "schemaorstrings", Wire::Bytes(inner)) => {
            schema_or(type_, inner, depth)
        }
        (message_type, Wire::Bytes(inner)) => Ok(Value::Object(message(message_type, inner, depth + 1)?)),
        (_, Wire::Number(_) | Wire::Double(_)) => Err(DAMAGED.into()),
    }
}

/// Returns a JSON schema if there is one, otherwise the value that may replace it.
fn schema_or(type_: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";
    let schema_at = if type_ == "schemaorbool" { 2 } else { 1 };
    let (mut list, mut allows) = (Vec::new(), false);
    for part in parts(bytes)? {
        match part {
            (number, Wire::Bytes(inner)) if number == schema_at => {
                return Ok(Value::Object(message(SCHEMA, inner, depth + 1)?));
            }
            (2, Wire::Bytes(inner)) if type_ == "schemaorarray" => {
                list.push(Value::Object(message(SCHEMA, inner, depth + 1)?))
            }
            (2, Wire::Bytes(text)) => list.push(utf8(text)?.into()),
            (1, Wire::Number(n)) => allows = n != 0,
            _ => {}
        }
    }
    Ok(if type_ == "schemaorbool" { allows.into() } else { list.into() })
}

fn time(bytes: &[u8], format: &str) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(first_number(bytes, 2)?).map_err(|e| e.to_string())?;
    let at = Timestamp::new(first_number(bytes, 1)?, nanos).map_err(|e| e.to_string())?;
    Ok(at.strftime(format).to_string().into())
}

fn first_bytes(bytes: &[u8], wanted: u64) -> Result<&[u8], String> {
    let found = parts(bytes)?.into_iter().find_map(|(number, wire)| {
        if let (true, Wire::Bytes(b)) = (number == wanted, wire) { Some(b) } else { None }
    });
    Ok(found.unwrap_or_default())
}

fn first_text(bytes: &[u8], wanted: u64) -> Result<String, String> {
    utf8(first_bytes(bytes, wanted)?)
}

fn first_number(bytes: &[u8], wanted: u64) -> Result<i64, String> {
    let found = parts(bytes)?.into_iter().find_map(|(number, wire)| {
        if let (true, Wire::Number(n)) = (number == wanted, wire) { Some(n) } else { None }
    });
    Ok(found.unwrap_or_default().cast_signed())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|e| e.to_string())
}

/// Returns the fields of a message with their wire types.
fn parts(mut bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, String> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes)?;
        let (wire, rest) = match tag & 7 {
            0 => {
                let (number, rest) = varint(rest)?;
                (Wire::Number(number), rest)
            }
            1 => {
                let (eight, rest) = rest.split_first_chunk::<8>().ok_or(DAMAGED)?;
                (Wire::Double(f64::from_le_bytes(*eight)), rest)
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let length = usize::try_from(length).map_err(|e| e.to_string())?;
                let (inner, rest) = rest.split_at_checked(length).ok_or(DAMAGED)?;
                (Wire::Bytes(inner), rest)
            }
            _ => return Err(DAMAGED.into()),
        };
        parts.push((tag >> 3, wire));
        bytes = rest;
    }
    Ok(parts)
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let mut number = 0u64;
    for (i, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i).min(63);
        if byte & 0x80 == 0 {
            return Ok((number, bytes.get(i + 1..).unwrap_or_default()));
        }
    }
    Err(DAMAGED.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns a length-delimited field.
    fn field(number: u8, inner: &[u8]) -> Vec<u8> {
        let tag =
            if number < 16 { vec![number << 3 | 2] } else { vec![(number << 3 | 2) | 0x80, number >> 4] };
        [&tag[..], &[u8::try_from(inner.len()).unwrap()], inner].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn an_object_decodes_to_its_json() {
        let metadata = [field(1, b"a"), field(2, b""), field(8, b"")].concat();
        let data = [field(1, b"k"), field(2, b"v")].concat();
        let raw =
            [field(1, &metadata), field(2, &data), field(3, &[field(1, b"b"), field(2, &[0xff])].concat())]
                .concat();
        let want = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": "v" }, "binaryData": { "b": "/w==" } });
        assert_eq!(decode(&body("v1", "ConfigMap", &raw)), Ok(want));
    }

    #[test]
    fn inlined_messages_and_unions_read_as_json_writes_them() {
        // ports: [{ port: 80, targetPort: "http" }], and one with a number
        let port = |target: &[u8]| field(1, &[&[0x18, 80][..], &field(4, target)].concat());
        let named = port(&[&[0x08, 1][..], &field(3, b"http")].concat());
        let spec = [named, port(&[0x08, 0, 0x10, 88])].concat();
        let read = decode(&body("v1", "Service", &field(2, &spec))).unwrap();
        assert_eq!(
            read["spec"]["ports"],
            json!([{ "port": 80, "targetPort": "http" }, { "port": 80, "targetPort": 88 }])
        );
        // template.spec.volumes[0]: { name, configMap } with an inlined source
        let source = field(19, &field(1, &field(1, b"cm")));
        let volume = [field(1, b"v"), field(2, &source)].concat();
        let read = decode(&body("v1", "Pod", &field(2, &field(1, &volume)))).unwrap();
        assert_eq!(read["spec"]["volumes"], json!([{ "name": "v", "configMap": { "name": "cm" } }]));
    }

    #[test]
    fn damage_is_refused() {
        let whole = body("v1", "ConfigMap", &field(1, &field(1, b"name")));
        assert!(decode(&whole).is_ok());
        for cut in 0..whole.len() - 1 {
            // Some cuts leave a shorter valid message; none may panic.
            drop(decode(&whole[..cut]));
        }
        assert_eq!(decode(b"{}").unwrap_err(), "the body does not begin as a Kubernetes object in protobuf");
        assert_eq!(
            decode(&body("v1", "Nothing", &[])).unwrap_err(),
            "no kind \"Nothing\" in version \"v1\" is known in protobuf"
        );
    }
}
