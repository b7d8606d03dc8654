//! What to write in place of what other languages have.

use crate::token::Token;

/// How CEL spells what other languages write so.
pub(super) fn spelling(token: &Token) -> Option<&'static str> {
    match token {
        Token::Name(name) => Some(match name.as_str() {
            "and" => "write && for `and`",
            "or" => "write || for `or`",
            "not" => "write ! for `not`",
            "is" => "write == to compare",
            "if" | "else" => "write condition ? this : that",
            _ => return None,
        }),
        _ => None,
    }
}

/// What CEL has for a function that other languages call otherwise.
pub(super) fn foreign(name: &str) -> Option<&'static str> {
    Some(match name {
        "len" | "length" | "count" => "write size(value)",
        "str" | "toString" | "to_string" => "write string(value)",
        "float" | "number" | "parseFloat" | "Number" => "write double(value)",
        "parseInt" | "integer" => "write int(value)",
        "toLowerCase" | "tolower" | "to_lower" | "lowercase" => "write value.lower()",
        "toUpperCase" | "toupper" | "to_upper" | "uppercase" => "write value.upper()",
        "includes" => "write value.contains(text), or element in list",
        "startswith" => "write value.startsWith(text)",
        "endswith" => "write value.endsWith(text)",
        "some" | "any" => "write list.exists(x, condition)",
        "every" => "write list.all(x, condition)",
        "find" => "write list.filter(x, condition).first()",
        "get" => "write value[?key].orValue(otherwise), or default(value.key, otherwise)",
        "push" | "append" | "concat" => "write list + [element]",
        "toJSON" | "to_json" | "tojson" | "stringify" | "dumps" => "write json(value)",
        "fromJSON" | "from_json" | "fromjson" | "loads" => "write parseJson(text)",
        "coalesce" | "firstNonNull" => "write first(value, …)",
        "now" | "today" | "random" | "uuid" | "env" | "secret" => {
            "expressions have no clock, randomness, environment or secrets; take such values from steps"
        }
        _ => return None,
    })
}
