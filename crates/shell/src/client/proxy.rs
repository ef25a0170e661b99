//! Chooses the proxy for an API server.
//!
//! As in client-go, the kubeconfig's `proxy-url` for the cluster takes precedence over the environment. Otherwise
//! `HTTPS_PROXY` and `NO_PROXY` apply to the URL of the API server. kube compares `NO_PROXY` with the URL of the
//! proxy instead, so its own logic is not used.

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::{Config, Error};

/// A proxy with its credentials.
pub(super) enum Proxy {
    /// An HTTP CONNECT tunnel.
    Http { url: Uri, authorization: Option<HeaderValue> },
    /// An HTTP CONNECT tunnel, with TLS to the proxy as well.
    Https { url: Uri, authorization: Option<HeaderValue> },
    /// SOCKS 5 (RFC 1928); the proxy resolves the names.
    Socks5 { url: Uri, user: Option<(String, String)> },
}

/// Returns the proxy for the cluster of a configuration.
///
/// # Errors
/// Returns an error if the scheme is not supported.
pub(super) fn of(config: &Config) -> kube::Result<Option<Proxy>> {
    // kube fills in the proxy of the environment if the kubeconfig has none.
    let inherited = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .and_then(|url| url.parse::<Uri>().ok());
    let matcher = match &config.proxy_url {
        Some(url) if inherited.as_ref() != Some(url) => Matcher::builder().all(url.to_string()).build(),
        Some(_) | None => Matcher::from_env(),
    };
    let Some(found) = matcher.intercept(&config.cluster_url) else {
        return match &config.proxy_url {
            Some(url) if inherited.as_ref() != Some(url) => Err(unsupported(url)),
            Some(_) | None => Ok(None),
        };
    };
    spoken(&found).map(Some)
}

fn spoken(found: &Intercept) -> kube::Result<Proxy> {
    let (url, authorization) = (found.uri().clone(), found.basic_auth().cloned());
    match url.scheme_str() {
        Some("http") => Ok(Proxy::Http { url, authorization }),
        Some("https") => Ok(Proxy::Https { url, authorization }),
        Some("socks5" | "socks5h") => {
            let user = found.raw_auth().map(|(name, password)| (name.to_owned(), password.to_owned()));
            Ok(Proxy::Socks5 { url, user })
        }
        Some(_) | None => Err(unsupported(&url)),
    }
}

fn unsupported(url: &Uri) -> Error {
    Error::ProxyProtocolUnsupported { proxy_url: Box::new(url.clone()) }
}
