//! Base64 and percent-encoding of texts.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use windlass::{Error, Output};

use super::super::arguments::{Arguments, invalid};
use super::text;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The unreserved characters of RFC 3986 stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(super) fn base64_encode(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::text(STANDARD.encode(text(arguments)?)))
}

/// Accepts both alphabets, with or without padding and line breaks.
pub(super) fn base64_decode(arguments: &Arguments<'_>) -> Result<Output, Error> {
    let encoded: String = text(arguments)?.split_whitespace().collect();
    let engine = if encoded.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    let bytes = engine
        .decode(&encoded)
        .map_err(|error| invalid(format!("the text is not base64: {error}")))?;
    let count = bytes.len();
    String::from_utf8(bytes)
        .map(Output::text)
        .map_err(|_| invalid(format!("the {count} decoded bytes are not text in UTF-8")))
}

pub(super) fn url_encode(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::text(utf8_percent_encode(text(arguments)?, ENCODED).to_string()))
}

pub(super) fn url_decode(arguments: &Arguments<'_>) -> Result<Output, Error> {
    percent_decode_str(text(arguments)?)
        .decode_utf8()
        .map(Output::text)
        .map_err(|_| invalid("the decoded bytes are not text in UTF-8"))
}
