//! Limits of documents, the same for every database, so that data can move between them.

use serde_json::Value;
use windlass::{Error, ErrorKind};

use super::Put;

/// Maximum length of an id: together with the tenant it must fit into an index.
const MAX_NAME_BYTES: usize = 1000;

/// Maximum nesting; deeper JSON can be written, but not parsed again.
const MAX_LEVELS: usize = 127;

/// Rejects what could not be read back unchanged.
pub(crate) fn check(put: &Put) -> Result<(), Error> {
    for (what, name) in [("id", Some(&put.id)), ("alias", put.alias.as_ref())] {
        if name.is_some_and(|name| !can_be_kept(name)) {
            return Err(refused(format!(
                "the {what} of a document in `{}` has more than {MAX_NAME_BYTES} bytes, or a zero byte",
                put.space
            )));
        }
    }
    if !has_levels(&put.body, MAX_LEVELS) {
        return Err(refused(format!(
            "a document in `{}` is nested deeper than {MAX_LEVELS} levels",
            put.space
        )));
    }
    Ok(())
}

/// Whether an id is valid.
pub(crate) fn can_be_kept(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && !name.contains('\0')
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidArguments, message)
}

/// Whether a value has at most this many levels.
fn has_levels(value: &Value, most: usize) -> bool {
    let deeper = |inner| most > 0 && has_levels(inner, most - 1);
    match value {
        Value::Array(items) => most > 0 && items.iter().all(deeper),
        Value::Object(members) => most > 0 && members.values().all(deeper),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_can_be_read_again() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let put = |body| Put::new("s", windlass::TenantId::default(), "id", body);
        assert!(check(&put(nested(MAX_LEVELS))).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(MAX_LEVELS).to_string()).is_ok());
        assert!(check(&put(nested(MAX_LEVELS + 1))).is_err());
        assert!(serde_json::from_str::<Value>(&nested(MAX_LEVELS + 1).to_string()).is_err());
    }
}
