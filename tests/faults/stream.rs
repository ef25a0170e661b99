//! Endless responses: a watch continues, falls silent, or is torn.

use std::io;

use axum::body::Body;
use futures::stream;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;

/// The numbers below which responses are silent or torn. Responses are numbered in the order in which they start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) silent: u64,
    pub(super) torn: u64,
}

/// Forwards a response as long as the marks allow it.
pub(super) fn pass(number: u64, answer: Incoming, marks: watch::Receiver<Marks>) -> Body {
    Body::from_stream(stream::unfold((answer, marks), move |(mut answer, mut marks)| async move {
        loop {
            let now = *marks.borrow_and_update();
            if number < now.torn {
                let torn = io::Error::new(io::ErrorKind::ConnectionReset, "the proxy tears this answer");
                return Some((Err(torn), (answer, marks)));
            }
            let is_silent = number < now.silent;
            tokio::select! {
                // The sender lives as long as the proxy.
                changed = marks.changed() => if changed.is_err() { return None },
                frame = answer.frame(), if !is_silent => match frame? {
                    Ok(frame) => if let Ok(bytes) = frame.into_data() {
                        return Some((Ok(bytes), (answer, marks)));
                    },
                    Err(error) => return Some((Err(io::Error::other(error)), (answer, marks))),
                },
            }
        }
    }))
}
