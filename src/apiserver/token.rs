//! Service account tokens: JSON web tokens that this server signs (ES256) and verifies.
//!
//! This module implements tokens with `ring`. `jsonwebtoken` would need a second implementation of every
//! algorithm (including RSA, P-384 and Ed25519, or `aws-lc-rs`, which the build bans), reads the clock itself,
//! and would save about fifty lines. Here the key has one algorithm, and a token with another algorithm is
//! rejected before anything else in it is parsed.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::pki::{Error, KeyPair};

/// The `iss` of every token, and the audience of tokens that request none.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

pub(super) struct TokenKey {
    pair: EcdsaKeyPair,
    public: Vec<u8>,
    id: String,
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) aud: Vec<String>,
    pub(super) exp: i64,
    pub(super) iat: i64,
    pub(super) nbf: i64,
    pub(super) iss: String,
    pub(super) jti: String,
    pub(super) sub: String,
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Binding,
}

/// The service account of a token, and the object that the token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Binding {
    pub(super) namespace: String,
    pub(super) serviceaccount: Bound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<Bound>,
}

/// An object by name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    pub(super) name: String,
    pub(super) uid: String,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// Parses a key in PEM (PKCS #8, P-256).
    pub(super) fn load(pem: &str) -> Result<Self, Error> {
        let attempt = "load the key of service account tokens";
        let key = KeyPair::from_pem(pem)?;
        let random = SystemRandom::new();
        let pair =
            EcdsaKeyPair::from_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, key.pkcs8(), &random)
                .map_err(|e| Error::new(attempt, e))?;
        let public = pair.public_key().as_ref().to_vec();
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(&public));
        Ok(Self { pair, public, id })
    }

    /// Returns the public key as a JSON web key set.
    pub(super) fn key_set(&self) -> serde_json::Value {
        // An uncompressed point: one byte for the format, then x and y.
        let (x, y) = self.public.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        serde_json::json!({ "keys": [{ "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256", "x": x, "y": y }] })
    }

    /// Signs claims.
    pub(super) fn sign(&self, claims: &Claims) -> Result<String, Error> {
        let header = serde_json::json!({ "alg": "ES256", "kid": self.id });
        let claims = serde_json::to_vec(claims).expect("a struct of texts and numbers serializes");
        let message =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), message.as_bytes())
            .map_err(|e| Error::new("sign a token", e))?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the claims of a token that this key signed and that is currently valid; `None` for any other
    /// text.
    pub(super) fn verify(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let header: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        // The key determines the algorithm, never the token.
        if header.get("alg")? != "ES256" {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, &self.public)
            .verify(message.as_bytes(), &signature)
            .ok()?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let now = now.as_second();
        (claims.iss == ISSUER && claims.nbf <= now && now < claims.exp).then_some(claims)
    }
}

impl Claims {
    /// Returns the claims of a service account, valid from `now`.
    pub(super) fn new(
        binding: Binding,
        audiences: Vec<String>,
        id: String,
        now: Timestamp,
        lifetime: Duration,
    ) -> Self {
        let second = now.as_second();
        Self {
            aud: audiences,
            exp: second.saturating_add(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX)),
            iat: second,
            nbf: second,
            iss: ISSUER.into(),
            jti: id,
            sub: format!("system:serviceaccount:{}:{}", binding.namespace, binding.serviceaccount.name),
            kubernetes: binding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TokenKey {
        TokenKey::load(&KeyPair::generate().unwrap().to_pem()).unwrap()
    }

    fn claims(now: Timestamp) -> Claims {
        let account = Bound { name: "robot".into(), uid: "u".into() };
        let binding = Binding { namespace: "ns".into(), serviceaccount: account, secret: None };
        Claims::new(binding, vec![ISSUER.into()], "id".into(), now, Duration::from_secs(600))
    }

    #[test]
    fn a_token_is_valid_from_its_creation_until_it_expires() {
        let (key, now) = (key(), Timestamp::from_second(1_000_000).unwrap());
        let token = key.sign(&claims(now)).unwrap();
        let at = |second| key.verify(&token, Timestamp::from_second(second).unwrap());
        assert_eq!(at(1_000_000), Some(claims(now)));
        assert_eq!((at(999_999), at(1_000_600)), (None, None));
    }

    #[test]
    fn a_token_of_another_key_or_with_other_claims_is_refused() {
        let (key, now) = (key(), Timestamp::from_second(1_000_000).unwrap());
        let foreign = self::key().sign(&claims(now)).unwrap();
        assert_eq!(key.verify(&foreign, now), None);
        let token = key.sign(&claims(now)).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let mut other = claims(now);
        other.sub = "system:serviceaccount:kube-system:admin".into();
        let other = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&other).unwrap());
        assert_eq!(key.verify(&format!("{}.{other}.{}", parts[0], parts[2]), now), None);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(key.verify(&format!("{none}.{}.", parts[1]), now), None);
        assert_eq!(key.verify("text", now), None);
    }

    #[test]
    fn any_bytes_are_a_token_of_this_key_or_refused() {
        let (key, now) = (key(), Timestamp::from_second(1_000_000).unwrap());
        let good = key.sign(&claims(now)).unwrap();
        let seeds =
            [good.as_str(), "eyJhbGciOiJub25lIn0.e30.", "a.b.c"].map(|token| token.as_bytes().to_vec());
        let run = |bytes: &[u8]| {
            let token = String::from_utf8_lossy(bytes);
            assert!(key.verify(&token, now).is_none() || token == good, "{token}");
            // Claims are normally parsed only after their signature is verified, so the test parses them
            // directly.
            let _ = serde_json::from_slice::<Claims>(bytes);
        };
        let words = [".", "=", "e30", "eyJhbGciOiJFUzI1NiJ9", "-", "_"];
        crate::fuzz::Target { name: "token_of_this_key", run: &run, seeds: &seeds, words: &words }.fuzz();
    }
}
