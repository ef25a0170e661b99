//! Tokens of the hub's service accounts, which add-ons can use instead of a certificate.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde::Deserialize;

use super::addon_registration::{AddOns, RETRY, Registration};
use super::addon_status::refreshed;
use super::error::{JoinError, api};
use crate::shell::now;
use api::addon::token;
use object::duration::later;

/// The requested lifetime. The agent renews a token when a fifth of it is left; OCM requests a year.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// The claims of a token that the agent reads. The API server checks the signature, not the agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Claims {
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    of: BoundTo,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct BoundTo {
    serviceaccount: Account,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Account {
    uid: String,
}

impl Claims {
    /// Reads a token in the format of RFC 7519; `None` if it has another format.
    fn read(token: &str) -> Option<Self> {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    /// Returns the time to renew the token: when a fifth of its lifetime is left.
    fn renew_at(&self) -> Timestamp {
        let life = self.exp.saturating_sub(self.iat).max(0);
        Timestamp::from_second(self.exp.saturating_sub(life / 5)).unwrap_or(Timestamp::MIN)
    }
}

/// Returns a value of a secret as text.
fn text(secret: &Secret, key: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
}

impl AddOns<'_> {
    /// Ensures that an add-on has a token of its service account. Returns when to check again.
    pub(super) async fn token(&self, registration: &Registration, uid: &str) -> Result<Timestamp, JoinError> {
        if !self.has_namespace(registration.is_hosted, &registration.namespace).await? {
            return Ok(later(now(), RETRY));
        }
        let stored = self.stored(registration).await?;
        let is_of_this_hub =
            |secret: &Secret| text(secret, "kubeconfig").is_some_and(|text| self.hub.is_named_by(&text));
        let claims = stored.filter(is_of_this_hub).and_then(|secret| Claims::read(&text(&secret, "token")?));
        let of_account = claims.filter(|claims| claims.of.serviceaccount.uid == uid);
        if let Some(fresh) = of_account.filter(|claims| claims.renew_at() > now()) {
            return Ok(fresh.renew_at());
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.options.cluster);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(LIFETIME.as_secs()), ..TokenRequestSpec::default() };
        let asked = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let account = token::account(&registration.addon);
        let answered = accounts.create_token_request(&account, &PostParams::default(), &asked).await;
        let status = answered.map_err(api("get a token for the add-on"))?.status.unwrap_or_default();
        let token = status.token.unwrap_or_default();
        let claims = Claims::read(&token)
            .ok_or_else(|| JoinError::Certificate("the token is not a service account token".to_owned()))?;
        let kubeconfig = self.hub.stored_kubeconfig_of_token()?;
        let cluster = &self.options.cluster;
        let data = [("token", token.as_str()), ("kubeconfig", &kubeconfig), ("cluster-name", cluster)];
        self.store(registration, &data).await?;
        let until = Timestamp::from_second(claims.exp).unwrap_or(Timestamp::MAX);
        self.report(&registration.addon, refreshed(until)).await?;
        Ok(claims.renew_at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_when_a_fifth_of_its_life_is_left() {
        let payload = br#"{"iat":1000,"exp":2000,"kubernetes.io":{"serviceaccount":{"name":"a","uid":"u"}}}"#;
        let claims = Claims::read(&format!("h.{}.s", URL_SAFE_NO_PAD.encode(payload))).unwrap();
        assert_eq!(claims.of.serviceaccount.uid, "u");
        assert_eq!(claims.renew_at(), Timestamp::from_second(1800).unwrap());
    }

    #[test]
    fn a_text_that_is_not_a_token_has_no_claims() {
        for text in ["", "a", "a.b.c", "a..c", "..", "abcdef.0123456789abcdef"] {
            assert_eq!(Claims::read(text), None, "{text}");
        }
    }
}
