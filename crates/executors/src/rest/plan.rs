//! [`Plan`]: how the arguments of one tool become a request. Plain data, kept in
//! the tool's `entry`.
//!
//! An imported tool and one that a person wrote are the same kind: the importer
//! writes the long form of what a definition may say in a few words
//! ([`super::entry`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A request, but for its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The address that every path begins with.
    pub(crate) base_url: String,
    pub(crate) method: String,
    /// The rest of the path; names in braces are arguments.
    #[serde(default)]
    pub(crate) path: String,
    /// Headers that are always sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// Where arguments go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameters: Vec<ParameterPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<BodyPlan>,
    /// The ways to be let in; in each, all are needed. None: everybody is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) security: Vec<Vec<Credential>>,
    /// The types that the answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) accept: Option<String>,
}

/// Where an argument goes, and how it is written there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterPlan {
    /// Its name in the request.
    pub(crate) name: String,
    /// Its name among the arguments, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) argument: Option<String>,
    #[serde(rename = "in")]
    pub(crate) location: Location,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) style: Option<Style>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) explode: Option<bool>,
    /// Reserved characters are sent as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) allow_reserved: bool,
    /// It is written as JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) json: bool,
}

impl ParameterPlan {
    /// Its name among the arguments.
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

    /// The style of what does not say one.
    pub(crate) fn style(self) -> Style {
        match self {
            Self::Path | Self::Header => Style::Simple,
            Self::Query | Self::Cookie => Style::Form,
        }
    }
}

/// How a list or an object is written in one text.
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
    /// Whether items are written apart where nothing is said.
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

/// What is sent with a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BodyPlan {
    pub(crate) media_type: String,
    /// It is sent even where no argument belongs to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
    /// The argument that is the whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) argument: Option<String>,
    /// The arguments that are its fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    /// How fields of a form are written, by their name in the form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) encoding: BTreeMap<String, FieldEncoding>,
}

/// A field of a body: its name, or its name among the arguments and in the
/// body.
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

/// How a field of a form is written.
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

/// How a request says who asks. The values are fields of the provider's
/// credential, by name.
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
    /// A token from a token endpoint, or one that a person brought.
    OAuth2 {
        /// The field of a token that is there already.
        field: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<OAuth2Flow>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<String>,
    },
}

/// Where a token comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuth2Flow {
    pub(crate) client_id: String,
    pub(crate) client_secret: String,
    pub(crate) token_url: String,
    /// Where a person agrees; none for client credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorization_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_url: Option<String>,
}
