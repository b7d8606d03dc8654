//! `sql_query` on SQLite: queries, and every statement that is none.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::{CallRequest, Caller, Context, Lang, TenantId};
use windlass_executors::files::FileSettings;
use windlass_executors::outbound::OutboundPolicy;

use crate::support::{Desk, kind, value};

const TOOLS: &str = "
name: shop_query
description: Asks the shop's database.
parameters: [{name: query, type: string, required: true}, {name: max_rows, type: integer}]
entry: {type: builtin, handler: sql_query, database: shop}
behaviour: {read_only: true}
max_output_bytes: 10000000
---
name: shop_change
description: Changes the shop's database.
parameters: [{name: query, type: string, required: true}]
entry: {type: builtin, handler: sql_query, database: shop, write: true}
behaviour: {destructive: true}
---
name: lost_query
description: Asks a database that nobody has set.
parameters: [{name: query, type: string, required: true}]
entry: {type: builtin, handler: sql_query, database: lost}
behaviour: {read_only: true}
";

struct Shop {
    folder: TempDir,
    desk: Desk,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(
                "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL, photo BLOB);
                 INSERT INTO items VALUES (1, 'tea', 2.5, NULL), (2, '茶', 3, x'0102');
                 CREATE INDEX by_name ON items (name);
                 CREATE TABLE numbers (n INTEGER);
                 WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000)
                 INSERT INTO numbers SELECT n FROM c;",
            )
            .unwrap();
        let address = format!("sqlite:{}", path.display());
        let desk = Desk::with(
            OutboundPolicy::default(),
            FileSettings::default(),
            &[("shop", address.as_str())],
        );
        let report = desk.engine.load_text("shop.yaml", TOOLS);
        assert!(report.errors.is_empty(), "{:?}", report.errors);
        Self { folder, desk }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    async fn ask(&self, query: &str) -> windlass::CallResult {
        self.desk.call("shop_query", json!({"query": query})).await
    }
}

#[tokio::test]
async fn a_question_is_answered_with_columns_and_rows() {
    let shop = Shop::open();
    let found = value(&shop.ask("SELECT id, name, price, photo FROM items ORDER BY id;").await);
    assert_eq!(found["columns"], json!(["id", "name", "price", "photo"]));
    assert_eq!(found["rows"], json!([[1, "tea", 2.5, null], [2, "茶", 3.0, "[2 bytes]"]]));
    assert_eq!((&found["row_count"], &found["truncated"]), (&json!(2), &json!(false)));
    assert_eq!(found["affected_rows"], Value::Null);
    let capped = value(
        &shop
            .desk
            .call("shop_query", json!({"query": "SELECT n FROM numbers", "max_rows": 7}))
            .await,
    );
    assert_eq!((&capped["row_count"], &capped["truncated"]), (&json!(7), &json!(true)));
    let most = value(
        &shop
            .desk
            .call("shop_query", json!({"query": "SELECT n FROM numbers", "max_rows": 100000}))
            .await,
    );
    assert_eq!((&most["row_count"], &most["truncated"]), (&json!(1000), &json!(true)));
    for query in [
        "SELECT count(*) FROM sqlite_schema -- how many",
        "/* x */ SELECT 1",
        "PRAGMA table_info(items)",
    ] {
        assert!(shop.ask(query).await.is_success(), "{query}");
    }
    let wrong = shop.ask("SELECT colour FROM items").await;
    assert_eq!(kind(&wrong), "upstream_rejected");
    let said = wrong.to_text(Lang::En);
    assert!(said.contains("no such column"), "a model can correct itself: {said}");
}

#[tokio::test]
async fn nothing_can_be_changed_by_a_question() {
    let shop = Shop::open();
    let before = fs::read(shop.path()).unwrap();
    let elsewhere = shop.folder.path().join("other.db");
    let attach = format!("ATTACH '{}' AS other", elsewhere.display());
    let vacuum = format!("VACUUM INTO '{}'", elsewhere.display());
    for query in [
        "INSERT INTO items (name) VALUES ('x')",
        "UPDATE items SET price = 0",
        "DELETE FROM items",
        "DROP TABLE items",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x (a)",
        "ALTER TABLE items ADD COLUMN x",
        "REPLACE INTO items (id, name) VALUES (1, 'x')",
        "WITH x AS (SELECT 1) INSERT INTO items (name) SELECT 'x' FROM x",
        "INSERT INTO items (name) VALUES ('x') RETURNING id",
        "SELECT 1; DELETE FROM items",
        "SELECT 1; SELECT 2",
        "SELECT 1;; DROP TABLE items",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA journal_mode = DELETE",
        "BEGIN IMMEDIATE",
        "SAVEPOINT a",
        "COMMIT",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        "SELECT load_extension('/tmp/x.so')",
        "EXPLAIN DELETE FROM items; DELETE FROM items",
        ";",
        "-- nothing",
        &attach,
        &vacuum,
    ] {
        let result = shop.ask(query).await;
        assert!(!result.is_success(), "{query}: {}", result.to_text(Lang::En));
    }
    assert_eq!(fs::read(shop.path()).unwrap(), before);
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn a_definition_may_let_a_statement_change_rows() {
    let shop = Shop::open();
    let change = async |query: &str| shop.desk.call("shop_change", json!({"query": query})).await;
    let done = value(&change("UPDATE items SET price = price + 1").await);
    assert_eq!(done["affected_rows"], 2);
    let made = value(&change("INSERT INTO items (name) VALUES ('milk') RETURNING id").await);
    assert_eq!((&made["rows"], &made["affected_rows"]), (&json!([[3]]), &json!(1)));
    assert_eq!(value(&shop.ask("SELECT count(*) FROM items").await)["rows"], json!([[3]]));
    for query in [
        "DROP TABLE items",
        "ATTACH 'x' AS y",
        "DELETE FROM items; DELETE FROM numbers",
        "PRAGMA x = 1",
    ] {
        assert!(!change(query).await.is_success(), "{query}");
    }
    assert_eq!(value(&shop.ask("SELECT count(*) FROM items").await)["rows"], json!([[3]]));
    let report = shop.desk.engine.load_text("wrong.yaml",
        "{name: x, description: Wrong., entry: {type: builtin, handler: sql_query, write: true}, behaviour: {read_only: true}}");
    assert_eq!(report.errors.len(), 1, "a tool that writes does not call itself read-only");
}

#[tokio::test]
async fn a_long_question_is_stopped_in_the_database() {
    // It reads a table, and so nobody can write while it runs.
    const ENDLESS: &str = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) \
                           SELECT max(n + price) FROM items, c";
    let shop = Shop::open();
    let began = Instant::now();
    let request = CallRequest::new("shop_query", json!({"query": ENDLESS}))
        .timeout(Duration::from_millis(300));
    let result = shop.desk.engine.call(request).await;
    assert_eq!(kind(&result), "timeout");
    assert!(began.elapsed() < Duration::from_secs(2));
    // Its thread ends, too: the file can be written to.
    assert!(
        shop.desk.call("shop_change", json!({"query": "DELETE FROM numbers"})).await.is_success()
    );
    // Large values are refused, not built.
    let large = shop.ask("SELECT zeroblob(100000000)").await;
    assert_eq!(kind(&large), "upstream_rejected");
    let wide =
        value(&shop.ask("SELECT hex(zeroblob(1000000)) FROM items, items AS b, items AS c").await);
    assert_eq!((&wide["truncated"], wide["row_count"].as_u64().unwrap() < 4), (&json!(true), true));
}

#[tokio::test]
async fn which_database_is_asked_is_not_the_models_choice() {
    let shop = Shop::open();
    let result = shop.desk.call("lost_query", json!({"query": "SELECT 1"})).await;
    assert_eq!(kind(&result), "credential_invalid");
    assert_eq!(
        kind(&shop.desk.call("sql_query", json!({"query": "SELECT 1"})).await),
        "credential_invalid"
    );
    // Nor that of a tenant who defines a tool.
    let tenant = TenantId::new("a");
    let own = TOOLS.replace("shop_query", "own_query");
    let own = own.split("---").next().unwrap();
    assert!(shop.desk.engine.load_text_for(&tenant, "own.yaml", own).errors.is_empty());
    let context = Context::new(Caller { tenant, ..Caller::default() });
    let request = CallRequest::new("own_query", json!({"query": "SELECT 1"})).context(context);
    assert_eq!(kind(&shop.desk.engine.call(request).await), "denied");
    // A credential names no files, and no servers inside.
    let path = format!("sqlite:{}", shop.path().display());
    for (url, expected) in [
        (path.as_str(), "credential_invalid"),
        ("file:/etc/passwd", "credential_invalid"),
        ("postgres://user:hush@127.0.0.1:5432/x", "denied"),
        ("postgres://user:hush@localhost/x", "denied"),
        ("postgresql://user:hush@169.254.169.254/x", "denied"),
        ("postgres://user:hush@%2Fvar%2Frun%2Fpostgresql/x", "credential_invalid"),
        ("postgres://user:hush@8.8.8.8,127.0.0.1/x", "credential_invalid"),
        ("postgres://user:hush@8.8.8.8/x?hostaddr=127.0.0.1", "credential_invalid"),
        ("postgres://user:hush@/x?host=/var/run/postgresql", "credential_invalid"),
    ] {
        let result =
            shop.desk.call_as(&[("url", url)], "sql_query", json!({"query": "SELECT 1"})).await;
        assert_eq!(kind(&result), expected, "{url}");
        assert!(!format!("{result:?}").contains("hush"), "{result:?}");
    }
}
