//! `Chart.yaml`: its content, and `.Chart` as templates see it.

use crate::error::Error;
use crate::value::{Fields, Map, MapType, Value};

/// The parts of `Chart.yaml` that affect rendering.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) api_version: String,
    pub(crate) kube_version: String,
    pub(crate) is_library: bool,
    pub(crate) dependencies: Option<Vec<Dependency>>,
    /// The unchanged file, for `.Chart`.
    written: Map,
}

/// An entry of `dependencies`.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) alias: String,
    pub(crate) condition: String,
    pub(crate) tags: Vec<String>,
    pub(crate) import_values: Vec<Value>,
    pub(crate) enabled: bool,
    written: Map,
}

fn text(map: &Map, key: &str) -> String {
    map.get(key).filter(|value| !value.is_nil()).map(|value| crate::print::text(&value)).unwrap_or_default()
}

fn texts(map: &Map, key: &str) -> Vec<String> {
    match map.get(key) {
        Some(Value::List(list)) => list.items.iter().map(crate::print::text).collect(),
        _ => Vec::new(),
    }
}

impl Metadata {
    pub(crate) fn parse(source: &str) -> Result<Self, Error> {
        let value = crate::yaml::read(source).map_err(|reason| {
            Error::new(format!("cannot load Chart.yaml: error converting YAML to JSON: {reason}"))
        })?;
        let Value::Map(written) = value else {
            return Err(Error::new("cannot load Chart.yaml: it is not a map".to_owned()));
        };
        let api_version = match text(&written, "apiVersion") {
            version if version.is_empty() => "v1".to_owned(),
            version => version,
        };
        let metadata = Self {
            name: text(&written, "name"),
            version: text(&written, "version"),
            api_version,
            kube_version: text(&written, "kubeVersion"),
            is_library: text(&written, "type") == "library",
            dependencies: dependencies(&written),
            written,
        };
        metadata.validate()?;
        Ok(metadata)
    }

    /// Adds the dependencies of a `requirements.yaml`.
    pub(crate) fn add_requirements(&mut self, source: &str) -> Result<(), Error> {
        let value = crate::yaml::read(source).map_err(|reason| {
            Error::new(format!("cannot load requirements.yaml: error converting YAML to JSON: {reason}"))
        })?;
        if let Value::Map(map) = value
            && let Some(found) = dependencies(&map)
        {
            self.dependencies = Some(found);
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), Error> {
        let missing = |what: &str| Err(Error::new(format!("validation: {what}")));
        if self.name.is_empty() {
            return missing("chart.metadata.name is required");
        }
        if self.name.contains('/') || self.name.contains('\\') {
            return missing(&format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return missing("chart.metadata.version is required");
        }
        if crate::semver::Version::parse(&self.version).is_err() {
            return missing(&format!("chart.metadata.version {:?} is invalid", self.version));
        }
        let typ = text(&self.written, "type");
        if !matches!(typ.as_str(), "" | "application" | "library") {
            return missing("chart.metadata.type must be application or library");
        }
        Ok(())
    }

    /// Returns `.Chart` with the field names of Go's struct.
    pub(crate) fn value(&self, is_root: bool) -> Value {
        let mut fields = Fields::new();
        let mut put = |key: &str, value: Value| fields.insert(key.into(), value);
        for (key, name) in [
            ("Home", "home"),
            ("Description", "description"),
            ("Icon", "icon"),
            ("Condition", "condition"),
            ("Tags", "tags"),
            ("AppVersion", "appVersion"),
            ("Type", "type"),
        ] {
            put(key, Value::str(text(&self.written, name)));
        }
        put("Name", Value::str(self.name.as_str()));
        put("Version", Value::str(self.version.as_str()));
        put("APIVersion", Value::str(self.api_version.as_str()));
        put("KubeVersion", Value::str(self.kube_version.as_str()));
        put("Sources", Value::strings(texts(&self.written, "sources")));
        put("Keywords", Value::strings(texts(&self.written, "keywords")));
        put("Deprecated", Value::Bool(matches!(self.written.get("deprecated"), Some(Value::Bool(true)))));
        put("IsRoot", Value::Bool(is_root));
        let annotations: Map = match self.written.get("annotations") {
            Some(Value::Map(map)) => map
                .snapshot()
                .into_iter()
                .map(|(key, value)| (key, Value::str(crate::print::text(&value))))
                .collect(),
            _ => Map::new(Fields::new()),
        };
        put("Annotations", Value::Map(annotations.typed(MapType::Strings)));
        put("Maintainers", capitalized(&self.written, "maintainers", &["name", "email", "url"]));
        let dependencies = self.dependencies.iter().flatten().map(Dependency::value).collect();
        put("Dependencies", Value::list(dependencies));
        Value::map(fields)
    }
}

fn dependencies(written: &Map) -> Option<Vec<Dependency>> {
    let Some(Value::List(list)) = written.get("dependencies") else { return None };
    Some(list.items.iter().filter_map(Value::as_map).map(Dependency::from_map).collect())
}

impl Dependency {
    fn from_map(map: &Map) -> Self {
        let import_values = match map.get("import-values") {
            Some(Value::List(list)) => list.items.to_vec(),
            _ => Vec::new(),
        };
        Self {
            name: text(map, "name"),
            version: text(map, "version"),
            alias: text(map, "alias"),
            condition: text(map, "condition"),
            tags: texts(map, "tags"),
            import_values,
            enabled: true,
            written: map.clone(),
        }
    }

    fn value(&self) -> Value {
        let fields = [
            ("Name", Value::str(self.name.as_str())),
            ("Version", Value::str(self.version.as_str())),
            ("Repository", Value::str(text(&self.written, "repository"))),
            ("Condition", Value::str(self.condition.as_str())),
            ("Tags", Value::strings(self.tags.iter().map(String::as_str))),
            ("Enabled", Value::Bool(self.enabled)),
            ("ImportValues", Value::list(self.import_values.clone())),
            ("Alias", Value::str(self.alias.as_str())),
        ];
        Value::Map(fields.into_iter().collect())
    }
}

/// Returns a list of structs with capitalized field names, as in Go.
fn capitalized(map: &Map, key: &str, names: &[&str]) -> Value {
    let Some(Value::List(list)) = map.get(key) else { return Value::list(Vec::new()) };
    let item = |item: &Map| {
        let field = |name: &&str| {
            let go = if *name == "url" {
                "URL".to_owned()
            } else {
                name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect()
            };
            (go, Value::str(text(item, name)))
        };
        Value::Map(names.iter().map(field).collect())
    };
    Value::list(list.items.iter().filter_map(Value::as_map).map(item).collect())
}
