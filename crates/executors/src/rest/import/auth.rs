//! Overrides the authentication of an API document.
//!
//! Documents leave it out (GitHub), declare a scheme and never require it (Kubernetes),
//! or require one that the server in question does not need. The person who imports it
//! knows better.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::rest::document::{Scheme, SchemeKind};
use crate::rest::plan::Location;
use crate::rest::request::{is_header_name, takes_key};

const FORMS: &str = "none, bearer, basic, header:NAME, query:NAME, cookie:NAME or scheme:NAME";

/// How to authenticate: `none`, `bearer`, `basic`, `header:NAME`, `query:NAME`,
/// `cookie:NAME`, or `scheme:NAME` for a scheme that the document declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Auth(pub(super) Way);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    None,
    Bearer,
    Basic,
    Key(Location, String),
    /// A scheme of the document.
    Scheme(String),
}

impl Auth {
    /// The scheme that replaces the document's, and its field in the credential form;
    /// `None` if it needs none.
    pub(super) fn scheme(&self) -> Option<(&'static str, Scheme)> {
        let (field, kind) = match &self.0 {
            Way::None | Way::Scheme(_) => return None,
            Way::Bearer => ("token", SchemeKind::Bearer),
            // Its fields are `username` and `password`.
            Way::Basic => ("", SchemeKind::Basic),
            Way::Key(place, name) => {
                ("api_key", SchemeKind::ApiKey { place: *place, name: name.clone() })
            }
        };
        Some((field, Scheme { kind, description: String::new() }))
    }
}

impl FromStr for Auth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let named = |way: Way| match name {
            "" => Err(format!("`{kind}` wants a name: {kind}:NAME")),
            _ => Ok(way),
        };
        let way = match kind {
            "none" | "bearer" | "basic" if text.contains(':') => {
                return Err(format!("`{kind}` takes no name"));
            }
            "none" => Way::None,
            "bearer" => Way::Bearer,
            "basic" => Way::Basic,
            "header" if !name.is_empty() && (!is_header_name(name) || !takes_key(name)) => {
                return Err(format!("`{}` is no header for a key", name.escape_debug()));
            }
            "header" => named(Way::Key(Location::Header, name.to_owned()))?,
            "query" => named(Way::Key(Location::Query, name.to_owned()))?,
            "cookie" => named(Way::Key(Location::Cookie, name.to_owned()))?,
            "scheme" => named(Way::Scheme(name.to_owned()))?,
            _ => return Err(format!("`auth` is {FORMS}; found `{}`", text.escape_debug())),
        };
        Ok(Self(way))
    }
}

impl TryFrom<String> for Auth {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Auth> for String {
    fn from(auth: Auth) -> Self {
        auth.to_string()
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::None => f.write_str("none"),
            Way::Bearer => f.write_str("bearer"),
            Way::Basic => f.write_str("basic"),
            Way::Key(place, name) => write!(f, "{}:{name}", place.name()),
            Way::Scheme(name) => write!(f, "scheme:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Auth;

    #[test]
    fn every_form_is_read_and_written_alike() {
        for text in
            ["none", "bearer", "basic", "header:X-Key", "query:key", "cookie:sid", "scheme:a b"]
        {
            assert_eq!(text.parse::<Auth>().map(|auth| auth.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "digest", "header", "header:", "header:Host", "header:a b", "bearer:x"] {
            assert!(wrong.parse::<Auth>().is_err(), "{wrong}");
        }
    }
}
