//! Helm and Go structs that templates see: their fields, methods and printed form.

use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;

use crate::pki::Certificate;
use crate::semver::Version;
use crate::value::{Element, List, Map, Value};

/// A struct with fields and methods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    /// `.Files`: the files of a chart, without templates.
    Files(Files),
    /// `.Capabilities`.
    Capabilities(Capabilities),
    /// `.Capabilities.APIVersions`.
    ApiVersions(Rc<[String]>),
    /// `.Capabilities.KubeVersion`.
    KubeVersion(KubeVersion),
    /// `.Capabilities.HelmVersion`.
    HelmVersion,
    /// A semantic version, returned by `semver`.
    Version(Version),
    /// A time, returned by `toDate` and `now`.
    Time(jiff::Zoned),
    /// A duration in nanoseconds, returned by `mustToDuration`.
    Duration(i64),
    /// A certificate and its key, returned by `genCA`.
    Certificate(Certificate),
}

/// The target version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeVersion {
    pub(crate) version: String,
    pub(crate) major: String,
    pub(crate) minor: String,
}

/// The capabilities of the cluster that charts can query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) kube_version: KubeVersion,
    pub(crate) api_versions: Rc<[String]>,
}

/// The files of a chart, sorted by name like in Helm.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Files(pub(crate) Rc<BTreeMap<String, Rc<[u8]>>>);

/// The version of Helm whose behavior this crate follows.
const HELM_VERSION: &str = "v4.3";
const GO_VERSION: &str = "go1.26.8";

impl Object {
    pub(crate) fn truth(&self) -> bool {
        match self {
            Self::Files(files) => !files.0.is_empty(),
            Self::ApiVersions(versions) => !versions.is_empty(),
            Self::Duration(nanoseconds) => *nanoseconds != 0,
            _ => true,
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Files(_) => "engine.files",
            Self::Capabilities(_) => "*common.Capabilities",
            Self::ApiVersions(_) => "common.VersionSet",
            Self::KubeVersion(_) => "common.KubeVersion",
            Self::HelmVersion => "version.BuildInfo",
            Self::Version(_) => "*semver.Version",
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Certificate(_) => "sprig.certificate",
        }
    }

    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Files(_) => "map",
            Self::ApiVersions(_) => "slice",
            Self::Capabilities(_) | Self::Version(_) => "ptr",
            Self::Duration(_) => "int64",
            Self::KubeVersion(_) | Self::HelmVersion | Self::Time(_) | Self::Certificate(_) => "struct",
        }
    }

    /// Reads a field or calls a method. Returns `Ok(None)` if it does not exist.
    pub(crate) fn field(&self, name: &str, args: &[Value]) -> Result<Option<Value>, String> {
        Ok(match (self, name) {
            (Self::Files(files), _) => return files.field(name, args),
            (Self::Capabilities(all), "KubeVersion") => {
                Some(object(Self::KubeVersion(all.kube_version.clone())))
            }
            (Self::Capabilities(all), "APIVersions") => {
                Some(object(Self::ApiVersions(all.api_versions.clone())))
            }
            (Self::Capabilities(_), "HelmVersion") => Some(object(Self::HelmVersion)),
            (Self::ApiVersions(versions), "Has") => {
                let version = string_argument(args, 0)?;
                Some(Value::Bool(versions.iter().any(|known| known == version)))
            }
            (Self::KubeVersion(version), "Version" | "GitVersion" | "String") => {
                Some(Value::str(version.version.as_str()))
            }
            (Self::KubeVersion(version), "Major") => Some(Value::str(version.major.as_str())),
            (Self::KubeVersion(version), "Minor") => Some(Value::str(version.minor.as_str())),
            (Self::HelmVersion, "Version") => Some(Value::str(HELM_VERSION)),
            (Self::HelmVersion, "GoVersion") => Some(Value::str(GO_VERSION)),
            (Self::HelmVersion, "GitCommit" | "GitTreeState") => Some(Value::str("")),
            (Self::Version(version), _) => version.field(name, args)?,
            (Self::Time(time), _) => time_field(time, name, args)?,
            (Self::Duration(nanoseconds), "Seconds") => Some(Value::Float(*nanoseconds as f64 / 1e9)),
            (Self::Duration(nanoseconds), "Minutes") => Some(Value::Float(*nanoseconds as f64 / 6e10)),
            (Self::Duration(nanoseconds), "Hours") => Some(Value::Float(*nanoseconds as f64 / 3.6e12)),
            (Self::Certificate(made), "Cert") => Some(Value::str(made.cert.as_str())),
            (Self::Certificate(made), "Key") => Some(Value::str(made.key.as_str())),
            _ => None,
        })
    }

    /// Prints the value like `%v`.
    pub(crate) fn print(&self) -> String {
        match self {
            Self::Files(files) => {
                let files = files.0.iter().map(|(name, bytes)| {
                    let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
                    format!("{name}:[{}]", bytes.join(" "))
                });
                format!("map[{}]", files.collect::<Vec<_>>().join(" "))
            }
            Self::Capabilities(all) => {
                format!(
                    "&{{{} [{}] {{{HELM_VERSION}   {GO_VERSION}}}}}",
                    all.kube_version.version,
                    all.api_versions.join(" ")
                )
            }
            Self::ApiVersions(versions) => format!("[{}]", versions.join(" ")),
            Self::KubeVersion(version) => version.version.clone(),
            Self::HelmVersion => format!("{{{HELM_VERSION}   {GO_VERSION}}}"),
            Self::Version(version) => version.to_string(),
            Self::Time(time) => crate::funcs::date::print_time(time),
            Self::Duration(nanoseconds) => crate::funcs::date::print_duration(*nanoseconds),
            Self::Certificate(Certificate { cert, key }) => format!("{{{cert} {key}}}"),
        }
    }

    /// Converts the value to a map or list, for YAML and JSON.
    pub(crate) fn plain(&self) -> Value {
        match self {
            Self::Files(files) => Value::Map(
                files
                    .0
                    .iter()
                    .map(|(name, bytes)| {
                        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                        (name.as_str(), Value::str(text))
                    })
                    .collect(),
            ),
            Self::ApiVersions(versions) => Value::strings(versions.iter().map(String::as_str)),
            Self::KubeVersion(version) => Value::Map(
                [("Version", &version.version), ("Major", &version.major), ("Minor", &version.minor)]
                    .map(|(key, text)| (key, Value::str(text.as_str())))
                    .into_iter()
                    .collect(),
            ),
            Self::Capabilities(all) => Value::Map(
                [
                    ("KubeVersion", Self::KubeVersion(all.kube_version.clone()).plain()),
                    ("APIVersions", Self::ApiVersions(all.api_versions.clone()).plain()),
                ]
                .into_iter()
                .collect(),
            ),
            Self::Duration(nanoseconds) => Value::Int64(*nanoseconds),
            Self::Certificate(Certificate { cert, key }) => Value::Map(
                [("Cert", cert), ("Key", key)]
                    .map(|(key, text)| (key, Value::str(text.as_str())))
                    .into_iter()
                    .collect(),
            ),
            Self::HelmVersion | Self::Version(_) | Self::Time(_) => Value::str(self.print()),
        }
    }
}

fn object(object: Object) -> Value {
    Value::Object(Rc::new(object))
}

fn string_argument(args: &[Value], at: usize) -> Result<&str, String> {
    match args.get(at) {
        Some(Value::Str(text)) => Ok(text),
        Some(other) => Err(format!("expected string; found {}", other.type_name())),
        None => Err(format!("wrong number of args: want {} got {}", at + 1, args.len())),
    }
}

impl Files {
    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Implements the methods of Helm's `engine/files.go`.
    fn field(&self, name: &str, args: &[Value]) -> Result<Option<Value>, String> {
        Ok(Some(match name {
            "Get" => Value::str(self.text(string_argument(args, 0)?).unwrap_or_default()),
            "GetBytes" => {
                self.0.get(string_argument(args, 0)?).map_or(Value::Nil, |bytes| bytes_value(bytes))
            }
            "Glob" => {
                let pattern = crate::glob::compile(string_argument(args, 0)?)?;
                let files = self.0.iter().filter(|(name, _)| pattern.is_match(name));
                let files = files.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
                object(Object::Files(Self(Rc::new(files))))
            }
            "Lines" => match self.text(string_argument(args, 0)?) {
                None => Value::strings(Vec::<&str>::new()),
                Some(text) => Value::strings(text.strip_suffix('\n').unwrap_or(&text).split('\n')),
            },
            "AsConfig" => {
                let fields: Map = self
                    .0
                    .iter()
                    .map(|(name, bytes)| (base_name(name), Value::str(String::from_utf8_lossy(bytes))))
                    .collect();
                crate::yaml::print(&Value::Map(fields)).map(Value::str)?
            }
            "AsSecrets" => {
                let fields: Map = self
                    .0
                    .iter()
                    .map(|(name, bytes)| {
                        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                        (base_name(name), Value::str(text))
                    })
                    .collect();
                crate::yaml::print(&Value::Map(fields)).map(Value::str)?
            }
            file => match self.0.get(file) {
                Some(bytes) => bytes_value(bytes),
                None => bytes_value(&[]),
            },
        }))
    }

    /// Returns names and contents, for `range`.
    pub(crate) fn entries(&self) -> Vec<(Value, Value)> {
        self.0.iter().map(|(name, bytes)| (Value::str(name.as_str()), bytes_value(bytes))).collect()
    }
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns a `[]byte`, which charts print with `toString` or `printf "%s"`.
fn bytes_value(bytes: &[u8]) -> Value {
    Value::List(List {
        items: bytes.iter().map(|byte| Value::Int(i64::from(*byte))).collect(),
        element: Element::Byte,
    })
}

fn time_field(time: &jiff::Zoned, name: &str, args: &[Value]) -> Result<Option<Value>, String> {
    Ok(Some(match name {
        "Unix" => Value::Int64(time.timestamp().as_second()),
        "UnixNano" => Value::Int64(i64::try_from(time.timestamp().as_nanosecond()).unwrap_or(0)),
        "Year" => Value::Int(time.year().into()),
        "Month" => Value::Int(time.month().into()),
        "Day" => Value::Int(time.day().into()),
        "Hour" => Value::Int(time.hour().into()),
        "Minute" => Value::Int(time.minute().into()),
        "Second" => Value::Int(time.second().into()),
        "YearDay" => Value::Int(time.day_of_year().into()),
        "Format" => Value::str(crate::funcs::date::format(time, string_argument(args, 0)?)),
        "UTC" | "Local" => object(Object::Time(time.with_time_zone(jiff::tz::TimeZone::UTC))),
        "String" => Value::str(crate::funcs::date::print_time(time)),
        _ => return Ok(None),
    }))
}
