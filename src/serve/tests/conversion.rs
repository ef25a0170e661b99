use futures::stream::pending;
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

async fn answered_to(body: Body, limits: &Limits) -> Response {
    answer(Request::post(PATH).body(body).unwrap(), limits, CancellationToken::new()).await
}

fn review(objects: Value) -> Value {
    let request = json!({"uid": "u", "desiredAPIVersion": "addon.open-cluster-management.io/v1beta1", "objects": objects});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
}

fn answered(objects: Value) -> Value {
    serde_json::from_slice(&convert(review(objects).to_string().as_bytes()).unwrap()).unwrap()
}

fn addon(api_version: &str) -> Value {
    json!({"apiVersion": api_version, "kind": "ManagedClusterAddOn", "metadata": {"name": "a"}, "spec": {"installNamespace": "n"}})
}

#[test]
fn every_object_of_a_request_is_converted_or_none() {
    let old = addon("addon.open-cluster-management.io/v1alpha1");
    let answer = answered(json!([old, old]));
    assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!("ConversionReview"), &json!("u")));
    let converted = answer["response"]["convertedObjects"].as_array().unwrap();
    assert!(converted.iter().all(|one| one["apiVersion"] == "addon.open-cluster-management.io/v1beta1"));
    assert_eq!((converted.len(), &answer["response"]["result"]["status"]), (2, &json!("Success")));

    let refused = &answered(json!([old, addon("other/v1")]))["response"];
    assert_eq!(refused["result"]["status"], "Failure");
    assert!(refused["result"]["message"].as_str().unwrap().starts_with("a: "), "{refused}");
    assert_eq!(refused.get("convertedObjects"), None);
}

#[test]
fn short_texts_that_take_much_memory_are_refused() {
    let mut object = addon("addon.open-cluster-management.io/v1alpha1");
    object["metadata"]["annotations"] = json!({"a": "\"{".repeat(MOST_MAPS)});
    let fine = &answered(json!([object]))["response"];
    assert_eq!(fine["result"]["status"], "Success", "maps in strings are none");
    object["spec"]["x"] = json!(vec![json!({"a": 1}); MOST_MAPS]);
    let refused = &answered(json!([object]))["response"]["result"];
    assert_eq!(refused["status"], "Failure");
    assert!(refused["message"].as_str().unwrap().contains("60000 maps"), "{refused}");
}

#[test]
fn any_bytes_are_a_conversion_review_or_refused() {
    let mut newer = addon("addon.open-cluster-management.io/v1beta1");
    newer["spec"]["configs"] = json!([{"group": "g", "resource": "r", "name": "n", "namespace": "m"}]);
    let older = addon("addon.open-cluster-management.io/v1alpha1");
    let mut seeds =
        [older.clone(), newer.clone(), json!([])].map(|object| review(json!([object])).to_string().into());
    seeds[2] = review(json!([newer, older])).to_string().replace("v1beta1", "v1alpha1").into();
    let run = |bytes: &[u8]| {
        let Ok(answer) = convert(bytes) else { return };
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        // Skipped text may be invalid Unicode.
        let Ok(review) = serde_json::from_slice::<Value>(bytes) else { return };
        // serde also deserializes a struct from a list, so some reviews have no field of this name.
        let objects = review["request"]["objects"].as_array().map(Vec::len);
        let converted = answer["response"]["convertedObjects"].as_array().map_or(0, Vec::len);
        let is_success = answer["response"]["result"]["status"] == "Success";
        assert!(objects.is_none_or(|objects| converted == if is_success { objects } else { 0 }), "{answer}");
    };
    let words = [
        "v1alpha1",
        "v1beta1",
        "ClusterManagementAddOn",
        "\"installStrategy\":",
        "\"configs\":",
        "null",
        "[",
        "{",
    ];
    crate::fuzz::Target { name: "conversion_review", run: &run, seeds: &seeds, words: &words }.fuzz();
}

#[tokio::test(start_paused = true)]
async fn endless_bodies_delay_no_other_request() {
    let limits = Limits::default();
    let silent = || Body::new(StreamBody::new(pending::<Result<Frame<Bytes>, Infallible>>()));
    let mut waiting = JoinSet::new();
    for _ in 0..10 * AT_ONCE {
        let limits = limits.clone();
        waiting.spawn(async move { answered_to(silent(), &limits).await.status() });
    }
    tokio::task::yield_now().await;
    let began = Instant::now();
    let good = Body::from(review(json!([])).to_string());
    assert_eq!(answered_to(good, &limits).await.status(), StatusCode::OK);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(waiting.join_all().await.iter().all(|status| *status == StatusCode::REQUEST_TIMEOUT));
    assert_eq!(began.elapsed(), BODY_TIMEOUT);
}

#[tokio::test]
async fn a_response_counts_until_it_is_written() {
    let limits = Limits::default();
    let text = review(json!([addon("addon.open-cluster-management.io/v1alpha1")])).to_string();
    let answer = answered_to(Body::from(text), &limits).await;
    assert!(limits.bytes.available_permits() < IN_FLIGHT);
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(limits.bytes.available_permits(), IN_FLIGHT - text.len());
    drop(text);
    let left = (limits.bytes.available_permits(), limits.reviews.available_permits());
    assert_eq!(left, (IN_FLIGHT, AT_ONCE));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_response_is_dropped() {
    let limits = Limits::default();
    let (mut client, server) = tokio::io::duplex(1024);
    let serving = tokio::spawn(requests(server, limits.clone()));
    let began = Instant::now();
    let text = review(json!(vec![addon("addon.open-cluster-management.io/v1alpha1"); 100])).to_string();
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", text.len());
    client.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
    serving.await.unwrap();
    assert_eq!(began.elapsed(), ANSWER_TIMEOUT);
    assert_eq!(limits.bytes.available_permits(), IN_FLIGHT);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let limits = Limits::default();
    let refused = answered_to(Body::from(vec![b' '; MAX_REQUEST_BYTES + 1]), &limits).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(limits.bytes.available_permits(), IN_FLIGHT);
}
