//! Results as pieces for the model, before an API gives them a form.

use serde_json::Value;

use crate::call::CallResult;
use crate::call::content::{Body, Data};
use crate::value::text::Lang;

/// Image types that all model APIs accept.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";

/// A piece of a result.
pub(super) enum Piece<'a> {
    Text(String),
    Image(&'a Data),
    /// A document that models can read.
    Document(&'a Data),
}

/// Splits a result into pieces, at least one: APIs refuse answers without
/// content.
pub(super) fn pieces(result: &CallResult, lang: Lang) -> Vec<Piece<'_>> {
    let output = match &result.outcome {
        Ok(output) => output,
        Err(error) => return vec![Piece::Text(filled(error.feedback(lang), lang))],
    };
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for block in &output.content {
        match &block.body {
            Body::Image(data) if IMAGES.contains(&data.mime_type.as_str()) => {
                pieces.push(Piece::Image(data));
            }
            Body::Blob(data) if data.mime_type == PDF => pieces.push(Piece::Document(data)),
            Body::Text(_)
            | Body::Json(_)
            | Body::Link(_)
            | Body::ImageLink(_)
            | Body::Image(_)
            | Body::FileVar(_)
            | Body::Blob(_)
            | Body::Audio(_)
            | Body::Resource(_) => match block.to_text() {
                text if text.trim().is_empty() => {}
                text => pieces.push(Piece::Text(text)),
            },
        }
    }
    if pieces.is_empty() {
        let text = output.structured.as_deref().map(Value::to_string).unwrap_or_default();
        pieces.push(Piece::Text(filled(text, lang)));
    }
    pieces
}

/// The text pieces joined. If everything else is sent separately, describes
/// what that is.
pub(super) fn text_of(pieces: &[Piece<'_>]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Image(data) | Piece::Document(data) => format!("[{}]", data.mime_type),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A `data:` URL.
pub(super) fn data_url(data: &Data) -> String {
    format!("data:{};base64,{}", data.mime_type, data.base64)
}

/// A placeholder for empty text.
fn filled(text: String, lang: Lang) -> String {
    match text.trim().is_empty() {
        false => text,
        true if lang == Lang::Zh => "(无输出)".to_owned(),
        true => "(no output)".to_owned(),
    }
}
