//! Records and keys of a quiet tenant stay, however much another one calls.

use serde_json::{Value, json};

use super::server::{Server, WRITE, until};
use super::wire::Client;

const NOISE: usize = 400;

fn call(client: &Client, tool: &str, key: Option<&str>) -> Value {
    let call = json!({"tool": tool, "arguments": {"message": "x"}, "idempotency_key": key});
    client.post("/v1/calls", &call).is(200)
}

fn records(client: &Client) -> usize {
    let page = client.get("/v1/calls?limit=1000").is(200);
    page["records"].as_array().unwrap().len()
}

#[test]
fn a_noisy_tenant_pushes_out_neither_records_nor_keys_of_a_quiet_one() {
    assert!(WRITE.contains("write_note"));
    let server = Server::with("records: {keep: 60}\n", &[]);
    let (quiet, noisy) = (server.key("quiet", "caller"), server.key("noisy", "caller"));
    let first = call(&quiet, "write_note", Some("pay-1"));
    let plain = call(&quiet, "write_note", None);
    let echo = json!({"tool": "echo", "arguments": {"message": "x"}});
    for at in 0..NOISE / 50 {
        let batch = json!({"calls": vec![echo.clone(); 50]});
        noisy.post("/v1/batches", &batch).is(200);
        call(&noisy, "write_note", Some(&format!("n-{at}")));
    }
    until("room is made", || (records(&noisy) <= 70).then_some(()));
    assert_eq!(records(&quiet), 2, "its records are there");
    let place = format!("/v1/calls/{}", plain["call_id"].as_str().unwrap());
    quiet.get(&place).is(200);
    let again = call(&quiet, "write_note", Some("pay-1"));
    assert_eq!(again["same_as"], first["call_id"], "it did not run again: {again}");
    // Also after a restart, and for the noisy one itself.
    let server = server.kill_and_start();
    let (quiet, noisy) = (
        server.client(quiet.key.as_deref().unwrap()),
        server.client(noisy.key.as_deref().unwrap()),
    );
    assert_eq!(call(&quiet, "write_note", Some("pay-1"))["same_as"], first["call_id"]);
    assert!(call(&noisy, "write_note", Some("n-0"))["same_as"].is_string());
}
