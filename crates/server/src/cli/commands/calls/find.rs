//! Finds a call by its id or a prefix of it.
//!
//! Ids are UUIDv7 and begin with a timestamp. A prefix therefore names an interval of
//! time, and only that is searched.

use jiff::Timestamp;
use windlass::{CallId, CallRecord, PageRequest, RecordFilter, RecordStore, TenantId};

use crate::cli::exit::{Exit, Failure};

/// The digits of the millisecond.
const TIME_DIGITS: usize = 12;
/// Fewer digits than this would be a minute and more.
const LEAST_DIGITS: usize = 8;
/// How many calls are looked through at the most.
const MAX_PAGES: usize = 20;

/// A call that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallSelector {
    Id(CallId),
    /// The first hexadecimal digits of the id, without dashes.
    Beginning(String),
}

/// Reads an id or the beginning of one.
pub(super) fn parse(text: &str) -> Result<CallSelector, String> {
    if let Ok(id) = text.parse() {
        return Ok(CallSelector::Id(id));
    }
    let digits: String = text.to_ascii_lowercase().chars().filter(|c| *c != '-').collect();
    if !digits.chars().all(|c| c.is_ascii_hexdigit()) || digits.len() >= 32 {
        return Err("not an id; `windlass calls` lists them".to_owned());
    }
    if digits.len() < LEAST_DIGITS {
        return Err(format!("too short; write at least {LEAST_DIGITS} digits of the id"));
    }
    Ok(CallSelector::Beginning(digits))
}

/// The record of the call.
pub(super) async fn find(
    records: &dyn RecordStore,
    wanted: &CallSelector,
) -> Result<CallRecord, Failure> {
    let tenant = TenantId::default();
    let beginning = match wanted {
        CallSelector::Id(id) => {
            let found = records.get(&tenant, *id).await?;
            return found.ok_or_else(|| missing(&id.to_string()));
        }
        CallSelector::Beginning(digits) => digits,
    };
    let mut found = search(records, &tenant, beginning).await?;
    match (found.pop(), found.as_slice()) {
        (None, _) => Err(missing(beginning)),
        (Some(record), []) => Ok(record),
        (Some(record), others) => {
            let ids: Vec<String> =
                others.iter().chain([&record]).take(5).map(|one| one.id.to_string()).collect();
            Err(Failure::usage(format!("`{beginning}` is the beginning of several ids"))
                .hint(format!("use more characters of the id: {}", ids.join(", "))))
        }
    }
}

async fn search(
    records: &dyn RecordStore,
    tenant: &TenantId,
    beginning: &str,
) -> Result<Vec<CallRecord>, Failure> {
    let Some((since, until)) = stretch(beginning) else { return Ok(Vec::new()) };
    let filter = RecordFilter { since: Some(since), until: Some(until), ..RecordFilter::default() };
    let mut found = Vec::new();
    let mut page = PageRequest::first(PageRequest::MAX);
    for _ in 0..MAX_PAGES {
        let got = records.query(tenant, &filter, page).await?;
        let fits =
            |record: &CallRecord| record.id.uuid().simple().to_string().starts_with(beginning);
        found.extend(got.records.into_iter().filter(fits));
        page.after = got.next;
        if page.after.is_none() || found.len() > 1 {
            break;
        }
    }
    Ok(found)
}

/// From when to when calls have ids that begin so.
fn stretch(beginning: &str) -> Option<(Timestamp, Timestamp)> {
    let digits = &beginning[..beginning.len().min(TIME_DIGITS)];
    let open = 4 * u32::try_from(TIME_DIGITS - digits.len()).ok()?;
    let first = i64::from_str_radix(digits, 16).ok()? << open;
    let since = Timestamp::from_millisecond(first).ok()?;
    let until = Timestamp::from_millisecond(first + (1 << open)).ok()?;
    Some((since, until))
}

fn missing(id: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("no call with the id `{id}` is recorded"))
        .hint("`windlass calls` lists them; is it another --project or --database?")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use windlass::{MemoryStore, Status};

    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_stretch_of_time() {
        let at: Timestamp = "2026-11-16T08:00:00.123Z".parse().unwrap();
        let id = CallId::at(at).uuid().simple().to_string();
        for digits in [8, 10, 12, 20] {
            let (since, until) = stretch(&id[..digits]).unwrap();
            assert!(since <= at && at < until, "{digits}");
        }
    }

    #[test]
    fn an_ambiguous_beginning_is_answered_with_the_whole_ids() {
        let at: Timestamp = "2026-11-16T08:00:00.123Z".parse().unwrap();
        let store = MemoryStore::new();
        let ids = [CallId::at(at), CallId::at(at)];
        ids.iter().for_each(|id| store.append(record(*id, at)));
        let wanted = |text: &str| {
            let wanted = parse(text).unwrap();
            crate::installation::block_on(async { find(&store, &wanted).await })
        };
        assert_eq!(wanted(&ids[1].to_string()).unwrap().id, ids[1]);
        assert_eq!(wanted(&ids[1].to_string()[..35]).unwrap().id, ids[1]);
        let failure = wanted(&ids[1].to_string()[..13]).unwrap_err();
        let hint = failure.hint.unwrap();
        assert!(ids.iter().all(|id| hint.contains(&id.to_string())), "{hint}");
        assert_eq!(wanted("00000000").unwrap_err().exit, Exit::NotFound);
    }

    fn record(id: CallId, created_at: Timestamp) -> CallRecord {
        CallRecord {
            id,
            call_ref: None,
            tool_name: "t".into(),
            arguments: Arc::default(),
            result: None,
            status: Status::Cancelled,
            error: None,
            caller: Arc::default(),
            attempts: 1,
            queue_wait: Duration::ZERO,
            run_time: Duration::ZERO,
            created_at,
            details: None,
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for bad in ["", "xyz", "019a", "zzzzzzzzzzzz", &"0".repeat(33)] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("019A8C21-F3E2"), Ok(CallSelector::Beginning("019a8c21f3e2".to_owned())));
    }
}
