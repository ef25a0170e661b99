//! Credentials of a remote, read from a Secret.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::rc::Rc;

use git2::{CertificateCheckStatus, Cred, CredentialType, RemoteCallbacks};
use k8s_openapi::ByteString;

use super::known_hosts::{HostKeyMatch, KnownHosts};
use super::remote::{Remote, Transport};
use super::{Cancel, Error};

/// Most times that libgit2 may ask for credentials during one operation: it would ask 15 times while a server refuses.
const ATTEMPTS: u32 = 3;

/// Most bytes of a pack. The configuration of a hub is far smaller, however long its history is.
const MAX_PACK_BYTES: usize = 2 << 30;

/// The secrets that prove our identity to a remote, and the host keys that prove its identity to us.
///
/// | key of the Secret | for |
/// |---|---|
/// | `username`, `password` | https (`kubernetes.io/basic-auth`) |
/// | `token` or `bearerToken` | https; `username` defaults to `git` |
/// | `ssh-privatekey` or `identity`, `password` | ssh (`kubernetes.io/ssh-auth`); the password is the key's passphrase |
/// | `known_hosts` | ssh; mandatory |
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    username: Option<String>,
    password: Option<String>,
    ssh_key: Option<String>,
    known_hosts: KnownHosts,
}

/// Shows which parts are set, never their values.
impl Debug for Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { username, password, ssh_key, known_hosts } = self;
        let shown = f
            .debug_struct("Credentials")
            .field("username", &username.is_some())
            .field("password", &password.is_some())
            .finish();
        shown.and_then(|()| {
            write!(f, " (ssh key: {}, known hosts: {})", ssh_key.is_some(), !known_hosts.is_empty())
        })
    }
}

impl Credentials {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the key of the Secret that cannot be used; never its value.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let field = |names: &[&str]| -> Result<Option<String>, Error> {
            let Some((name, value)) = names.iter().find_map(|name| Some((name, data.get(*name)?))) else {
                return Ok(None);
            };
            let text = std::str::from_utf8(&value.0)
                .map_err(|_| Error::Credentials(format!("key {name} of the Secret is not text")))?;
            Ok(Some(text.to_owned()))
        };
        let line = |names: &[&str]| -> Result<Option<String>, Error> {
            let Some(text) = field(names)? else { return Ok(None) };
            let text = text.trim_end_matches(['\r', '\n']);
            // A line break would end the header or the credential-helper line that the value travels in (CVE-2020-5260).
            if text.is_empty() || text.contains(|c: char| c.is_control()) {
                return Err(Error::Credentials(format!(
                    "key {} of the Secret is empty or holds control characters",
                    names.join(" or ")
                )));
            }
            Ok(Some(text.to_owned()))
        };
        let known_hosts = field(&["known_hosts"])?.unwrap_or_default();
        let credentials = Self {
            username: line(&["username"])?,
            password: line(&["token", "bearerToken", "password"])?,
            ssh_key: field(&["ssh-privatekey", "identity"])?,
            known_hosts: KnownHosts::parse(&known_hosts)
                .map_err(|e| Error::Credentials(format!("key known_hosts of the Secret: {e}")))?,
        };
        if credentials.password.is_none() && credentials.ssh_key.is_none() {
            let keys = "password, token, or ssh-privatekey with known_hosts";
            return Err(Error::Credentials(format!("the credentials Secret has none of the keys {keys}")));
        }
        Ok(credentials)
    }

    /// Checks before any connection that the parts a remote needs are set.
    pub(super) fn check(&self, remote: &Remote) -> Result<(), Error> {
        match remote.transport() {
            Transport::Ssh { .. } if self.ssh_key.is_none() => Err(Error::Credentials(format!(
                "{remote} needs a credentials Secret with the keys ssh-privatekey and known_hosts"
            ))),
            Transport::Ssh { host, port, .. } if self.known_hosts.is_empty() => {
                Err(Error::Credentials(format!(
                    "the credentials Secret for {remote} has no known_hosts, and an unknown host is never trusted; \
                 add the output of `ssh-keyscan -p {port} {host}`, checked against what the host publishes"
                )))
            }
            Transport::Ssh { .. } | Transport::Net { .. } | Transport::Local(_) => Ok(()),
        }
    }

    /// Makes the callbacks of one operation. The returned notes explain why a callback ended it.
    pub(super) fn callbacks<'a>(
        &'a self,
        remote: &'a Remote,
        cancel: &'a Cancel,
    ) -> (RemoteCallbacks<'a>, Rc<Refusal>) {
        let mut callbacks = RemoteCallbacks::new();
        let refusal = Rc::new(Refusal { cancel: cancel.clone(), ..Refusal::default() });
        let asked = Cell::new(0_u32);
        callbacks.credentials(move |url, _, wanted| {
            asked.set(asked.get() + 1);
            if asked.get() > ATTEMPTS {
                return Err(refused("the credentials were refused"));
            }
            self.answer(remote, url, wanted)
        });
        let noted = Rc::clone(&refusal);
        callbacks.certificate_check(move |certificate, _| match remote.transport() {
            Transport::Ssh { host, port, .. } => {
                let key = certificate.as_hostkey().and_then(|key| key.hostkey()).unwrap_or_default();
                let why = match self.known_hosts.check(host, *port, key) {
                    HostKeyMatch::Match => return Ok(CertificateCheckStatus::CertificateOk),
                    HostKeyMatch::Mismatch => "its host key is not the one in known_hosts; if the host changed it on purpose, update the Secret",
                    HostKeyMatch::Unknown => "known_hosts has no line for this host and port",
                };
                noted.host_key.replace(Some(why));
                Err(git2::Error::new(git2::ErrorCode::Certificate, git2::ErrorClass::Ssh, why))
            }
            Transport::Net { .. } | Transport::Local(_) => Ok(CertificateCheckStatus::CertificatePassthrough),
        });
        let noted = Rc::clone(&refusal);
        callbacks.transfer_progress(move |progress| {
            let too_big = progress.received_bytes() > MAX_PACK_BYTES;
            noted.too_big.set(too_big);
            !too_big && !cancel.is_cancelled()
        });
        callbacks.sideband_progress(move |_| !cancel.is_cancelled());
        (callbacks, refusal)
    }

    fn answer(&self, remote: &Remote, url: &str, wanted: CredentialType) -> Result<Cred, git2::Error> {
        match remote.transport() {
            Transport::Ssh { user, .. } if wanted.contains(CredentialType::USERNAME) => Cred::username(user),
            Transport::Ssh { user, .. } => {
                let key = self.ssh_key.as_deref().ok_or_else(|| refused("no ssh key was given"))?;
                Cred::ssh_key_from_memory(user, None, key, self.password.as_deref())
            }
            Transport::Net { .. } => {
                let password = self
                    .password
                    .as_deref()
                    .ok_or_else(|| refused("the repository asks for credentials, and none are given"))?;
                // Redirects are off; should the library ask for another place than the one we were told, the secret stays here.
                let asked = Remote::parse(url).ok().map(|asked| asked.transport().clone());
                if asked.as_ref() != Some(remote.transport()) {
                    return Err(refused("another host than the configured one asks for credentials"));
                }
                Cred::userpass_plaintext(self.username.as_deref().unwrap_or("git"), password)
            }
            Transport::Local(_) => Err(refused("a local repository takes no credentials")),
        }
    }
}

/// The reason why a callback ended an operation, which the error of libgit2 does not carry.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    host_key: RefCell<Option<&'static str>>,
    too_big: Cell<bool>,
    cancel: Cancel,
}

impl Refusal {
    /// Makes the error of an operation.
    pub(super) fn explain(&self, remote: &Remote, e: &git2::Error) -> Error {
        if let Some(why) = *self.host_key.borrow() {
            return Error::HostKey { url: remote.url().into(), why: why.into() };
        }
        if self.too_big.get() {
            return Error::Content(format!(
                "{remote} sends more than {} MiB; use a repository of its own for the configuration",
                MAX_PACK_BYTES >> 20
            ));
        }
        if self.cancel.is_cancelled() {
            return Error::Cancelled { url: remote.url().into() };
        }
        Error::remote(remote.url(), e)
    }
}

fn refused(why: &str) -> git2::Error {
    git2::Error::new(git2::ErrorCode::Auth, git2::ErrorClass::Net, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(data: &[(&str, &str)]) -> Result<Credentials, Error> {
        Credentials::from_secret(
            &data.iter().map(|(k, v)| ((*k).to_owned(), ByteString(v.as_bytes().to_vec()))).collect(),
        )
    }

    #[test]
    fn a_secret_names_the_key_that_is_missing_or_wrong() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[], "none of the keys"),
            (&[("username", "me")], "none of the keys"),
            (&[("password", "a\nhost=evil")], "key token or bearerToken or password"),
            (&[("ssh-privatekey", "k"), ("known_hosts", "nonsense")], "known_hosts of the Secret: line 1"),
        ];
        for (data, part) in cases {
            let message = secret(data).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(!message.contains("evil"));
        }
    }

    #[test]
    fn ssh_without_known_hosts_never_connects() {
        let remote = Remote::parse("git@git.example:x").unwrap();
        let error = secret(&[("identity", "key")]).unwrap().check(&remote).unwrap_err();
        assert!(error.to_string().contains("ssh-keyscan -p 22 git.example"), "{error}");
        assert!(Credentials::default().check(&remote).is_err());
        assert!(Credentials::default().check(&Remote::parse("https://git.example/x").unwrap()).is_ok());
    }

    #[test]
    fn credentials_stay_with_the_configured_host() {
        let remote = Remote::parse("https://git.example/x").unwrap();
        let credentials = secret(&[("token", "hunter22")]).unwrap();
        assert!(
            credentials.answer(&remote, "https://git.example/x", CredentialType::USER_PASS_PLAINTEXT).is_ok()
        );
        for elsewhere in ["https://evil.example/x", "http://git.example/x", "https://git.example.evil/x"] {
            assert!(
                credentials.answer(&remote, elsewhere, CredentialType::USER_PASS_PLAINTEXT).is_err(),
                "{elsewhere}"
            );
        }
        assert!(!format!("{credentials:?}").contains("hunter22"));
    }
}
