//! Result rows, bounded in number and size.

use serde_json::Value;

use super::Question;

/// The rows that were kept.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) truncated: bool,
    /// Number of rows changed by a statement that may write.
    pub(super) affected: Option<u64>,
    bytes: usize,
}

impl Rows {
    pub(super) fn new(columns: Vec<String>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// How many rows to fetch next: about as many as will fit.
    pub(super) fn step(&self, question: &Question, most: usize) -> usize {
        match self.bytes.checked_div(self.rows.len()) {
            // The size of a row is not known yet.
            None => 1,
            Some(usual) => {
                (question.max_bytes.saturating_sub(self.bytes) / usual.max(1)).clamp(1, most)
            }
        }
    }

    /// Adds a row; `false` if it does not fit.
    pub(super) fn take(&mut self, row: Vec<Value>, question: &Question) -> bool {
        self.bytes += row.iter().map(size).sum::<usize>();
        if self.rows.len() >= question.max_rows || self.bytes > question.max_bytes {
            self.truncated = true;
            return false;
        }
        self.rows.push(row);
        true
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}
