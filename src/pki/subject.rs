use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, Ia5StringRef, PrintableStringRef, SetOfVec, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::oid::db::rfc4519::{CN, O, OU};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};

use super::Error;

/// The subject of a certificate. In Kubernetes, the common name is the user, and the organizations are the
/// groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// CN: the user name.
    pub common_name: String,
    /// O: the groups.
    pub organizations: Vec<String>,
    /// OU: preserved, but ignored by API servers.
    pub organizational_units: Vec<String>,
}

impl Subject {
    /// Returns the subject for a user with its groups.
    pub fn new(common_name: impl Into<String>, organizations: &[&str]) -> Self {
        let organizations = organizations.iter().map(|o| (*o).to_owned()).collect();
        Self { common_name: common_name.into(), organizations, organizational_units: Vec::new() }
    }

    pub(super) fn from_name(name: &Name) -> Self {
        let attributes = || name.0.iter().flat_map(|set| set.0.iter());
        let texts = |kind: ObjectIdentifier| -> Vec<String> {
            attributes().filter(|attribute| attribute.oid == kind).filter_map(text).collect()
        };
        Self {
            common_name: texts(CN).pop().unwrap_or_default(),
            organizations: texts(O),
            organizational_units: texts(OU),
        }
    }

    /// Returns a distinguished name with one attribute per set, organizations first, as OpenSSL and Go write
    /// it.
    pub(super) fn to_name(&self) -> Result<Name, Error> {
        let Self { common_name, organizations, organizational_units } = self;
        let groups = organizations.iter().map(|value| (O, value));
        let units = organizational_units.iter().map(|value| (OU, value));
        let user = (!common_name.is_empty()).then_some((CN, common_name));
        let attributes = groups.chain(units).chain(user).map(|(oid, value)| {
            let value = Any::from(Utf8StringRef::new(value)?);
            let attribute = AttributeTypeAndValue { oid, value };
            Ok(RelativeDistinguishedName(SetOfVec::try_from(vec![attribute])?))
        });
        let name: Result<_, x509_cert::der::Error> = attributes.collect();
        name.map(RdnSequence).map_err(Error::of("write a distinguished name"))
    }
}

/// Returns the text of an attribute, in one of the string types that clients use.
fn text(attribute: &AttributeTypeAndValue) -> Option<String> {
    let value = &attribute.value;
    let utf8 = || Some(value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned());
    let printable = || Some(value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_owned());
    let ia5 = || Some(value.decode_as::<Ia5StringRef<'_>>().ok()?.as_str().to_owned());
    utf8().or_else(printable).or_else(ia5)
}
