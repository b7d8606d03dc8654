//! Runs calls of REST tools.

use std::sync::Arc;

use http::{HeaderValue, Method};
use serde_json::Value;
use windlass::{BoxFuture, Call, Error, ErrorKind, Executor, Output, Secret, ToolSpec};

use super::auth::{self, AskConsent, Signed, Tokens};
use super::entry::{self, Shape};
use super::plan::Plan;
use super::request::{self, Base, Payload};
use super::{media, response};
use crate::outbound::{Answer, Outbound, Request, on_behalf};

/// The types that an answer may have where nobody says.
const ACCEPT: &str = "application/json, */*;q=0.5";

/// What all REST tools share: the way out, and tokens.
#[derive(Clone)]
pub struct Rest {
    outbound: Outbound,
    tokens: Arc<Tokens>,
    ask: Option<AskConsent>,
}

impl Rest {
    /// REST tools whose requests go out here.
    pub fn new(outbound: Outbound) -> Self {
        Self { outbound, tokens: Arc::default(), ask: None }
    }

    /// Sends people here who have to agree before an API can be called in
    /// their name.
    #[must_use]
    pub fn ask_consent(mut self, ask: AskConsent) -> Self {
        self.ask = Some(ask);
        self
    }

    /// The way out.
    pub fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Finds what runs a definition.
    pub fn bind(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        let refused = |why: String| {
            let message = format!("the entry of `{}` cannot be used: {why}", spec.name);
            Error::new(ErrorKind::InvalidDefinition, message)
        };
        let (plan, open) = match entry::read(spec)? {
            Shape::Planned(plan) => (plan, false),
            Shape::Open(plan) => (plan, true),
        };
        let method = plan
            .method
            .parse::<Method>()
            .map_err(|_| refused(format!("`{}` is no method", plan.method)))?;
        // An address that is missing, or not whole, is told when a call needs it:
        // the tools of a document without one are there to be looked at.
        let base = Base::new(&plan.base_url);
        let written = plan.base_url.contains("://") && !plan.base_url.contains('{');
        if let (Err(why), true) = (&base, written) {
            return Err(refused(why.clone()));
        }
        let accept = HeaderValue::from_str(plan.accept.as_deref().unwrap_or(ACCEPT))
            .map_err(|_| refused("`accept` has characters that no header may have".to_owned()))?;
        Ok(Arc::new(Tool { rest: self.clone(), plan, open, method, accept, base }))
    }
}

struct Tool {
    rest: Rest,
    plan: Plan,
    /// The arguments say where the request goes.
    open: bool,
    method: Method,
    /// The types that the answer may have.
    accept: HeaderValue,
    base: Result<Base, String>,
}

impl Executor for Tool {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        Box::pin(on_behalf(Some(&call.caller().tenant), self.run(call)))
    }
}

impl Tool {
    async fn run(&self, call: &Call) -> Result<Output, Error> {
        let base = self.base.as_ref().map_err(|why| {
            let message = format!("`{}` cannot be called: {why}", self.plan.base_url);
            Error::new(ErrorKind::InvalidDefinition, message)
        })?;
        let (method, built) = if self.open {
            self.open(base, call)?
        } else {
            (self.method.clone(), request::build(&self.plan, base, &|name| call.argument(name))?)
        };
        let sign = || {
            auth::sign(
                &self.plan,
                call,
                &self.rest.tokens,
                &self.rest.outbound,
                self.rest.ask.as_ref(),
            )
        };
        let mut tried = false;
        loop {
            let signed = sign().await.map_err(Error::nothing_done)?;
            let answer = self.send(method.clone(), &built, &signed).await?;
            // A token may be taken back before its end. Nothing was done then.
            if answer.status() == 401 && !signed.cached.is_empty() && !tried {
                signed.cached.iter().for_each(|key| self.rest.tokens.forget(key));
                tried = true;
                continue;
            }
            let answer = match elsewhere(&answer, &built) {
                // Where that cannot be had, the change is done all the same.
                Some(seen) => match self.send(Method::GET, &seen, &signed).await {
                    Ok(seen) if seen.status().is_success() => seen,
                    _ => answer,
                },
                None => answer,
            };
            return response::read(answer, &signed.shapes()).await;
        }
    }

    /// The request that the arguments `url`, `method` and `body` say (S1.7).
    fn open(&self, base: &Base, call: &Call) -> Result<(Method, request::Request), Error> {
        let text = |name: &str| call.argument(name).and_then(Value::as_str);
        let method = match text("method") {
            Some(method) => method.to_ascii_uppercase().parse().map_err(|_| {
                Error::new(ErrorKind::InvalidArguments, "`method` is no method of HTTP")
            })?,
            None => self.method.clone(),
        };
        let mut headers = Vec::new();
        for (name, value) in &self.plan.headers {
            headers.push((name.clone(), request::header(name, value)?));
        }
        let body = call.argument("body").filter(|body| !body.is_null()).map(|body| Payload {
            content_type: media::JSON.to_owned(),
            bytes: body.to_string().into_bytes(),
        });
        let url = base.join(text("url").unwrap_or_default())?;
        Ok((method, request::Request { url, headers, cookies: Vec::new(), body }))
    }

    async fn send(
        &self,
        method: Method,
        built: &request::Request,
        signed: &Signed,
    ) -> Result<Answer, Error> {
        let looks = method.is_safe();
        let mut request = Request::new(method, signed.address(built)).accept(self.accept.clone());
        for (name, value) in &built.headers {
            request = request.header(name, value)?;
        }
        if let Some(body) = &built.body {
            let kind = HeaderValue::from_str(&body.content_type).map_err(|_| {
                Error::new(ErrorKind::InvalidArguments, "the content type cannot be sent")
            })?;
            request = request.body(body.bytes.clone(), kind);
        }
        for (name, value) in &signed.headers {
            request = request.secret_header(name, value)?;
        }
        let cookies: Vec<&str> = signed.cookies(built).collect();
        if !cookies.is_empty() {
            request = request.secret_header("cookie", &Secret::new(cookies.join("; ")))?;
        }
        // What changes something is not sent twice, not even elsewhere.
        if !looks {
            request = request.without_redirects();
        }
        self.rest.outbound.send(request).await
    }
}

/// The request for what a change has come to, where the answer says that it
/// is elsewhere (303) at the same origin. Looking there changes nothing.
fn elsewhere(answer: &Answer, built: &request::Request) -> Option<request::Request> {
    let location = answer.header("location").filter(|_| answer.status() == 303)?;
    let url = answer.url().join(location).ok()?;
    let same = url.origin() == answer.url().origin();
    let (headers, cookies) = (built.headers.clone(), built.cookies.clone());
    same.then_some(request::Request { url, headers, cookies, body: None })
}
