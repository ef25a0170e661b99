//! Readers of the values that a schema admits and a type of `k8s_openapi` does not hold; the nearest value
//! stands for each of them.
//!
//! One field that cannot be read would make the whole object unreadable, and a cluster may write what it
//! likes into its own status. See docs/hazards.md#unreadable-times.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer, de};

use object::date_time;

/// A time that an API server checked by its pattern only ([`date_time::is_date_time`]).
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    optional_time(deserializer)?.ok_or_else(|| de::Error::custom("a time is missing"))
}

/// [`time`], where it may be absent.
pub(crate) fn optional_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let read = date_time::timestamp(&text);
    read.map(|time| Some(Time(time)))
        .ok_or_else(|| de::Error::custom(format!("{text:?} is not a time; write it as 2006-01-02T15:04:05Z")))
}

/// A number of any size that fits, or a text.
pub(crate) fn int_or_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IntOrString, D::Error> {
    Ok(match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Whole(number) => {
            let nearest = number.clamp(i32::MIN.into(), i32::MAX.into());
            IntOrString::Int(i32::try_from(nearest).map_err(de::Error::custom)?)
        }
        NumberOrText::Text(text) => IntOrString::String(text),
    })
}

/// [`int_or_string`], where it may be absent.
pub(crate) fn optional_int_or_string<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IntOrString>, D::Error> {
    int_or_string(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a whole number or a text")]
enum NumberOrText {
    Whole(i64),
    Text(String),
}
