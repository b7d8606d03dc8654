//! Dry run: the request that a call would send.

use serde_json::Value;
use windlass::{Error, ErrorKind, ToolSpec};

use super::entry::{self, Shape};
use super::request::{self, Base};

/// A request that was not sent, without credentials.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The method.
    pub method: String,
    /// The full URL.
    pub url: String,
    /// The headers, except those that every request has.
    pub headers: Vec<(String, String)>,
    /// Content type and body.
    pub body: Option<(String, Vec<u8>)>,
}

/// Builds the request of a call with these arguments, without sending it.
pub fn preview(spec: &ToolSpec, arguments: &Value) -> Result<Preview, Error> {
    let Shape::Planned(plan) = entry::read(spec)? else {
        let why = "the arguments of this tool say where its requests go";
        return Err(Error::new(ErrorKind::InvalidDefinition, why));
    };
    let base =
        Base::new(&plan.base_url).map_err(|why| Error::new(ErrorKind::InvalidDefinition, why))?;
    let built = request::build(&plan, &base, &|name| arguments.get(name))?;
    let mut headers = built.headers;
    if !built.cookies.is_empty() {
        headers.push(("cookie".to_owned(), built.cookies.join("; ")));
    }
    Ok(Preview {
        method: plan.method,
        url: built.url.into(),
        headers,
        body: built.body.map(|body| (body.content_type, body.bytes)),
    })
}
