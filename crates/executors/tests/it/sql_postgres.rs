//! `sql_query` on a real PostgreSQL server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};
use windlass::{CallRequest, CallResult, Lang};
use windlass_executors::files::FileSettings;

use crate::support::{Desk, allowing, kind, value};

const WRITER: &str = "
name: change
description: Changes the database.
parameters: [{name: query, type: string, required: true}]
entry: {type: builtin, handler: sql_query, database: main, write: true}
behaviour: {destructive: true}
---
name: ask_main
description: Asks the operator's database.
parameters: [{name: query, type: string, required: true}]
entry: {type: builtin, handler: sql_query, database: main}
behaviour: {read_only: true}
max_output_bytes: 10000000
";

fn server() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("run `cargo xtask test`, or set WINDLASS_TEST_POSTGRES=postgres://…")
    })
}

/// A table of this test alone.
async fn table(name: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let make = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id bigint, name text, price float8, \
         sold bool, about jsonb, made timestamptz, cost numeric);
         INSERT INTO {name} VALUES (1, 'tea', 2.5, true, '{{\"a\": [1]}}', '2024-05-17T10:00:00Z', 1.10),
         (2, NULL, 'NaN', false, NULL, NULL, 12345678901234567890.5)"
    );
    client.batch_execute(&make).await.unwrap();
    client
}

fn desk() -> Desk {
    let policy = allowing(&["127.0.0.1", "::1", "localhost"]);
    let desk = Desk::with(policy, FileSettings::default(), &[("main", server().as_str())]);
    assert!(desk.engine.load_text("main.yaml", WRITER).errors.is_empty());
    desk
}

/// Asks as a tenant does: with an address from a credential.
async fn ask(desk: &Desk, query: &str) -> CallResult {
    desk.call_as(&[("url", &server())], "sql_query", json!({"query": query})).await
}

async fn count(client: &Client, table: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn values_keep_their_types() {
    let client = table("wl_types").await;
    let desk = desk();
    let found = value(&ask(&desk, "SELECT * FROM wl_types ORDER BY id; -- all").await);
    assert_eq!(found["columns"], json!(["id", "name", "price", "sold", "about", "made", "cost"]));
    let rows: Vec<&[Value]> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().as_slice())
        .collect();
    assert_eq!(rows[0][..5], [json!(1), json!("tea"), json!(2.5), json!(true), json!({"a": [1]})]);
    assert!(rows[0][5].as_str().unwrap().starts_with("2024-05-17"), "{:?}", rows[0]);
    assert_eq!(rows[0][6], "1.10", "no digit is lost");
    assert_eq!(rows[1][..3], [json!(2), Value::Null, json!("NaN")]);
    assert_eq!(rows[1][6], "12345678901234567890.5");
    let many = "SELECT n FROM generate_series(1, 5000) AS n";
    let capped = desk
        .call_as(&[("url", &server())], "sql_query", json!({"query": many, "max_rows": 250}))
        .await;
    let capped = value(&capped);
    assert_eq!((&capped["row_count"], &capped["truncated"]), (&json!(250), &json!(true)));
    assert_eq!(capped["rows"][249], json!([250]));
    let wide = json!({"query": "SELECT repeat('x', 1000000) FROM generate_series(1, 100)"});
    let wide = value(&desk.call("ask_main", wide).await);
    assert_eq!((&wide["row_count"], &wide["truncated"]), (&json!(4), &json!(true)));
    for query in [
        "VALUES (1), (2)",
        "TABLE wl_types",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT 1 /* x */",
    ] {
        assert!(ask(&desk, query).await.is_success(), "{query}");
    }
    let wrong = ask(&desk, "SELECT nothing FROM wl_types").await;
    assert!(wrong.to_text(Lang::En).contains("column \"nothing\" does not exist"), "{wrong:?}");
    client.batch_execute("DROP TABLE wl_types").await.unwrap();
}

#[tokio::test]
async fn nothing_can_be_changed_by_a_question() {
    let client = table("wl_read").await;
    client.batch_execute("DROP SEQUENCE IF EXISTS wl_seq; CREATE SEQUENCE wl_seq").await.unwrap();
    let desk = desk();
    for query in [
        "INSERT INTO wl_read (id) VALUES (9)",
        "UPDATE wl_read SET id = 0",
        "DELETE FROM wl_read",
        "TRUNCATE wl_read",
        "DROP TABLE wl_read",
        "CREATE TABLE wl_x (a int)",
        "CREATE TEMP TABLE wl_x (a int)",
        "SELECT * INTO wl_x FROM wl_read",
        "WITH gone AS (DELETE FROM wl_read RETURNING id) SELECT * FROM gone",
        "SELECT 1; DELETE FROM wl_read",
        "SELECT 1; COMMIT; DELETE FROM wl_read; SELECT 1",
        "SELECT 1) TO STDOUT; DELETE FROM wl_read; --",
        "COMMIT",
        "ROLLBACK",
        "SET TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "COPY wl_read TO '/tmp/wl_read'",
        "COPY wl_read TO PROGRAM 'cat > /tmp/wl_read'",
        "COPY (SELECT 1) TO STDOUT",
        "DO $$ BEGIN DELETE FROM wl_read; END $$",
        "CALL x()",
        "EXPLAIN ANALYZE DELETE FROM wl_read",
        "LOCK TABLE wl_read",
        "SELECT nextval('wl_seq')",
        "SELECT id FROM wl_read FOR UPDATE",
        "NOTIFY x",
        "VACUUM",
        "$1",
        "SELECT $1::int",
        ";",
    ] {
        let result = ask(&desk, query).await;
        assert!(!result.is_success(), "{query}: {}", result.to_text(Lang::En));
        let by_operator = desk.call("ask_main", json!({"query": query})).await;
        assert!(!by_operator.is_success(), "{query}");
    }
    assert_eq!(count(&client, "wl_read").await, 2);
    client.batch_execute("DROP TABLE wl_read; DROP SEQUENCE wl_seq").await.unwrap();
}

#[tokio::test]
async fn a_definition_may_let_a_statement_change_something() {
    let client = table("wl_write").await;
    let desk = desk();
    let change = async |query: &str| desk.call("change", json!({"query": query})).await;
    let done = value(&change("UPDATE wl_write SET price = 1").await);
    assert_eq!(done["affected_rows"], 2);
    let made = value(&change("INSERT INTO wl_write (id) VALUES (3) RETURNING id").await);
    assert_eq!((&made["rows"], &made["affected_rows"]), (&json!([[3]]), &json!(1)));
    assert!(!change("DELETE FROM wl_write; DELETE FROM wl_write").await.is_success());
    assert_eq!(count(&client, "wl_write").await, 3);
    client.batch_execute("DROP TABLE wl_write").await.unwrap();
}

async fn sleepers(client: &Client, mark: &str) -> i64 {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1 \
                 AND pid <> pg_backend_pid()";
    client.query_one(query, &[&format!("%{mark}%")]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_long_question_is_stopped_in_the_database() {
    let (client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let desk = desk();
    let mark = "wl_mark_1";
    let began = Instant::now();
    let request =
        CallRequest::new("ask_main", json!({"query": format!("SELECT pg_sleep(60), '{mark}'")}))
            .timeout(Duration::from_millis(700));
    let running = tokio::spawn({
        let engine = desk.engine.clone();
        async move { engine.call(request).await }
    });
    tokio::time::sleep(Duration::from_millis(350)).await;
    // The cursor's sleep runs in FETCH, whose text does not have the mark.
    assert_eq!(sleepers(&client, "FETCH FORWARD").await, 1);
    assert_eq!(kind(&running.await.unwrap()), "timeout");
    assert!(began.elapsed() < Duration::from_secs(3));
    // A call that is dropped ends the statement as well.
    let request = CallRequest::new("ask_main", json!({"query": "SELECT pg_sleep(60)"}));
    let dropped = tokio::time::timeout(Duration::from_millis(400), desk.engine.call(request)).await;
    assert!(dropped.is_err());
    let until = Instant::now() + Duration::from_secs(5);
    while sleepers(&client, "FETCH FORWARD").await > 0 {
        assert!(Instant::now() < until, "the server still works for nobody");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_wrong_password_or_server_is_said_without_showing_it() {
    let desk = desk();
    let mut url = url::Url::parse(&server()).unwrap();
    url.set_path("/no_such_database");
    let result =
        desk.call_as(&[("url", url.as_str())], "sql_query", json!({"query": "SELECT 1"})).await;
    assert_eq!(kind(&result), "credential_invalid", "{result:?}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = format!("postgres://u:hush-hush@127.0.0.1:{free}/x");
    let result = desk.call_as(&[("url", &nobody)], "sql_query", json!({"query": "SELECT 1"})).await;
    assert_eq!(kind(&result), "network");
    assert!(!format!("{result:?}").contains("hush-hush"));
}
