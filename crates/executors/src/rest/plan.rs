//! [`Plan`]: template of a tool's HTTP request. Plain data, stored in the tool's `entry`.
//!
//! Imported and hand-written tools are the same: the importer writes the full form of
//! what a definition can say in a few words ([`super::entry`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The base URL.
    pub(crate) base_url: String,
    pub(crate) method: String,
    /// The path below it; names in braces are arguments.
    #[serde(default)]
    pub(crate) path: String,
    /// Headers that are always sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// The locations of arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameters: Vec<ParameterPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<BodyPlan>,
    /// Authentication alternatives; all credentials of one are required. Empty: none
    /// needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) security: Vec<Vec<Credential>>,
    /// The `Accept` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accept: Option<String>,
}

/// The location and serialization of an argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterPlan {
    /// Its name in the request.
    pub(crate) name: String,
    /// Its argument name, if that is different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) argument: Option<String>,
    #[serde(rename = "in")]
    pub(crate) location: Location,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) style: Option<Style>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) explode: Option<bool>,
    /// Reserved characters are not percent-encoded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) allow_reserved: bool,
    /// It is serialized as JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) json: bool,
}

impl ParameterPlan {
    /// Its argument name.
    pub(crate) fn argument(&self) -> &str {
        self.argument.as_deref().unwrap_or(&self.name)
    }

    pub(crate) fn style(&self) -> Style {
        self.style.unwrap_or_else(|| self.location.style())
    }

    pub(crate) fn explode(&self) -> bool {
        self.explode.unwrap_or_else(|| self.style().explodes())
    }
}

/// The parts of a request that take parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

impl Location {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    /// The default style of a location.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Path | Self::Header => Style::Simple,
            Self::Query | Self::Cookie => Style::Form,
        }
    }
}

/// How an array or object is serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Style {
    Matrix,
    Label,
    Form,
    Simple,
    SpaceDelimited,
    PipeDelimited,
    /// Swagger's `tsv`.
    TabDelimited,
    DeepObject,
}

impl Style {
    /// The default of `explode`.
    pub(crate) fn explodes(self) -> bool {
        matches!(self, Self::Form | Self::DeepObject)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "matrix" => Self::Matrix,
            "label" => Self::Label,
            "form" => Self::Form,
            "simple" => Self::Simple,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }
}

/// The template of a request body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BodyPlan {
    pub(crate) media_type: String,
    /// It is sent even without arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
    /// The argument that is the whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) argument: Option<String>,
    /// The arguments that are its fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    /// Serialization of form fields, by their name in the form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) encoding: BTreeMap<String, FieldEncoding>,
}

/// A field of a body: one name, or separate names for the argument and the field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Field {
    Same(String),
    Renamed { argument: String, name: String },
}

impl Field {
    pub(crate) fn argument(&self) -> &str {
        match self {
            Self::Same(name) | Self::Renamed { argument: name, .. } => name,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Same(name) | Self::Renamed { name, .. } => name,
        }
    }
}

/// Serialization of a form field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldEncoding {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) style: Option<Style>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) explode: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
}

/// Authentication of a request. The values are names of fields in the provider's
/// credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Credential {
    ApiKey {
        field: String,
        #[serde(rename = "in")]
        location: Location,
        name: String,
    },
    Bearer {
        field: String,
    },
    Basic {
        username: String,
        password: String,
    },
    /// OAuth 2.0: a token from a token endpoint, or one entered by hand.
    OAuth2 {
        /// The field of a token that was entered by hand.
        field: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<OAuth2Flow>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<String>,
    },
}

/// OAuth endpoints and fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuth2Flow {
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) token_url: String,
    /// The authorization endpoint; `None` for client credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorization_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_url: Option<String>,
}
