//! A point in time as the API's pages carry it: seconds since 1970, for `serde(with)`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

use crate::time::{Wall, nanos, seconds};

pub(super) fn serialize<S: Serializer>(at: &Wall, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds(at.0))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Wall, D::Error> {
    let since = Duration::try_from_secs_f64(f64::deserialize(from)?);
    since.map(|since| Wall(nanos(since))).map_err(D::Error::custom)
}
