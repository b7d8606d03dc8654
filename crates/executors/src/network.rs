//! Built-in tools with network access: HTTP requests, web pages, search, weather, speech,
//! notifications.
//!
//! Every request goes through the HTTP client with SSRF protection ([`crate::outbound`]),
//! including those to base URLs in a credential: whoever stores a credential need not be
//! the operator. Services are distinguished by their provider, whose credentials come
//! with the call.

mod http_request;
mod notify;
mod provider;
mod scrape;
mod search;
mod speech;
mod text;
mod weather;

use std::sync::Arc;

use windlass::{BoxFuture, Call, Error, Executor, Output};

use crate::builtin::Toolbox;
use crate::outbound::{Outbound, on_behalf};
use scrape::Robots;

/// The definitions of these tools and of their providers: a file name and its YAML.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("google.yaml", include_str!("network/definitions/google.yaml")),
    ("http_request.yaml", include_str!("network/definitions/http_request.yaml")),
    ("send_notification.yaml", include_str!("network/definitions/send_notification.yaml")),
    ("speech.yaml", include_str!("network/definitions/speech.yaml")),
    ("weather.yaml", include_str!("network/definitions/weather.yaml")),
    ("webscraper.yaml", include_str!("network/definitions/webscraper.yaml")),
];

/// The tools, which send requests through this client.
pub fn toolbox(outbound: &Outbound) -> Toolbox {
    let context =
        Arc::new(NetworkContext { outbound: outbound.clone(), robots: Robots::default() });
    HANDLERS.iter().fold(Toolbox::new(DEFINITIONS), |tools, &(name, run)| {
        tools.handler(name, Arc::new(NetworkTool { context: Arc::clone(&context), run }))
    })
}

/// What the tools share.
struct NetworkContext {
    outbound: Outbound,
    robots: Robots,
}

type Run = for<'a> fn(&'a NetworkContext, &'a Call) -> BoxFuture<'a, Result<Output, Error>>;

const HANDLERS: &[(&str, Run)] = &[
    ("asr", |context, call| Box::pin(speech::recognise(context, call))),
    ("get_weather", |context, call| Box::pin(weather::run(context, call))),
    ("google_search", |context, call| Box::pin(search::run(context, call))),
    ("http_request", |context, call| Box::pin(http_request::run(context, call))),
    ("send_notification", |context, call| Box::pin(notify::run(context, call))),
    ("tts", |context, call| Box::pin(speech::speak(context, call))),
    ("webscraper", |context, call| Box::pin(scrape::run(context, call))),
];

struct NetworkTool {
    context: Arc<NetworkContext>,
    run: Run,
}

impl Executor for NetworkTool {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let tenant = &call.caller().tenant;
        Box::pin(on_behalf(Some(tenant), (self.run)(&self.context, call)))
    }
}
