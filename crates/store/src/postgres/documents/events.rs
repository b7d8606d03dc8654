//! The event log in SQL.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use windlass::TenantId;

use super::super::rows::json;
use super::fault::Fault;
use super::keep::{signed, unsigned, whole};
use super::{note, read, text};
use crate::documents::{EventFilter, EventSurplus, KeptEvent, NewEvent};
use crate::value::read_json;

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

/// How many events each tenant has, by its key.
pub(super) async fn counts(client: &Client) -> Result<Vec<(String, u64)>, tokio_postgres::Error> {
    let sql = "SELECT tenant, count(*) FROM windlass.events GROUP BY tenant";
    let rows = client.query_typed(sql, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)))).collect()
}

/// Deletes the oldest events of tenants, by their keys, and remembers up to which
/// position. Where another server has done it meanwhile, nothing more is deleted.
pub(super) async fn forget(
    client: &Client,
    surplus: &[EventSurplus],
) -> Result<(), tokio_postgres::Error> {
    let sql = "WITH ends AS (SELECT
            (SELECT position FROM windlass.events WHERE tenant = $1
             ORDER BY position DESC LIMIT 1 OFFSET $2) AS last,
            (SELECT max(position) FROM (
                SELECT position FROM windlass.events WHERE tenant = $1
                ORDER BY position LIMIT $3) AS oldest) AS step
        ), gone AS (
            INSERT INTO windlass.forgotten_events AS known (tenant, position)
            SELECT $1, least(last, step) FROM ends WHERE last IS NOT NULL
            ON CONFLICT (tenant) DO UPDATE
                SET position = greatest(known.position, excluded.position)
            RETURNING position
        )
        DELETE FROM windlass.events USING gone
        WHERE events.tenant = $1 AND events.position <= gone.position";
    for EventSurplus { tenant, level, gone } in surplus {
        let (level, gone) = (signed(*level), signed(*gone));
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(tenant, Type::TEXT), (&level, Type::INT8), (&gone, Type::INT8)];
        client.execute_typed(sql, &values).await?;
    }
    Ok(())
}

/// Position of the last event of a tenant that was deleted.
pub(super) async fn forgotten(
    client: &Client,
    tenant: &TenantId,
) -> Result<u64, tokio_postgres::Error> {
    let sql = "SELECT coalesce(max(position), 0) FROM windlass.forgotten_events WHERE tenant = $1";
    let row = client.query_typed_one(sql, &[(&text::key(tenant.as_str()), Type::TEXT)]).await?;
    Ok(unsigned(row.try_get(0)?))
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
