//! Tests of the requests of browsers.

use axum::body::Body;

use super::*;
use crate::dashboard::action;

/// Parses a form from headers and a body, including the check that the dashboard sent it.
async fn read<T: DeserializeOwned>(headers: &str, body: &[u8]) -> Result<T, Refusal> {
    let mut request = Request::new(Body::from(body.to_vec()));
    for line in headers.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let name = header::HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            request.headers_mut().append(name, value);
        }
    }
    let is_own = is_own(request.headers());
    let read = form(request).await;
    assert!(is_own || matches!(read, Err(Refusal::Foreign)), "{headers}");
    read
}

/// Seeds consist of headers, an empty line, and a body.
#[test]
fn any_bytes_are_a_form_or_refused() {
    let headers = "host: d\ncontent-type: application/x-www-form-urlencoded";
    let own = format!("{headers}\nsec-fetch-site: same-origin\ncookie: a=b; __Host-wheelwright=t");
    let seeds = [
        format!("{own}\n\nverb=approve&subject=proxy&token=fleet%2Fall"),
        format!("{own}\n\nverb=suspend-repository&subject=a%2Ffleet"),
        format!("{headers}\norigin: https://d\nauthorization: Bearer t\n\ntoken=eyJh.e30.+%41"),
        format!("{headers}\norigin: https://other\n\nverb=pause&subject=..%2Fx%3Fa%23"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let run = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let (headers, body) = text.split_once("\n\n").unwrap_or((&own, &text));
        let refused = match runtime.block_on(read::<ActionForm>(headers, body.as_bytes())) {
            Ok(form) => {
                let uri = format!("/{}", form.subject);
                let is_path = || uri.parse().is_ok_and(|parsed: axum::http::Uri| parsed == *uri);
                let leaves = || form.subject.split('/').any(|name| matches!(name, "" | "." | ".."));
                assert!(!action::is_subject(&form.subject) || is_path() && !leaves(), "{uri}");
                None
            }
            Err(refused) => Some(refused),
        };
        if let Some(Refusal::Form(reason)) = &refused {
            let marks = |text: &str| page::refused(text).matches(['<', '>', '"']).count();
            assert_eq!(marks(reason), marks(""), "{reason}");
        }
        if let Ok(Login { token }) = runtime.block_on(read(headers, body.as_bytes())) {
            assert!(!is_token(token.trim()) || cookie(token.trim()).is_ok(), "{token}");
        }
    };
    let words = [
        "verb=",
        "subject=",
        "token=",
        "&",
        "%2F",
        "%00",
        "+",
        "pause",
        "approve-deletions",
        "\n\n",
        "host: ",
        "origin: https://",
        "sec-fetch-site: same-origin",
        "content-type: application/json",
        "multipart/form-data; boundary=a",
    ];
    let seeds = seeds.map(String::into_bytes);
    crate::fuzz::Target { name: "form", run: &run, seeds: &seeds, words: &words }.fuzz();
}
