use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use ring::hmac::{self, HMAC_SHA256};
use tokio_util::sync::CancellationToken;

use super::recorder::Recorder;
use crate::git::{Egress, Error, Receiver, Webhook};

/// The key and the message of the example in the specification of Standard Webhooks.
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn receiver(keys: &[(&str, &str)]) -> Result<Receiver, Error> {
    let data: BTreeMap<_, _> =
        keys.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect();
    Receiver::from_secret(&data)
}

fn message(is_signed: bool) -> Webhook {
    let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned(), r#"{"test": 2432232314}"#.to_owned());
    Webhook { id, content_type: "application/cloudevents+json", is_signed, body }
}

/// Sends a message to a server with one answer.
fn send(answer: &str, path: &str, is_signed: bool) -> (Recorder, Result<(), String>) {
    let server = Recorder::start(&[answer]);
    let address = format!("http://{}{path}", server.address);
    let receiver = receiver(&[("address", &address), ("key", KEY)]).unwrap();
    let now = Timestamp::from_second(1_614_265_330).unwrap();
    let sent = receiver.send(&message(is_signed), Egress::Anywhere, CancellationToken::new(), now);
    (server, sent.map_err(|error| receiver.hide(&error.to_string())))
}

#[test]
fn a_message_has_the_signature_of_standard_webhooks() {
    let (server, sent) = send("204 No Content", "/fleet", true);
    assert_eq!(sent, Ok(()));
    let [request] = server.requests().try_into().unwrap();
    assert_eq!(request.line, "POST /fleet HTTP/1.1");
    assert_eq!(request.body, message(true).body);
    let header = |name: &str| request.headers[name].as_str();
    assert_eq!(header("content-type"), "application/cloudevents+json");
    assert_eq!(header("webhook-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_eq!(header("webhook-timestamp"), "1614265330");
    // The libraries of Standard Webhooks have this example in their tests.
    assert_eq!(header("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let key = hmac::Key::new(HMAC_SHA256, &STANDARD.decode(&KEY[6..]).unwrap());
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), request.body);
    let tag = STANDARD.decode(header("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
    hmac::verify(&key, signed.as_bytes(), &tag).unwrap();
}

#[test]
fn a_message_without_a_signature_has_no_headers_of_one() {
    let (server, sent) = send("200 OK\n\nok", "/services/T0/B0/secret", false);
    assert_eq!(sent, Ok(()));
    let names: Vec<String> = server.requests()[0].headers.keys().cloned().collect();
    assert!(names.iter().all(|name| !name.starts_with("webhook-")), "{names:?}");
}

#[test]
fn an_answer_says_whether_the_message_is_accepted_and_never_the_path_of_the_address() {
    let cases = [
        ("400 Bad Request\n\ninvalid_payload", "refuses the notification: HTTP status 400, invalid_payload;"),
        (
            "302 Found\nLocation: https://other.example/services/T0/B0/secret",
            "refuses the notification: HTTP status 302;",
        ),
        (
            "404 Not Found\n\n<html>/services/T0/B0/secret</html>",
            "refuses the notification: HTTP status 404;",
        ),
        ("429 Too Many Requests", "cannot reach"),
        ("503 Service Unavailable\n\nlater", "HTTP status 503, later;"),
    ];
    for (answer, part) in cases {
        let (server, sent) = send(answer, "/services/T0/B0/secret", false);
        let error = sent.unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
        assert!(!error.contains("T0"), "{error}");
        assert!(error.contains(&format!("http://{}", server.address)), "{error}");
    }
    let (server, sent) = send("404 Not Found", "/127", false);
    let start = format!("http://{} refuses", server.address);
    assert!(sent.as_ref().is_err_and(|error| error.starts_with(&start)), "{sent:?}");
    let closed = Recorder::start(&[]).address;
    let gone = receiver(&[("address", &format!("http://{closed}/services/T0"))]).unwrap();
    let error = gone.send(
        &message(false),
        Egress::Hosts { names: vec![], loopback: false },
        CancellationToken::new(),
        Timestamp::UNIX_EPOCH,
    );
    let error = gone.hide(&error.unwrap_err().to_string());
    assert!(error.contains("has the address 127.0.0.1") && !error.contains("T0"), "{error}");
}

#[test]
fn the_path_of_the_address_is_removed_from_an_answer_before_the_answer_is_cut() {
    let path = "/services/T0/B0/secret";
    for (words, shown) in
        [("no hook at ".to_owned(), "410, no hook at [redacted];"), ("x".repeat(186), "410, xxx")]
    {
        let (_, sent) = send(&format!("410 Gone\n\n{words}{path}"), path, false);
        let error = sent.unwrap_err();
        assert!(error.contains(shown) && !error.contains("/serv"), "{error}");
    }
}

#[test]
fn the_query_of_the_address_is_sent_and_never_quoted() {
    let target = "/v1/spaces/A/messages?mode=1&key=AIzaSyCzAxX&token=s3cret-token";
    let (server, sent) = send("200 OK\n\n{}", target, false);
    assert_eq!(sent, Ok(()));
    assert_eq!(server.requests()[0].line, format!("POST {target} HTTP/1.1"));
    let quoted = [
        (target, "400, [redacted];"),
        ("no key AIzaSyCzAxX", "400, no key [redacted];"),
        ("mode=1&key=AIzaSyCzAxX&token=s3cret-token", "400, [redacted];"),
        ("mode 1 of token s3cret-token", "400, mode 1 of token [redacted];"),
    ];
    for (words, shown) in quoted {
        let error = send(&format!("400 Bad Request\n\n{words}"), target, false).1.unwrap_err();
        assert!(error.contains(shown), "{error}");
        assert!(!error.contains("AIza") && !error.contains("s3cret") && !error.contains("spaces"), "{error}");
    }
}

#[test]
fn an_answer_without_end_is_not_read() {
    let long = format!("200 OK\n\n{}", "x".repeat((256 << 10) + 1));
    let (_, sent) = send(&long, "/fleet", false);
    assert!(sent.is_err_and(|error| error.contains("its response cannot be read")));
}

#[test]
fn a_secret_without_a_usable_address_or_key_is_refused_without_its_values() {
    let [short, long] = [23, 24].map(|bytes| format!("whsec_{}", STANDARD.encode(vec![7; bytes])));
    let address = "https://oncall.example/fleet";
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "no key address"),
        (&[("address", "http://oncall.example/s3cret")], "do not prove the identity"),
        (&[("address", "https://me:s3cret@oncall.example/x")], "contains a user name or password"),
        (&[("address", "https://oncall.example/x#s3cret")], "a query or a fragment"),
        (&[("address", "https://oncall.example/x?a#s3cret")], "a query or a fragment"),
        (&[("address", "https://oncall.example/x#a?s3cret")], "a query or a fragment"),
        (&[("address", "https://oncall.example/x?s3cret \u{e4}")], "its query is malformed"),
        (&[("address", "https://oncall.example")], "its host or its path is missing"),
        (&[("address", "ssh://git@oncall.example/s3cret")], "does not start with https://"),
        (&[("address", address), ("key", "s3cret")], "whsec_"),
        (&[("address", address), ("key", "whsec_s3cret=")], "whsec_"),
        (&[("address", address), ("key", &short)], "at least 24 bytes"),
        (&[("address", address), ("key", &long), ("tls.crt", "x")], "only one of tls.crt and tls.key"),
    ];
    for (keys, part) in cases {
        let error = receiver(keys).err().unwrap().to_string();
        assert!(error.contains(part) && !error.contains("s3cret"), "{error}");
    }
    let unsigned = receiver(&[("address", address)]).unwrap();
    let error =
        unsigned.send(&message(true), Egress::Anywhere, CancellationToken::new(), Timestamp::UNIX_EPOCH);
    assert!(matches!(error, Err(Error::Credentials(reason)) if reason.contains("no key named key")));
}
