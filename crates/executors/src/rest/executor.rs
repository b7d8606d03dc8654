//! Executor of REST tools.

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

/// The default `Accept` header.
const ACCEPT: &str = "application/json, */*;q=0.5";

/// What all REST tools share: the HTTP client and the token cache.
#[derive(Clone)]
pub struct Rest {
    outbound: Outbound,
    tokens: Arc<Tokens>,
    ask: Option<AskConsent>,
}

impl Rest {
    /// REST tools that send their requests through this client.
    pub fn new(outbound: Outbound) -> Self {
        Self { outbound, tokens: Arc::default(), ask: None }
    }

    /// Enables OAuth consent: a call that needs it fails with the URL that this function
    /// makes.
    #[must_use]
    pub fn ask_consent(mut self, ask: AskConsent) -> Self {
        self.ask = Some(ask);
        self
    }

    /// The HTTP client.
    pub fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// The executor for a definition.
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
        // A missing or relative base URL is an error of the call, not of the definition,
        // so that a document without servers can be imported and looked at.
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
    /// The arguments describe the request.
    open: bool,
    method: Method,
    /// The `Accept` header.
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
            // A token may be revoked before it expires. The request had no effect then.
            if answer.status() == 401 && !signed.cached.is_empty() && !tried {
                signed.cached.iter().for_each(|key| self.rest.tokens.forget(key));
                tried = true;
                continue;
            }
            let answer = match elsewhere(&answer, &built) {
                // If that fails, the change has been made nevertheless.
                Some(seen) => match self.send(Method::GET, &seen, &signed).await {
                    Ok(seen) if seen.status().is_success() => seen,
                    _ => answer,
                },
                None => answer,
            };
            return response::read(answer, &signed.shapes()).await;
        }
    }

    /// The request that the arguments `url`, `method` and `body` describe.
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
        // A request with side effects is never sent twice, not even to another URL.
        if !looks {
            request = request.without_redirects();
        }
        self.rest.outbound.send(request).await
    }
}

/// The follow-up `GET` for a 303 redirect to the same origin after a change. It has no
/// side effects.
fn elsewhere(answer: &Answer, built: &request::Request) -> Option<request::Request> {
    let location = answer.header("location").filter(|_| answer.status() == 303)?;
    let url = answer.url().join(location).ok()?;
    let same = url.origin() == answer.url().origin();
    let (headers, cookies) = (built.headers.clone(), built.cookies.clone());
    same.then_some(request::Request { url, headers, cookies, body: None })
}
