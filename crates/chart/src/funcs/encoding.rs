//! Base64, Base32, and hashes of texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use super::strings::{cut, text};
use super::{Call, Function, Outcome, Type};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("b64enc", &[Type::Str], |call| text(&STANDARD.encode(call.str(0)))),
    Function::new("b64dec", &[Type::Str], b64dec),
    Function::new("b32enc", &[Type::Str], |call| text(&base32(call.str(0).as_bytes()))),
    Function::new("b32dec", &[Type::Str], |call| match base32_decoded(call.str(0)) {
        Some(bytes) => cut(&bytes),
        None => text("illegal base32 data at input byte 0"),
    }),
    Function::new("sha1sum", &[Type::Str], |call| text(&hex(&sha1::Sha1::digest(call.str(0))))),
    Function::new("sha256sum", &[Type::Str], |call| text(&hex(&Sha256::digest(call.str(0))))),
    Function::new("sha512sum", &[Type::Str], |call| text(&hex(&Sha512::digest(call.str(0))))),
    Function::new("adler32sum", &[Type::Str], |call| text(&adler32(call.str(0).as_bytes()).to_string())),
];

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn b64dec(call: Call<'_>) -> Outcome {
    let plain: String = call.str(0).chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match STANDARD.decode(&plain) {
        Ok(bytes) => Ok(Value::str(String::from_utf8_lossy(&bytes))),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                base64::DecodeError::InvalidLength(length) => length / 4 * 4,
                base64::DecodeError::InvalidPadding => plain.len(),
            };
            text(&format!("illegal base64 data at input byte {at}"))
        }
    }
}

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let bits = (0..5).fold(0u64, |bits, at| bits << 8 | u64::from(chunk.get(at).copied().unwrap_or(0)));
        let digits = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let digit = (bits >> (35 - 5 * at)) as usize & 31;
            out.push(if at < digits {
                char::from(ALPHABET.get(digit).copied().unwrap_or(b'='))
            } else {
                '='
            });
        }
    }
    out
}

fn base32_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut out) = (0u32, 0, Vec::new());
    for byte in text.trim_end_matches('=').bytes() {
        let digit = ALPHABET.iter().position(|known| *known == byte)?;
        bits = (bits << 5 | u32::try_from(digit).ok()?) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    text.len().is_multiple_of(8).then_some(out)
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}
