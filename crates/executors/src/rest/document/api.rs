//! The model of an API document, the same for every version.

use std::collections::BTreeMap;

use super::reference::At;
use crate::rest::plan::{Location, Style};

/// An API.
pub(crate) struct Api<'d> {
    pub(crate) title: &'d str,
    pub(crate) description: &'d str,
    pub(crate) version: Option<&'d str>,
    /// Base URLs or paths; the first one is used.
    pub(crate) servers: Vec<String>,
    /// Security schemes by name.
    pub(crate) schemes: BTreeMap<String, Scheme>,
    /// Every operation, or what is wrong with it.
    pub(crate) operations: Vec<Result<Operation<'d>, Fault>>,
    /// Warnings about the document as a whole.
    pub(crate) notes: Vec<String>,
}

/// An operation that cannot become a tool.
pub(crate) struct Fault {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) why: String,
}

/// An operation: one method of one path.
pub(crate) struct Operation<'d> {
    /// In upper case.
    pub(crate) method: String,
    pub(crate) path: &'d str,
    pub(crate) id: Option<&'d str>,
    pub(crate) tags: Vec<&'d str>,
    pub(crate) summary: &'d str,
    pub(crate) description: &'d str,
    pub(crate) deprecated: bool,
    pub(crate) parameters: Vec<Param<'d>>,
    pub(crate) body: Option<Body<'d>>,
    pub(crate) answer: Option<Answer<'d>>,
    /// Alternatives for authentication, each a list of schemes that are all required;
    /// empty if none is needed.
    pub(crate) security: Vec<Vec<(String, Vec<String>)>>,
    /// The operation's own servers.
    pub(crate) servers: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// A parameter in the path, query, headers or cookies.
pub(crate) struct Param<'d> {
    pub(crate) name: String,
    pub(crate) place: Location,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    pub(crate) allow_reserved: bool,
    /// Serialized as JSON instead of by a style.
    pub(crate) json: bool,
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    /// `None` if the document gives no schema.
    pub(crate) schema: Option<At<'d>>,
}

/// A request body.
pub(crate) struct Body<'d> {
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    pub(crate) media: Media<'d>,
}

/// The media type chosen for a body.
pub(crate) struct Media<'d> {
    pub(crate) media_type: String,
    pub(crate) schema: Option<At<'d>>,
    /// Form fields that the document lists one by one.
    pub(crate) fields: Vec<BodyField<'d>>,
    /// The encoding of form fields, by name.
    pub(crate) encoding: BTreeMap<String, Encoding>,
}

/// The encoding of a form field.
#[derive(Clone, Default)]
pub(crate) struct Encoding {
    pub(crate) style: Option<Style>,
    pub(crate) explode: Option<bool>,
    pub(crate) content_type: Option<String>,
}

/// A form field (Swagger's `formData`).
pub(crate) struct BodyField<'d> {
    pub(crate) name: &'d str,
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    pub(crate) schema: At<'d>,
}

/// A successful response.
pub(crate) struct Answer<'d> {
    /// Its media types.
    pub(crate) media_types: Vec<String>,
    /// The schema of its JSON form.
    pub(crate) schema: Option<At<'d>>,
}

/// A security scheme.
#[derive(Clone, Debug)]
pub(crate) struct Scheme {
    pub(crate) kind: SchemeKind,
    pub(crate) description: String,
}

#[derive(Clone, Debug)]
pub(crate) enum SchemeKind {
    ApiKey {
        place: Location,
        name: String,
    },
    Bearer,
    Basic,
    /// The supported flow, best first; `None` means that the token is entered by hand.
    OAuth2(Option<Flow>),
    Unsupported(String),
}

/// An OAuth 2.0 flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// The authorization endpoint; `None` for client credentials.
    pub(crate) authorization_url: Option<String>,
    pub(crate) token_url: String,
    pub(crate) refresh_url: Option<String>,
}
