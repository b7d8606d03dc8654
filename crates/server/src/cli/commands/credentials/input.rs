//! Where the values of a credential come from: a prompt, stdin, or an option for
//! fields that are not secret.

use std::io::{self, IsTerminal, Read, Write};

use clap::Args;
use serde_json::{Map, Value};
use windlass::Secret;
use windlass::definition::{CredentialField, CredentialKind, ProviderSpec};
use zeroize::Zeroizing;

use crate::cli::exit::Failure;
use crate::state::vault::FieldValue;

/// The most that stdin may hold.
const MAX_BYTES: usize = 256 * 1024;

/// How values are given.
#[derive(Debug, Args)]
pub(super) struct ValueArgs {
    /// A field that is not secret; may be given several times
    #[arg(long = "field", value_name = "NAME=VALUE")]
    fields: Vec<String>,
    /// Read fields from stdin: a JSON object, lines of NAME=VALUE, or the value of the only secret
    #[arg(long)]
    stdin: bool,
}

/// What the values are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A new credential: whatever is needed is asked for.
    New,
    /// A change: only secrets are asked for, and an empty answer keeps them.
    Change,
}

type FieldValues = Vec<(String, FieldValue)>;

impl ValueArgs {
    /// Reads the values for a provider.
    pub(super) fn read(
        &self,
        provider: &ProviderSpec,
        purpose: Purpose,
    ) -> Result<FieldValues, Failure> {
        let asked = &provider.credentials;
        let mut values = Vec::new();
        for word in &self.fields {
            values.push(open_field(word, asked)?);
        }
        if self.stdin {
            let text = text_of_stdin()?;
            values.extend(parse(&text, asked).map_err(Failure::usage)?);
        } else {
            let missing =
                asked.iter().filter(|field| !values.iter().any(|(name, _)| *name == field.name));
            let wanted: Vec<&CredentialField> =
                missing.filter(|field| is_asked(field, purpose, self.fields.is_empty())).collect();
            values.extend(ask(&wanted, purpose)?);
        }
        Ok(values)
    }
}

/// Whether a field is asked for at the prompt.
fn is_asked(field: &CredentialField, purpose: Purpose, nothing_given: bool) -> bool {
    let secret = field.kind == CredentialKind::SecretInput;
    match purpose {
        Purpose::New => secret || field.required && field.default.is_none(),
        // With --field, only the named fields change.
        Purpose::Change => secret && nothing_given,
    }
}

/// A field of the command line, which must not be a secret.
fn open_field(word: &str, asked: &[CredentialField]) -> Result<(String, FieldValue), Failure> {
    let (name, value) = word.split_once('=').ok_or_else(|| {
        // The word is not echoed: it may be a secret.
        Failure::usage("--field takes NAME=VALUE")
    })?;
    let secret = |field: &CredentialField| field.kind == CredentialKind::SecretInput;
    if asked.iter().any(|field| field.name == name && secret(field)) {
        return Err(Failure::usage(format!("the field `{name}` is a secret and cannot be an argument"))
            .hint("other users of this machine and your shell's history would see it; leave it out to be asked, or send it with --stdin"));
    }
    Ok((name.to_owned(), FieldValue::Text(Secret::new(value))))
}

fn ask(wanted: &[&CredentialField], purpose: Purpose) -> Result<FieldValues, Failure> {
    if !wanted.is_empty() && !io::stdin().is_terminal() {
        let names: Vec<&str> = wanted.iter().map(|field| field.name.as_str()).collect();
        return Err(Failure::usage(format!("there is nobody to ask for {}", names.join(", ")))
            .hint("send the fields with --stdin"));
    }
    let mut values = Vec::new();
    for field in wanted {
        let note = if purpose == Purpose::Change { " (empty keeps it)" } else { "" };
        let prompt = format!("{}{note}: ", field.name);
        let answer = match field.kind {
            CredentialKind::SecretInput => rpassword::prompt_password(&prompt)?,
            _ => answer(&prompt)?,
        };
        let answer = Secret::new(answer);
        if purpose == Purpose::New || !answer.expose().is_empty() {
            values.push((field.name.clone(), FieldValue::Text(answer)));
        }
    }
    Ok(values)
}

/// An answer that may be seen.
fn answer(prompt: &str) -> io::Result<String> {
    let mut screen = io::stderr().lock();
    write!(screen, "{prompt}")?;
    screen.flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn text_of_stdin() -> Result<Zeroizing<String>, Failure> {
    // Full capacity at once: reallocation would leave copies of the secret in memory.
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES + 1));
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    io::stdin().take(most + 1).read_to_string(&mut text)?;
    if text.len() > MAX_BYTES {
        return Err(Failure::usage(format!("stdin holds more than {} KiB", MAX_BYTES / 1024)));
    }
    Ok(text)
}

/// The fields of a text. What is wrong with it is told without repeating it.
fn parse(text: &str, asked: &[CredentialField]) -> Result<FieldValues, String> {
    if text.trim_start().starts_with('{') {
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            format!("stdin: not valid JSON in line {}, column {}", error.line(), error.column())
        })?;
        return Ok(object.into_iter().map(|(name, value)| (name, value.into())).collect());
    }
    if let Some(value) = lone_secret(text, asked) {
        return Ok(vec![value]);
    }
    let mut values = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("stdin: line {} is not NAME=VALUE", number + 1))?;
        values.push((name.trim().to_owned(), FieldValue::Text(Secret::new(value))));
    }
    if values.is_empty() { Err("stdin: there are no fields".to_owned()) } else { Ok(values) }
}

/// The one line of stdin, where it names no field and there is only one secret
/// that it can be.
fn lone_secret(text: &str, asked: &[CredentialField]) -> Option<(String, FieldValue)> {
    let line = text.trim_end_matches(['\r', '\n']);
    let names_a_field = |name: &str| asked.iter().any(|field| field.name == name.trim());
    if line.is_empty()
        || line.contains('\n')
        || line.split_once('=').is_some_and(|(name, _)| names_a_field(name))
    {
        return None;
    }
    let mut secrets = asked.iter().filter(|field| field.kind == CredentialKind::SecretInput);
    match (secrets.next(), secrets.next()) {
        (Some(only), None) => Some((only.name.clone(), FieldValue::Text(Secret::new(line)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(secrets: &[&str]) -> Vec<CredentialField> {
        let secret = |name: &&str| json!({"name": name, "type": "secret-input"});
        let mut all: Vec<Value> = secrets.iter().map(secret).collect();
        all.push(json!({"name": "region", "type": "text-input"}));
        serde_json::from_value(json!(all)).unwrap()
    }

    fn read(text: &str, secrets: &[&str]) -> Result<Value, String> {
        let shown = |given: FieldValue| match given {
            FieldValue::Text(text) => json!(text.expose()),
            FieldValue::Flag(flag) => json!(flag),
            _ => Value::Null,
        };
        let values = parse(text, &asked(secrets))?;
        Ok(values
            .into_iter()
            .map(|(name, value)| (name, shown(value)))
            .collect::<Map<_, _>>()
            .into())
    }

    #[test]
    fn every_form_of_stdin_is_understood() {
        let one = &["api_key"][..];
        for (text, wanted) in [
            (r#"{"api_key": "a b", "on": true}"#, json!({"api_key": "a b", "on": true})),
            ("api_key=x=y\nregion=eu\n", json!({"api_key": "x=y", "region": "eu"})),
            ("api_key= x \r\n\r\n", json!({"api_key": " x "})),
            ("c2VjcmV0\n", json!({"api_key": "c2VjcmV0"})),
            ("c2VjcmV0PQ==\r\n", json!({"api_key": "c2VjcmV0PQ=="})),
            ("api_key=x", json!({"api_key": "x"})),
        ] {
            assert_eq!(read(text, one).unwrap(), wanted, "{text:?}");
        }
        for (text, secrets, part) in [
            ("", one, "no fields"),
            ("{\"api_key\": canary}", one, "not valid JSON in line 1"),
            ("canary\n", &["a", "b"][..], "line 1 is not NAME=VALUE"),
            ("api_key=x\ncanary", one, "line 2 is not NAME=VALUE"),
        ] {
            let why = read(text, secrets).unwrap_err();
            assert!(why.contains(part) && !why.contains("canary"), "{why}");
        }
    }

    #[test]
    fn a_secret_is_no_argument() {
        let asked = asked(&["api_key"]);
        assert!(open_field("region=eu", &asked).is_ok());
        for word in ["api_key=canary", "canary"] {
            let failure = open_field(word, &asked).err().unwrap();
            let text = format!("{failure:?}");
            assert!(!text.contains("canary"), "{text}");
        }
    }
}
