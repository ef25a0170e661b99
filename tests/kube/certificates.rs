//! The certificates of a control plane and of its users.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use wheelwright::apiserver::{Credential, kubeconfig_yaml};
use wheelwright::pki::{Authority, Identity, Profile, Subject, Usage};

use super::{Cluster, Directory};

const DAY: Duration = Duration::from_hours(24);

impl Cluster {
    /// Returns a user's certificate and key, with nine tenths of the certificate's lifetime used up.
    pub(crate) fn old_certificate(&self, user: &str, groups: &[&str]) -> Identity {
        let made = Timestamp::now().checked_sub(SignedDuration::from_hours(90)).unwrap();
        self.authority.issue(&client_profile(user, groups, Duration::from_hours(100)), made).unwrap()
    }
}

pub(super) fn client_certificate(authority: &Authority, user: &str, groups: &[&str]) -> Identity {
    let profile = client_profile(user, groups, DAY);
    authority.issue(&profile, Timestamp::now()).unwrap()
}

fn client_profile(user: &str, groups: &[&str], lifetime: Duration) -> Profile<'static> {
    Profile { subject: Subject::new(user, groups), names: &[], usage: Usage::Client, lifetime }
}

/// Creates an authority, and writes its certificates and the administrator's kubeconfig file.
pub(super) fn write_authority(dir: &Directory, url: &str) -> Authority {
    let authority = Authority::create("kubernetes-ca", Timestamp::now()).unwrap();
    write_certificates(dir, &authority);
    let admin = client_certificate(&authority, "kubernetes-admin", &["system:masters"]);
    let text = kubeconfig_yaml(url, &authority.certificate_pem(), &Credential::Certificate(admin));
    std::fs::write(dir.path("admin.kubeconfig"), text).unwrap();
    authority
}

fn write_certificates(dir: &Directory, authority: &Authority) {
    let write = |name: &str, identity: &Identity| {
        std::fs::write(dir.path(&format!("{name}.crt")), &identity.certificate).unwrap();
        std::fs::write(dir.path(&format!("{name}.key")), &identity.key).unwrap();
    };
    let profile = Profile {
        subject: Subject::new("kube-apiserver", &[]),
        // The last name is for tests that reach it through a proxy.
        names: &["127.0.0.1", "localhost", "kubernetes.default.svc", "api.example.com"],
        usage: Usage::Server,
        lifetime: DAY,
    };
    let now = Timestamp::now();
    write("ca", &authority.identity());
    write("serving", &authority.issue(&profile, now).unwrap());
    let front_proxy = client_certificate(authority, "front-proxy", &[]);
    write("front-proxy", &front_proxy);
    write("service-accounts", &Authority::create("service-accounts", now).unwrap().identity());
}
