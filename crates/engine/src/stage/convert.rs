//! Checks and caps what a tool gave back.
//!
//! A result that is too large for a model is kept whole in the store; the
//! model gets its beginning and a handle to the rest.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Outcome;
use crate::call::Call;
use crate::call::content::{Body, Content, Facts, Output, Payload, Truncated};
use crate::error::{Error, ErrorKind};
use crate::journal::record::RecordStore;

/// How long keeping the whole of a result may take. The call has its result by
/// then, so this is not part of its own time.
const KEEP_PATIENCE: Duration = Duration::from_secs(5);
/// Room for the notice at the end of a preview.
const NOTICE_BYTES: usize = 400;

/// The output as the caller gets it. That of an earlier call has been converted
/// with that call.
pub(crate) async fn convert(
    call: &Call,
    answer: Outcome,
    max_bytes: usize,
    store: &dyn RecordStore,
) -> Result<Arc<Output>, Error> {
    let output = match answer {
        Outcome::New(output) => output,
        Outcome::Earlier(output) => return Ok(output),
    };
    check(call, &output)?;
    let max_bytes = call.tool.spec().max_output_bytes.unwrap_or(max_bytes);
    if output_size(&output, max_bytes) <= max_bytes {
        return Ok(Arc::new(output));
    }
    // Most results fit; the way of the others is kept out of their future.
    Box::pin(shorten(call, output, max_bytes, store)).await.map(Arc::new)
}

/// Keeps the whole of an output, and gives its beginning.
async fn shorten(
    call: &Call,
    output: Output,
    max_bytes: usize,
    store: &dyn RecordStore,
) -> Result<Output, Error> {
    let text = output.to_text();
    let shown = cut(&text, max_bytes.saturating_sub(NOTICE_BYTES)).to_owned();
    // What reads as one text is kept so, and a model reads on where the preview
    // ends; anything else is kept as the JSON of the whole.
    let (whole, read_on) = match is_text(&output) {
        true => (text.into_bytes(), shown.len()),
        false => {
            let json = serde_json::to_vec(&output).map_err(|error| {
                Error::new(
                    ErrorKind::InvalidOutput,
                    format!("the result has no JSON form: {error}"),
                )
            })?;
            (json, 0)
        }
    };
    let total = whole.len();
    let handle = call.id.to_string();
    let keep = store.keep_output(&call.caller().tenant, call.id, whole);
    let kept = tokio::time::timeout(KEEP_PATIENCE, keep).await.unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::StorageUnavailable, "keeping the result takes too long"))
    });
    let rest = match &kept {
        Ok(()) => format!(
            "To read on, call read_output with {{\"handle\": \"{handle}\", \"offset\": {read_on}}}, \
             or ask for less."
        ),
        Err(error) => {
            tracing::warn!(call = %call.id, %error, "a result was cut and could not be kept");
            "The rest could not be kept; ask for less.".to_owned()
        }
    };
    let shown_bytes = shown.len() as u64;
    let notice =
        format!("\n\n[The result was cut: {shown_bytes} of {total} bytes are shown. {rest}]");
    let truncated = Truncated {
        handle: kept.is_ok().then_some(handle),
        total_bytes: total as u64,
        shown_bytes,
    };
    Ok(Output {
        content: vec![Content::text(shown + &notice)],
        structured: None,
        metadata: small_facts(&output.metadata),
        truncated: Some(Box::new(truncated)),
    })
}

/// Whether the text of an output says all that is in it.
fn is_text(output: &Output) -> bool {
    let structured = output.structured.as_deref();
    match output.content.as_slice() {
        [] => true,
        [Content { body: Body::Json(value), .. }] => structured.is_none_or(|own| own == value),
        // Many tools give their structured value as text, too.
        [Content { body: Body::Text(text), .. }] => structured
            .is_none_or(|own| serde_json::from_str::<Value>(text).is_ok_and(|value| value == *own)),
        _ => false,
    }
}

/// Checks the result against the tool's own output schema.
fn check(call: &Call, output: &Output) -> Result<(), Error> {
    let Some(schema) = call.tool.output()? else { return Ok(()) };
    let text;
    let value = match output.value() {
        Some(value) => value,
        None => {
            text = Value::String(output.to_text());
            &text
        }
    };
    if schema.accepts(value) {
        return Ok(());
    }
    let wrong: Vec<String> =
        schema.violations(value).iter().map(|violation| violation.to_string()).collect();
    Err(Error::new(ErrorKind::InvalidOutput, wrong.join("; ")))
}

/// The beginning of a text, ending between two characters.
fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// A JSON value for a record: itself, or its beginning where it is too large.
pub(crate) fn preview_value(value: &Value, max_bytes: usize) -> Option<Value> {
    let mut left = max_bytes;
    if spend(value, &mut left) {
        return None;
    }
    let text = value.to_string();
    Some(json!({
        "truncated": true,
        "total_bytes": text.len(),
        "preview": cut(&text, max_bytes),
    }))
}

/// The beginning of an output, for a record.
pub(crate) fn preview_output(output: &Output, max_bytes: usize) -> Output {
    Output {
        content: vec![
            Content::text(cut(&output.to_text(), max_bytes)).with_meta("truncated", true),
        ],
        structured: None,
        metadata: small_facts(&output.metadata),
        truncated: output.truncated.clone(),
    }
}

/// The size of an output, exact enough; stops counting beyond the limit.
pub(crate) fn output_size(output: &Output, limit: usize) -> usize {
    let mut left = limit;
    let fits = output.content.iter().all(|block| {
        let fits = match block.body.payload() {
            Payload::Text(text) => pay(text.len(), &mut left),
            Payload::Value(value) => spend(value, &mut left),
            Payload::Data(data) => pay(data.base64.len(), &mut left),
        };
        fits && spend_facts(&block.meta, &mut left) && pay(block.save_as.len(), &mut left)
    });
    let fits = fits && spend_facts(&output.metadata, &mut left);
    let fits = fits && output.structured.as_ref().is_none_or(|value| spend(value, &mut left));
    if fits { limit - left } else { limit + 1 }
}

/// Counts the bytes of a value against a budget, without printing it. Most
/// values are objects of a few plain values: those are added up at once.
fn spend(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::Array(items) => {
            pay(2 + items.len(), left) && items.iter().all(|item| spend(item, left))
        }
        Value::Object(map) => {
            let mut plain = 2;
            for (key, item) in map {
                plain += key.len() + 4;
                match plain_size(item) {
                    Some(size) => plain += size,
                    None if !spend(item, left) => return false,
                    None => {}
                }
                if plain > *left {
                    return false;
                }
            }
            pay(plain, left)
        }
        plain => pay(plain_size(plain).unwrap_or_default(), left),
    }
}

/// The size of a value that holds no others.
#[inline]
fn plain_size(value: &Value) -> Option<usize> {
    match value {
        Value::Null | Value::Bool(_) => Some(5),
        Value::Number(_) => Some(8),
        Value::String(text) => Some(text.len() + 2),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn spend_facts(facts: &Facts, left: &mut usize) -> bool {
    facts.iter().all(|(key, value)| pay(key.len() + 4, left) && spend(value, left))
}

/// Facts that go along with a cut result, unless they are what is too large.
fn small_facts(facts: &Facts) -> Facts {
    if spend_facts(facts, &mut NOTICE_BYTES.clone()) { facts.clone() } else { Facts::default() }
}

fn pay(cost: usize, left: &mut usize) -> bool {
    match left.checked_sub(cost) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}
