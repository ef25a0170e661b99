//! Reads the reference of a ConfigRepo from its git server or registry, with the operator's credentials and limits but
//! from this machine.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use object::Key;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::finding::Finding;
use super::hub::ExaminedHub;
use super::operator::arguments;
use crate::git::{
    ArtifactRef, ArtifactRepository, Blobs, Credentials, Downloads, Egress, Error, Mirror, RefSpec, Remote,
    is_artifact,
};
use crate::operator::source::{artifact_ref, ref_spec};
use crate::shell::now;
use api::gitops::v1alpha1::ConfigRepo;
use object::text::short_commit;

const CHECK: &str = "git servers";
const REGISTRIES: &str = "registries";
/// The timeout for a server, so that a slow one does not delay the other checks.
const LONGEST: Duration = Duration::from_secs(15);

/// A request for a reference.
struct Question {
    want: Want,
    credentials: Credentials,
}

enum Want {
    Git(Remote, RefSpec),
    /// The URL of the repository.
    Artifact(String, ArtifactRef),
}

/// Reads the reference with the Secret of `spec.secretRef`. Returns `None` if the repository is on the local disk and
/// the operator runs in a pod.
pub(super) async fn examine(hub: &ExaminedHub, repo: &ConfigRepo, secret: Option<Secret>) -> Option<Finding> {
    let key = Key::of(repo);
    let operator = hub.operator.as_ref().ok().and_then(Option::as_ref);
    let answer = match question(repo, secret) {
        Ok(question) if question.is_local() && operator.is_some() => return None,
        Ok(question) => answer(question, egress(operator), LONGEST).await,
        Err(error) => Err(error),
    };
    let check = if is_artifact(&repo.spec.url) { REGISTRIES } else { CHECK };
    Some(match answer {
        Ok(found) => Finding::good(check, format!("{key}: {found}")),
        Err(error) => failed(check, &key, &error),
    })
}

fn question(repo: &ConfigRepo, secret: Option<Secret>) -> Result<Question, Error> {
    let url = &repo.spec.url;
    let want = match is_artifact(url) {
        true => Want::Artifact(url.clone(), artifact_ref(&repo.spec.r#ref)?),
        false => Want::Git(Remote::parse(url)?, ref_spec(&repo.spec.r#ref)?),
    };
    let credentials = match secret {
        Some(secret) => Credentials::from_secret(&secret.data.unwrap_or_default())?.at(now()),
        None => Credentials::default(),
    };
    Ok(Question { want, credentials })
}

/// Returns the hosts that the operator's flags allow. The flags of an operator outside the hub are unknown.
fn egress(operator: Option<&Deployment>) -> Egress {
    let Some(operator) = operator else { return Egress::Anywhere };
    let hosts = arguments(operator).filter_map(|argument| argument.strip_prefix("--git-hosts="));
    let names = hosts.flat_map(|hosts| hosts.split(',')).map(str::to_owned).collect();
    let loopback = arguments(operator).any(|argument| argument == "--local-repositories");
    Egress::Hosts { names, loopback }
}

/// Returns the server's answer about the reference.
async fn answer(question: Question, egress: Egress, longest: Duration) -> Result<String, Error> {
    let url = match &question.want {
        Want::Git(remote, _) => remote.to_string(),
        Want::Artifact(url, _) => url.clone(),
    };
    let cancel = CancellationToken::new();
    let ours = cancel.clone();
    let _cancels = cancel.drop_guard();
    let asked = spawn_blocking(move || question.ask(egress, ours));
    match timeout(longest, asked).await {
        Ok(answer) => answer.unwrap_or_else(|panic| Err(Error::Cache(panic.to_string()))),
        Err(_) => Err(Error::Cancelled { url, received: 0 }),
    }
}

impl Question {
    fn is_local(&self) -> bool {
        matches!(&self.want, Want::Git(remote, _) if remote.is_local())
    }

    fn ask(self, egress: Egress, cancel: CancellationToken) -> Result<String, Error> {
        let Self { want, credentials } = self;
        let directory = tempfile::tempdir();
        let directory =
            directory.map_err(|error| Error::Cache(format!("cannot create a directory: {error}")))?;
        match want {
            Want::Git(remote, want) => {
                let mut mirror = Mirror::open(directory.path(), remote, credentials)?;
                (mirror.egress, mirror.cancel) = (egress, cancel);
                Ok(match mirror.look_up(&want)? {
                    Some(id) => {
                        format!(
                            "its git server has {want} at {}, as seen from this machine",
                            short_commit(&id)
                        )
                    }
                    None => format!(
                        "its git server is reachable from this machine; only a fetch can tell whether it has {want}"
                    ),
                })
            }
            Want::Artifact(url, want) => {
                let downloads = Downloads { credentials, egress, cancel, arrivals: Arc::default() };
                let blobs = Blobs::new(directory.path().to_owned(), "");
                let found = ArtifactRepository::open(&url, downloads, blobs, None)?.look_up(&want)?;
                let revision = short_commit(&found);
                Ok(format!("its registry has {want} at {revision}, as seen from this machine"))
            }
        }
    }
}

/// Returns the finding for an error. Errors that may depend on the network are warnings, because the operator may
/// be in a different network.
fn failed(check: &'static str, key: &Key, error: &Error) -> Finding {
    let message = format!("{key}: as seen from this machine, {error}");
    match error {
        Error::Auth { .. } | Error::Credentials(_) => Finding::bad(
            check,
            message,
            "correct the Secret of spec.secretRef; docs/git-access.md lists its keys",
        ),
        Error::MissingRef { .. } | Error::Empty { .. } | Error::Ref(_) => {
            Finding::bad(check, message, "correct spec.ref, or push that reference")
        }
        Error::Url(_) => {
            Finding::bad(check, message, "correct spec.url, or name the host in --git-hosts of the operator")
        }
        Error::HostKey { .. } => Finding::warning(
            check,
            message,
            "compare it with what the host publishes, and correct known_hosts or ca.crt of the Secret",
        ),
        Error::Busy { .. } => Finding::warning(check, message, "run it again after that"),
        Error::Unreachable { .. } | Error::Cancelled { .. } | Error::Cache(_) => Finding::warning(
            check,
            message,
            "check the address, the network and the proxy; the operator may be in another network, and the \
             condition Ready says what it saw",
        ),
        Error::Content(_)
        // Only a fetch or a push returns these.
        | Error::Rewound { .. }
        | Error::HistoryRefused { .. }
        | Error::NotVerified { .. }
        | Error::Abandoned { .. }
        | Error::Chart { .. }
        | Error::ChartAuth { .. }
        | Error::PushRejected { .. }
        | Error::RequestTooLarge { .. }
        | Error::NotOurs { .. }
        | Error::Fenced { .. }
        | Error::BranchDeleted { .. }
        | Error::BranchRewritten { .. }
        | Error::PushContended { .. }
        | Error::StatusRejected { .. }
        | Error::NotificationRejected { .. }
        | Error::Throttled { .. } => {
            Finding::bad(check, message, "use a repository that the operator can read (docs/git-access.md)")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::finding::Health;
    use super::*;
    use crate::git::tests::charts::page;
    use crate::git::tests::forge::{Forge, Server};
    use crate::git::tests::web::{Behavior, Page, Web};
    use object::hex;
    use serde_json::json;
    use sha2::{Digest as _, Sha256};

    /// Reads branch `main` from a server, or the tag `latest` from a registry.
    async fn ask(url: &str, secret: Option<Secret>, longest: Duration) -> Result<String, Error> {
        let want = if is_artifact(url) { json!({"tag": "latest"}) } else { json!({}) };
        let repo =
            json!({"metadata": {"name": "fleet", "namespace": "n"}, "spec": {"url": url, "ref": want}});
        let question = question(&serde_json::from_value(repo).unwrap(), secret)?;
        answer(question, Egress::Anywhere, longest).await
    }

    /// Checks the finding for a server.
    async fn check(url: &str, secret: Option<Secret>, health: Health, part: &str) {
        let found = match ask(url, secret, LONGEST).await {
            Ok(found) => Finding::good(CHECK, found),
            Err(error) => failed(CHECK, &Key::namespaced("n", "fleet"), &error),
        };
        assert!(found.health == health && found.message.contains(part), "{part}: {found:?}");
        assert_eq!(found.advice.is_empty(), health == Health::Good, "{found:?}");
    }

    #[tokio::test]
    async fn a_server_is_asked_with_the_credentials_of_the_secret() {
        let forge = Forge::new();
        forge.commit("other", &[("a", "1")]);
        let served = forge.serve();
        check(&served.url, None, Health::Bad, "branch main does not exist").await;
        let commit = forge.commit("main", &[("a", "1")]);
        check(&served.url, None, Health::Good, &format!("branch main at {}", short_commit(&commit))).await;

        // base64 of git:hunter22
        let authorization = Some("Basic Z2l0Omh1bnRlcjIy".to_owned());
        let web = Web::start(&forge, Behavior { authorization, ..Behavior::default() });
        let secret = |token| Secret { data: Some(web.secret(&[("token", token)])), ..Secret::default() };
        check(&web.url, Some(secret("hunter22")), Health::Good, "branch main at ").await;
        check(&web.url, Some(secret("wrong222")), Health::Bad, "refuses access").await;
        check(&web.url, Some(Secret::default()), Health::Bad, "has none of the keys").await;
        check(&web.url, None, Health::Warning, "was issued by an unknown authority").await;
    }

    #[tokio::test]
    async fn a_registry_is_asked_with_the_login_of_the_secret() {
        let manifest = "{}";
        let pages = Arc::new(Mutex::new(Vec::new()));
        let web = Web::start(&Forge::new(), Behavior { pages: Arc::clone(&pages), ..Behavior::default() });
        let url = format!("oci://{}/fleet", web.address);
        let secret = |password: &str| {
            let login = json!({"auths": {web.address.to_string(): {"username": "me", "password": password}}});
            let data = web.secret(&[(".dockerconfigjson", &login.to_string())]);
            Some(Secret { data: Some(data), ..Secret::default() })
        };
        check(&url, secret("hunter22"), Health::Bad, "tag latest does not exist").await;
        let path = "/v2/fleet/manifests/latest";
        let asks = "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"".to_owned();
        // base64 of me:hunter22
        let authorization = Some("Basic bWU6aHVudGVyMjI=");
        *pages.lock().unwrap() =
            vec![Page { authorization, ..page(path, manifest) }, Page { head: asks, ..page(path, "") }];
        let revision = format!("latest@sha256:{}", hex(Sha256::digest(manifest)));
        let found = format!("its registry has tag latest at {}, as seen", short_commit(&revision));
        check(&url, secret("hunter22"), Health::Good, &found).await;
        check(&url, secret("wrong222"), Health::Bad, "refuses access").await;
    }

    #[tokio::test]
    async fn a_slow_server_holds_up_no_other_check() {
        let slow = Server::trickling();
        let error = ask(&slow.url, None, Duration::ZERO).await.unwrap_err();
        let found = failed(CHECK, &Key::namespaced("n", "fleet"), &error);
        assert_eq!(found.health, Health::Warning, "{found:?}");
        assert!(found.message.contains("took longer than allowed"), "{found:?}");
    }

    #[test]
    fn the_hosts_are_those_that_the_operator_allows() {
        let hosts = |args: &[&str]| {
            let container = json!({"name": "c", "args": args});
            let spec = json!({"selector": {}, "template": {"spec": {"containers": [container]}}});
            let operator: Deployment = serde_json::from_value(json!({"spec": spec})).unwrap();
            egress(Some(&operator))
        };
        let names = ["git.corp", "a", "b"].map(str::to_owned).to_vec();
        let named = hosts(&["operator", "--git-hosts=git.corp", "--git-hosts=a,b"]);
        assert_eq!(named, Egress::Hosts { names, loopback: false });
        let local = hosts(&["operator", "--local-repositories"]);
        assert_eq!(local, Egress::Hosts { names: Vec::new(), loopback: true });
        assert_eq!(egress(None), Egress::Anywhere);
    }
}
