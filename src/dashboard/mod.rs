//! The fleet in a browser, on this machine alone: one page that the server renders, and a stream of events
//! that keeps it current.
//!
//! The server listens on loopback, and its paths begin with a random secret, so that neither another user of
//! the machine nor a page from elsewhere reads it. It shows the objects that its process may read, and writes
//! nothing.

mod page;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::pki::fill_random;
use controllers::hub::overview::Overview;
use object::hex;

/// The least time between two reads of the fleet while a browser shows the page.
const TICK: Duration = Duration::from_millis(500);
/// The pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 9;
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Reads the fleet, or says why it cannot be read now.
pub type ReadOverview = Arc<dyn Fn() -> Result<Overview, String> + Send + Sync>;

/// A dashboard that listens and does not serve yet.
pub struct Dashboard {
    listener: TcpListener,
    secret: String,
    /// The URL for a browser.
    pub url: String,
}

impl Dashboard {
    /// Listens on a port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// The port is taken, or the system has no randomness.
    pub async fn listen(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let mut secret = [0; 16];
        fill_random(&mut secret).map_err(std::io::Error::other)?;
        let secret = hex(secret);
        let url = format!("http://{}/{secret}/", listener.local_addr()?);
        Ok(Self { listener, secret, url })
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, read: ReadOverview, stop: CancellationToken) -> std::io::Result<()> {
        let (pages, _) = watch::channel(Arc::from(""));
        let pages = Pages(pages);
        let reading = pages.clone().read(read, stop.clone());
        let routes = routes(&self.secret, pages);
        // A stream of events never ends by itself, so a shutdown that waits for connections would not either.
        let server = axum::serve(self.listener, routes);
        tokio::select! {
            served = server => served,
            () = reading => Ok(()),
            () = stop.cancelled() => Ok(()),
        }
    }
}

/// The content of the page as it was last rendered; empty before the first rendering.
#[derive(Clone)]
struct Pages(watch::Sender<Arc<str>>);

impl Pages {
    /// Renders the fleet again and again while a browser shows the page.
    async fn read(self, read: ReadOverview, stop: CancellationToken) {
        loop {
            let begin = Instant::now();
            if self.0.receiver_count() > 0 {
                let read = Arc::clone(&read);
                // A large fleet takes a while, and the streams go on.
                let rendered = tokio::task::spawn_blocking(move || content(&read)).await;
                let content = rendered.unwrap_or_else(|error| page::problem(&error.to_string()));
                self.0.send_if_modified(|last| {
                    let differs = **last != content;
                    if differs {
                        *last = content.into();
                    }
                    differs
                });
            }
            let pause = TICK.max(begin.elapsed() * PAUSE_FACTOR);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}

fn content(read: &ReadOverview) -> String {
    match read() {
        Ok(overview) => page::content(&overview),
        Err(why) => page::problem(&why),
    }
}

fn routes(secret: &str, pages: Pages) -> Router {
    let path = |name: &str| format!("/{secret}/{name}");
    Router::new()
        .route(&path(""), get(index))
        .route(&path("events"), get(events))
        .route(&path("style.css"), get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route(&path("script.js"), get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .with_state(pages)
}

/// The page, with the fleet as it is now.
async fn index(State(pages): State<Pages>) -> Response {
    let mut receiver = pages.0.subscribe();
    if receiver.borrow_and_update().is_empty() {
        // The first visitor waits for the first look.
        let _ = receiver.changed().await;
    }
    let content = Arc::clone(&receiver.borrow());
    let policy = HeaderValue::from_static(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
    );
    let headers: [(HeaderName, HeaderValue); 3] = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Html(page::page(&content))).into_response()
}

/// The content of the page, now and at each change.
async fn events(State(pages): State<Pages>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut receiver = pages.0.subscribe();
    receiver.mark_changed();
    let contents = stream::unfold(receiver, |mut receiver| async {
        receiver.changed().await.ok()?;
        let content = Arc::clone(&receiver.borrow_and_update());
        Some((content, receiver))
    });
    let shown = contents.filter(|content| std::future::ready(!content.is_empty()));
    Sse::new(shown.map(|content| Ok(Event::default().data(&*content)))).keep_alive(KeepAlive::default())
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

#[cfg(test)]
mod tests;
