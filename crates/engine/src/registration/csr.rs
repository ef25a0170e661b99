//! Decides which certificate signing requests the hub approves.
//!
//! The label of a request is only a hint; the subject decides. The hub never approves a request that is not
//! allowed, and never denies one. It ignores requests that do not match exactly.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::{CN, O, OU};
use x509_cert::der::pem::{PemLabel as _, decode_vec};
use x509_cert::request::CertReq;

use super::der::decode;
use api::names::{
    ADDON_NAME_LABEL, CLUSTER_NAME_LABEL, KUBE_CLIENT_SIGNER, MANAGED_CLUSTERS_GROUP, SUBJECT_PREFIX,
};

/// The usage of client certificates.
const CLIENT_AUTH: &str = "client auth";
/// The usages that a request for a client certificate may contain.
const PERMITTED_USAGES: [&str; 3] = [CLIENT_AUTH, "digital signature", "key encipherment"];

/// The certificate that a valid request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedCertificate {
    /// The certificate of a cluster's agent.
    Cluster {
        /// The name of the cluster.
        cluster: String,
        /// True if the requester already has this identity.
        renewal: bool,
    },
    /// The certificate of an add-on's agent on a cluster.
    AddOn {
        /// The name of the cluster.
        cluster: String,
        /// The name of the add-on.
        addon: String,
    },
    /// A certificate from a custom signer, for an add-on's agent on a cluster.
    Custom {
        /// The name of the cluster.
        cluster: String,
        /// The name of the add-on.
        addon: String,
        /// The requested subject.
        subject: RequestedSubject,
    },
}

/// Returns true if a request was approved or denied.
pub fn is_decided(csr: &CertificateSigningRequest) -> bool {
    let conditions = csr.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| matches!(condition.type_.as_str(), "Approved" | "Denied"))
}

/// Returns the certificate that a request asks for; `None` if the request is for another signer or is not valid.
pub fn requested(csr: &CertificateSigningRequest) -> Option<RequestedCertificate> {
    let label =
        |name: &str| csr.metadata.labels.as_ref()?.get(name).filter(|value| !value.is_empty()).cloned();
    let cluster = label(CLUSTER_NAME_LABEL)?;
    let subject = subject(csr).filter(|_| is_for_a_client(csr))?;
    let addon = label(ADDON_NAME_LABEL);
    if csr.spec.signer_name != KUBE_CLIENT_SIGNER {
        let is_kubernetes = csr.spec.signer_name.starts_with("kubernetes.io/");
        let addon = addon.filter(|_| !is_kubernetes && is_agent_of(csr, &cluster))?;
        return Some(RequestedCertificate::Custom { cluster, addon, subject });
    }
    if !subject.organizational_units.is_empty() {
        return None;
    }
    match addon {
        None => cluster_certificate(csr, cluster, &subject),
        Some(addon) => addon_certificate(csr, cluster, addon, &subject),
    }
}

/// Returns true if the certificate only proves the identity of a client. Kubernetes signs no other requests with
/// its client CA.
fn is_for_a_client(csr: &CertificateSigningRequest) -> bool {
    let usages = csr.spec.usages.as_deref().unwrap_or_default();
    let is_permitted = |usage: &String| PERMITTED_USAGES.contains(&usage.as_str());
    usages.iter().any(|usage| usage == CLIENT_AUTH) && usages.iter().all(is_permitted)
}

/// Checks that the groups are the cluster's group and the common group, and that the user is an agent of the
/// cluster.
fn cluster_certificate(
    csr: &CertificateSigningRequest,
    cluster: String,
    subject: &RequestedSubject,
) -> Option<RequestedCertificate> {
    let own = format!("{SUBJECT_PREFIX}{cluster}");
    let groups: BTreeSet<&str> = subject.organizations.iter().map(String::as_str).collect();
    if groups != BTreeSet::from([own.as_str(), MANAGED_CLUSTERS_GROUP]) {
        return None;
    }
    let mut parts = subject.common_name.strip_prefix(SUBJECT_PREFIX)?.split(':');
    let (named, agent, rest) = (parts.next()?, parts.next()?, parts.next());
    if named != cluster || agent.is_empty() || rest.is_some() {
        return None;
    }
    let renewal = csr.spec.username.as_deref() == Some(subject.common_name.as_str());
    Some(RequestedCertificate::Cluster { cluster, renewal })
}

/// Checks that the subject belongs to the add-on's agent, and that the requester is the agent of the same
/// cluster.
///
/// OCM compares the requester by prefix, so the agent of `cluster10` can request certificates for add-ons on
/// `cluster1`. See docs/hazards.md#csr-prefix.
fn addon_certificate(
    csr: &CertificateSigningRequest,
    cluster: String,
    addon: String,
    subject: &RequestedSubject,
) -> Option<RequestedCertificate> {
    if !is_agent_of(csr, &cluster) {
        return None;
    }
    let group = format!("{SUBJECT_PREFIX}cluster:{cluster}:addon:{addon}");
    let everywhere = format!("{SUBJECT_PREFIX}addon:{addon}");
    let groups: BTreeSet<&str> = subject
        .organizations
        .iter()
        .map(String::as_str)
        .filter(|group| *group != "system:authenticated")
        .collect();
    let fits = groups == BTreeSet::from([group.as_str(), everywhere.as_str()]);
    (fits && subject.common_name == format!("{group}:agent:{addon}-agent"))
        .then_some(RequestedCertificate::AddOn { cluster, addon })
}

/// Returns true if the requester is an agent of the cluster.
fn is_agent_of(csr: &CertificateSigningRequest, cluster: &str) -> bool {
    let requester = csr.spec.username.as_deref().and_then(|user| user.strip_prefix(SUBJECT_PREFIX));
    let parts = requester.and_then(|requester| requester.split_once(':'));
    parts.is_some_and(|(of, agent)| of == cluster && !agent.is_empty() && !agent.contains(':'))
}

/// The subject that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedSubject {
    common_name: String,
    organizations: Vec<String>,
    organizational_units: Vec<String>,
}

impl RequestedSubject {
    /// Returns true if this is exactly the subject of a registration.
    pub fn is(&self, registered: &api::addon::v1alpha1::Subject) -> bool {
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
        self.common_name == registered.user
            && set(&self.organizations) == set(&registered.groups)
            && set(&self.organizational_units) == set(&registered.organization_units)
    }
}

/// Parses the subject of a request. It verifies no signature: the signer verifies the request and signs the same
/// bytes.
///
/// Rejects a subject that lacks or repeats the common name, or that has attributes other than common name,
/// organization and organizational unit, because two parsers could interpret it differently.
fn subject(csr: &CertificateSigningRequest) -> Option<RequestedSubject> {
    let (label, der) = decode_vec(csr.spec.request.0.trim_ascii()).ok()?;
    if label != CertReq::PEM_LABEL {
        return None;
    }
    let request: CertReq = decode(&der).ok()?;
    let (mut common_names, mut organizations, mut organizational_units) =
        (Vec::new(), Vec::new(), Vec::new());
    for attribute in request.info.subject.0.iter().flat_map(|set| set.0.iter()) {
        let value = &attribute.value;
        let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
        let printable = |_| value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned());
        let texts = match attribute.oid {
            CN => &mut common_names,
            O => &mut organizations,
            OU => &mut organizational_units,
            _ => return None,
        };
        texts.push(utf8.or_else(printable).ok()?);
    }
    match (common_names.pop(), common_names.is_empty()) {
        (Some(common_name), true) => {
            Some(RequestedSubject { common_name, organizations, organizational_units })
        }
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use x509_cert::attr::AttributeTypeAndValue;
    use x509_cert::der::EncodePem as _;
    use x509_cert::der::asn1::{BitString, SetOfVec};
    use x509_cert::der::oid::ObjectIdentifier;
    use x509_cert::der::oid::db::rfc4519::L;
    use x509_cert::der::pem::LineEnding;
    use x509_cert::name::{RdnSequence, RelativeDistinguishedName};
    use x509_cert::request::{CertReqInfo, Version};
    use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

    /// Returns a request for a subject, with an arbitrary key and signature that this module never reads.
    fn request<'a>(attributes: impl IntoIterator<Item = (ObjectIdentifier, &'a str)>) -> String {
        let set = |(oid, text): (ObjectIdentifier, &str)| {
            let value = Utf8StringRef::new(text).unwrap().into();
            RelativeDistinguishedName(vec![AttributeTypeAndValue { oid, value }].try_into().unwrap())
        };
        let algorithm = AlgorithmIdentifierOwned { oid: O, parameters: None };
        let nothing = BitString::from_bytes(&[]).unwrap();
        let public_key =
            SubjectPublicKeyInfoOwned { algorithm: algorithm.clone(), subject_public_key: nothing.clone() };
        let subject = RdnSequence(attributes.into_iter().map(set).collect());
        let info = CertReqInfo { version: Version::V1, subject, public_key, attributes: SetOfVec::new() };
        CertReq { info, algorithm, signature: nothing }.to_pem(LineEnding::LF).unwrap()
    }

    const PREFIX: &str = "system:open-cluster-management:";

    fn csr(
        labels: &[(&str, &str)],
        requester: &str,
        common_name: &str,
        organizations: &[&str],
    ) -> CertificateSigningRequest {
        let organizations = organizations.iter().map(|name| (O, *name));
        let pem = request(organizations.chain([(CN, common_name)]));
        let labels = labels
            .iter()
            .map(|(name, value)| (format!("open-cluster-management.io/{name}"), (*value).to_owned()))
            .collect();
        let spec = CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: KUBE_CLIENT_SIGNER.into(),
            username: Some(requester.into()),
            usages: Some(vec!["digital signature".into(), "key encipherment".into(), "client auth".into()]),
            ..CertificateSigningRequestSpec::default()
        };
        let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
        CertificateSigningRequest { metadata, spec, ..CertificateSigningRequest::default() }
    }

    fn for_cluster(
        label: &str,
        requester: &str,
        common_name: &str,
        organizations: &[&str],
    ) -> Option<RequestedCertificate> {
        let organizations: Vec<String> = organizations.iter().map(|name| format!("{PREFIX}{name}")).collect();
        let organizations: Vec<&str> = organizations.iter().map(String::as_str).collect();
        requested(&csr(
            &[("cluster-name", label)],
            requester,
            &format!("{PREFIX}{common_name}"),
            &organizations,
        ))
    }

    #[test]
    fn only_requests_for_client_usages_fit() {
        let groups = [&*format!("{PREFIX}c1"), MANAGED_CLUSTERS_GROUP];
        let mut cluster = csr(&[("cluster-name", "c1")], "", &format!("{PREFIX}c1:a"), &groups);
        let labels = [("cluster-name", "c1"), ("addon-name", "a")];
        let mut custom = csr(&labels, &format!("{PREFIX}c1:a"), "n", &[]);
        custom.spec.signer_name = "example.com/a".into();
        for (usages, fits) in [
            (&["client auth"][..], true),
            (&["digital signature", "client auth"], true),
            (&["digital signature", "key encipherment"], false),
            (&["client auth", "server auth"], false),
            (&["client auth", "cert sign"], false),
            (&[], false),
        ] {
            for csr in [&mut cluster, &mut custom] {
                csr.spec.usages = Some(usages.iter().map(|usage| (*usage).to_owned()).collect());
                assert_eq!(requested(csr).is_some(), fits, "{usages:?} of {}", csr.spec.signer_name);
            }
        }
        cluster.spec.usages = None;
        assert_eq!(requested(&cluster), None);
    }

    #[test]
    fn a_subject_is_read_as_it_is_or_not_at_all() {
        let subject = |pem: &str| {
            let mut csr = csr(&[], "", "", &[]);
            csr.spec.request = ByteString(pem.into());
            super::subject(&csr)
        };
        let want = RequestedSubject {
            common_name: "n".into(),
            organizations: vec!["a".into(), "b".into()],
            organizational_units: Vec::new(),
        };
        let whole = request([(O, "a"), (CN, "n"), (O, "b")]);
        assert_eq!(subject(&whole), Some(want));
        assert_eq!(subject(&request([(O, "a"), (O, "b")])), None, "no common name");
        assert_eq!(subject(&request([(CN, "a"), (CN, "b")])), None, "two common names");
        assert_eq!(subject(&request([(CN, "a"), (L, "b")])), None, "another attribute");
        for cut in 0..whole.trim().len() {
            assert_eq!(subject(&whole[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_subject_matches_its_registration_exactly() {
        let registered: api::addon::v1alpha1::Subject = serde_json::from_value(
            serde_json::json!({"user": "u", "groups": ["g", "h"], "organizationUnit": ["x"]}),
        )
        .unwrap();
        let is = |attributes: &[(ObjectIdentifier, &str)]| {
            let mut csr = csr(&[], "", "", &[]);
            csr.spec.request = ByteString(request(attributes.iter().copied()).into());
            super::subject(&csr).unwrap().is(&registered)
        };
        assert!(is(&[(CN, "u"), (O, "h"), (O, "g"), (OU, "x")]));
        for other in [
            &[(CN, "v"), (O, "g"), (O, "h"), (OU, "x")][..],
            &[(CN, "u"), (O, "g"), (OU, "x")],
            &[(CN, "u"), (O, "g"), (O, "h"), (O, "system:masters"), (OU, "x")],
            &[(CN, "u"), (O, "g"), (O, "h")],
        ] {
            assert!(!is(other), "{other:?}");
        }
    }

    #[test]
    fn a_certificate_of_the_hub_has_no_organizational_units() {
        let group = format!("{PREFIX}c1");
        let mut csr = csr(&[("cluster-name", "c1")], "bootstrap", "", &[]);
        let common_name = format!("{PREFIX}c1:agent");
        let groups = [(O, group.as_str()), (O, MANAGED_CLUSTERS_GROUP), (CN, common_name.as_str())];
        csr.spec.request = ByteString(request(groups).into());
        assert!(requested(&csr).is_some());
        csr.spec.request = ByteString(request(groups.into_iter().chain([(OU, "x")])).into());
        assert_eq!(requested(&csr), None);
    }

    #[test]
    fn a_cluster_asks_for_exactly_itself() {
        let join = Some(RequestedCertificate::Cluster { cluster: "c1".into(), renewal: false });
        assert_eq!(for_cluster("c1", "bootstrap", "c1:agent", &["c1", "managed-clusters"]), join);
        let renewal = Some(RequestedCertificate::Cluster { cluster: "c1".into(), renewal: true });
        assert_eq!(
            for_cluster("c1", &format!("{PREFIX}c1:agent"), "c1:agent", &["managed-clusters", "c1"]),
            renewal
        );
        let refused = [
            ("c1", "c2:agent", &["c1", "managed-clusters"][..]),
            ("c1", "c2:agent", &["c2", "managed-clusters"]),
            ("c1", "c1:agent", &["c10", "managed-clusters"]),
            ("c1", "c1:agent", &["c1"]),
            ("c1", "c1:agent", &["c1", "managed-clusters", "c2"]),
            ("c1", "c1:a:b", &["c1", "managed-clusters"]),
            ("c1", "c1:", &["c1", "managed-clusters"]),
            ("c1", "c1", &["c1", "managed-clusters"]),
        ];
        for (label, common_name, organizations) in refused {
            assert_eq!(
                for_cluster(label, "bootstrap", common_name, organizations),
                None,
                "{label} {common_name} {organizations:?}"
            );
        }
    }

    #[test]
    fn the_agent_of_one_cluster_cannot_ask_for_the_addons_of_another() {
        let requested = |requester: &str| {
            let group = format!("{PREFIX}cluster:cluster1:addon:a");
            let organizations = [group.as_str(), "system:open-cluster-management:addon:a"];
            let labels = [("cluster-name", "cluster1"), ("addon-name", "a")];
            requested(&csr(
                &labels,
                &format!("{PREFIX}{requester}"),
                &format!("{group}:agent:a-agent"),
                &organizations,
            ))
        };
        assert_eq!(
            requested("cluster1:agent"),
            Some(RequestedCertificate::AddOn { cluster: "cluster1".into(), addon: "a".into() })
        );
        for requester in
            ["cluster10:agent", "cluster1", "cluster:cluster1:addon:a:agent:a-agent", "cluster1:x:y"]
        {
            assert_eq!(requested(requester), None, "{requester}");
        }
    }
}
