//! The formats of files.

mod dotenv;
mod ini;
mod json;
mod yaml;

use crate::cipher::{DataKey, PREFIX};
use crate::error::Error;
use crate::tree::Value;

/// The field with the metadata.
const METADATA: &str = "sops";

/// A format, which `sops` derives from the ending of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    Json,
    Dotenv,
    Ini,
    /// Any bytes, as one value of a JSON file.
    Binary,
}

/// An encrypted file.
pub(crate) struct File {
    pub(crate) documents: Vec<Value>,
    pub(crate) metadata: Value,
    /// The lines of a dotenv file, which keep the places of its comments.
    lines: Vec<dotenv::Line>,
}

impl Format {
    pub(crate) fn from_path(path: &str) -> Self {
        match path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            Some("env") => Self::Dotenv,
            Some("ini") => Self::Ini,
            Some(_) | None => Self::Binary,
        }
    }

    /// Returns true if a file has the metadata of `sops`.
    pub(crate) fn marks(self, bytes: &[u8]) -> bool {
        // Most files end here.
        if !bytes.windows(PREFIX.len()).any(|window| window == PREFIX.as_bytes()) {
            return false;
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match self {
            Self::Yaml => yaml::is_marked(text) || json::is_marked(text),
            Self::Json | Self::Binary => json::is_marked(text),
            Self::Dotenv => text.lines().any(|line| line.starts_with("sops_mac=")),
            Self::Ini => text.lines().any(|line| line.trim() == "[sops]"),
        }
    }

    /// Parses an encrypted file.
    pub(crate) fn parse(self, text: &str) -> Result<File, Error> {
        match self {
            Self::Yaml => yaml::parse(text),
            Self::Json | Self::Binary => json::parse(text),
            Self::Dotenv => dotenv::parse(text),
            Self::Ini => ini::parse(text),
        }
    }

    /// Prints a file whose values are open. The key opens comments.
    pub(crate) fn print(self, file: File, key: &DataKey) -> Result<Vec<u8>, Error> {
        let File { documents, metadata: _, lines } = file;
        match self {
            Self::Yaml => yaml::print(documents),
            Self::Json => json::print(documents),
            Self::Dotenv => dotenv::print(documents, lines, key),
            Self::Ini => ini::print(documents),
            Self::Binary => json::print_binary(documents),
        }
    }
}

impl File {
    fn new(documents: Vec<Value>, metadata: Value) -> Self {
        Self { documents, metadata, lines: Vec::new() }
    }
}

fn no_metadata() -> Error {
    Error::Malformed("it has no field \"sops\" with metadata".into())
}

/// Returns a value as text for output. `key` is its key for messages.
fn text_of(value: Value, key: &str) -> Result<String, Error> {
    let key = || object::text::plain(key, 200);
    let refuse = |reason| Error::Form { key: key(), reason };
    match value {
        Value::Text(text) => {
            String::from_utf8(text).map_err(|_| refuse("is not text, which this format requires"))
        }
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Ok(String::new()),
        Value::List(_) | Value::Map(_) => Err(refuse("is a list or a map, which this format does not have")),
    }
}
