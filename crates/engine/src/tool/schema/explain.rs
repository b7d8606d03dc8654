//! Turns validation errors into violations.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::error::Violation;
use crate::error::phrase;
use crate::value::pointer;

/// Maximum length of the description of an alternative.
const MAX_WANT: usize = 80;

/// Describes a validation error. A missing or unexpected key is reported at the
/// key's own location.
pub(super) fn describe(error: &ValidationError<'_>) -> Vec<Violation> {
    use ValidationErrorKind as Kind;
    let path = error.instance_path().as_str();
    let at = |key: &str| format!("{path}/{}", pointer::escape(key));
    let one = |expected: String| {
        vec![Violation { path: path.to_owned(), expected, got: shorten(error.instance()) }]
    };
    match error.kind() {
        Kind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            let expected = phrase::REQUIRED.text();
            vec![Violation { path: at(key), expected, got: phrase::MISSING.text() }]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected
                .iter()
                .map(|key| Violation {
                    path: at(key),
                    expected: phrase::NO_SUCH_KEY.text(),
                    got: error.instance().get(key).map(shorten).unwrap_or_default(),
                })
                .collect()
        }
        Kind::Type { kind } => one(match kind {
            TypeKind::Single(one) => with_article(&one.to_string()),
            TypeKind::Multiple(many) => many
                .iter()
                .map(|one| with_article(&one.to_string()))
                .collect::<Vec<_>>()
                .join(phrase::OR),
        }),
        Kind::Enum { options } => one(phrase::ONE_OF.with(list(values_of(options)))),
        Kind::Constant { expected_value } => one(phrase::EXACTLY.with(expected_value)),
        Kind::Minimum { limit } => one(phrase::MINIMUM.with(limit)),
        Kind::Maximum { limit } => one(phrase::MAXIMUM.with(limit)),
        Kind::ExclusiveMinimum { limit } => one(phrase::MORE_THAN.with(limit)),
        Kind::ExclusiveMaximum { limit } => one(phrase::LESS_THAN.with(limit)),
        Kind::MinLength { limit } => one(phrase::MIN_LENGTH.with(limit)),
        Kind::MaxLength { limit } => one(phrase::MAX_LENGTH.with(limit)),
        Kind::MinItems { limit } => one(phrase::MIN_ITEMS.with(limit)),
        Kind::MaxItems { limit } => one(phrase::MAX_ITEMS.with(limit)),
        Kind::MinProperties { limit } => one(phrase::MIN_KEYS.with(limit)),
        Kind::MaxProperties { limit } => one(phrase::MAX_KEYS.with(limit)),
        Kind::MultipleOf { multiple_of } => one(phrase::MULTIPLE_OF.with(multiple_of)),
        Kind::UniqueItems => one(phrase::ALL_DIFFERENT.text()),
        Kind::Pattern { pattern } => one(phrase::MATCHES.with(pattern)),
        Kind::Format { format } => one(phrase::FORMAT.with(format)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            alternatives(path, error.instance(), context)
        }
        Kind::OneOfMultipleValid { .. } => one(phrase::ONLY_ONE_ALTERNATIVE.text()),
        _ => one(error.masked().to_string()),
    }
}

fn with_article(noun: &str) -> String {
    match noun {
        "null" => "null".to_owned(),
        "integer" | "object" | "array" => format!("an {noun}"),
        _ => format!("a {noun}"),
    }
}

/// Describes a value that matches none of several alternatives: lists the
/// possible values; else the errors of the alternative that was meant; else
/// what the alternatives expect.
fn alternatives(path: &str, value: &Value, context: &[Vec<ValidationError<'_>>]) -> Vec<Violation> {
    let one =
        |expected: String| vec![Violation { path: path.to_owned(), expected, got: shorten(value) }];
    // Alternatives for other types were not meant.
    let mut fitting = context.iter().filter(|errors| !is_of_other_type(path, errors));
    if let (Some(errors), None) = (fitting.next(), fitting.next()) {
        return errors.iter().flat_map(describe).collect();
    }
    // An enum with doc comments is a list of constants with descriptions.
    let choices = context.iter().map(|errors| choices_of(errors)).collect::<Option<Vec<_>>>();
    if let Some(choices) = choices.filter(|choices| !choices.is_empty()) {
        let place = choices.first().map(|(place, _)| place.clone()).unwrap_or_default();
        if choices.iter().all(|(other, _)| *other == place) {
            let shown =
                list(&choices.into_iter().flat_map(|(_, values)| values).collect::<Vec<_>>());
            let (expected, is_own) = (phrase::ONE_OF.with(shown), place == path);
            let got = if is_own { shorten(value) } else { got_at(context, &place) };
            return vec![Violation { path: place, expected, got }];
        }
    }
    // The alternative whose constants match is the one that was meant.
    let mut meant = context.iter().filter(|errors| choices_of(errors).is_none());
    if value.is_object()
        && let (Some(errors), None) = (meant.next(), meant.next())
    {
        return errors.iter().flat_map(describe).collect();
    }
    let wants: Option<Vec<String>> = context.iter().map(|errors| want_of(path, errors)).collect();
    match wants {
        Some(mut wants) if !wants.is_empty() => {
            wants.dedup();
            one(wants.join(phrase::OR))
        }
        _ => one(phrase::ONE_ALTERNATIVE.text()),
    }
}

/// Whether an alternative is for values of another type.
fn is_of_other_type(path: &str, errors: &[ValidationError<'_>]) -> bool {
    let is_type = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Type { .. })
            && error.instance_path().as_str() == path
    };
    errors.iter().any(is_type)
}

/// Location and options of a constant or enum that the value does not match.
fn choices_of(errors: &[ValidationError<'_>]) -> Option<(String, Vec<Value>)> {
    use ValidationErrorKind as Kind;
    errors.iter().find_map(|error| {
        let values = match error.kind() {
            Kind::Constant { expected_value } => vec![Value::clone(expected_value)],
            Kind::Enum { options } => values_of(options).to_vec(),
            _ => return None,
        };
        Some((error.instance_path().as_str().to_owned(), values))
    })
}

/// The value at a location where all alternatives have a constant.
fn got_at(context: &[Vec<ValidationError<'_>>], place: &str) -> String {
    let mut errors = context.iter().flatten();
    let error = errors.find(|error| error.instance_path().as_str() == place);
    error.map(|error| shorten(error.instance())).unwrap_or_default()
}

/// What a schema expects in place of the whole value, in a few words.
fn want_of(path: &str, errors: &[ValidationError<'_>]) -> Option<String> {
    match errors {
        [error] if error.instance_path().as_str() == path => match describe(error).as_slice() {
            [one] if one.path == path && one.expected.len() <= MAX_WANT => {
                Some(one.expected.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The values that `enum` lists.
fn values_of(options: &Value) -> &[Value] {
    options.as_array().map_or(&[], Vec::as_slice)
}

fn list(options: &[Value]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = options.iter().take(SHOWN).map(Value::to_string).collect();
    if options.len() > SHOWN {
        shown.push(format!("… ({} in all)", options.len()));
    }
    shown.join(", ")
}

/// Abbreviates a value.
pub(super) fn shorten(value: &Value) -> String {
    const SHOWN: usize = 60;
    match value {
        Value::Array(items) if items.len() > 3 => phrase::ARRAY_OF.with(items.len()),
        Value::Object(map) if map.len() > 3 => phrase::OBJECT_OF.with(map.len()),
        value => {
            let text = value.to_string();
            if text.chars().count() <= SHOWN {
                return text;
            }
            let start: String = text.chars().take(SHOWN).collect();
            format!("{start}…")
        }
    }
}
