//! Login with an OpenID Connect provider whose tokens a real API server accepts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use wheelwright::shell::now;

use super::{Dashboard, program, spawn, trusting};
use crate::kube::{Cluster, Directory};
use crate::webhook::write_certificates;

const CLIENT: &str = "fleet page";
const SECRET: &str = "a secret/with+signs";
/// The code that the provider gives to a visitor.
const CODE: &str = "code/1+2";

/// A provider that serves one visitor, over TLS.
struct Provider {
    issuer: String,
    key: EcdsaKeyPair,
    /// The challenge of the login, as the visitor brought it.
    challenge: Mutex<String>,
    /// The forms of the requests for tokens.
    asked: Mutex<Vec<BTreeMap<String, String>>>,
}

struct TlsListener(TcpListener, TlsAcceptor);

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.0.accept().await.unwrap();
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Provider {
    /// Starts a provider with the certificate in a directory.
    async fn start(dir: &Directory) -> Arc<Self> {
        let certificate = CertificateDer::from_pem_file(dir.path("tls.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_file(dir.path("tls.key")).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let (challenge, asked) = (Mutex::default(), Mutex::default());
        let provider = Arc::new(Self { issuer, key, challenge, asked });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(TlsListener(listener, acceptor), router).await });
        provider
    }

    /// Returns an ID token for a visitor.
    fn id_token(&self) -> String {
        let time = now().as_second();
        let header = json!({"alg": "ES256", "kid": "1"});
        let claims = json!({"iss": self.issuer, "aud": CLIENT, "sub": "17", "email": "ada@example.com",
            "email_verified": true, "iat": time, "exp": time + 600});
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

async fn metadata(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "token_endpoint": format!("{issuer}/token"),
        "authorization_endpoint": format!("{issuer}/authorize?tenant=1"), "response_types_supported": ["code"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
    }))
}

async fn keys(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let point = provider.key.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
    Json(
        json!({"keys": [{"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1", "x": x, "y": y}]}),
    )
}

/// Gives the token to the client that knows the secret, the code and the verifier of the challenge.
async fn token(
    State(provider): State<Arc<Provider>>,
    headers: HeaderMap,
    Form(form): Form<BTreeMap<String, String>>,
) -> (StatusCode, Json<Value>) {
    let login = STANDARD.encode("fleet%20page:a%20secret/with%2Bsigns");
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    let is_client = headers["authorization"] == format!("Basic {login}");
    provider.asked.lock().unwrap().push(form.clone());
    if !is_client || form["code"] != CODE || challenge != *provider.challenge.lock().unwrap() {
        let refused = json!({"error": "invalid_grant", "error_description": "the code is <b>unknown</b>"});
        return (StatusCode::BAD_REQUEST, Json(refused));
    }
    (
        StatusCode::OK,
        Json(json!({"token_type": "Bearer", "access_token": "x", "id_token": provider.id_token()})),
    )
}

/// Starts a dashboard that trusts the authority of the provider, as the chart starts it.
async fn start(hub: &Cluster, dir: &Directory, provider: &Provider) -> Dashboard {
    let [ca, secret, certificate, key] =
        ["ca.crt", "secret", "tls.crt", "tls.key"].map(|name| dir.path(name).to_str().unwrap().to_owned());
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let mut command = program();
    command.env("SSL_CERT_FILE", &ca);
    let (issuer, client) =
        (format!("--oidc-issuer-url={}", provider.issuer), format!("--oidc-client-id={CLIENT}"));
    let secret = format!("--oidc-client-secret-file={secret}");
    let arguments =
        ["--cert", &certificate, "--key", &key, &issuer, &client, &secret, "--oidc-extra-scope=email"];
    let (child, port) = spawn(command, &hub.kubeconfig, &arguments);
    let authority = std::fs::read_to_string(ca).unwrap();
    Dashboard { child, port, tls: trusting(&authority) }
}

/// Returns the fields of the query of an address.
fn query(address: &str) -> BTreeMap<String, String> {
    let uri: axum::http::Uri = address.parse().unwrap();
    axum::extract::Query::try_from_uri(&uri).unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_logs_in_with_the_provider_of_the_api_server() {
    let dir = Directory::new("dashboard-oidc");
    write_certificates(&dir.path(""));
    crate::kube::install_crypto();
    let provider = Provider::start(&dir).await;
    let flags = [
        format!("--oidc-issuer-url={}", provider.issuer),
        format!("--oidc-client-id={CLIENT}"),
        format!("--oidc-ca-file={}", dir.path("ca.crt").display()),
        "--oidc-username-claim=email".to_owned(),
        "--oidc-username-prefix=sso:".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
    ];
    let hub = Cluster::start_with("dashboard-oidc-hub", &flags).await;
    hub.kubectl().install(api::crds::hub().into_iter());
    let dashboard = start(&hub, &dir, &provider).await;
    let login = dashboard.send("GET /", "", "", "").await;
    assert!(login.status() == "401" && login.has("href=\"oidc-login\""), "{}", login.0);

    // The dashboard sends the visitor to the provider.
    let begun = dashboard.send("GET /oidc-login", "", "", "").await;
    let location = begun.header("location").unwrap();
    assert!(location.starts_with(&format!("{}/authorize?tenant=1&", provider.issuer)), "{location}");
    let asked = query(location);
    let expected = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", "https://localhost/oidc-callback"),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ];
    for (field, value) in expected {
        assert_eq!(asked[field], value, "{location}");
    }
    let cookie = begun.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    provider.challenge.lock().unwrap().clone_from(&asked["code_challenge"]);

    // A callback that this browser did not begin reaches no provider.
    let callback = |code: &str, state: &str| format!("GET /oidc-callback?code={code}&state={state}");
    let state = asked["state"].as_str();
    let code = "code/1%2B2";
    for (request, cookie) in [
        (callback(code, state), ""),
        (callback(code, "other"), &cookie),
        (callback(code, ""), &cookie),
        (callback(code, ""), "Cookie: __Host-wheelwright-login=\r\n"),
        ("GET /oidc-callback".to_owned(), &cookie),
    ] {
        let refused = dashboard.send(&request, cookie, "", "").await;
        assert!(refused.status() == "400" && refused.has("did not begin this login"), "{}", refused.0);
        assert_eq!(refused.header("set-cookie"), None, "{}", refused.0);
    }
    assert!(provider.asked.lock().unwrap().is_empty());
    let denied =
        format!("GET /oidc-callback?error=access_denied&error_description=not%20today&state={state}");
    let denied = dashboard.send(&denied, &cookie, "", "").await;
    assert!(denied.status() == "502" && denied.has("access_denied: not today"), "{}", denied.0);
    let wrong = dashboard.send(&callback("other", state), &cookie, "", "").await;
    assert!(wrong.status() == "502" && wrong.has("the code is &lt;b&gt;unknown"), "{}", wrong.0);

    // The visitor comes back, and the hub knows the visitor by the claim that the API server reads.
    let back = dashboard.send(&callback(code, state), &cookie, "", "").await;
    assert_eq!((back.status(), back.header("refresh")), ("200", Some("0; url=./")), "{}", back.0);
    let own = back.header("set-cookie").unwrap();
    assert!(own.starts_with("__Host-wheelwright=ey") && own.ends_with("SameSite=Strict"), "{own}");
    let own = format!("Cookie: {}\r\n", own.split(';').next().unwrap());
    let page = dashboard.send("GET /", &own, "", "").await;
    assert!(page.status() == "200" && page.has("sso:ada@example.com"), "{}", page.0);
    let form = provider.asked.lock().unwrap().last().unwrap().clone();
    assert_eq!((form["grant_type"].as_str(), form["client_id"].as_str()), ("authorization_code", CLIENT));
    assert_eq!((&form["redirect_uri"], form.get("client_secret")), (&asked["redirect_uri"], None));
}
