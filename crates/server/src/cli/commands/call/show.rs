//! Prints the result of a call.

use std::io;

use serde_json::Value;
use windlass::{Body, CallResult, Content, Error, ErrorKind, Lang, Output, Payload};

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Screen};

/// How a result is printed.
pub(super) struct CallPrintOptions {
    pub(super) lang: Lang,
    /// The bytes and nothing else.
    pub(super) raw: bool,
    /// Whether the caller said that it must not happen twice.
    pub(super) keyed: bool,
    /// The provider of the tool, which has its credentials.
    pub(super) provider: Option<String>,
    /// Whether the record can be looked at later.
    pub(super) kept: bool,
}

/// Prints a result: what the tool gave on stdout, what went wrong on stderr.
pub(super) fn show(
    result: &CallResult,
    view: &CallPrintOptions,
    screen: Screen,
) -> Result<Exit, Failure> {
    let exit = result.error().map_or(Exit::Success, |error| Exit::of(error.kind()));
    match print(result, view, screen) {
        // A closed pipe does not change the exit code of the call.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if let Some(cut) = result.output().and_then(|output| output.truncated.as_ref()) {
        let (shown, total) = (cut.shown_bytes, cut.total_bytes);
        let next = match &cut.handle {
            Some(handle) if view.kept => format!("for all of it: windlass calls {handle} --output"),
            _ => "raise max_output_bytes in windlass.yaml to see more".to_owned(),
        };
        screen.note(format_args!("the result was cut: {shown} of {total} bytes; {next}"));
    }
    match result.same_as {
        Some(first) if view.keyed => {
            screen.note(format_args!("nothing ran: this is the result of the call {first}"));
        }
        Some(first) => screen.detail(format_args!("this is the result of the call {first}")),
        None => {}
    }
    let took = output::spent(result.run_time);
    let tried = match result.attempts {
        0 => String::new(),
        1 => ", tried once".to_owned(),
        times => format!(", tried {times} times"),
    };
    screen.detail(format_args!("call {} took {took}{tried}", result.id));
    Ok(exit)
}

fn print(result: &CallResult, view: &CallPrintOptions, screen: Screen) -> io::Result<()> {
    match &result.outcome {
        _ if screen.json => screen.document(&result.to_json(view.lang)),
        Ok(output) if view.raw => screen.bytes(&raw(output)),
        Ok(output) => match readable(output) {
            text if text.is_empty() => Ok(()),
            text => screen.foreign(&text),
        },
        Err(error) => {
            explain(error, result, view, screen);
            Ok(())
        }
    }
}

/// The result for people: JSON over several lines, everything else as text.
pub(super) fn readable(output: &Output) -> String {
    if let Some(shown) = beginning(output) {
        return shown.to_owned();
    }
    match (output.content.as_slice(), &output.structured) {
        ([], Some(value)) => pretty(value),
        (blocks, _) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
    }
}

fn block(content: &Content) -> String {
    match content.body.payload() {
        Payload::Value(value) => pretty(value),
        Payload::Text(_) | Payload::Data(_) => content.to_text(),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// The result's own bytes: a single file or image as what it is.
fn raw(output: &Output) -> Vec<u8> {
    if let [content] = output.content.as_slice()
        && let Payload::Data(data) = content.body.payload()
        && let Some(bytes) = data.bytes()
    {
        return bytes;
    }
    beginning(output).map_or_else(|| output.to_text(), str::to_owned).into_bytes()
}

/// What is shown of a cut result, without the words to the model at its end.
fn beginning(output: &Output) -> Option<&str> {
    let cut = output.truncated.as_ref()?;
    match output.content.as_slice() {
        [Content { body: Body::Text(text), .. }] => {
            text.get(..usize::try_from(cut.shown_bytes).ok()?)
        }
        _ => None,
    }
}

/// Says what went wrong and what to do about it.
fn explain(error: &Error, result: &CallResult, view: &CallPrintOptions, screen: Screen) {
    let feedback = error.feedback(view.lang);
    match error.violations() {
        // A model is also told what to do next; a person gets a hint.
        [] if view.lang == Lang::En || error.kind() == ErrorKind::ToolNotFound => {
            screen.error(error.explain(view.lang));
        }
        [] => screen.error(&feedback),
        violations => {
            let lines: String = {
                let told = violations.iter().map(|one| one.describe(view.lang));
                told.map(|one| format!("\n  {one}")).collect()
            };
            screen.error(format_args!("{}{lines}", invalid_arguments(view.lang)));
        }
    }
    // The feedback for models may leave out what operators need.
    if error.violations().is_empty() && view.lang == Lang::Zh && !feedback.contains(error.message())
    {
        screen.note(error.message());
    }
    if let Some(hint) = hint(error.kind(), result, view) {
        screen.hint(hint);
    }
}

fn invalid_arguments(lang: Lang) -> String {
    let text = ErrorKind::InvalidArguments.feedback(lang, "");
    let end = text.find(':').unwrap_or(text.len());
    text[..end].to_owned() + ":"
}

fn hint(kind: ErrorKind, result: &CallResult, view: &CallPrintOptions) -> Option<String> {
    let name = &result.tool_name;
    Some(match kind {
        ErrorKind::ToolNotFound => "`windlass tools` lists all tools".to_owned(),
        ErrorKind::InvalidArguments => {
            format!("`windlass tools {name}` shows what it takes")
        }
        ErrorKind::Timeout => "--timeout 2m gives it more time".to_owned(),
        ErrorKind::CredentialInvalid => match &view.provider {
            Some(provider) => {
                format!("`windlass credentials set {provider}` stores its credential")
            }
            None => {
                "pass it with --secret NAME, and its value in WINDLASS_SECRET_<NAME>".to_owned()
            }
        },
        ErrorKind::IdempotencyConflict => {
            "a key stands for one call; choose another for other arguments".to_owned()
        }
        ErrorKind::ExecutorNotFound => {
            format!("`windlass tools {name}` says where it is defined; look at its `entry`")
        }
        ErrorKind::Cancelled => return None,
        _ if view.kept => format!("`windlass calls {}` shows the record", result.id),
        _ => return None,
    })
}
