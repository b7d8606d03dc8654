//! Verifies the hash chain of an audit log.

use serde::Serialize;
use serde_json::Value;

use super::{AuditEntry, Head};

/// The result of the verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "AuditVerification")]
pub(crate) struct ChainReport {
    /// Whether the chain is intact: no entry was changed, removed or inserted.
    pub(crate) intact: bool,
    /// How many entries there are.
    pub(crate) entries: u64,
    /// The hash of the last one. Kept elsewhere, it shows later that nobody wrote
    /// the whole log anew.
    pub(crate) last_hash: String,
    /// What is wrong, and where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// Reads entries one after the other.
#[derive(Default)]
pub(crate) struct Verifier {
    last: Head,
    entries: u64,
    problem: Option<String>,
}

impl Verifier {
    /// Reads the next entry.
    pub(crate) fn read(&mut self, body: &Value) {
        self.entries += 1;
        if self.problem.is_some() {
            return;
        }
        match serde_json::from_value::<AuditEntry>(body.clone()) {
            Ok(entry) => {
                self.problem = self.wrong_with(&entry);
                self.last = Head { number: entry.number, hash: entry.hash };
            }
            Err(error) => {
                self.problem =
                    Some(format!("what follows entry {} is no entry: {error}", self.last.number));
            }
        }
    }

    fn wrong_with(&self, entry: &AuditEntry) -> Option<String> {
        let number = entry.number;
        if number != self.last.number + 1 {
            return Some(format!(
                "after entry {} comes entry {number}: some are missing",
                self.last.number
            ));
        }
        if entry.previous != self.last.hash {
            return Some(format!("entry {number} does not follow the one before it"));
        }
        match entry.digest() {
            Ok(digest) if digest == entry.hash => None,
            _ => Some(format!("entry {number} was changed")),
        }
    }

    /// What was found, with the end of the chain as it is written down, where it
    /// is. Entries that came after that are no fault.
    pub(crate) fn end(self, head: Option<&Head>) -> ChainReport {
        let cut = head.filter(|head| head.number > self.last.number).map(|head| {
            format!("the log ends with entry {}, and had {}", self.last.number, head.number)
        });
        let problem = self.problem.or(cut);
        ChainReport {
            intact: problem.is_none(),
            entries: self.entries,
            last_hash: self.last.hash,
            problem,
        }
    }
}
