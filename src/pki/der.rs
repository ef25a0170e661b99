//! Just enough DER to write certificates and requests.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Subject;

/// ecdsa-with-SHA256, as an AlgorithmIdentifier.
pub(super) const ECDSA_WITH_SHA256: &[u8] =
    &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ORGANIZATIONAL_UNIT: &[u8] = &[0x55, 0x04, 0x0b];

pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BOOLEAN_TRUE: &[u8] = &[0x01, 0x01, 0xff];

/// A tag, the length and the parts after each other.
pub(super) fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
            out.push(0x80 | u8::try_from(bytes.len()).expect("a usize has eight bytes"));
            out.extend(bytes);
        }
    }
    parts.iter().for_each(|p| out.extend_from_slice(p));
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, parts)
}

pub(super) fn set(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SET, parts)
}

/// A positive integer whose first bit is clear.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    tlv(INTEGER, &[bytes])
}

pub(super) fn oid(bytes: &[u8]) -> Vec<u8> {
    tlv(OID, &[bytes])
}

/// A bit string of whole bytes, or with `unused` bits at its end.
pub(super) fn bits(unused: u8, bytes: &[u8]) -> Vec<u8> {
    tlv(BIT_STRING, &[&[unused], bytes])
}

/// RFC 5280 4.1.2.5: two-digit years through 2049, four digits from then on.
pub(super) fn time(at: Timestamp) -> Vec<u8> {
    let at = at.to_zoned(TimeZone::UTC);
    match at.year() {
        1950..=2049 => tlv(UTC_TIME, &[at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()]),
        _ => tlv(GENERALIZED_TIME, &[at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()]),
    }
}

/// A distinguished name with one attribute a set, organisations first, as OpenSSL and Go write them.
pub(super) fn name(subject: &Subject) -> Vec<u8> {
    let attribute =
        |kind: &[u8], value: &str| set(&[&sequence(&[&oid(kind), &tlv(UTF8_STRING, &[value.as_bytes()])])]);
    let mut attributes: Vec<Vec<u8>> =
        subject.organizations.iter().map(|o| attribute(ORGANIZATION, o)).collect();
    attributes.extend(subject.organizational_units.iter().map(|o| attribute(ORGANIZATIONAL_UNIT, o)));
    if !subject.common_name.is_empty() {
        attributes.push(attribute(COMMON_NAME, &subject.common_name));
    }
    sequence(&attributes.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// An X.509 extension.
pub(super) fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let flag: &[u8] = if critical { BOOLEAN_TRUE } else { &[] };
    sequence(&[&oid(id), flag, &tlv(OCTET_STRING, &[value])])
}
