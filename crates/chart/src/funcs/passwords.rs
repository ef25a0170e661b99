//! Functions that hash passwords, derive them, or encrypt with them (Sprig's `crypto.go`).

use aes::Aes256;
use base64::alphabet::BCRYPT;
use base64::engine::general_purpose::{NO_PAD, STANDARD};
use base64::engine::{Engine as _, GeneralPurpose};
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::strings::{cut, text};
use super::{Call, Function, Outcome, Type};
use crate::fault::Fault;
use crate::random::Purpose;

/// Steps charged for hashing a password, which takes 0.1 s, and for deriving one, which takes 0.4 s.
const STEPS: (u64, u64) = (140_000, 560_000);
/// Length of an initialization vector and of a block.
const BLOCK: usize = 16;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("bcrypt", &[Type::Str], |call| text(&bcrypt(call, call.str(0))?)),
    Function::new("htpasswd", &[Type::Str, Type::Str], |call| {
        let user = call.str(0);
        if user.contains(':') {
            return text(&format!("invalid username: {user}"));
        }
        text(&format!("{user}:{}", bcrypt(call, call.str(1))?))
    }),
    Function::new("derivePassword", &[Type::Int, Type::Str, Type::Str, Type::Str, Type::Str], derive),
    Function::new("encryptAES", &[Type::Str, Type::Str], |call| {
        if call.str(1).is_empty() {
            return text("");
        }
        call.env.budget.work(call.str(1).len() as u64 / 64)?;
        let mut vector = [0; BLOCK];
        let mut random = call.random()?;
        vector.fill_with(|| random.byte());
        let encryptor = cbc::Encryptor::<Aes256>::new(&key(call.str(0)).into(), &vector.into());
        let encrypted = encryptor.encrypt_padded_vec::<Pkcs7>(call.str(1).as_bytes());
        text(&STANDARD.encode([vector.to_vec(), encrypted].concat()))
    }),
    Function::new("decryptAES", &[Type::Str, Type::Str], |call| {
        if call.str(1).is_empty() {
            return text("");
        }
        call.env.budget.work(call.str(1).len() as u64 / 64)?;
        let bytes = STANDARD.decode(call.str(1)).map_err(|error| format!("illegal base64 data: {error}"))?;
        let (vector, encrypted) =
            bytes.split_first_chunk::<BLOCK>().ok_or("the text is shorter than a block")?;
        let decryptor = cbc::Decryptor::<Aes256>::new(&key(call.str(0)).into(), vector.into());
        let plain = decryptor.decrypt_padded_vec::<NoPadding>(encrypted);
        let plain = plain.map_err(|_| "crypto/cipher: input not full blocks")?;
        let padding = plain.last().copied().map_or(0, usize::from);
        cut(plain.get(..plain.len().saturating_sub(padding)).unwrap_or_default())
    }),
];

/// Returns the key for a password: its first 32 bytes, padded with zeros.
fn key(password: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.iter_mut().zip(password.bytes()).for_each(|(key, byte)| *key = byte);
    key
}

/// Hashes a password like Go's `bcrypt.GenerateFromPassword` with cost 10.
fn bcrypt(call: Call<'_>, password: &str) -> Result<String, Fault> {
    const ENCODING: GeneralPurpose = GeneralPurpose::new(&BCRYPT, NO_PAD);
    if password.len() > 72 {
        let reason = "bcrypt: password length exceeds 72 bytes";
        return Ok(format!("failed to encrypt string with bcrypt: {reason}"));
    }
    call.env.budget.work(STEPS.0)?;
    let cost = match call.env.fresh.purpose {
        Purpose::Documents => 10,
        Purpose::Comparison => 4,
    };
    let mut salt = [0; 16];
    let mut random = call.random()?;
    salt.fill_with(|| random.byte());
    let password = [password.as_bytes(), b"\0"].concat();
    let hash = bcrypt::bcrypt(cost, salt, password.get(..72).unwrap_or(&password));
    let hash = hash.get(..23).unwrap_or_default();
    Ok(format!("$2a${cost:02}${}{}", ENCODING.encode(salt), ENCODING.encode(hash)))
}

/// Password templates by type, from the Master Password algorithm. Each letter is a character class.
const TEMPLATES: &[(&str, &str)] = &[
    ("maximum", "anoxxxxxxxxxxxxxxxxx axxxxxxxxxxxxxxxxxno"),
    (
        "long",
        "CvcvnoCvcvCvcv CvcvCvcvnoCvcv CvcvCvcvCvcvno CvccnoCvcvCvcv CvccCvcvnoCvcv CvccCvcvCvcvno CvcvnoCvccCvcv \
         CvcvCvccnoCvcv CvcvCvccCvcvno CvcvnoCvcvCvcc CvcvCvcvnoCvcc CvcvCvcvCvccno CvccnoCvccCvcv CvccCvccnoCvcv \
         CvccCvccCvcvno CvcvnoCvccCvcc CvcvCvccnoCvcc CvcvCvccCvccno CvccnoCvcvCvcc CvccCvcvnoCvcc CvccCvcvCvccno",
    ),
    ("medium", "CvcnoCvc CvcCvcno"),
    ("short", "Cvcn"),
    ("basic", "aaanaaan aannaaan aaannaaa"),
    ("pin", "nnnn"),
];

/// Returns the characters of a class.
fn class(name: char) -> &'static [u8] {
    match name {
        'V' => b"AEIOU",
        'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        'v' => b"aeiou",
        'c' => b"bcdfghjklmnpqrstvwxyz",
        'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        'n' => b"0123456789",
        'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// Derives a site's password from a master password, without randomness.
fn derive(call: Call<'_>) -> Outcome {
    let (counter, typ, password, user, site) =
        (call.int(0), call.str(1), call.str(2), call.str(3), call.str(4));
    let Some((_, templates)) = TEMPLATES.iter().find(|(known, _)| *known == typ) else {
        return text(&format!("cannot find password template {typ}"));
    };
    call.env.budget.work(STEPS.1)?;
    let with_length = |name: &str| {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes();
        [b"com.lyndir.masterpassword", length.as_slice(), name.as_bytes()].concat()
    };
    let mut master = [0; 64];
    let failed = |error: &dyn std::fmt::Display| Fault::text(format!("failed to derive password: {error}"));
    let params = scrypt::Params::new(15, 8, 2).map_err(|error| failed(&error))?;
    scrypt::scrypt(password.as_bytes(), &with_length(user), &params, &mut master)
        .map_err(|error| failed(&error))?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&master).map_err(|error| failed(&error))?;
    mac.update(&with_length(site));
    mac.update(&u32::try_from(counter).unwrap_or_default().to_be_bytes());
    let seed = mac.finalize().into_bytes();
    let chosen = |items: usize, at: usize| seed.get(at).map_or(0, |byte| usize::from(*byte) % items);
    let templates: Vec<&str> = templates.split(' ').collect();
    let template = templates.get(chosen(templates.len(), 0)).copied().unwrap_or_default();
    let character = |(at, name)| {
        let class = class(name);
        class.get(chosen(class.len(), at + 1)).map(|byte| char::from(*byte))
    };
    text(&template.chars().enumerate().filter_map(character).collect::<String>())
}
