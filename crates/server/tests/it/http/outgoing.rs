//! What tools reach out with is shared: a tenant that asks many others leaves
//! connections to the rest.

use std::time::{Duration, Instant};

use serde_json::json;

use super::server::Server;
use super::wire::{Answer, Client};
use crate::upstream::{Said, TestUpstream};

fn ask(client: &Client, upstream: &TestUpstream) -> Answer {
    let call = json!({"tool": "http_request", "arguments": {"url": upstream.url()}});
    client.post("/v1/calls", &call)
}

#[test]
fn one_tenant_cannot_hold_the_outgoing_connections_of_another() {
    let server = Server::with("outbound: {allow: ['127.0.0.1'], max_connections: 10}\n", &[]);
    let (noisy, quiet) = (server.key("noisy", "caller"), server.key("quiet", "caller"));
    let start = || TestUpstream::start(|_| Said::json("200 OK", &json!({"fine": true})));
    // Each leaves a connection behind that could be used again.
    let many: Vec<TestUpstream> = (0..30).map(|_| start()).collect();
    for upstream in &many {
        assert_eq!(ask(&noisy, upstream).is(200)["is_success"], true);
    }
    let other = start();
    let since = Instant::now();
    let answer = ask(&quiet, &other);
    assert_eq!(answer.is(200)["is_success"], true, "{answer}");
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}
