//! Output schemas of tools, from successful responses.

use std::collections::HashMap;

use serde_json::{Map, Value};
use windlass::definition::check_schema;

use crate::rest::document::{Files, Operation};
use crate::rest::schema::{Bounds, Direction, Shaper};

/// Limits for output schemas, which are tighter than those for inputs.
const BOUNDS: Bounds = Bounds { description: 80, bytes: 3_000 };

/// The output schema of each operation; `None` if there is none that says anything.
pub(super) fn outputs<'d>(files: &'d Files, operations: &[&Operation<'d>]) -> Vec<Option<Value>> {
    let mut shaper = Shaper::new(files, Direction::Response);
    // Many operations share a response schema.
    let mut known: HashMap<*const Value, Option<Value>> = HashMap::new();
    let mut output = |operation: &Operation<'d>| {
        let schema = operation.answer.as_ref()?.schema?;
        let made = known.entry(shaper.followed(schema)).or_insert_with(|| {
            let (shaped, _) = shaper.shape_whole(schema);
            let output = shaper.emit(&shaped, BOUNDS).schema;
            let says = |map: &Map<String, Value>| map.keys().any(|key| key != "description");
            let is_one = output.as_object().is_some_and(says) && check_schema(&output).is_ok();
            is_one.then_some(output)
        });
        made.clone()
    };
    operations.iter().map(|operation| output(operation)).collect()
}
