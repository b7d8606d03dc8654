//! Built-in tools that reach out: HTTP requests, web pages, search, weather,
//! speech, notifications.
//!
//! Every request goes through the guarded client ([`crate::outbound`]), also
//! those to addresses that a credential names: whoever stores a credential is
//! not the operator. Services are told apart by their provider, whose
//! credentials come with the call.

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

/// The definitions of these tools and of their providers: a file name, and the
/// YAML in it.
pub const DEFINITIONS: &[(&str, &str)] = &[
    ("google.yaml", include_str!("definitions/google.yaml")),
    ("http_request.yaml", include_str!("definitions/http_request.yaml")),
    ("send_notification.yaml", include_str!("definitions/send_notification.yaml")),
    ("speech.yaml", include_str!("definitions/speech.yaml")),
    ("weather.yaml", include_str!("definitions/weather.yaml")),
    ("webscraper.yaml", include_str!("definitions/webscraper.yaml")),
];

/// The tools, which reach out by this client.
pub fn toolbox(outbound: &Outbound) -> Toolbox {
    let desk = Arc::new(Desk { outbound: outbound.clone(), robots: Robots::default() });
    HANDLERS.iter().fold(Toolbox::new(DEFINITIONS), |tools, &(name, run)| {
        tools.handler(name, Arc::new(NetworkTool { desk: Arc::clone(&desk), run }))
    })
}

/// What the tools share.
struct Desk {
    outbound: Outbound,
    robots: Robots,
}

type Run = for<'a> fn(&'a Desk, &'a Call) -> BoxFuture<'a, Result<Output, Error>>;

const HANDLERS: &[(&str, Run)] = &[
    ("asr", |desk, call| Box::pin(speech::recognise(desk, call))),
    ("get_weather", |desk, call| Box::pin(weather::run(desk, call))),
    ("google_search", |desk, call| Box::pin(search::run(desk, call))),
    ("http_request", |desk, call| Box::pin(http_request::run(desk, call))),
    ("send_notification", |desk, call| Box::pin(notify::run(desk, call))),
    ("tts", |desk, call| Box::pin(speech::speak(desk, call))),
    ("webscraper", |desk, call| Box::pin(scrape::run(desk, call))),
];

struct NetworkTool {
    desk: Arc<Desk>,
    run: Run,
}

impl Executor for NetworkTool {
    fn execute<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Output, Error>> {
        let tenant = &call.caller().tenant;
        Box::pin(on_behalf(Some(tenant), (self.run)(&self.desk, call)))
    }
}
