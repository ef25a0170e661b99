//! Functions that return random texts and numbers (Sprig's `crypto.go`, `strings.go`), derived from the seed of
//! the rendering.

use super::strings::text;
use super::{Call, Function, Outcome, Type};
use crate::value::Value;

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("randAlphaNum", &[Type::Int], |call| drawn(call, &format!("{UPPER}{LOWER}{DIGITS}"))),
    Function::new("randAlpha", &[Type::Int], |call| drawn(call, &format!("{UPPER}{LOWER}"))),
    Function::new("randNumeric", &[Type::Int], |call| drawn(call, DIGITS)),
    Function::new("randAscii", &[Type::Int], |call| drawn(call, &(' '..='~').collect::<String>())),
    Function::new("randBytes", &[Type::Int], |call| {
        use base64::Engine as _;
        let bytes = call.random()?.bytes(count(call)?);
        text(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }),
    Function::new("randInt", &[Type::Int, Type::Int], |call| {
        let (low, high) = (call.int(0), call.int(1));
        let Ok(span @ 1..) = u64::try_from(high.saturating_sub(low)) else {
            return Err("invalid argument to Intn".into());
        };
        let drawn = call.random()?.below(span);
        Ok(Value::Int(low + i64::try_from(drawn).unwrap_or(0)))
    }),
    Function::new("shuffle", &[Type::Str], |call| {
        let mut chars: Vec<char> = call.str(0).chars().collect();
        call.env.budget.work(chars.len() as u64)?;
        let mut random = call.random()?;
        for at in (1..chars.len()).rev() {
            let other = usize::try_from(random.below(at as u64 + 1)).unwrap_or(0);
            chars.swap(at, other);
        }
        text(&chars.into_iter().collect::<String>())
    }),
    Function::new("uuidv4", &[], |call| {
        let mut bytes = call.random()?.bytes(16);
        for (at, keep, set) in [(6, 0x0f, 0x40), (8, 0x3f, 0x80)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = *byte & keep | set;
            }
        }
        let digits = super::encoding::hex(&bytes);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32]
            .map(|range| digits.get(range).unwrap_or_default().to_owned());
        text(&parts.join("-"))
    }),
];

fn count(call: Call<'_>) -> Result<usize, crate::fault::Fault> {
    let count = usize::try_from(call.int(0)).unwrap_or(0);
    call.env.budget.bytes(count)?;
    call.env.budget.work(count as u64)?;
    Ok(count)
}

fn drawn(call: Call<'_>, alphabet: &str) -> Outcome {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let count = count(call)?;
    let mut random = call.random()?;
    let draw = |_| {
        let at = usize::try_from(random.below(alphabet.len() as u64)).unwrap_or(0);
        alphabet.get(at).copied().unwrap_or_default()
    };
    text(&(0..count).map(draw).collect::<String>())
}
