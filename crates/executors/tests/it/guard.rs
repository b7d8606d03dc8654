//! The SSRF guard under attack: addresses, DNS names, redirects, responses.

mod answers;
mod names;
mod redirects;
mod shares;
mod tls;
mod urls;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use http::Method;
use windlass::Error;
use windlass_executors::outbound::{Answer, Lookup, Outbound, Request};

/// Names and their addresses, decided by a function.
fn lookup(find: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Lookup {
    let find = Arc::new(find);
    Arc::new(move |name| {
        let found = find(&name);
        Box::pin(async move {
            match found.is_empty() {
                true => Err(io::Error::other("no such name")),
                false => Ok(found),
            }
        })
    })
}

async fn get(outbound: &Outbound, url: &str) -> Result<Answer, Error> {
    outbound.send(Request::parse(Method::GET, url)?).await
}

/// The error of something that must not work.
fn refused<T>(outcome: Result<T, Error>) -> Error {
    match outcome {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}
