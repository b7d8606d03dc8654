//! Whoever may do nothing cannot fill the audit log.

use serde_json::{Value, json};

use super::server::Server;

#[test]
fn refusals_without_end_are_a_few_entries_and_a_count() {
    let server = Server::start();
    let (flood, other) = (server.key("ours", "viewer"), server.key("ours", "viewer"));
    let admin = server.key("ours", "admin");
    let try_it = |client: &super::wire::Client| {
        client.post("/v1/keys", &json!({"name": "x", "role": "admin"})).problem(403, "forbidden");
    };
    (0..200).for_each(|_| try_it(&flood));
    try_it(&other);
    let log = admin.get("/v1/audit?limit=1000").is(200);
    let mut by_key = std::collections::BTreeMap::<String, usize>::new();
    for entry in log["entries"].as_array().unwrap().iter().filter(|it| it["status"] == 403) {
        let key = entry["actor"]["key_id"].as_str().unwrap().to_owned();
        *by_key.entry(key).or_default() += 1;
    }
    let mut counts: Vec<usize> = by_key.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts.first(), Some(&1), "the other one is there: {counts:?}");
    assert!(counts.len() == 2 && (20..=40).contains(&counts[1]), "{counts:?}");
    assert_eq!(admin.get("/v1/audit/verify").is(200)["intact"], Value::Bool(true));
}
