//! Tests of the stores.
//!
//! `contract`, `contract_intents`, `documents` and `documents_events` hold what every
//! store must do, and run against each of them; the other modules test what can only go
//! wrong on a disk or over a network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure here should stop the run"
)]

/// Runs each test against each store.
macro_rules! contract {
    ($($test:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $test() {
                // Room for every record of every test.
                super::$test(&windlass::MemoryStore::with_capacity(10_000)).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test] async fn $test() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("calls.db");
                super::$test(&windlass_store::SqliteStore::open(path).unwrap()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test] async fn $test() {
                let database = crate::postgres::Database::new().await;
                super::$test(&database.store().await).await;
            })*
        }
    };
}

/// Runs each test against each place for documents.
macro_rules! documents_contract {
    ($($test:ident)*) => {
        mod memory {
            $(#[tokio::test] async fn $test() {
                super::$test(&crate::documents_place::Place::memory()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test] async fn $test() {
                super::$test(&crate::documents_place::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test] async fn $test() {
                super::$test(&crate::documents_place::Place::postgres().await).await;
            })*
        }
    };
}

mod chaos;
mod contract;
mod contract_intents;
mod crash;
mod disk;
mod documents;
mod documents_events;
mod documents_outage;
mod documents_place;
mod engine;
mod full_disk;
mod intents;
mod lists;
mod moved;
mod outage;
mod owners;
mod postgres;
mod postgres_intents;
mod postgres_outage;
mod postgres_owners;
mod postgres_start;
mod retention;
mod sample;
mod tenants;
