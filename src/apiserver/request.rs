//! The parts of a request: its path, query and headers, parsed once.

use axum::extract::Query;
use axum::http::{HeaderMap, Method, Uri, header};

use super::percent;
use store::{
    ApiError, DeleteOptions, FieldError, FieldValidation, ListOptions, Propagation, ResourcePath, User,
    WatchOptions, WriteOptions,
};

/// One request, without its body.
#[derive(Debug)]
pub(super) struct ApiRequest {
    pub(super) user: std::sync::Arc<User>,
    pub(super) method: Method,
    /// The decoded path.
    pub(super) path: String,
    pub(super) query: Parameters,
    pub(super) accept: Accept,
    pub(super) content_type: String,
    pub(super) user_agent: String,
}

/// The query string.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

/// The first representation in the `Accept` header that the server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accept {
    /// The object or list itself.
    Json,
    /// `meta.k8s.io/v1` Table.
    Table,
    /// `meta.k8s.io/v1` PartialObjectMetadata.
    Metadata,
    /// `meta.k8s.io/v1` PartialObjectMetadataList.
    MetadataList,
    /// `apidiscovery.k8s.io/v2` APIGroupDiscoveryList.
    Discovery,
    /// No supported representation.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl ApiRequest {
    /// Parses a request without its body.
    pub(super) fn read(user: std::sync::Arc<User>, method: Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let text = |name: header::HeaderName| {
            headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        let content_type =
            text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Self {
            user,
            method,
            path: percent::decoded(uri.path()),
            query: Parameters::read(uri),
            accept: Accept::read(&text(header::ACCEPT)),
            content_type,
            user_agent: text(header::USER_AGENT),
        }
    }

    /// Returns the object or resource for a path under `/api` or `/apis`; `None` for every other path.
    pub(super) fn target(&self) -> Option<ResourcePath> {
        let mut parts: Vec<&str> = self.path.trim_start_matches('/').split('/').collect();
        let (group, version) = match *parts.first()? {
            "api" if parts.len() > 2 => ("", *parts.get(1)?),
            "apis" if parts.len() > 3 => (*parts.get(1)?, *parts.get(2)?),
            _ => return None,
        };
        parts.drain(..if group.is_empty() { 2 } else { 3 });
        let mut namespace = "";
        // Namespaces are resources too: a subresource of a namespace is not a resource within it.
        if let ["namespaces", name, rest @ ..] = parts.as_slice()
            && !matches!(rest, [] | ["status" | "finalize", ..])
        {
            namespace = name;
            parts.drain(..2);
        }
        let (resource, name, subresource) = match parts.as_slice() {
            [resource] => (*resource, "", String::new()),
            [resource, name] => (*resource, *name, String::new()),
            [resource, name, rest @ ..] => (*resource, *name, rest.join("/")),
            [] => return None,
        };
        let target =
            ResourcePath::resource(group, version, resource).within(namespace).named(name).sub(subresource);
        (!resource.is_empty()).then_some(target)
    }

    /// Returns the verb of the method on a target.
    ///
    /// # Errors
    /// 405 for a method that the target does not support.
    pub(super) fn verb(&self, target: &ResourcePath) -> Result<Verb, ApiError> {
        let named = !target.name.is_empty();
        match self.method {
            Method::GET | Method::HEAD if named => Ok(Verb::Get),
            Method::GET | Method::HEAD if self.query.is("watch") => Ok(Verb::Watch),
            Method::GET | Method::HEAD => Ok(Verb::List),
            Method::POST if !named || !target.subresource.is_empty() => Ok(Verb::Create),
            Method::PUT if named => Ok(Verb::Update),
            Method::PATCH if named => Ok(Verb::Patch),
            Method::DELETE if named => Ok(Verb::Delete),
            Method::DELETE => Ok(Verb::DeleteCollection),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    /// Returns the name in the field selector of a list or watch. The request is then authorized like a request
    /// for that object (`k8s.io/apiserver`, `RequestInfoFactory.NewRequestInfo`).
    pub(super) fn only_name(&self) -> Option<String> {
        let selector = self.query.get("fieldSelector")?;
        let name = selector.split(',').find_map(|term| term.trim().strip_prefix("metadata.name="))?;
        let name = name.strip_prefix('=').unwrap_or(name);
        (!name.is_empty() && !name.contains(['/', '%'])).then(|| name.to_owned())
    }

    /// Returns the list options in the query.
    pub(super) fn list_options(&self) -> Result<ListOptions, ApiError> {
        let text = |name: &str| self.query.get(name).unwrap_or_default().to_owned();
        // A list has no time limit, but an invalid number is still rejected.
        self.query.number::<i64>("timeoutSeconds")?;
        let limit = self.query.number::<i64>("limit")?.unwrap_or(0);
        if self.query.get("sendInitialEvents").is_some() {
            let error = FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &[error]));
        }
        Ok(ListOptions {
            labels: text("labelSelector"),
            fields: text("fieldSelector"),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: text("continue"),
            resource_version: text("resourceVersion"),
            resource_version_match: text("resourceVersionMatch"),
        })
    }

    /// Returns the watch options in the query.
    pub(super) fn watch_options(&self) -> WatchOptions {
        let text = |name: &str| self.query.get(name).unwrap_or_default().to_owned();
        WatchOptions {
            labels: text("labelSelector"),
            fields: text("fieldSelector"),
            resource_version: text("resourceVersion"),
            send_initial_events: self
                .query
                .get("sendInitialEvents")
                .map(|_| self.query.is("sendInitialEvents")),
        }
    }

    /// Returns the options of a write. `kind` is their kind, such as `PatchOptions`.
    ///
    /// # Errors
    /// Fails for unsupported values.
    pub(super) fn write_options(&self, kind: &str, is_apply: bool) -> Result<WriteOptions, ApiError> {
        let field_validation = match self.query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                return Err(unsupported(kind, "fieldValidation", other, &["Ignore", "Strict", "Warn"]));
            }
        };
        if kind == "PatchOptions" && !is_apply && self.query.get("force").is_some() {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid("meta.k8s.io", kind, "", &[error]));
        }
        check_manager(kind, self.query.get("fieldManager").unwrap_or_default())?;
        // Only an apply must name its manager. For other writes, it defaults to the first word of the user
        // agent.
        let agent = self.user_agent.split('/').next().filter(|agent| !agent.is_empty()).unwrap_or("unknown");
        let fallback = if is_apply { "" } else { agent };
        let manager = self.query.get("fieldManager").unwrap_or(fallback);
        Ok(WriteOptions {
            user: self.user.clone(),
            manager: manager.to_owned(),
            dry_run: self.dry_run(kind, &[])?,
            force: self.query.is("force"),
            field_validation,
        })
    }

    /// Returns the options of a deletion. Options in the body override those in the query.
    ///
    /// # Errors
    /// Fails for unsupported values.
    pub(super) fn delete_options(&self, body: &serde_json::Value) -> Result<DeleteOptions, ApiError> {
        let text = |path: &str| body.pointer(path).and_then(|v| v.as_str()).map(str::to_owned);
        let policy =
            text("/propagationPolicy").or_else(|| self.query.get("propagationPolicy").map(str::to_owned));
        let orphan = body.get("orphanDependents").and_then(|v| v.as_bool());
        if orphan.is_some() && policy.as_deref().is_some_and(|policy| !policy.is_empty()) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let error = FieldError::invalid("propagationPolicy", &policy.into(), detail);
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
        }
        if body.get("gracePeriodSeconds").is_some_and(|seconds| !seconds.is_null() && !seconds.is_i64())
            || text("/kind").is_some_and(|kind| kind != "DeleteOptions")
        {
            return Err(ApiError::bad_request("the body is not DeleteOptions"));
        }
        let propagation = match (policy.as_deref(), orphan) {
            (None | Some(""), None) => None,
            (None | Some(""), Some(true)) | (Some("Orphan"), _) => Some(Propagation::Orphan),
            (None | Some(""), Some(false)) | (Some("Background"), _) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some(other), _) => {
                return Err(unsupported(
                    "DeleteOptions",
                    "propagationPolicy",
                    other,
                    &["Foreground", "Background", "Orphan"],
                ));
            }
        };
        let dry_run: Vec<&str> = body
            .get("dryRun")
            .and_then(|v| v.as_array())
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_str())
            .collect();
        Ok(DeleteOptions {
            user: self.user.clone(),
            uid: text("/preconditions/uid").unwrap_or_default(),
            resource_version: text("/preconditions/resourceVersion").unwrap_or_default(),
            propagation,
            dry_run: self.dry_run("DeleteOptions", &dry_run)?,
        })
    }

    fn dry_run(&self, kind: &str, in_body: &[&str]) -> Result<bool, ApiError> {
        let given: Vec<&str> = self.query.all("dryRun").chain(in_body.iter().copied()).collect();
        match given.iter().find(|v| **v != "All") {
            Some(other) => Err(unsupported(kind, "dryRun", other, &["All"])),
            None => Ok(!given.is_empty()),
        }
    }
}

/// Rejects with 422 a manager whose name is too long or not printable (`ValidateFieldManager`).
fn check_manager(kind: &str, manager: &str) -> Result<(), ApiError> {
    const LONGEST: u64 = 128;
    let error = if manager.len() as u64 > LONGEST {
        FieldError::too_long("fieldManager", LONGEST)
    } else if manager.chars().any(char::is_control) {
        FieldError::invalid("fieldManager", &manager.into(), "should only contain printable characters")
    } else {
        return Ok(());
    };
    Err(ApiError::invalid("meta.k8s.io", kind, "", &[error]))
}

/// Returns 422 for an option with an unsupported value.
fn unsupported(kind: &str, field: &str, value: &str, supported: &[&str]) -> ApiError {
    let error = FieldError::unsupported(field, &value.into(), supported.iter().copied());
    ApiError::invalid("meta.k8s.io", kind, "", &[error])
}

impl Parameters {
    fn read(uri: &Uri) -> Self {
        // A query that is not UTF-8 is treated as empty.
        Self(Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a boolean parameter. As in apimachinery, any value except `false` and `0` is true.
    pub(super) fn is(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "false" | "0"))
    }

    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, ApiError> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("{name}: {text:?} is not a number"))),
        }
    }
}

impl Accept {
    fn read(header: &str) -> Self {
        let wanted = header.split(',').map(str::trim).filter(|range| !range.is_empty());
        let mut found = wanted.filter_map(Self::range).peekable();
        if header.trim().is_empty() { Self::Json } else { found.next().unwrap_or(Self::None) }
    }

    /// Parses one media range; `None` if the server does not support it.
    fn range(range: &str) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next()?;
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            return None;
        }
        let parameters: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
        let value = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        match (value("as"), value("g"), value("v")) {
            (None, ..) => Some(Self::Json),
            (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Self::Table),
            (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1")) => Some(Self::Metadata),
            (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => Some(Self::MetadataList),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => Some(Self::Discovery),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, accept: &str) -> ApiRequest {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        ApiRequest::read(std::sync::Arc::default(), method.parse().unwrap(), &uri.parse().unwrap(), &headers)
    }

    fn check(method: &str, uri: &str, want: &str) {
        let request = request(method, uri, "");
        let found = request.target().map(|t| {
            let verb = request.verb(&t).map_or("?", Verb::as_str);
            format!("{verb} {} {}/{}/{} {}", t.api_version(), t.namespace, t.resource, t.name, t.subresource)
        });
        assert_eq!(found.unwrap_or_default().trim_end(), want, "{method} {uri}");
    }

    #[test]
    fn paths_name_targets() {
        check("GET", "/api/v1/namespaces", "list v1 /namespaces/");
        check("GET", "/api/v1/namespaces/a", "get v1 /namespaces/a");
        check("PUT", "/api/v1/namespaces/a/finalize", "update v1 /namespaces/a finalize");
        check("GET", "/api/v1/namespaces/a/pods?watch=true", "watch v1 a/pods/");
        check("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", "create v1 a/serviceaccounts/b token");
        check("DELETE", "/apis/x.io/v2/things", "deletecollection x.io/v2 /things/");
        check("PATCH", "/apis/x.io/v2/things/a%3Ab/status", "patch x.io/v2 /things/a:b status");
        check("POST", "/apis/x.io/v2/things/a", "? x.io/v2 /things/a");
        check("GET", "/apis/x.io/v2", "");
        check("GET", "/healthz", "");
    }

    #[test]
    fn the_first_representation_that_there_is_wins() {
        let cases = [
            ("", Accept::Json),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Accept::Table),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Accept::Json),
            ("application/vnd.kubernetes.protobuf, */*", Accept::Json),
            ("application/vnd.kubernetes.protobuf", Accept::None),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Accept::Discovery,
            ),
        ];
        for (header, want) in cases {
            assert_eq!(Accept::read(header), want, "{header}");
        }
    }
}
