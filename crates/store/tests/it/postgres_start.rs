//! Opening a database: many stores at once, and databases that are not ours.

use windlass::{RecordStore, TenantId};
use windlass_store::{Documents, PostgresDocuments, PostgresOptions, PostgresStore};

use crate::postgres::{Database, server};
use crate::sample::call;

async fn refusal(url: &str) -> String {
    match PostgresStore::connect(url, PostgresOptions::default()).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => format!("{error}"),
    }
}

#[tokio::test]
async fn eight_start_at_once_on_an_empty_database() {
    let database = Database::new().await;
    let starts: Vec<_> = (0..8)
        .map(|second| {
            let url = database.url();
            tokio::spawn(async move {
                let store = PostgresStore::connect(&url, PostgresOptions::default()).await?;
                store.append(call(second));
                store.close().await
            })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let store = database.store().await;
    assert_eq!(store.statistics(&TenantId::default()).await.unwrap().total.calls, 8);
    let migrations = database.raw().await;
    let row = migrations.query_one("SELECT count(*) FROM windlass.migrations", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 6);
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let database = Database::new().await;
    let raw = database.raw().await;
    let tables = "CREATE SCHEMA windlass;
        CREATE TABLE windlass.migrations
            (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
        INSERT INTO windlass.migrations (version) VALUES (1);";
    raw.batch_execute(tables).await.unwrap();
    raw.batch_execute(include_str!("../../migrations/postgres/0001_calls.sql")).await.unwrap();
    let store = database.store().await;
    store.append(call(1));
    store.flush().await.unwrap();
    let url = database.url().parse().unwrap();
    let documents = PostgresDocuments::connect_to(&url, PostgresOptions::default()).await.unwrap();
    assert_eq!(documents.event_range().await.unwrap(), (0, 0));
    assert_eq!(store.statistics(&TenantId::default()).await.unwrap().total.calls, 1);
}

#[tokio::test]
async fn a_database_of_a_newer_windlass_is_refused() {
    let database = Database::new().await;
    drop(database.store().await);
    let raw = database.raw().await;
    raw.batch_execute("INSERT INTO windlass.migrations (version) VALUES (99)").await.unwrap();
    let refusal = refusal(&database.url()).await;
    assert!(refusal.contains("has version 99, this windlass knows versions up to"), "{refusal}");
}

#[tokio::test]
async fn tables_of_other_programs_are_left_alone() {
    let database = Database::new().await;
    let raw = database.raw().await;
    raw.batch_execute("CREATE TABLE calls (a int); INSERT INTO calls VALUES (7)").await.unwrap();
    drop(database.store().await);
    let row = raw.query_one("SELECT a FROM calls", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 7);

    let other = Database::new().await;
    let raw = other.raw().await;
    raw.batch_execute("CREATE SCHEMA windlass; CREATE TABLE windlass.calls (a int)").await.unwrap();
    let refusal = refusal(&other.url()).await;
    assert!(refusal.contains("the schema `windlass`"), "{refusal}");
    assert!(refusal.contains("another program's"), "{refusal}");

    // An empty schema may have been made for us.
    let empty = Database::new().await;
    empty.raw().await.batch_execute("CREATE SCHEMA windlass").await.unwrap();
    drop(empty.store().await);
}

#[tokio::test]
async fn refusals_name_the_place_and_hide_the_password() {
    let (server, _) = server().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (scheme, place) = server.split_once("//").unwrap();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    for (url, parts) in [
        (
            format!("{scheme}//postgres:hunter2@{place}/no_such_database"),
            &["no_such_database", "createdb"][..],
        ),
        (
            "postgres://ada:hunter2@127.0.0.1:1/records".to_owned(),
            &["127.0.0.1:1/records cannot be reached", "Connection refused"],
        ),
        (
            "postgres://ada:hunter2@no-such-host.invalid/records".to_owned(),
            &["no-such-host.invalid/records cannot be reached"],
        ),
        ("postgres://ada:hunter2@h:port/records".to_owned(), &["percent-encoded"]),
        (
            format!("{scheme}//postgres:hunter2@{place}/postgres?sslmode=require"),
            &["cannot be reached"],
        ),
    ] {
        let refusal = refusal(&url).await;
        for part in parts {
            assert!(refusal.contains(part), "no {part:?} in {refusal}");
        }
        assert!(!refusal.contains("hunter2"), "{refusal}");
    }
}

#[tokio::test]
async fn other_encodings_are_refused() {
    let database = Database::new().await;
    let raw = database.raw().await;
    let name = format!("windlass_test_latin_{}", std::process::id());
    raw.batch_execute(&format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    ))
    .await
    .unwrap();
    let (server, _) =
        database.url().rsplit_once('/').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let refusal = refusal(&format!("{server}/{name}")).await;
    assert!(refusal.contains("has the encoding LATIN1"), "{refusal}");
    raw.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}
