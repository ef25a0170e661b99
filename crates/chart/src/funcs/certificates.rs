//! Functions that generate keys and certificates (Sprig's `crypto.go`).

use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::fault::Fault;
use crate::object::Object;
use crate::pki::{Certificate, Issuer, PrivateKey, Profile};
use crate::random::{Purpose, Random};
use crate::value::Value;

/// Steps charged for generating an RSA key of 2,048 bits, which takes 0.15 s. A key of 4,096 bits takes 1.4 s and
/// costs eight times as much.
const RSA_STEPS: u64 = 200_000;
/// Steps charged for generating another key, including a signature.
const CURVE_STEPS: u64 = 2_000;
/// Steps charged for parsing a key and signing with it.
const GIVEN_STEPS: u64 = 20_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("genPrivateKey", &[Type::Str], private_key),
    Function::new("genCA", &[Type::Str, Type::Int], |call| authority(call, None)),
    Function::new("genCAWithKey", &[Type::Str, Type::Int, Type::Str], |call| authority(call, Some(2))),
    Function::new("genSelfSignedCert", &[Type::Str, Type::List, Type::List, Type::Int], |call| {
        self_signed(call, None)
    }),
    Function::new(
        "genSelfSignedCertWithKey",
        &[Type::Str, Type::List, Type::List, Type::Int, Type::Str],
        |call| self_signed(call, Some(4)),
    ),
    Function::new(
        "genSignedCert",
        &[Type::Str, Type::List, Type::List, Type::Int, Type::Certificate],
        |call| signed(call, None),
    ),
    Function::new(
        "genSignedCertWithKey",
        &[Type::Str, Type::List, Type::List, Type::Int, Type::Certificate, Type::Str],
        |call| signed(call, Some(5)),
    ),
    Function::new("buildCustomCert", &[Type::Str, Type::Str], |call| {
        let decoded = |at, what| {
            let bytes = STANDARD.decode(call.str(at)).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.ok_or_else(|| format!("unable to decode base64 {what}"))
        };
        call.env.budget.work(GIVEN_STEPS)?;
        value(Certificate::given(decoded(0, "certificate")?, decoded(1, "private key")?)?)
    }),
];

fn value(certificate: Certificate) -> Outcome {
    Ok(Value::Object(Rc::new(Object::Certificate(certificate))))
}

fn private_key(call: Call<'_>) -> Outcome {
    call.env.budget.work(CURVE_STEPS)?;
    let mut random = call.random()?;
    let key = match call.str(0) {
        "" | "rsa" => rsa(call, &mut random, 4_096)?,
        "ecdsa" => PrivateKey::ecdsa(&mut random),
        "ed25519" => PrivateKey::ed25519(&mut random),
        "dsa" => return Err(Fault::unsupported("DSA keys are not supported; no TLS library accepts them")),
        other => return text(&format!("Unknown type {other}")),
    };
    text(&key.to_pem()?)
}

fn authority(call: Call<'_>, key_at: Option<usize>) -> Outcome {
    let mut random = call.random()?;
    let key = key(call, key_at, &mut random)?;
    let (dns_names, ips) = Default::default();
    let from = call.env.fresh.now();
    let profile = Profile { name: call.str(0), dns_names, ips, is_authority: true, from, days: call.int(1) };
    value(profile.certify(&key, None, &mut random)?)
}

fn self_signed(call: Call<'_>, key_at: Option<usize>) -> Outcome {
    let mut random = call.random()?;
    let key = key(call, key_at, &mut random)?;
    value(leaf(call)?.certify(&key, None, &mut random)?)
}

fn signed(call: Call<'_>, key_at: Option<usize>) -> Outcome {
    let Value::Object(object) = call.arg(4) else { return Err("unable to decode certificate".into()) };
    let Object::Certificate(issuer) = &**object else { return Err("unable to decode certificate".into()) };
    let mut random = call.random()?;
    let key = key(call, key_at, &mut random)?;
    call.env.budget.work(GIVEN_STEPS)?;
    let issuer = Issuer::read(issuer)?;
    value(leaf(call)?.certify(&key, Some(&issuer), &mut random)?)
}

/// Returns the key of a certificate: the argument at an index, or a new key.
fn key(call: Call<'_>, at: Option<usize>, random: &mut Random) -> Result<PrivateKey, Fault> {
    match at {
        Some(at) => {
            call.env.budget.work(GIVEN_STEPS)?;
            Ok(PrivateKey::from_pem(call.str(at))
                .map_err(|reason| format!("parsing private key: {reason}"))?)
        }
        None => rsa(call, random, 2_048),
    }
}

fn rsa(call: Call<'_>, random: &mut Random, bits: u32) -> Result<PrivateKey, Fault> {
    if call.env.fresh.purpose == Purpose::Comparison {
        call.env.budget.work(CURVE_STEPS)?;
        return Ok(PrivateKey::ecdsa(random));
    }
    call.env.budget.work(RSA_STEPS * u64::from(bits / 2_048).pow(3))?;
    Ok(PrivateKey::rsa(random, bits as usize)
        .map_err(|reason| format!("error generating rsa key: {reason}"))?)
}

/// Reads the arguments that server and client certificates share.
fn leaf(call: Call<'_>) -> Result<Profile<'_>, Fault> {
    let ip = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("error parsing ip: {text}"));
    let ips = texts(call.arg(1), "parsing ip")?.into_iter().map(ip).collect::<Result<_, _>>()?;
    let dns_names = texts(call.arg(2), "processing alternate dns name")?;
    let from = call.env.fresh.now();
    Ok(Profile { name: call.str(0), dns_names, ips, is_authority: false, from, days: call.int(3) })
}

/// Returns the strings of a list, which may be nil.
fn texts<'a>(list: &'a Value, attempt: &str) -> Result<Vec<&'a str>, String> {
    let Value::List(list) = list else { return Ok(Vec::new()) };
    let text = |item: &'a Value| {
        item.as_str().ok_or_else(|| format!("error {attempt}: {} is not a string", crate::print::text(item)))
    };
    list.items.iter().map(text).collect()
}
