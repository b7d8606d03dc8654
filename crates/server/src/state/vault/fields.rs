//! The fields of a credential: validated against the provider's schema, masked, and
//! serialized for encryption.

use serde_json::{Map, Value};
use windlass::definition::{CredentialField, CredentialKind};
use windlass::{Error, Secret, Violation};
use zeroize::Zeroizing;

use crate::cli::output::nearest;

/// What stands in place of a secret.
const MASK: &str = "••••";
/// Secrets of fewer characters show none of them.
const SHOWN_FROM: usize = 12;
/// How many characters of a longer one are shown, at its end.
const SHOWN: usize = 4;
/// The longest value: room for a private key or a certificate.
const MAX_VALUE: usize = 64 * 1024;

/// A given value of a field.
#[derive(Clone)]
pub(crate) enum FieldValue {
    /// A text; maybe a masked one that a form sent back.
    Text(Secret),
    /// Yes or no.
    Flag(bool),
    /// Nothing: the field is emptied.
    Nothing,
    /// What no field takes, such as a list.
    Other(&'static str),
}

impl From<Value> for FieldValue {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(Secret::new(text)),
            Value::Bool(flag) => Self::Flag(flag),
            Value::Null => Self::Nothing,
            Value::Number(number) => Self::Text(Secret::new(number.to_string())),
            Value::Array(_) => Self::Other("a list"),
            Value::Object(_) => Self::Other("an object"),
        }
    }
}

/// Whether a text is what [`CredentialFields::masked`] shows of a secret, whichever it is.
/// Forms, and people who copy, add white space.
pub(crate) fn is_masked(text: &str) -> bool {
    let mut rest = text.chars().filter(|sign| !sign.is_whitespace());
    MASK.chars().all(|sign| rest.next() == Some(sign)) && rest.count() <= SHOWN
}

/// Whether a text begins like one. No secret does: what is more than that was
/// put together by mistake.
fn begins_masked(text: &str) -> bool {
    text.trim_start().starts_with(MASK)
}

/// The values of a credential.
#[derive(Clone, Default)]
pub(super) struct CredentialFields(Vec<StoredField>);

#[derive(Clone)]
struct StoredField {
    name: String,
    value: Secret,
    /// Whether it was asked for as a secret. It stays one, also where the
    /// provider's definition is changed to ask for a plain text.
    hidden: bool,
}

impl CredentialFields {
    /// Checks what was given against what the provider asks for. Where a field
    /// was not given, or masked, its `old` value stays.
    pub(super) fn check(
        asked: &[CredentialField],
        given: &[(String, FieldValue)],
        old: &Self,
    ) -> Result<Self, Error> {
        let mut faults = unknown(asked, given);
        let mut fields = Vec::with_capacity(asked.len());
        for field in asked {
            let own = given.iter().rfind(|(name, _)| *name == field.name).map(|(_, given)| given);
            match choose(field, own, old.find(&field.name)) {
                Ok(value) => fields.extend(value),
                Err((expected, got)) => faults.push(fault(&field.name, expected, got)),
            }
        }
        if faults.is_empty() { Ok(Self(fields)) } else { Err(Error::invalid_arguments(faults)) }
    }

    /// What may be shown.
    pub(super) fn masked(&self) -> Map<String, Value> {
        let shown = |field: &StoredField| match field.hidden {
            true => mask(field.value.expose()),
            false => field.value.expose().to_owned(),
        };
        self.0.iter().map(|field| (field.name.clone(), Value::String(shown(field)))).collect()
    }

    /// The values themselves, with the provider's defaults for what is missing.
    pub(super) fn reveal(self, asked: &[CredentialField]) -> Vec<(String, Secret)> {
        let defaults: Vec<(String, Secret)> = (asked.iter())
            .filter(|field| self.find(&field.name).is_none())
            .filter_map(|field| Some((field.name.clone(), plain(field.default.as_ref()?)?)))
            .collect();
        self.0.into_iter().map(|field| (field.name, field.value)).chain(defaults).collect()
    }

    /// The bytes to seal. No format that others read, so that no reader of it
    /// keeps a copy of what it parses.
    pub(super) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let length = |field: &StoredField| 9 + field.name.len() + field.value.expose().len();
        // Full capacity at once: reallocation would leave copies of the secret in memory.
        let room = self.0.iter().map(length).sum();
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        for field in &self.0 {
            bytes.push(u8::from(field.hidden));
            for text in [field.name.as_str(), field.value.expose()] {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        bytes
    }

    /// The values of opened bytes; none where they are not ours.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while let Some((hidden, rest)) = bytes.split_first() {
            let (name, rest) = text(rest)?;
            let (value, rest) = text(rest)?;
            let (name, value) = (name.to_owned(), Secret::new(value));
            fields.push(StoredField { name, value, hidden: *hidden != 0 });
            bytes = rest;
        }
        Some(Self(fields))
    }

    fn find(&self, name: &str) -> Option<&StoredField> {
        self.0.iter().find(|field| field.name == name)
    }
}

/// What a field expects, and what came instead.
type Mismatch = (String, &'static str);

/// The value that a field has from now on, if it has one.
fn choose(
    field: &CredentialField,
    given: Option<&FieldValue>,
    old: Option<&StoredField>,
) -> Result<Option<StoredField>, Mismatch> {
    let hidden = field.kind == CredentialKind::SecretInput;
    let text = match given {
        None => None,
        Some(FieldValue::Text(text)) if text.expose().is_empty() => return empty(field),
        Some(FieldValue::Nothing) => return empty(field),
        Some(FieldValue::Text(text)) => Some(text.clone()),
        Some(FieldValue::Flag(flag)) => Some(Secret::new(flag.to_string())),
        Some(FieldValue::Other(what)) => return Err((wanted(field), what)),
    };
    let hidden_before = old.is_some_and(|old| old.hidden);
    match text {
        Some(text) if (hidden || hidden_before) && is_masked(text.expose()) => match old {
            Some(old) => Ok(Some(old.clone())),
            None => Err((wanted(field), "a masked value")),
        },
        Some(text) if (hidden || hidden_before) && begins_masked(text.expose()) => {
            Err((wanted(field), "a masked value with more after it"))
        }
        Some(value) => {
            fits(field, value.expose())?;
            Ok(Some(StoredField { name: field.name.clone(), value, hidden }))
        }
        None => match old {
            Some(old) => Ok(Some(StoredField { hidden: hidden || old.hidden, ..old.clone() })),
            None => empty(field),
        },
    }
}

fn empty(field: &CredentialField) -> Result<Option<StoredField>, Mismatch> {
    match field.required && field.default.is_none() {
        true => Err((wanted(field), "nothing")),
        false => Ok(None),
    }
}

/// Whether a field takes this text. What it is, is not repeated: people paste
/// secrets into the wrong field.
fn fits(field: &CredentialField, text: &str) -> Result<(), Mismatch> {
    let mismatch = |got| Err((wanted(field), got));
    match field.kind {
        _ if text.len() > MAX_VALUE => mismatch("more than 64 KiB"),
        // Too short to redact: it could not be told from ordinary text.
        CredentialKind::SecretInput if text.chars().count() < Secret::MIN_CHARS => {
            let wanted = format!("a secret text of at least {} characters", Secret::MIN_CHARS);
            Err((wanted, "a shorter one"))
        }
        CredentialKind::Select if !field.options.iter().any(|option| option == text) => {
            mismatch("another text")
        }
        CredentialKind::Boolean if !matches!(text, "true" | "false") => mismatch("another text"),
        _ => Ok(()),
    }
}

/// What a field takes, in words.
fn wanted(field: &CredentialField) -> String {
    match field.kind {
        CredentialKind::TextInput => "a text".to_owned(),
        CredentialKind::SecretInput => "a secret text".to_owned(),
        CredentialKind::Select => format!("one of {}", field.options.join(", ")),
        CredentialKind::Boolean => "true or false".to_owned(),
    }
}

fn unknown(asked: &[CredentialField], given: &[(String, FieldValue)]) -> Vec<Violation> {
    let names = || asked.iter().map(|field| field.name.as_str());
    let explain = |name: &str| match nearest(name, names()) {
        Some(near) => format!("no such field (did you mean `{near}`?)"),
        None if asked.is_empty() => "no field at all".to_owned(),
        None => format!("one of the fields {}", names().collect::<Vec<_>>().join(", ")),
    };
    let strange = given.iter().filter(|(name, _)| !names().any(|known| known == name));
    strange.map(|(name, _)| fault(name, explain(name), "an unknown field")).collect()
}

fn fault(name: &str, expected: String, got: &str) -> Violation {
    Violation { path: format!("/{name}"), expected, got: got.to_owned() }
}

fn mask(value: &str) -> String {
    let length = value.chars().count();
    let hidden = if length < SHOWN_FROM { length } else { length - SHOWN };
    value.chars().skip(hidden).fold(MASK.to_owned(), |mut mask, sign| {
        mask.push(sign);
        mask
    })
}

/// A default as a value.
fn plain(value: &Value) -> Option<Secret> {
    match value {
        Value::String(text) => Some(Secret::new(text.as_str())),
        Value::Bool(flag) => Some(Secret::new(flag.to_string())),
        Value::Number(number) => Some(Secret::new(number.to_string())),
        _ => None,
    }
}

/// A text with its length before it, and what follows.
fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (text, rest) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests;
