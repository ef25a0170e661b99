//! The registrations of a cluster's add-ons: the identity that each add-on requests, how it proves that
//! identity, and the secret that stores its credentials.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::AgentOptions;
use super::hub::BootstrapHub;
use crate::pki;
use api::addon::token;
use api::addon::v1alpha1::{KubeClientDriver, ManagedClusterAddOn, RegistrationConfig, Subject};
use api::condition::Conditions as _;
use api::names::KUBE_CLIENT_SIGNER;
use api::names::addon_conditions::TOKEN_INFRASTRUCTURE_READY;
use controllers::agent::addon_lease::hosting_cluster;
use object::Key;

/// The minimum time between two attempts, and the wait after the first failure: the add-on's namespace may not
/// exist yet.
pub(super) const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// The suffix of secrets with certificates that the hub's own signer does not issue.
const CUSTOM_SECRET: &str = "-client-cert";

/// The add-ons of a cluster, and the hub that gives them identities.
pub(super) struct AddOns<'a> {
    pub(super) hub: &'a BootstrapHub,
    pub(super) client: &'a kube::Client,
    pub(super) options: &'a AgentOptions,
}

impl AddOns<'_> {
    /// Returns the registrations of an add-on.
    pub(super) fn registrations(&self, addon: &ManagedClusterAddOn) -> Vec<Registration> {
        let is_hosted = self.options.management.is_some() && hosting_cluster(addon).is_some();
        registrations(addon, &self.options.addon_driver, is_hosted)
    }
}

/// An identity that an add-on requests on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Registration {
    pub(super) addon: String,
    pub(super) namespace: String,
    pub(super) signer: String,
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    pub(super) units: Vec<String>,
    pub(super) proof: Proof,
    /// True if the add-on's agent runs next to this agent, not on the cluster.
    pub(super) is_hosted: bool,
}

impl Registration {
    /// Returns the secret that stores the credentials.
    pub(super) fn secret(&self) -> CredentialsSecret {
        let name = match self.is_of_the_hub() {
            true => secret_name(&self.addon),
            false => format!("{}-{}{CUSTOM_SECRET}", self.addon, self.signer.replace('/', "-")),
        };
        CredentialsSecret { key: Key::namespaced(&self.namespace, name), is_hosted: self.is_hosted }
    }

    /// Returns true if a certificate has exactly the requested names.
    pub(super) fn is_named_by(&self, subject: &pki::Subject) -> bool {
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
        subject.common_name == self.user
            && set(&subject.organizations) == set(&self.groups)
            && set(&subject.organizational_units) == set(&self.units)
    }

    /// Returns true if the certificate is for clients of the hub's API server.
    pub(super) fn is_of_the_hub(&self) -> bool {
        self.signer == KUBE_CLIENT_SIGNER
    }
}

/// Returns the registrations of an add-on, with OCM's defaults. An add-on that is being deleted keeps its
/// credentials for its last jobs.
fn registrations(
    addon: &ManagedClusterAddOn,
    driver: &KubeClientDriver,
    is_hosted: bool,
) -> Vec<Registration> {
    let (Some(name), Some(cluster)) = (&addon.metadata.name, &addon.metadata.namespace) else {
        return Vec::new();
    };
    let asked = addon.status.iter().flat_map(|status| &status.registrations);
    let registration = |asked: &RegistrationConfig| {
        let Subject { user, groups, organization_units: units, unknown: _ } =
            asked.subject.clone().unwrap_or_default().completed(cluster, name);
        let namespace = addon.agent_namespace().to_owned();
        Registration {
            addon: name.clone(),
            namespace,
            signer: asked.signer_name.clone(),
            user,
            groups,
            units,
            proof: Proof::new(asked, addon, driver),
            is_hosted,
        }
    };
    // Two registrations with the same signer share a secret. The first one wins.
    let mut seen = BTreeSet::new();
    asked.filter(|asked| seen.insert(&asked.signer_name)).map(registration).collect()
}

/// The proof of an add-on's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Proof {
    /// The driver in the status differs from the one that the agent uses.
    OtherDriver,
    Certificate,
    /// A token, but the hub has no service account for it yet.
    NoAccount,
    /// A token of the service account with this uid.
    Token(String),
}

impl Proof {
    /// Returns the proof that an add-on requests. Only the hub's API server accepts tokens.
    pub(super) fn new(
        asked: &RegistrationConfig,
        addon: &ManagedClusterAddOn,
        driver: &KubeClientDriver,
    ) -> Self {
        let reported = addon.status.as_ref().and_then(|status| status.kube_client_driver.as_ref());
        let is_of_the_hub = asked.signer_name == KUBE_CLIENT_SIGNER;
        match driver {
            KubeClientDriver::Token if is_of_the_hub => {
                if reported != Some(&KubeClientDriver::Token) {
                    return Self::OtherDriver;
                }
                let ready = addon.condition(TOKEN_INFRASTRUCTURE_READY).filter(|ready| ready.is_true());
                let uid = ready.and_then(|ready| token::uid_in(&ready.message));
                uid.map_or(Self::NoAccount, |uid| Self::Token(uid.to_owned()))
            }
            // Managers treat a status without a driver as a certificate registration.
            KubeClientDriver::Csr | KubeClientDriver::Token | KubeClientDriver::Other(_) => {
                let is_other = reported.is_some_and(|reported| *reported != KubeClientDriver::Csr);
                if is_of_the_hub && is_other { Self::OtherDriver } else { Self::Certificate }
            }
        }
    }
}

/// A secret that stores credentials of an add-on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CredentialsSecret {
    pub(super) key: Key,
    /// True if the secret is next to the agent, not on the cluster.
    pub(super) is_hosted: bool,
}

/// Returns the name of the secret with an add-on's credentials for the hub.
fn secret_name(addon: &str) -> String {
    format!("{addon}-hub-kubeconfig")
}

/// Returns true if a secret with this name may store credentials of an add-on.
pub(super) fn is_secret_of(addon: &str, name: &str) -> bool {
    let is_custom =
        name.strip_prefix(addon).is_some_and(|rest| rest.starts_with('-') && rest.ends_with(CUSTOM_SECRET));
    name == secret_name(addon) || is_custom
}

#[cfg(test)]
#[path = "tests/addon_registration.rs"]
mod tests;
