//! The event log in SQL.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::super::rows::json;
use super::fault::Fault;
use super::keep::{signed, unsigned, whole};
use super::{note, read, text};
use crate::documents::{EventFilter, KeptEvent, NewEvent};
use crate::value::read_json;

/// Maximum number of events in one statement.
const STEP: i64 = 5000;

/// Appends events in this order; returns the position of the last one.
///
/// The row with the last position stays locked until the commit, so positions are in
/// commit order.
pub(super) async fn append(client: &Client, events: &[NewEvent]) -> Result<u64, Fault> {
    let sql = format!(
        "WITH head AS (
            UPDATE windlass.totals SET value = value + $1 WHERE name = 'events' RETURNING value
        ), kept AS (
            INSERT INTO windlass.events
                (position, tenant, whole_tenant, conversation, batch, name, body)
            SELECT value - $1 + place, tenant, whole_tenant, conversation, batch, name, body
            FROM head, unnest($2, $3, $4, $5, $6, $7) WITH ORDINALITY
                AS new (tenant, whole_tenant, conversation, batch, name, body, place)
        )
        SELECT value, pg_notify('{}', value::text) FROM head",
        note::EVENTS
    );
    let kept = |text: &Option<String>| text.as_deref().map(|text| text::kept(text).into_owned());
    let tenants: Vec<_> = events.iter().map(|event| text::key(event.tenant.as_str())).collect();
    let wholes: Vec<_> = events.iter().map(|event| whole(&event.tenant)).collect();
    let conversations: Vec<_> = events.iter().map(|event| kept(&event.conversation)).collect();
    let batches: Vec<_> = events.iter().map(|event| kept(&event.batch)).collect();
    let names: Vec<_> = events.iter().map(|event| text::kept(&event.name)).collect();
    let bodies: Vec<_> = events.iter().map(|event| json(&event.body)).collect();
    let row = client
        .query_typed_one(
            &sql,
            &[
                (&signed(events.len() as u64), Type::INT8),
                (&tenants, Type::TEXT_ARRAY),
                (&wholes, Type::TEXT_ARRAY),
                (&conversations, Type::TEXT_ARRAY),
                (&batches, Type::TEXT_ARRAY),
                (&names, Type::TEXT_ARRAY),
                (&bodies, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    Ok(unsigned(row.try_get(0)?))
}

/// Events after a position, oldest first.
pub(super) async fn read(
    client: &Client,
    after: u64,
    filter: EventFilter<'_>,
    limit: usize,
) -> Result<Vec<KeptEvent>, tokio_postgres::Error> {
    let tenant = filter.tenant.map(|tenant| text::key(tenant.as_str()));
    let (conversation, batch) = (filter.conversation.map(text::kept), filter.batch.map(text::kept));
    let (after, limit) = (signed(after), signed(limit as u64));
    let mut sql = "SELECT position, tenant, whole_tenant, conversation, batch, name, body
                   FROM windlass.events WHERE position > $1"
        .to_owned();
    let mut values: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&after, Type::INT8)];
    if let Some(tenant) = &tenant {
        values.push((tenant, Type::TEXT));
        sql.push_str(&format!(" AND tenant = ${}", values.len()));
    }
    // The index has only a prefix of long values, so the row is compared as well.
    for (column, value) in [("conversation", &conversation), ("batch", &batch)] {
        if let Some(value) = value {
            values.push((value, Type::TEXT));
            let number = values.len();
            sql.push_str(&format!(
                " AND left({column}, 250) = left(${number}, 250) AND {column} = ${number}"
            ));
        }
    }
    values.push((&limit, Type::INT8));
    sql.push_str(&format!(" ORDER BY position LIMIT ${}", values.len()));
    client.query_typed(&sql, &values).await?.iter().map(event).collect()
}

/// The oldest and the newest position.
pub(super) async fn range(client: &Client) -> Result<(u64, u64), tokio_postgres::Error> {
    let row = client
        .query_typed_one(
            "SELECT coalesce(min(position), 0), coalesce(max(position), 0) FROM windlass.events",
            &[],
        )
        .await?;
    Ok((unsigned(row.try_get(0)?), unsigned(row.try_get(1)?)))
}

/// Deletes some of the oldest events if there are too many; returns how many.
pub(super) async fn forget(client: &Client, keep: u64) -> Result<u64, tokio_postgres::Error> {
    client
        .execute_typed(
            "DELETE FROM windlass.events WHERE position <= (
                 SELECT least(max(position) - $1, min(position) + $2) FROM windlass.events)",
            &[(&signed(keep.max(1)), Type::INT8), (&STEP, Type::INT8)],
        )
        .await
}

fn event(row: &Row) -> Result<KeptEvent, tokio_postgres::Error> {
    let text = |stored: &str| text::read(stored).into_owned();
    let event = NewEvent {
        tenant: read::tenant(row, 1)?,
        conversation: row.try_get::<_, Option<&str>>(3)?.map(text),
        batch: row.try_get::<_, Option<&str>>(4)?.map(text),
        name: text(row.try_get(5)?),
        body: read_json(row.try_get(6)?),
    };
    Ok(KeptEvent { position: unsigned(row.try_get(0)?), event })
}
