//! Base64 and JSON.

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose};
use serde_json::Value as Json;

use Form::Global;
use Takes::{Any, Bytes, Text};

use super::{Form, Gives, Row, Takes, row, unexpected};
use crate::error::{Fault, Faulty};
use crate::evaluate::ELEMENT;
use crate::meter::Meter;
use crate::value::{Key, Map, Table, Text as Chars, Value, to_json};

pub(super) const ROWS: &[Row] = &[
    row("base64.encode", Global, &[Bytes], Gives::Text, base64_encode),
    row("base64.encode", Global, &[Text], Gives::Text, base64_encode),
    row("base64.decode", Global, &[Text], Gives::Bytes, base64_decode),
    row("json.encode", Global, &[Any], Gives::Text, json_encode),
    row("json.decode", Global, &[Text], Gives::Dyn, json_decode),
    row("json", Global, &[Any], Gives::Text, json_encode),
    row("parseJson", Global, &[Text], Gives::Dyn, json_decode),
];

fn base64_encode<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let bytes = match arguments {
        [Value::Bytes(bytes)] => bytes,
        [Value::Text(text)] => text.as_str().as_bytes(),
        _ => return Err(unexpected()),
    };
    meter.allocate(bytes.len() / 3 * 4 + 4)?;
    meter.read(bytes.len())?;
    Ok(Value::text(general_purpose::STANDARD.encode(bytes)))
}

fn base64_decode<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    // The padding may be left out.
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &ALPHABET,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    let [Value::Text(text)] = arguments else { return Err(unexpected()) };
    let text = text.as_str();
    meter.allocate(text.len())?;
    meter.read(text.len())?;
    match LENIENT.decode(text) {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(error) => Err(Fault::new(format!("the text is not base64: {error}"))),
    }
}

fn json_encode<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [value] = arguments else { return Err(unexpected()) };
    let json = to_json(value, meter)?;
    let text = json.to_string();
    meter.allocate(text.len())?;
    meter.read(text.len())?;
    Ok(Value::text(text))
}

fn json_decode<'a>(arguments: &[Value<'a>], meter: &mut Meter) -> Faulty<Value<'a>> {
    let [Value::Text(text)] = arguments else { return Err(unexpected()) };
    let text = text.as_str();
    // An array has a value every two bytes.
    meter.allocate(text.len().saturating_mul(ELEMENT / 2))?;
    meter.read(text.len().saturating_mul(8))?;
    match serde_json::from_str(text) {
        Ok(json) => Ok(owned(json)),
        Err(error) => Err(Fault::new(format!("the text is not JSON: {error}"))),
    }
}

/// A JSON value that nobody else holds. Its depth is that of serde's reader, 128.
fn owned<'a>(json: Json) -> Value<'a> {
    match json {
        Json::String(text) => Value::text(text),
        Json::Array(items) => Value::list(items.into_iter().map(owned).collect()),
        Json::Object(object) => {
            let entries = object
                .into_iter()
                .map(|(key, value)| (Key::Text(Chars::Shared(key.into())), owned(value)));
            Value::Map(Map::Shared(std::rc::Rc::new(entries.collect::<Table<'_>>())))
        }
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (_, Some(number)) => Value::Uint(number),
            _ => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
    }
}
