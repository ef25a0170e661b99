//! Status, scale, approval, tokens, reviews.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wheelwright::pki::{Certificate, KeyPair, Subject, request};

use super::api::{Api, MERGE, widget};
use super::cases;

cases![
    status_is_written_through_its_subresource_alone,
    a_status_write_leaves_the_generation,
    status_is_absent_where_there_is_none,
    scale_reads_and_writes_replicas,
    an_approved_request_is_signed,
    a_denied_request_is_not,
    approval_changes_nothing_else,
    a_signing_request_says_who_asked,
    nobody_asks_to_be_master,
    a_token_is_made_for_a_service_account,
    a_token_lives_ten_minutes_at_least,
    a_token_speaks_for_its_account,
    reviews_tell_what_the_roles_allow,
    one_asks_for_oneself,
];

async fn status_is_written_through_its_subresource_alone(api: Api) {
    let mut body = widget("a", json!({ "size": 1 }));
    body["status"] = json!({ "phase": "Up" });
    let mut body = api.post(&api.widgets(), &body).await.is(201).has("/status", json!(null)).body;
    body["status"] = json!({ "phase": "Up" });
    body["spec"]["size"] = json!(9);
    let path = format!("{}/status", api.widget("a"));
    let body = api
        .put(&path, &body)
        .await
        .is(200)
        .has("/status/phase", json!("Up"))
        .has("/spec/size", json!(1))
        .body;
    let mut body = body;
    body["status"] = json!({ "phase": "Down" });
    api.put(&api.widget("a"), &body).await.is(200).has("/status/phase", json!("Up"));
    api.get(&path).await.is(200).has("/kind", json!("Widget"));
}

async fn a_status_write_leaves_the_generation(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({}))).await.is(201);
    let path = format!("{}/status", api.widget("a"));
    let reply = api
        .patch(
            &path,
            MERGE,
            &json!({ "status": { "phase": "Up" }, "metadata": { "labels": { "not": "taken" } } }),
        )
        .await;
    reply.is(200).has("/metadata/generation", json!(1)).has("/metadata/labels", json!(null));
}

async fn status_is_absent_where_there_is_none(api: Api) {
    api.post(&api.core("configmaps", ""), &super::api::config_map("a", json!({}))).await.is(201);
    api.get(&format!("{}/status", api.config_map("a"))).await.is(404);
}

async fn scale_reads_and_writes_replicas(api: Api) {
    api.post(&api.widgets(), &widget("a", json!({ "replicas": 2 }))).await.is(201);
    let path = format!("{}/scale", api.widget("a"));
    let mut scale =
        api.get(&path).await.is(200).has("/kind", json!("Scale")).has("/spec/replicas", json!(2)).body;
    scale["spec"]["replicas"] = json!(5);
    api.put(&path, &scale).await.is(200).has("/spec/replicas", json!(5));
    api.get(&api.widget("a"))
        .await
        .is(200)
        .has("/spec/replicas", json!(5))
        .has("/metadata/generation", json!(2));
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn signing_request(name: &str, organizations: &[&str]) -> Value {
    let text = request(&KeyPair::generate().unwrap(), &Subject::new("someone", organizations), &[]).unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "name": name },
        "spec": {
            "request": STANDARD.encode(text),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": 3600,
            "usages": ["client auth", "digital signature", "key encipherment"],
        },
    })
}

async fn decide(api: &Api, name: &str, decision: &str) -> Value {
    let mut body = api.post(REQUESTS, &signing_request(name, &["one", "two"])).await.is(201).body;
    body["status"] = json!({ "conditions": [{ "type": decision, "status": "True", "reason": "Test", "message": "by a test" }] });
    api.put(&format!("{REQUESTS}/{name}/approval"), &body).await.is(200).body
}

async fn an_approved_request_is_signed(api: Api) {
    decide(&api, "signed", "Approved").await;
    let path = format!("{REQUESTS}/signed");
    let reply = api.until(&path, |reply| !reply.at("/status/certificate").is_null()).await;
    let text = String::from_utf8(STANDARD.decode(reply.text("/status/certificate")).unwrap()).unwrap();
    let Certificate { subject, names: _, not_before: _, not_after } = Certificate::from_pem(&text).unwrap();
    assert_eq!(subject, Subject::new("someone", &["one", "two"]));
    let lifetime = not_after.as_second() - jiff::Timestamp::now().as_second();
    assert!((3000..=3600).contains(&lifetime), "{lifetime}");
}

async fn a_denied_request_is_not(api: Api) {
    let body = decide(&api, "denied", "Denied").await;
    assert_eq!(body["status"]["conditions"][0]["type"], "Denied");
    let mut changed = body;
    changed["status"]["conditions"][0]["type"] = json!("Approved");
    api.put(&format!("{REQUESTS}/denied/approval"), &changed).await.refused(422, "Invalid");
}

async fn approval_changes_nothing_else(api: Api) {
    let mut body = api.post(REQUESTS, &signing_request("careful", &[])).await.is(201).body;
    body["status"] = json!({ "certificate": STANDARD.encode("x") });
    let approval = api
        .put(&format!("{REQUESTS}/careful/approval"), &body)
        .await
        .is(200)
        .has("/status/certificate", json!(null))
        .body;
    let mut body = approval;
    body["status"] = json!({ "conditions": [{ "type": "Approved", "status": "True", "reason": "Test" }] });
    let reply = api.put(&format!("{REQUESTS}/careful"), &body).await.is(200);
    reply.has("/status/conditions", json!(null));
}

async fn a_signing_request_says_who_asked(api: Api) {
    let mut body = signing_request("whose", &[]);
    body["spec"]["username"] = json!("somebody else");
    let reply = api.post(REQUESTS, &body).await.is(201);
    assert_ne!(reply.at("/spec/username"), json!("somebody else"));
    assert!(reply.at("/spec/groups").as_array().unwrap().contains(&json!("system:masters")));
}

async fn nobody_asks_to_be_master(api: Api) {
    let body = signing_request("master", &["system:masters"]);
    api.post(REQUESTS, &body).await.refused(403, "Forbidden").says("system:masters");
    let path = format!("{REQUESTS}/master");
    api.apply(&path, "x", &body).await.refused(403, "Forbidden").says("system:masters");
    // The spec of a request is immutable, so nobody becomes master through a later patch.
    let text = body["spec"]["request"].clone();
    let before = api.post(REQUESTS, &signing_request("modest", &["one"])).await.is(201).body;
    let path = format!("{REQUESTS}/modest");
    api.patch(&path, MERGE, &json!({ "spec": { "request": text } })).await;
    api.patch(&format!("{path}/status"), MERGE, &json!({ "spec": { "request": text } })).await;
    api.patch(&format!("{path}/approval"), MERGE, &json!({ "spec": { "request": text } })).await;
    api.get(&path).await.is(200).has("/spec/request", before["spec"]["request"].clone());
}

async fn account(api: &Api) -> String {
    let body = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    api.post(&api.core("serviceaccounts", ""), &body).await.is(201).text("/metadata/uid")
}

fn token_request(seconds: i64) -> Value {
    json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": seconds } })
}

async fn a_token_is_made_for_a_service_account(api: Api) {
    account(&api).await;
    let path = format!("{}/token", api.core("serviceaccounts", "robot"));
    let reply = api.post(&path, &token_request(600)).await.is(201).has("/kind", json!("TokenRequest"));
    assert_eq!(reply.text("/status/token").split('.').count(), 3);
    assert_eq!(reply.text("/status/expirationTimestamp").len(), 20);
    api.post(&format!("{}/token", api.core("serviceaccounts", "nobody")), &token_request(600))
        .await
        .refused(404, "NotFound");
}

async fn a_token_lives_ten_minutes_at_least(api: Api) {
    account(&api).await;
    let path = format!("{}/token", api.core("serviceaccounts", "robot"));
    let reply = api.post(&path, &token_request(599)).await.refused(422, "Invalid");
    reply
        .blames("spec.expirationSeconds", "FieldValueInvalid")
        .says("may not specify a duration less than 10 minutes");
}

async fn a_token_speaks_for_its_account(api: Api) {
    let uid = account(&api).await;
    let path = format!("{}/token", api.core("serviceaccounts", "robot"));
    let token = api.post(&path, &token_request(600)).await.is(201).text("/status/token");
    let review = |token: &str| json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reply = api
        .post(reviews, &review(&token))
        .await
        .is(201)
        .has("/status/authenticated", json!(true))
        .has("/status/user/uid", json!(uid));
    let reply =
        reply.has("/status/user/username", json!(format!("system:serviceaccount:{}:robot", api.namespace)));
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", api.namespace),
        "system:authenticated"
    ]);
    reply.has("/status/user/groups", groups);
    let wrong = api.post(reviews, &review("wrong")).await.is(201);
    assert_ne!(wrong.at("/status/authenticated"), json!(true));
    // An account's token becomes invalid when the account is deleted.
    api.delete(&api.core("serviceaccounts", "robot"), json!({})).await.is(200);
    api.post_until(reviews, &review(&token), |reply| reply.at("/status/authenticated") != json!(true)).await;
}

async fn reviews_tell_what_the_roles_allow(api: Api) {
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": rbac, "kind": "Role", "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"] }],
    });
    let binding = json!({
        "apiVersion": rbac, "kind": "RoleBinding", "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann" }],
    });
    api.post(&api.group(rbac, "roles", ""), &role).await.is(201);
    api.post(&api.group(rbac, "rolebindings", ""), &binding).await.is(201);
    let review = |user: &str, name: &str| {
        let asked = json!({ "namespace": api.namespace, "verb": "get", "resource": "secrets", "name": name });
        json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": { "user": user, "resourceAttributes": asked } })
    };
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    // The authorizer learns of new roles through a watch, so the first response may come too early.
    api.post_until(reviews, &review("ann", "mine"), |reply| reply.at("/status/allowed") == json!(true)).await;
    for (user, name) in [("ann", "other"), ("bob", "mine")] {
        let reply = api.post(reviews, &review(user, name)).await.is(201);
        assert_ne!(reply.at("/status/allowed"), json!(true), "{user} {name}");
    }
    // These reviews are not namespaced, so permission to create everything in a namespace does not allow them.
    api.post(&api.group("authorization.k8s.io/v1", "subjectaccessreviews", ""), &review("ann", "mine"))
        .await
        .is(404);
}

async fn one_asks_for_oneself(api: Api) {
    let asked = json!({ "verb": "create", "resource": "namespaces" });
    let body = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": { "resourceAttributes": asked } });
    api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &body)
        .await
        .is(201)
        .has("/status/allowed", json!(true));
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let reply = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &body).await.is(201);
    assert!(reply.at("/status/userInfo/groups").as_array().unwrap().contains(&json!("system:masters")));
}
