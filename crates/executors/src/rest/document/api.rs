//! What a document says, in the same words for every version.

use std::collections::BTreeMap;

use super::reference::At;
use crate::rest::plan::{Location, Style};

/// An API.
pub(crate) struct Api<'d> {
    pub(crate) title: &'d str,
    pub(crate) description: &'d str,
    pub(crate) version: Option<&'d str>,
    /// Where it is, as absolute addresses or paths; the first is used.
    pub(crate) servers: Vec<String>,
    /// How it wants to be told who asks, by name.
    pub(crate) schemes: BTreeMap<String, Scheme>,
    /// Every operation, or what is wrong with it.
    pub(crate) operations: Vec<Result<Operation<'d>, Fault>>,
    /// What is odd about the document as a whole.
    pub(crate) notes: Vec<String>,
}

/// An operation that cannot be a tool.
pub(crate) struct Fault {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) why: String,
}

/// One method of one path.
pub(crate) struct Operation<'d> {
    /// In capitals.
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
    /// The ways to be let in, each a list of schemes that are all needed; none
    /// at all means that everybody is.
    pub(crate) security: Vec<Vec<(String, Vec<String>)>>,
    /// Its own servers, where it has some.
    pub(crate) servers: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// A parameter in the path, the query, a header or a cookie.
pub(crate) struct Param<'d> {
    pub(crate) name: String,
    pub(crate) place: Location,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    pub(crate) allow_reserved: bool,
    /// It is sent as text of this type instead of by a style.
    pub(crate) json: bool,
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    /// None where the document says nothing of it.
    pub(crate) schema: Option<At<'d>>,
}

/// What is sent with a request.
pub(crate) struct Body<'d> {
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    pub(crate) media: Media<'d>,
}

/// The one type of a body that is used.
pub(crate) struct Media<'d> {
    pub(crate) media_type: String,
    pub(crate) schema: Option<At<'d>>,
    /// The fields of a form, where the document lists them one by one.
    pub(crate) fields: Vec<BodyField<'d>>,
    /// How fields of a form are written, by name.
    pub(crate) encoding: BTreeMap<String, Encoding>,
}

/// How a field of a form is written.
#[derive(Clone, Default)]
pub(crate) struct Encoding {
    pub(crate) style: Option<Style>,
    pub(crate) explode: Option<bool>,
    pub(crate) content_type: Option<String>,
}

/// A field of a form (Swagger's `formData`).
pub(crate) struct BodyField<'d> {
    pub(crate) name: &'d str,
    pub(crate) required: bool,
    pub(crate) description: &'d str,
    pub(crate) schema: At<'d>,
}

/// What comes back when all is well.
pub(crate) struct Answer<'d> {
    /// The types that it may have.
    pub(crate) media_types: Vec<String>,
    /// The schema of its JSON form.
    pub(crate) schema: Option<At<'d>>,
}

/// How an API wants to be told who asks.
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
    /// The flows that Windlass can take, in the order of preference, and the
    /// token by hand where there is none.
    OAuth2(Option<Flow>),
    Unsupported(String),
}

/// A flow of OAuth 2.0.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Where a person agrees; none for client credentials.
    pub(crate) authorization_url: Option<String>,
    pub(crate) token_url: String,
    pub(crate) refresh_url: Option<String>,
}
