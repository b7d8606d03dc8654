//! [`RouteSpec`], the table of routes: each row has a path, a handler, the required
//! permission, the inputs and the answers. The router, the permission checks and the
//! OpenAPI document are generated from the same rows, so they cannot disagree.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::http::app::App;
use crate::http::front::auth::{Answered, Answering, Gated, answering};
use crate::http::front::problem;
use crate::state::identity::Permission;

/// One row.
pub(crate) struct RouteSpec {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// What somebody must be allowed to do; none for what is open to all.
    pub(crate) action: Option<Permission>,
    pub(crate) tag: &'static str,
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) details: Option<&'static str>,
    pub(crate) query: Option<Describe>,
    pub(crate) body: Option<(&'static str, Describe)>,
    pub(crate) headers: Vec<HeaderDoc>,
    pub(crate) answers: Vec<ResponseDoc>,
    /// A body to try it with.
    pub(crate) example: Option<fn() -> serde_json::Value>,
    pub(crate) has_problems: bool,
    /// What answers it, for those who may do this.
    handler: Answering,
}

/// Describes a type in the document.
pub(crate) type Describe = fn(&mut SchemaGenerator) -> Schema;

/// A header that a request may carry.
pub(crate) struct HeaderDoc {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// The texts that it may be; any where it is empty.
    pattern: Cow<'static, str>,
}

impl HeaderDoc {
    pub(crate) fn schema(&self) -> serde_json::Value {
        match &*self.pattern {
            "" => serde_json::json!({"type": "string"}),
            pattern => serde_json::json!({"type": "string", "pattern": pattern}),
        }
    }
}

/// What may come out.
pub(crate) struct ResponseDoc {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    pub(crate) media: &'static str,
    pub(crate) describe: Option<Describe>,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

fn any_bytes(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "string", "format": "binary"})
}

fn describe<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl RouteSpec {
    fn new(method: Method, path: &'static str, name: &'static str, handler: Answering) -> Self {
        Self {
            method,
            path,
            action: None,
            tag: "",
            name,
            summary: "",
            details: None,
            query: None,
            body: None,
            headers: Vec::new(),
            answers: Vec::new(),
            example: None,
            has_problems: false,
            handler,
        }
    }

    pub(crate) fn get<T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: impl Handler<T, Arc<App>, Future = Answered>,
    ) -> Self {
        Self::new(Method::GET, path, name, answering(handler))
    }

    pub(crate) fn post<T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: impl Handler<T, Arc<App>, Future = Answered>,
    ) -> Self {
        Self::new(Method::POST, path, name, answering(handler))
    }

    pub(crate) fn put<T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: impl Handler<T, Arc<App>, Future = Answered>,
    ) -> Self {
        Self::new(Method::PUT, path, name, answering(handler))
    }

    pub(crate) fn delete<T: 'static>(
        path: &'static str,
        name: &'static str,
        handler: impl Handler<T, Arc<App>, Future = Answered>,
    ) -> Self {
        Self::new(Method::DELETE, path, name, answering(handler))
    }

    fn route(self) -> MethodRouter<Arc<App>> {
        let filter = MethodFilter::try_from(self.method).unwrap_or(MethodFilter::GET);
        on(filter, Gated::new(self.handler, self.action, self.name))
    }

    /// Who may use it, and what it does.
    pub(crate) fn may(mut self, action: Permission, summary: &'static str) -> Self {
        (self.action, self.summary) = (Some(action), summary);
        self.problems()
    }

    /// Open to all.
    pub(crate) fn open(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    pub(crate) fn details(mut self, details: &'static str) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(describe::<T>);
        self
    }

    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some((JSON, describe::<T>));
        self
    }

    /// A body to try it with.
    pub(crate) fn example(mut self, example: fn() -> serde_json::Value) -> Self {
        self.example = Some(example);
        self
    }

    /// The body is anything at all.
    pub(crate) fn bytes(mut self) -> Self {
        self.body = Some(("application/octet-stream", any_bytes));
        self
    }

    /// It answers with problems although it is open to all.
    pub(crate) fn problems(mut self) -> Self {
        self.has_problems = true;
        self
    }

    pub(crate) fn header(
        mut self,
        name: &'static str,
        pattern: impl Into<Cow<'static, str>>,
        about: &'static str,
    ) -> Self {
        self.headers.push(HeaderDoc { name, about, pattern: pattern.into() });
        self
    }

    pub(crate) fn answer<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answer_as(status, about, JSON, Some(describe::<T>))
    }

    /// A problem of its own.
    pub(crate) fn problem(self, status: u16, about: &'static str) -> Self {
        self.answer_as(status, about, problem::MEDIA, Some(describe::<problem::ProblemBody>))
    }

    /// A stream of such events.
    pub(crate) fn events<T: JsonSchema>(self, about: &'static str) -> Self {
        self.answer_as(200, about, EVENTS, Some(describe::<T>))
    }

    pub(crate) fn answer_as(
        mut self,
        status: u16,
        about: &'static str,
        media: &'static str,
        describe: Option<Describe>,
    ) -> Self {
        self.answers.push(ResponseDoc { status, about, media, describe });
        self
    }
}

/// Puts a tag on rows that belong together.
pub(crate) fn tagged(tag: &'static str, rows: Vec<RouteSpec>) -> impl Iterator<Item = RouteSpec> {
    rows.into_iter().map(move |row| RouteSpec { tag, ..row })
}

/// The router of these rows. Nothing but what is open to all is reached without
/// a key whose role may do it.
pub(crate) fn router(rows: Vec<RouteSpec>) -> Router<Arc<App>> {
    rows.into_iter().fold(Router::new(), |router, row| router.route(row.path, row.route()))
}
