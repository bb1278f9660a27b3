//! Reads parameters and bodies of requests. One that is not understood is rejected with the key at
//! fault and what is allowed.

use std::str::FromStr;

use axum::extract::Query;
use plimsoll_schemas::ids::IdError;
use serde::Deserialize;
use thiserror::Error;

use super::refusal::Refusal;

pub(super) type Pairs = Query<Vec<(String, String)>>;

/// Why a request was rejected: the key and the allowed values.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum BadRequest {
    #[error("the body is invalid: {0}")]
    Body(String),
    #[error("unknown parameter {key:?}; the parameters are {known}")]
    Unknown { key: String, known: &'static str },
    #[error("{0} is given twice; give it once")]
    Twice(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{key} is {value:?}; it must be {allowed}")]
    Value { key: &'static str, value: String, allowed: String },
    #[error("give either for or until_seconds")]
    Until,
}

impl From<BadRequest> for Refusal {
    fn from(error: BadRequest) -> Self {
        Self::bad(error.to_string())
    }
}

pub(super) fn read<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, BadRequest> {
    serde_json::from_slice(body).map_err(|error| BadRequest::Body(error.to_string()))
}

/// The values of these keys; `known` names them to people.
pub(super) fn pick<'a, const N: usize>(
    parameters: &'a [(String, String)],
    keys: [&str; N],
    known: &'static str,
) -> Result<[Option<&'a str>; N], BadRequest> {
    let mut picked = [None; N];
    for (key, value) in parameters {
        let index = keys.iter().position(|wanted| wanted == key);
        let index = index.ok_or_else(|| BadRequest::Unknown { key: key.clone(), known })?;
        if picked[index].replace(value.as_str()).is_some() {
            return Err(BadRequest::Twice(key.clone()));
        }
    }
    Ok(picked)
}

/// The values of a parameter that may be repeated, and all others.
pub(super) fn take_all(
    pairs: &[(String, String)],
    wanted: &str,
) -> (Vec<String>, Vec<(String, String)>) {
    let (found, others): (Vec<_>, Vec<_>) =
        pairs.iter().cloned().partition(|(key, _)| key == wanted);
    (found.into_iter().map(|(_, value)| value).collect(), others)
}

pub(super) fn name<T: FromStr<Err = IdError>>(
    key: &'static str,
    text: &str,
) -> Result<T, BadRequest> {
    text.parse().map_err(|error| bad(key, text, &error))
}

pub(super) fn optional_name<T: FromStr<Err = IdError>>(
    key: &'static str,
    text: Option<&str>,
) -> Result<Option<T>, BadRequest> {
    text.map(|text| name(key, text)).transpose()
}

pub(super) fn required<'a>(
    key: &'static str,
    text: Option<&'a str>,
) -> Result<&'a str, BadRequest> {
    text.ok_or(BadRequest::Missing(key))
}

/// The one that is called so.
pub(super) fn one_of<T: Copy, const N: usize>(
    key: &'static str,
    text: Option<&str>,
    all: [T; N],
    word: fn(T) -> &'static str,
) -> Result<Option<T>, BadRequest> {
    let Some(text) = text else { return Ok(None) };
    let found = all.into_iter().find(|one| word(*one) == text);
    let words = || format!("one of {}", all.map(word).join(", "));
    found.map(Some).ok_or_else(|| value(key, text, &words()))
}

/// A whole number of 1 or more.
pub(super) fn count(
    key: &'static str,
    text: Option<&str>,
    default: usize,
    most: usize,
) -> Result<usize, BadRequest> {
    let Some(text) = text else { return Ok(default) };
    let found = text.parse().ok().filter(|n| (1..=most).contains(n));
    found.ok_or_else(|| value(key, text, &format!("a whole number from 1 to {most}")))
}

pub(super) fn bad(key: &'static str, given: &str, error: &IdError) -> BadRequest {
    value(key, given, &format!("a name: {error}"))
}

pub(super) fn value(key: &'static str, given: &str, allowed: &str) -> BadRequest {
    BadRequest::Value { key, value: given.to_owned(), allowed: allowed.to_owned() }
}
