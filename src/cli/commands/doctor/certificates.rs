//! Checks the serving certificates of an installation.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use object::Key;

use super::finding::Finding;
use super::hub::ExaminedHub;
use crate::cli::writer::find;
use crate::serve::certificate::certificate_end;
use crate::shell::now;
use api::names::{DASHBOARD, WEBHOOK};

const CHECK: &str = "certificates";
/// The operator's volume with the certificate of the webhook receiver, as named in the chart.
const GIT_WEBHOOK: &str = "git-webhook";
/// The remaining lifetime below which renewal counts as failed. Certificates are renewed long before.
const SOON: SignedDuration = SignedDuration::from_hours(24);

/// A server, the Secret with its certificate, and the advice if the certificate is bad.
struct CheckedServer {
    name: &'static str,
    secret: String,
    advice: String,
    /// True if the server exists and therefore needs the Secret.
    is_required: bool,
}

pub(super) async fn examine(hub: &ExaminedHub) -> Vec<Finding> {
    let own = |name, secret: &str, maker| CheckedServer {
        name,
        secret: secret.to_owned(),
        advice: format!("delete the Secret {secret}; the {maker} makes another one"),
        is_required: false,
    };
    let mut servers =
        vec![own("conversion webhook", WEBHOOK, "operator"), own("dashboard", DASHBOARD, "dashboard")];
    let operator = hub.operator.as_ref().ok().and_then(Option::as_ref);
    servers.extend(operator.and_then(git_webhook));
    let mut findings = Vec::new();
    for server in servers {
        findings.extend(
            match find::<Secret>(&hub.client, &Key::namespaced(&hub.namespace, &server.secret)).await {
                Ok(Some(secret)) => Some(server.ending(certificate_end(&secret), now())),
                Ok(None) if server.is_required => {
                    let message = format!("there is no Secret {} for the {}", server.secret, server.name);
                    Some(Finding::bad(CHECK, message, server.advice))
                }
                Ok(None) => None,
                Err(error) => Some(Finding::unknown(CHECK, error)),
            },
        );
    }
    findings
}

/// Returns the receiver of git webhooks, whose certificate the user provides.
fn git_webhook(operator: &Deployment) -> Option<CheckedServer> {
    let pod = operator.spec.template.spec.as_ref()?;
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == GIT_WEBHOOK)?;
    let secret = volume.secret.as_ref()?.secret_name.clone()?;
    let advice = format!("renew the certificate in the Secret {secret} (gitWebhook.tlsSecret of the chart)");
    Some(CheckedServer { name: "git webhook", secret, advice, is_required: true })
}

impl CheckedServer {
    fn ending(self, end: Option<Timestamp>, now: Timestamp) -> Finding {
        let Some(end) = end else {
            let message = format!("the certificate of the {} cannot be read", self.name);
            return Finding::bad(CHECK, message, self.advice);
        };
        let message = format!("the certificate of the {} expires at {end}", self.name);
        if end.duration_since(now) < SOON {
            Finding::bad(CHECK, message, self.advice)
        } else {
            Finding::good(CHECK, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_certificate_that_ends_soon_is_bad() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let health = |end: Option<&str>| {
            let (name, secret, advice) = ("dashboard", String::new(), String::new());
            let server = CheckedServer { name, secret, advice, is_required: false };
            server.ending(end.map(at), at("2026-01-01T00:00:00Z")).health
        };
        assert_eq!(health(Some("2026-02-01T00:00:00Z")), Health::Good);
        assert_eq!(health(Some("2026-01-01T12:00:00Z")), Health::Bad);
        assert_eq!(health(None), Health::Bad);
    }
}
