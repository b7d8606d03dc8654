//! Workflows over HTTP: their runs, what people and programs tell them, and what
//! becomes of them when a server is killed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::server::{Server, until};
use super::several::pair;
use super::wire::Client;
use crate::postgres::Database;
use crate::project::Project;

/// A site that remembers what it was posted, and takes its time for it.
#[derive(Clone)]
struct Site {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Self { address: listener.local_addr().unwrap(), heard: Arc::default() };
        let heard = Arc::clone(&site.heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, heard) = (stream.unwrap(), Arc::clone(&heard));
                thread::spawn(move || {
                    let mut told = Vec::new();
                    let mut some = [0; 1024];
                    while !told.windows(4).any(|end| end == b"\r\n\r\n") {
                        let read = stream.read(&mut some).unwrap_or_default();
                        if read == 0 {
                            return;
                        }
                        told.extend_from_slice(&some[..read]);
                    }
                    let told = String::from_utf8_lossy(&told);
                    let path = told.split(' ').nth(1).unwrap_or_default().to_owned();
                    heard.lock().push(path);
                    thread::sleep(takes);
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                    );
                });
            }
        });
        site
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }

    fn post(&self, path: &str) -> String {
        format!(
            "{{call: http_request, with: {{method: POST, url: \"http://{}/{path}\"}}}}",
            self.address
        )
    }
}

const PRIVATE: &str = "outbound:\n  allow: [127.0.0.1]\n";

fn refund(site: &Site) -> String {
    format!(
        "name: refund
kind: workflow
description: Refunds after a person has agreed.
parameters: [{{name: order, type: string, required: true}}]
steps:
  begun: {}
  person: {{ask: {{text: \"Refund ${{input.order}}?\", actions: [approve, reject]}}}}
  paid: {{when: person.action == 'approve', do: {{pay: {}}}}}
  settled: {{wait: {{signal: settled, expires: 1h}}, after: paid}}
  last: {{after: settled, do: {{last: {}}}}}
output: {{by: \"${{person.by}}\", amount: \"${{settled.amount}}\"}}
",
        site.post("begun"),
        site.post("paid"),
        site.post("last"),
    )
}

fn server(site: &Site) -> Server {
    let project = Project::empty();
    project.write("windlass.yaml", PRIVATE).write("tools/refund.yaml", &refund(site));
    Server::run(Arc::new(project), &[], &[], None)
}

fn begin(client: &Client) -> String {
    let body = json!({"input": {"order": "A-1"}});
    let answer = client.post("/v1/workflows/refund/runs", &body).is(200);
    let run = &answer["result"]["metadata"]["run"];
    assert_eq!(run["status"], "waiting", "{answer}");
    run["id"].as_str().unwrap().to_owned()
}

fn status(client: &Client, run: &str, wanted: &str) -> Value {
    until(wanted, || {
        let view = client.get(&format!("/v1/runs/{run}")).is(200);
        let is_so = view["status"] == wanted;
        assert!(is_so || view["end"].is_null(), "not {wanted}: {view}");
        is_so.then_some(view)
    })
}

#[test]
fn a_run_waits_for_people_and_signals_and_ends() {
    let site = Site::start(Duration::ZERO);
    let server = server(&site);
    let client = server.admin();
    let flows = client.get("/v1/workflows").is(200);
    assert_eq!(flows["workflows"][0]["name"], "refund");
    let run = begin(&client);
    let view = status(&client, &run, "waiting");
    assert_eq!(view["waits"][0]["place"], "person");
    assert_eq!(view["waits"][0]["wait"]["ask"]["text"], "Refund A-1?");
    // Another tenant knows nothing of it, and a viewer does not answer.
    let theirs = server.key("theirs", "operator");
    let answers = format!("/v1/runs/{run}/answers");
    theirs.get(&format!("/v1/runs/{run}")).problem(404, "not_found");
    theirs.post(&answers, &json!({"action": "approve"})).problem(404, "not_found");
    server
        .key("default", "viewer")
        .post(&answers, &json!({"action": "approve"}))
        .problem(403, "forbidden");
    client.post(&answers, &json!({"action": "perhaps"})).problem(400, "invalid_arguments");
    client.post(&answers, &json!({"action": "approve"})).is(200);
    until("it waits for the signal", || {
        let view = client.get(&format!("/v1/runs/{run}")).is(200);
        (view["waits"][0]["wait"]["for"] == "signal").then_some(())
    });
    let signals = format!("/v1/runs/{run}/signals");
    let settled = json!({"name": "settled", "value": {"amount": 5}, "idempotency_key": "one"});
    assert_eq!(client.post(&signals, &settled).is(200)["is_new"], true);
    let view = status(&client, &run, "succeeded");
    assert_eq!(view["end"]["value"]["amount"], 5, "{view}");
    assert_eq!(site.heard(), ["/begun", "/paid", "/last"]);
    let listed = client.get("/v1/workflows/refund/runs").is(200);
    assert_eq!(listed["runs"][0]["run_id"], run.as_str());
    client.post(&signals, &settled).problem(409, "conflict");
}

#[test]
fn a_run_is_followed_step_by_step() {
    let site = Site::start(Duration::ZERO);
    let server = server(&site);
    let body = json!({"input": {"order": "A-1"}});
    let told = server.admin().stream("/v1/workflows/refund/runs", &body).rest();
    let steps: Vec<String> = (told.iter())
        .filter_map(|sent| Some(format!("{} {}", sent.name, sent.data.get("step")?.as_str()?)))
        .collect();
    for wanted in ["step_started begun", "step_completed begun", "waiting person"] {
        assert!(steps.iter().any(|step| step == wanted), "no {wanted} in {steps:?} {told:?}");
    }
}

#[test]
fn a_killed_server_goes_on_with_its_runs_and_repeats_no_effect() {
    let site = Site::start(Duration::from_secs(2));
    let server = server(&site);
    let client = server.admin();
    let run = begin(&client);
    client.post(&format!("/v1/runs/{run}/answers"), &json!({"action": "approve"})).is(200);
    until("it pays", || site.heard().contains(&"/paid".to_owned()).then_some(()));
    // In the middle of an effect.
    let server = server.kill_and_start();
    let client = server.admin();
    let view = status(&client, &run, "failed");
    assert_eq!(view["end"]["error"]["kind"], "interrupted", "{view}");
    assert_eq!(site.heard(), ["/begun", "/paid"]);
    // One that waits outlives its server, and its definition.
    let run = begin(&client);
    server.project.write(
        "tools/refund.yaml",
        "name: refund\nkind: workflow\ndescription: x\nsteps: {a: {set: 1}}\n",
    );
    let server = server.kill_and_start();
    let client = server.admin();
    client.post(&format!("/v1/runs/{run}/answers"), &json!({"action": "reject"})).is(200);
    client
        .post(
            &format!("/v1/runs/{run}/signals"),
            &json!({"name": "settled", "value": {"amount": 1}}),
        )
        .is(200);
    status(&client, &run, "succeeded");
    assert_eq!(site.heard()[2..], ["/begun", "/last"]);
}

#[test]
fn another_server_takes_over_the_runs_of_one_that_died() {
    let database = Database::new();
    let site = Site::start(Duration::from_millis(300));
    let (mut one, two) = pair(&database, PRIVATE);
    for server in [&one, &two] {
        server.project.write("tools/refund.yaml", &refund(&site));
    }
    let has_it = |client: &Client| {
        until("the workflow", || (client.get("/v1/tools/refund").status == 200).then_some(()));
    };
    let (here, there) = (one.admin(), two.admin());
    has_it(&here);
    has_it(&there);
    let run = begin(&here);
    one.kill();
    there.post(&format!("/v1/runs/{run}/answers"), &json!({"action": "approve"})).is(200);
    there
        .post(
            &format!("/v1/runs/{run}/signals"),
            &json!({"name": "settled", "value": {"amount": 1}}),
        )
        .is(200);
    status(&there, &run, "succeeded");
    assert_eq!(site.heard(), ["/begun", "/paid", "/last"]);
}

#[test]
fn a_run_is_cancelled_and_repeated() {
    let site = Site::start(Duration::ZERO);
    let server = server(&site);
    let client = server.admin();
    let run = begin(&client);
    client.post(&format!("/v1/runs/{run}/retry"), &json!({})).problem(409, "conflict");
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).is(200);
    status(&client, &run, "cancelled");
    let again = client.post(&format!("/v1/runs/{run}/retry"), &json!({})).is(200);
    assert_eq!(again["result"]["metadata"]["run"]["status"], "waiting", "{again}");
    assert_ne!(again["run_id"], run.as_str());
    // What it had done is taken over.
    assert_eq!(site.heard(), ["/begun"]);
    client.post("/v1/runs/nothing/cancel", &json!({})).problem(404, "not_found");
    let late = client
        .post("/v1/workflows/refund/runs", &json!({"input": {"order": "B"}, "wait": false}))
        .is(202);
    status(&client, late["run_id"].as_str().unwrap(), "waiting");
}

#[test]
fn a_tenant_has_only_so_many_open_runs() {
    let site = Site::start(Duration::ZERO);
    let project = Project::empty();
    project.write("windlass.yaml", &format!("{PRIVATE}workflows: {{open_runs: 2}}\n"));
    project.write("tools/refund.yaml", &refund(&site));
    let server = Server::run(Arc::new(project), &[], &[], None);
    let client = server.admin();
    let (first, _second) = (begin(&client), begin(&client));
    let body = json!({"input": {"order": "A-1"}});
    let refused = client.post("/v1/workflows/refund/runs", &body).is(200);
    assert_eq!(refused["result"]["error_kind"], "quota_exceeded", "{refused}");
    // Another tenant is not concerned, and an end makes room.
    begin(&server.key("theirs", "operator"));
    client.post(&format!("/v1/runs/{first}/cancel"), &json!({})).is(200);
    status(&client, &first, "cancelled");
    until("there is room", || {
        let answer = client.post("/v1/workflows/refund/runs", &body).is(200);
        (answer["result"]["metadata"]["run"]["status"] == "waiting").then_some(())
    });
}
