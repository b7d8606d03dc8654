//! Validates and truncates results.
//!
//! A result that is too large for a model is stored whole; the model gets the
//! beginning and a handle to the rest.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Outcome;
use crate::call::Call;
use crate::call::content::{Body, Content, Facts, Output, Payload, Truncated};
use crate::error::{Error, ErrorKind};
use crate::journal::OpenCall;
use crate::journal::record::RecordStore;

/// Timeout for storing the whole result. The call already has its result then,
/// so this is not part of the call's own time.
const KEEP_PATIENCE: Duration = Duration::from_secs(5);
/// Space for the notice at the end of a truncated text.
const NOTICE_BYTES: usize = 400;

/// Converts the output for the caller. The result of an earlier call has
/// already been converted.
pub(crate) async fn convert(
    call: &Call,
    open: &mut OpenCall,
    answer: Outcome,
    max_bytes: usize,
    store: &dyn RecordStore,
) -> Result<Arc<Output>, Error> {
    let output = match answer {
        Outcome::New(output) => output,
        Outcome::Earlier(output) => return Ok(output),
    };
    check(call, &output)?;
    let size = output_size(&output, max_bytes);
    if size <= max_bytes {
        open.output_size = Some(size);
        return Ok(Arc::new(output));
    }
    // Boxed: most results fit.
    Box::pin(shorten(call, output, max_bytes, store)).await.map(Arc::new)
}

/// Stores the whole output and truncates it.
async fn shorten(
    call: &Call,
    output: Output,
    max_bytes: usize,
    store: &dyn RecordStore,
) -> Result<Output, Error> {
    let text = output.to_text();
    let shown = cut(&text, max_bytes.saturating_sub(NOTICE_BYTES)).to_owned();
    // Text is stored as text, so that a model can continue reading where the
    // preview ends; anything else is stored as JSON.
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

/// Whether the text of an output says everything that is in it.
fn is_text(output: &Output) -> bool {
    let structured = output.structured.as_deref();
    match output.content.as_slice() {
        [] => true,
        [Content { body: Body::Json(value), .. }] => structured.is_none_or(|own| own == value),
        // Many tools return their structured value as text, too.
        [Content { body: Body::Text(text), .. }] => structured
            .is_none_or(|own| serde_json::from_str::<Value>(text).is_ok_and(|value| value == *own)),
        _ => false,
    }
}

/// Validates the result against the tool's output schema.
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

/// Truncates a text at a character boundary.
fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// A JSON value for a record, truncated if it is too large.
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

/// A truncated output, for a record.
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

/// Approximate size of an output; stops counting at the limit.
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

/// Subtracts the size of a value from a budget, without serialising it.
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

/// Metadata of a truncated result, unless the metadata itself is too large.
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
