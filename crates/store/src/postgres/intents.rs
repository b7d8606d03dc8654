//! [`Intent`]s in `windlass.intents`, and idempotency keys in `windlass.keys`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;
use windlass::{Begun, IdempotencyKey, Intent, TenantId};

use super::rows::{json, maybe, read_caller, read_text, timestamp};
use super::text;
use crate::KEEP_RUNS;
use crate::queue::Begin;
use crate::value::read_json;

/// Keys that are kept longer get a later date, so that age alone decides.
const INSERT_KEYS: &str = "INSERT INTO windlass.keys (tenant, key, id, fingerprint, kept_at) \
     SELECT tenant, key, id, fingerprint, now() + make_interval(secs => ahead) \
     FROM unnest($1, $2, $3, $4, $5) AS new (tenant, key, id, fingerprint, ahead) \
     ON CONFLICT DO NOTHING";

/// Who holds the wanted keys.
const HOLDERS: &str = "SELECT wanted.at, keys.id, keys.fingerprint \
     FROM unnest($1, $2, $3) AS wanted (tenant, key, at) \
     JOIN windlass.keys USING (tenant, key)";

/// Inserts intents without a key, and those that hold theirs.
const INSERT_INTENTS: &str = "INSERT INTO windlass.intents \
     (id, owner, tenant, call_ref, tool, user_id, caller_id, caller_type, conversation, workflow, \
      parent, key, created_us, arguments) \
     SELECT new.id, $15, new.tenant, new.call_ref, new.tool, new.user_id, new.caller_id, \
            new.caller_type, new.conversation, new.workflow, new.parent, new.key, new.created_us, \
            new.arguments \
     FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
          AS new (id, tenant, call_ref, tool, user_id, caller_id, caller_type, conversation, \
                  workflow, parent, key, created_us, arguments, key_tenant) \
     WHERE new.key IS NULL OR EXISTS ( \
         SELECT FROM windlass.keys \
         WHERE keys.tenant = new.key_tenant AND keys.id = new.id) \
     ON CONFLICT DO NOTHING";

/// Calls that others have begun, or that have finished. Queried after inserting the
/// intents, so that concurrent commits are visible.
const TAKEN: &str = "SELECT id FROM windlass.intents WHERE id = ANY ($1) AND owner <> $3 \
     UNION SELECT calls.id FROM unnest($1, $2) AS new (id, tenant) \
     JOIN windlass.calls USING (id, tenant)";

pub(crate) const COLUMNS: &str = "id, tenant, call_ref, tool, user_id, caller_id, caller_type, \
     conversation, workflow, parent, key, created_us, arguments";

/// Stores intents and returns the answer to each. Idempotent, for the case that the
/// outcome of a commit is unknown: a key that we hold already is as good as a free one.
pub(crate) async fn begin(
    client: &Client,
    owner: i32,
    begins: &[Begin],
) -> Result<Vec<Begun>, tokio_postgres::Error> {
    if begins.is_empty() {
        return Ok(Vec::new());
    }
    let intents: Vec<&Intent> = begins.iter().map(|begin| &begin.intent).collect();
    // In the same order everywhere, to avoid deadlocks between servers. For the same key,
    // the first one wins.
    let mut keyed: Vec<(Cow<'_, str>, Cow<'_, str>, usize, &IdempotencyKey)> = Vec::new();
    for (at, intent) in intents.iter().enumerate() {
        if let Some(key) = &intent.key {
            let tenant = text::key(intent.caller.tenant.as_str());
            keyed.push((tenant, text::key(&key.key), at, key));
        }
    }
    keyed.sort_by(|a, b| (&a.0, &a.1, a.2).cmp(&(&b.0, &b.1, b.2)));
    let holders = async {
        if keyed.is_empty() { Ok(Vec::new()) } else { claim(client, &intents, &keyed).await }
    };
    // Pipelined: sent without waiting for each answer.
    let (holders, kept, taken) = tokio::join!(biased;
        holders,
        insert(client, owner, &intents),
        taken(client, owner, &intents)
    );
    // The first failure causes the others.
    let holders = holders?;
    kept?;
    let taken = taken?;
    let mut begun = vec![Begun::New; begins.len()];
    let mut held: HashMap<i64, Row> = HashMap::new();
    for row in holders {
        held.insert(row.try_get(0)?, row);
    }
    for (_, _, at, key) in &keyed {
        let Some(row) = held.get(&(*at as i64)) else { continue };
        let (id, fingerprint): (Uuid, &[u8]) = (row.try_get(1)?, row.try_get(2)?);
        begun[*at] = if id == intents[*at].id.uuid() {
            Begun::New
        } else if fingerprint == key.fingerprint {
            Begun::Duplicate(id.into())
        } else {
            Begun::OtherArguments(id.into())
        };
    }
    if !taken.is_empty() {
        take_back(client, owner, &taken).await?;
        for (begun, intent) in begun.iter_mut().zip(&intents) {
            if taken.contains(&intent.id.uuid()) {
                *begun = Begun::Duplicate(intent.id);
            }
        }
    }
    Ok(begun)
}

/// Which of the calls exist already.
async fn taken(
    client: &Client,
    owner: i32,
    intents: &[&Intent],
) -> Result<HashSet<Uuid>, tokio_postgres::Error> {
    let ids: Vec<Uuid> = intents.iter().map(|intent| intent.id.uuid()).collect();
    let tenants: Vec<_> =
        intents.iter().map(|intent| text::key(intent.caller.tenant.as_str())).collect();
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&ids, Type::UUID_ARRAY), (&tenants, Type::TEXT_ARRAY), (&owner, Type::INT4)];
    client.query_typed(TAKEN, &values).await?.iter().map(|row| row.try_get(0)).collect()
}

/// Deletes our intents of calls that have finished.
async fn take_back(
    client: &Client,
    owner: i32,
    taken: &HashSet<Uuid>,
) -> Result<(), tokio_postgres::Error> {
    let ids: Vec<Uuid> = taken.iter().copied().collect();
    let sql = "DELETE FROM windlass.intents WHERE id = ANY ($1) AND owner = $2";
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&ids, Type::UUID_ARRAY), (&owner, Type::INT4)];
    client.execute_typed(sql, &values).await.map(drop)
}

/// Claims free keys, and finds the holders of the others.
async fn claim(
    client: &Client,
    intents: &[&Intent],
    keyed: &[(Cow<'_, str>, Cow<'_, str>, usize, &IdempotencyKey)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let tenants: Vec<&str> = keyed.iter().map(|key| &*key.0).collect();
    let keys: Vec<&str> = keyed.iter().map(|key| &*key.1).collect();
    let ids: Vec<Uuid> = keyed.iter().map(|key| intents[key.2].id.uuid()).collect();
    let places: Vec<i64> = keyed.iter().map(|key| key.2 as i64).collect();
    let fingerprints: Vec<&[u8]> = keyed.iter().map(|key| &key.3.fingerprint[..]).collect();
    let ahead =
        |key: &IdempotencyKey| if key.is_of_a_run() { KEEP_RUNS.as_secs_f64() } else { 0.0 };
    let ahead: Vec<f64> = keyed.iter().map(|key| ahead(key.3)).collect();
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&tenants, Type::TEXT_ARRAY),
        (&keys, Type::TEXT_ARRAY),
        (&ids, Type::UUID_ARRAY),
        (&fingerprints, Type::BYTEA_ARRAY),
        (&ahead, Type::FLOAT8_ARRAY),
    ];
    let asked: [(&(dyn ToSql + Sync), Type); 3] =
        [(&tenants, Type::TEXT_ARRAY), (&keys, Type::TEXT_ARRAY), (&places, Type::INT8_ARRAY)];
    let (taken, holders) = tokio::join!(biased;
        client.execute_typed(INSERT_KEYS, &values),
        client.query_typed(HOLDERS, &asked)
    );
    taken?;
    holders
}

async fn insert(
    client: &Client,
    owner: i32,
    intents: &[&Intent],
) -> Result<(), tokio_postgres::Error> {
    let ids: Vec<Uuid> = intents.iter().map(|intent| intent.id.uuid()).collect();
    let callers = || intents.iter().map(|intent| &*intent.caller);
    let tenants: Vec<_> = callers().map(|caller| text::kept(caller.tenant.as_str())).collect();
    let call_refs: Vec<_> =
        intents.iter().map(|intent| maybe(intent.call_ref.as_deref())).collect();
    let tools: Vec<_> = intents.iter().map(|intent| text::kept(&intent.tool_name)).collect();
    let users: Vec<_> = callers().map(|caller| maybe(caller.user.as_deref())).collect();
    let caller_ids: Vec<_> = callers().map(|caller| maybe(caller.caller_id.as_deref())).collect();
    let caller_types: Vec<_> = callers().map(|caller| caller.caller_type.name()).collect();
    let conversations: Vec<_> =
        callers().map(|caller| maybe(caller.conversation.as_deref())).collect();
    let workflows: Vec<_> = callers().map(|caller| maybe(caller.workflow.as_deref())).collect();
    let parents: Vec<_> =
        callers().map(|caller| caller.parent.map(windlass::CallId::uuid)).collect();
    let keys: Vec<_> =
        intents.iter().map(|intent| maybe(intent.key.as_ref().map(|key| &*key.key))).collect();
    let times: Vec<_> = intents.iter().map(|intent| intent.created_at.as_microsecond()).collect();
    let arguments: Vec<_> = intents.iter().map(|intent| json(&*intent.arguments)).collect();
    let key_tenants: Vec<_> = callers().map(|caller| text::key(caller.tenant.as_str())).collect();
    let values: [(&(dyn ToSql + Sync), Type); 15] = [
        (&ids, Type::UUID_ARRAY),
        (&tenants, Type::TEXT_ARRAY),
        (&call_refs, Type::TEXT_ARRAY),
        (&tools, Type::TEXT_ARRAY),
        (&users, Type::TEXT_ARRAY),
        (&caller_ids, Type::TEXT_ARRAY),
        (&caller_types, Type::TEXT_ARRAY),
        (&conversations, Type::TEXT_ARRAY),
        (&workflows, Type::TEXT_ARRAY),
        (&parents, Type::UUID_ARRAY),
        (&keys, Type::TEXT_ARRAY),
        (&times, Type::INT8_ARRAY),
        (&arguments, Type::TEXT_ARRAY),
        (&key_tenants, Type::TEXT_ARRAY),
        (&owner, Type::INT4),
    ];
    client.execute_typed(INSERT_INTENTS, &values).await?;
    Ok(())
}

/// Reads a row of [`COLUMNS`].
pub(crate) fn read_intent(row: &Row) -> Result<Intent, tokio_postgres::Error> {
    let tenant = TenantId::new(text::read(row.try_get(1)?).into_owned());
    Ok(Intent {
        id: row.try_get::<_, Uuid>(0)?.into(),
        call_ref: read_text(row, 2)?,
        tool_name: text::read(row.try_get(3)?).into(),
        arguments: Arc::new(read_json(row.try_get(12)?)),
        caller: Arc::new(read_caller(row, tenant)?),
        created_at: timestamp(row.try_get(11)?),
        // The fingerprint is in the table of keys; a record has only the key's name.
        key: read_text(row, 10)?.map(|key| IdempotencyKey { key, fingerprint: [0; 32] }),
    })
}
