//! The dashboard for people with tokens of the hub.
//!
//! A visitor sends a bearer token, with the login form or in a header. The dashboard shows what the hub lets the
//! visitor list, and makes changes with the visitor's token. The token of a login is stored only in a cookie of
//! this server. A visitor can also get a token from the identity provider of the hub. A form is accepted only if the browser confirms that it was sent from the dashboard.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Form, FromRequest as _, Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::stream;
use maud::Markup;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::action::{ActionForm, Verb, act};
use super::certificate::{CertificateSource, keep};
use super::live::{Fleet, Live, ReadFleet};
use super::oidc::{self, Callback, LoginError, Oidc, OidcOptions};
use super::query::{FleetQuery, View};
use super::rights::{Right, namespace};
use super::shown::Shown;
use super::visitor::{Visitor, Visitors};
use super::{
    ClusterQuery, PlacementQuery, cluster, document, event, page, placement, reasons, script, style, table,
};
use crate::serve::https;
use crate::serve::tls::Serving;
use crate::shell::now;
use controllers::undo::Undo;

/// The cookie with the token. Because of the prefix, browsers accept it only over HTTPS and send it only to this
/// host (RFC 6265bis, section 4.1.3.2).
const COOKIE: &str = "__Host-wheelwright";
/// The longest token in a form: a cookie has at most 4,096 bytes.
const MAX_TOKEN: usize = 3800;
/// The largest form.
const MAX_FORM: usize = 16 << 10;
/// The timeout for receiving a form.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which the rights of a visitor with an open page are checked again.
const RECHECK: Duration = Duration::from_secs(30);

/// The options of a dashboard for people with tokens.
pub struct HubDashboard {
    /// The client with the dashboard's credentials, which reads the fleet and reviews the rights of visitors.
    pub client: kube::Client,
    /// The connection to the hub, which is used with the credentials of visitors.
    pub config: kube::Config,
    /// The source of the certificate.
    pub certificate: CertificateSource,
    /// The login with the identity provider of the hub; `None` if it has none.
    pub oidc: Option<OidcOptions>,
}

struct PageState {
    live: Live,
    visitors: Visitors,
    client: kube::Client,
    config: kube::Config,
    oidc: Option<Oidc>,
}

impl HubDashboard {
    /// Serves until `stop`.
    pub async fn serve(self, listener: TcpListener, reader: Arc<dyn ReadFleet>, stop: CancellationToken) {
        let Self { client, config, certificate, oidc } = self;
        let live = Live::new(reader);
        let serving = Arc::new(Serving::default());
        let visitors = Visitors::new(client.clone());
        let oidc = oidc.map(Oidc::new);
        let site = Arc::new(PageState { live: live.clone(), visitors, client: client.clone(), config, oidc });
        let served =
            https::serve(listener, Arc::clone(&serving), routes(site), https::BROWSERS, stop.clone());
        tokio::join!(
            async {
                if let Err(error) = served.await {
                    error!(%error, "cannot serve the dashboard");
                }
            },
            live.read(stop.clone()),
            keep(&client, &certificate, &serving, &stop)
        );
    }
}

fn routes(site: Arc<PageState>) -> Router {
    let mut routes = Router::new();
    for view in View::ALL {
        let page = move |site, Query(query): Query<FleetQuery>, headers: HeaderMap| {
            fleet_page(site, FleetQuery { view, ..query }, headers)
        };
        routes = routes.route(&format!("/{}", view.path()), get(page));
    }
    routes
        .route("/livez", get(|| async { "ok" }))
        .route("/events", get(events))
        .route("/placement", get(explained))
        .route("/cluster", get(one_cluster))
        .route("/conditions", get(conditions))
        .route("/style.css", get(style))
        .route("/script.js", get(script))
        .route("/login", post(login))
        .route("/logout", post(logout))
        .route("/oidc-login", get(begin_login))
        .route(oidc::CALLBACK, get(end_login))
        .route("/act", post(change))
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .with_state(site)
}

/// The reason why a request is rejected.
#[derive(Debug)]
enum Refusal {
    /// The request has no token, or the hub does not accept it. Has the page for the login.
    Login(String),
    /// The login with the identity provider failed.
    Oidc(LoginError),
    /// The form was not sent from the dashboard.
    Foreign,
    /// The form is invalid, or is not one of the dashboard's.
    Form(String),
    /// The hub does not respond.
    Hub(String),
    /// The change failed, with this status.
    Change(StatusCode, String),
    /// The visitor has too many open pages.
    TooMany,
    /// The visitor may not read the objects that decide a placement.
    Unexplained,
    /// The placement does not exist.
    NoPlacement(String),
    /// The cluster does not exist, or the visitor may see none of its objects.
    NoCluster(String),
    /// The subject of the page does not exist, or the visitor may not see it. Has the page that says so.
    Missing(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (code, html) = match self {
            Self::Login(page) => (StatusCode::UNAUTHORIZED, page),
            Self::Oidc(LoginError::Unknown) => (
                StatusCode::BAD_REQUEST,
                page::refused(
                    "This browser did not begin this login, or it took more than ten minutes. Log in again.",
                ),
            ),
            Self::Oidc(LoginError::Provider(reason)) => {
                (StatusCode::BAD_GATEWAY, page::refused(&format!("The identity provider: {reason}")))
            }
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                page::refused(
                    "The form was not sent by this page, so nothing was done. A proxy in front of the dashboard must keep the headers Host and Origin.",
                ),
            ),
            Self::Form(reason) => (StatusCode::BAD_REQUEST, page::refused(&reason)),
            Self::Hub(reason) => (StatusCode::BAD_GATEWAY, page::refused(&format!("The hub: {reason}"))),
            Self::Change(code, reason) => (code, page::refused(&format!("The hub: {reason}"))),
            Self::TooMany => (StatusCode::TOO_MANY_REQUESTS, page::refused("You have too many pages open.")),
            Self::Unexplained => (
                StatusCode::FORBIDDEN,
                page::refused(
                    "The reasons of a placement name clusters, cluster sets and scores. To see them you need to list managedclusters, managedclustersets and addonplacementscores, and the placements of its namespace.",
                ),
            ),
            Self::NoPlacement(name) => (StatusCode::NOT_FOUND, page::no_placement(&name)),
            Self::NoCluster(name) => (StatusCode::NOT_FOUND, page::no_cluster(&name)),
            Self::Missing(page) => (StatusCode::NOT_FOUND, page),
        };
        (code, document(html)).into_response()
    }
}

/// Returns the token of a request from its header, or else from its cookie.
fn token(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let cookie = cookies(headers).find_map(|(name, value)| (name == COOKIE).then_some(value));
    bearer.or(cookie).filter(|token| !token.is_empty())
}

/// Returns the names and values of the cookies of a request.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// Returns true if a form was sent from the dashboard itself. Every browser states this in one of two headers that
/// neither scripts nor other sites can set (Fetch Metadata; RFC 6454).
fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => {
            let origin = text("origin").and_then(|origin| origin.strip_prefix("https://"));
            origin.is_some() && origin == text("host")
        }
    }
}

impl PageState {
    /// Returns the visitor of a request, and the token.
    async fn visitor<'h>(&self, headers: &'h HeaderMap) -> Result<(Arc<Visitor>, &'h str), Refusal> {
        let token = token(headers).ok_or_else(|| self.login(""))?;
        Ok((self.authenticate(token).await?, token))
    }

    /// Returns the visitor of a token.
    async fn authenticate(&self, token: &str) -> Result<Arc<Visitor>, Refusal> {
        let visitor = self.visitors.authenticate(token).await.map_err(Refusal::Hub)?;
        visitor.ok_or_else(|| self.login("The hub does not accept this token. It may have expired."))
    }

    fn login(&self, reason: &str) -> Refusal {
        Refusal::Login(page::login(reason, self.oidc.is_some()))
    }

    /// Returns the cookie with the token of a visitor who logs in.
    async fn cookie(&self, token: &str) -> Result<HeaderValue, Refusal> {
        if !is_token(token) {
            return Err(self.login("The token has characters that no token has."));
        }
        if token.len() > MAX_TOKEN {
            return Err(Refusal::Form(
                "the token is too long for a cookie; send it in the header Authorization".into(),
            ));
        }
        let visitor = self.authenticate(token).await?;
        info!(user = visitor.name(), "a visitor has logged in");
        cookie(&format!("{COOKIE}={token}"))
    }

    /// Returns the part of the fleet that a visitor may see, or the reason why the fleet cannot be read.
    async fn shown(&self, visitor: &Visitor, fleet: &Fleet) -> Result<Result<Shown, String>, Refusal> {
        match &fleet.overview {
            Ok(overview) => {
                let rights = visitor.rights(&self.client, overview).await.map_err(Refusal::Hub)?;
                Ok(Ok(Shown::to(&rights, overview)))
            }
            Err(reason) => Ok(Err(reason.clone())),
        }
    }

    /// Returns the revisions of a subject that can be undone, as far as a visitor may see them.
    async fn undo(&self, visitor: &Visitor, subject: &str) -> Result<Vec<Undo>, Refusal> {
        let shown = self.shown(visitor, &self.fleet().await?).await?.map_err(Refusal::Hub)?;
        Ok(table::workload(&shown, subject).map(|workload| workload.undo.clone()).unwrap_or_default())
    }

    /// Returns the current fleet.
    async fn fleet(&self) -> Result<Fleet, Refusal> {
        self.live.now().await.ok_or_else(|| Refusal::Hub("the dashboard ends".into()))
    }
}

/// Returns a page of the fleet.
async fn fleet_page(
    State(site): State<Arc<PageState>>,
    query: FleetQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (visitor, _) = site.visitor(&headers).await?;
    let content = match site.shown(&visitor, &site.fleet().await?).await? {
        Ok(shown) => query.content(&shown, now()),
        Err(reason) => Some(page::problem(&reason)),
    };
    let content = content.ok_or_else(|| Refusal::Missing(query.missing()))?;
    Ok(query.document(&content, Some(visitor.name())))
}

/// Returns the page about the reasons of conditions.
async fn conditions(State(site): State<Arc<PageState>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let (visitor, _) = site.visitor(&headers).await?;
    Ok(document(reasons::page(Some(visitor.name()))))
}

/// Returns the page of a placement, for a visitor who may read everything that decides it.
async fn explained(
    State(site): State<Arc<PageState>>,
    Query(query): Query<PlacementQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (visitor, _) = site.visitor(&headers).await?;
    let fleet = site.fleet().await?;
    let overview = fleet.overview.as_ref().map_err(|reason| Refusal::Hub(reason.clone()))?;
    let rights = visitor.rights(&site.client, overview).await.map_err(Refusal::Hub)?;
    let may_list = rights.may(Right::ListPlacements, namespace(&query.of));
    if !may_list || !rights.may(Right::ExplainPlacements, "") {
        return Err(Refusal::Unexplained);
    }
    let missing = || Refusal::NoPlacement(query.of.clone());
    let (key, change) = (query.key().ok_or_else(missing)?, query.what_if().and_then(Result::ok));
    let explained = site.live.placement(key, change).await.map_err(Refusal::Hub)?;
    Ok(document(placement::page(&explained.ok_or_else(missing)?, &query, Some(visitor.name()))))
}

/// Returns the page of a cluster, with the objects that the visitor may see.
async fn one_cluster(
    State(site): State<Arc<PageState>>,
    Query(query): Query<ClusterQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (visitor, _) = site.visitor(&headers).await?;
    let missing = || Refusal::NoCluster(query.of.clone());
    let name = query.name().ok_or_else(missing)?;
    let fleet = site.fleet().await?;
    let overview = fleet.overview.as_ref().map_err(|reason| Refusal::Hub(reason.clone()))?;
    let rights = visitor.rights_to_cluster(&site.client, overview, name).await.map_err(Refusal::Hub)?;
    let objects = site.live.cluster(name).await.map_err(Refusal::Hub)?;
    let page = cluster::page(name, objects, overview, &rights, Some(visitor.name()));
    Ok(document(page.ok_or_else(missing)?))
}

/// An open page.
struct Open {
    site: Arc<PageState>,
    token: String,
    query: FleetQuery,
    fleet: watch::Receiver<Option<Fleet>>,
    last: String,
    _permit: OwnedSemaphorePermit,
}

impl Open {
    /// Waits until the content differs from the last content, and returns it. Returns `None` once the token is
    /// rejected. While the hub does not respond, the content does not change.
    async fn next(&mut self) -> Option<String> {
        loop {
            tokio::select! {
                changed = self.fleet.changed() => changed.ok()?,
                () = sleep(RECHECK) => {}
            }
            let Ok(visitor) = self.site.visitors.authenticate(&self.token).await else { continue };
            let visitor = visitor?;
            let Some(fleet) = self.fleet.borrow_and_update().clone() else { continue };
            let content = match self.site.shown(&visitor, &fleet).await {
                Ok(Ok(shown)) => self.query.content(&shown, fleet.since),
                Ok(Err(reason)) => Some(page::problem(&reason)),
                Err(_) => None,
            };
            let Some(content) = content.map(Markup::into_string) else { continue };
            if content != self.last {
                self.last.clone_from(&content);
                return Some(content);
            }
        }
    }
}

/// Streams the content of the page: now, and at each change.
async fn events(
    State(site): State<Arc<PageState>>,
    Query(query): Query<FleetQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (visitor, token) = site.visitor(&headers).await?;
    let permit = Arc::clone(&visitor.streams).try_acquire_owned().map_err(|_| Refusal::TooMany)?;
    let (fleet, token) = (site.live.subscribe(), token.to_owned());
    let open = Open { site, token, query, fleet, last: String::new(), _permit: permit };
    let contents = stream::unfold(open, |mut open| async {
        let content = open.next().await?;
        Some((Ok::<_, Infallible>(event(&content)), open))
    });
    Ok(Sse::new(contents).keep_alive(KeepAlive::default()).into_response())
}

/// Reads the form of a request that was sent from the dashboard.
async fn form<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    if !is_own(request.headers()) {
        return Err(Refusal::Foreign);
    }
    match timeout(FORM_TIMEOUT, Form::<T>::from_request(request, &())).await {
        Ok(Ok(Form(form))) => Ok(form),
        Ok(Err(rejection)) => Err(Refusal::Form(rejection.body_text())),
        Err(_) => Err(Refusal::Form("the form did not arrive in time".into())),
    }
}

/// Redirects to the overview.
fn see_page() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "./")]).into_response()
}

/// Returns a cookie for this server only.
fn cookie(pair: &str) -> Result<HeaderValue, Refusal> {
    let cookie = format!("{pair}; Path=/; Secure; HttpOnly; SameSite=Strict");
    HeaderValue::from_str(&cookie).map_err(|_| Refusal::Form("the token is malformed".into()))
}

#[derive(Deserialize)]
struct Login {
    token: String,
}

/// Returns true if a token is valid in a cookie.
fn is_token(token: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
    !token.is_empty() && token.chars().all(fits)
}

async fn login(State(site): State<Arc<PageState>>, request: Request) -> Result<Response, Refusal> {
    let Login { token } = form(request).await?;
    let cookie = site.cookie(token.trim()).await?;
    Ok(([(header::SET_COOKIE, cookie)], see_page()).into_response())
}

async fn logout(request: Request) -> Result<Response, Refusal> {
    if !is_own(request.headers()) {
        return Err(Refusal::Foreign);
    }
    let cookie = cookie(&format!("{COOKIE}=; Max-Age=0"))?;
    Ok(([(header::SET_COOKIE, cookie)], see_page()).into_response())
}

/// Sends the visitor to the identity provider.
async fn begin_login(State(site): State<Arc<PageState>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let oidc = site.oidc.as_ref().ok_or_else(|| site.login(""))?;
    let begun = oidc.begin(host(&headers)?).await.map_err(Refusal::Oidc)?;
    let headers = [(header::LOCATION, begun.location), (header::SET_COOKIE, begun.cookie)];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Receives the visitor from the identity provider. The page leads on, because browsers do not send the cookie with
/// a redirect that began on another site.
async fn end_login(
    State(site): State<Arc<PageState>>,
    Query(callback): Query<Callback>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let oidc = site.oidc.as_ref().ok_or_else(|| site.login(""))?;
    let token = oidc.end(host(&headers)?, &callback, cookies(&headers)).await.map_err(Refusal::Oidc)?;
    let refresh = [
        (header::REFRESH, HeaderValue::from_static("0; url=./")),
        (header::SET_COOKIE, site.cookie(&token).await?),
    ];
    Ok((refresh, document(page::logged_in())).into_response())
}

/// Returns the host of the dashboard, as the browser knows it.
fn host(headers: &HeaderMap) -> Result<&str, Refusal> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.filter(|host| host.parse::<Authority>().is_ok());
    host.ok_or_else(|| Refusal::Form("the request has no valid header Host".into()))
}

async fn change(State(site): State<Arc<PageState>>, request: Request) -> Result<Response, Refusal> {
    let headers = request.headers().clone();
    let form: ActionForm = form(request).await?;
    let (visitor, token) = site.visitor(&headers).await?;
    info!(user = visitor.name(), change = ?form, "a visitor changes the fleet");
    let undo = match form.verb {
        Verb::Undo => site.undo(&visitor, &form.subject).await?,
        _ => Vec::new(),
    };
    act(&site.config, token, &form, &undo).await.map_err(|(code, reason)| Refusal::Change(code, reason))?;
    Ok(see_page())
}

#[cfg(test)]
#[path = "tests/form.rs"]
mod tests;
