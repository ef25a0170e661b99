//! A request to an API server, as the proxy sees it.

use std::fmt::{Display, Formatter};

use axum::http::{Method, Uri};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// The RBAC verb.
    pub(super) verb: &'static str,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl Call {
    pub(super) fn new(method: &Method, uri: &Uri) -> Self {
        let mut parts = uri.path().trim_matches('/').split('/').map(str::to_owned).peekable();
        let skipped = if parts.next().as_deref() == Some("apis") { 2 } else { 1 };
        let mut parts = parts.skip(skipped).peekable();
        let mut call = Self::default();
        if parts.peek().is_some_and(|part| part == "namespaces") {
            call.resource = parts.next().unwrap_or_default();
            call.name = parts.next().unwrap_or_default();
            if parts.peek().is_some() {
                call.namespace = std::mem::take(&mut call.name);
                call.resource.clear();
            }
        }
        if call.resource.is_empty() {
            call.resource = parts.next().unwrap_or_default();
            call.name = parts.next().unwrap_or_default();
        }
        call.subresource = parts.next().unwrap_or_default();
        let query = uri.query().unwrap_or_default();
        let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        call.verb = match method.as_str() {
            "GET" if is_watch => "watch",
            "GET" if call.name.is_empty() => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "other",
        };
        call
    }

    /// Returns true if the request changes an object. Access reviews change nothing.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete") && !self.resource.ends_with("reviews")
    }

    /// Returns true if the request concerns a lease, an event, or no resource, such as `/readyz`. These requests
    /// continue while the fleet is at rest.
    pub(super) fn is_sign_of_life(&self) -> bool {
        matches!(self.resource.as_str(), "leases" | "events") || self.resource.is_empty()
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, namespace, name, subresource } = self;
        write!(f, "{verb} {resource} {namespace}/{name} {subresource}")
    }
}

#[test]
fn a_request_is_read_as_rbac_reads_it() {
    let read = |method: Method, uri: &str| Call::new(&method, &uri.parse().unwrap()).to_string();
    let works = "/apis/work.open-cluster-management.io/v1";
    assert_eq!(read(Method::GET, &format!("{works}/manifestworks?watch=true")), "watch manifestworks / ");
    assert_eq!(
        read(Method::PATCH, &format!("{works}/namespaces/c1/manifestworks/w/status")),
        "patch manifestworks c1/w status"
    );
    assert_eq!(read(Method::GET, "/api/v1/namespaces/c1"), "get namespaces /c1 ");
    assert_eq!(read(Method::GET, "/api/v1/configmaps"), "list configmaps / ");
    assert_eq!(read(Method::POST, "/api/v1/namespaces/c1/events"), "create events c1/ ");
}
