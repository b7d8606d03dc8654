//! Lenient JSON: APIs that cut a text in the middle of a surrogate pair write a
//! lone surrogate, which is invalid Unicode.

use std::borrow::Cow;

use serde_json::Value;

/// Parses JSON. Lone surrogates become the replacement character (U+FFFD).
///
/// # Errors
///
/// If it is otherwise invalid JSON.
pub fn lenient_json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|why| match replace_lone_surrogates(text) {
        Cow::Owned(text) => serde_json::from_str(&text),
        Cow::Borrowed(_) => Err(why),
    })
}

/// Replaces lone surrogates in JSON text with U+FFFD.
pub fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let step = match surrogate(text, at) {
            Some(true) if surrogate(text, at + 6) == Some(false) => 12,
            Some(_) => {
                mended.push_str(&text[kept..at]);
                mended.push_str("\\ufffd");
                kept = at + 6;
                6
            }
            None => 2,
        };
        at += step;
    }
    match kept {
        0 => Cow::Borrowed(text),
        _ => {
            mended.push_str(&text[kept..]);
            Cow::Owned(mended)
        }
    }
}

/// Whether there is an escaped surrogate here, and if so, whether it is a high
/// one that a low one follows.
fn surrogate(text: &str, at: usize) -> Option<bool> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(true),
        0xDC00..=0xDFFF => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_is_kept() {
        let read = |text: &str| lenient_json(text).unwrap();
        assert_eq!(read(r#"["\ud83d"]"#), json!(["\u{fffd}"]));
        assert_eq!(read(r#"["\ude00 \uD83D\uDE00"]"#), json!(["\u{fffd} \u{1f600}"]));
        assert_eq!(read(r#"["\ud83d\ud83d\ude00"]"#), json!(["\u{fffd}\u{1f600}"]));
        assert_eq!(
            read(r#"["\\ud83d", "\ud83d\n", "é\udfff"]"#),
            json!(["\\ud83d", "\u{fffd}\n", "é\u{fffd}"])
        );
        assert!(lenient_json(r#"["\ud83d""#).is_err());
        assert!(lenient_json("\\").is_err() && lenient_json("[\"\\é\"]").is_err());
    }
}
