//! Settings of nodes that steer.

use super::{expected, named_selectors};
use crate::condition::{Condition, Conditions, FileConditions, Join, OPERATORS, Operator};
use crate::document::fields::Fields;
use crate::document::report::Report;
use crate::node::flow::{
    Aggregator, Assignment, Case, Input, InputKind, Iteration, ListOperator, Loop, LoopVariable,
    OPERATIONS, Operand, Operation, Output, RoundError, Start,
};
use crate::value::{Kind, Value};

const JOINS: [(&str, Join); 2] = [("and", Join::And), ("or", Join::Or)];

pub(super) fn start(data: Fields<'_>, report: &mut Report<'_>) -> Start {
    let kinds = [
        ("text-input", InputKind::Text),
        ("paragraph", InputKind::Paragraph),
        ("select", InputKind::Select),
        ("number", InputKind::Number),
        ("checkbox", InputKind::Checkbox),
        ("file", InputKind::File),
        ("file-list", InputKind::Files),
        ("json_object", InputKind::Object),
        ("json", InputKind::Object),
        ("external_data_tool", InputKind::Text),
        ("string", InputKind::Text),
        ("boolean", InputKind::Checkbox),
        ("url", InputKind::Text),
    ];
    let mut inputs = Vec::new();
    for fields in data.maps("variables", report) {
        let hint = "write the name of the variable";
        let name = match fields.get("variable") {
            Some(_) => fields.text_or_empty("variable", report),
            None => fields.need_text("name", hint, report),
        };
        let options = fields.list("options", report).iter();
        inputs.push(Input {
            label: fields.text("label", report).unwrap_or_else(|| name.clone()),
            kind: fields.choice_or("type", &kinds, InputKind::Text, report),
            required: fields.flag("required", false, report),
            default: fields.value("default"),
            max_length: Some(fields.count("max_length", 0, report)).filter(|length| *length > 0),
            options: options.filter_map(|option| option.scalar()).collect(),
            schema: schema(fields),
            name,
        });
    }
    Start { inputs }
}

/// The schema of an object, which editors keep as text.
fn schema(fields: Fields<'_>) -> Option<serde_json::Value> {
    match fields.json("json_schema") {
        serde_json::Value::String(text) => serde_json::from_str(&text).ok(),
        schema @ serde_json::Value::Object(_) => Some(schema),
        _ => None,
    }
}

pub(super) fn outputs(data: Fields<'_>, report: &mut Report<'_>) -> Vec<Output> {
    let outputs = named_selectors(data, "outputs", report).into_iter();
    outputs.map(|(name, selector)| Output { name, selector }).collect()
}

pub(super) fn cases(data: Fields<'_>, report: &mut Report<'_>) -> Vec<Case> {
    if data.get("cases").is_none() {
        let conditions = conditions(data, "conditions", report);
        return vec![Case { id: "true".to_owned(), conditions }];
    }
    let mut cases = Vec::new();
    for fields in data.maps("cases", report) {
        let id = fields.text("case_id", report).or_else(|| fields.text("id", report));
        let id = id.unwrap_or_else(|| "true".to_owned());
        cases.push(Case { id, conditions: conditions(fields, "conditions", report) });
    }
    cases
}

/// Conditions, and the `logical_operator` beside them.
fn conditions(data: Fields<'_>, key: &'static str, report: &mut Report<'_>) -> Conditions {
    let join = data.choice("logical_operator", &JOINS, Join::And, report);
    let mut all = Vec::new();
    for fields in data.maps(key, report) {
        let on_files = fields.map("sub_variable_condition", report).map(|inner| FileConditions {
            join: inner.choice("logical_operator", &JOINS, Join::And, report),
            conditions: (inner.maps("conditions", report).into_iter())
                .map(|condition| {
                    let key = condition.text_or_empty("key", report);
                    (key, operator(condition, report), expected(condition.get("value")))
                })
                .collect(),
        });
        all.push(Condition {
            selector: fields.need_selector("variable_selector", report),
            operator: operator(fields, report),
            expected: expected(fields.get("value")),
            on_files,
        });
    }
    Conditions { join, all }
}

fn operator(fields: Fields<'_>, report: &mut Report<'_>) -> Operator {
    fields.need("comparison_operator", "write `is`, `contains`, `=` …", report);
    let of_numbers = fields.text("varType", report).as_deref() == Some("number");
    let (same, other) = match of_numbers {
        true => (Operator::Equal, Operator::NotEqual),
        false => (Operator::Is, Operator::IsNot),
    };
    // As people write them who do not know Dify's.
    let foreign = [
        ("==", same),
        ("!=", other),
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("equals", same),
        ("not equals", other),
        ("is empty", Operator::Empty),
        ("is not empty", Operator::NotEmpty),
        ("starts with", Operator::StartWith),
        ("ends with", Operator::EndWith),
    ];
    if let Some(tree) = fields.get("comparison_operator")
        && let Some(written) = tree.scalar()
        && let Some((_, operator)) = foreign.iter().find(|(name, _)| *name == written)
    {
        let own = OPERATORS.iter().find(|(_, known)| known == operator);
        let own = own.map_or("", |(name, _)| name);
        let message = format!("`{written}` is no operator of Dify's; it is read as `{own}`");
        report.note(tree.at, message, format!("write `{own}`"));
        return *operator;
    }
    fields.choice("comparison_operator", &OPERATORS, Operator::Is, report)
}

pub(super) fn iteration(data: Fields<'_>, report: &mut Report<'_>) -> Iteration {
    let modes = [
        ("terminated", RoundError::Fail),
        ("continue-on-error", RoundError::Null),
        ("remove-abnormal-output", RoundError::Drop),
    ];
    let parallel = data.flag("is_parallel", false, report);
    let at_once = data.count("parallel_nums", 10, report).clamp(1, 100);
    Iteration {
        over: data.need_selector("iterator_selector", report),
        output: data.need_selector("output_selector", report),
        start: data.text_or_empty("start_node_id", report),
        at_once: if parallel { usize::try_from(at_once).unwrap_or(1) } else { 1 },
        on_error: data.choice_or("error_handle_mode", &modes, RoundError::Fail, report),
        flatten: data.flag("flatten_output", true, report),
    }
}

pub(super) fn repeat(data: Fields<'_>, report: &mut Report<'_>) -> Loop {
    let mut variables = Vec::new();
    for fields in data.maps("loop_variables", report) {
        let written = fields.text("var_type", report).unwrap_or_else(|| "string".to_owned());
        let Some(kind) = Kind::from_name(&written) else {
            report.fault(
                fields.at(),
                format!("unknown var_type `{written}`"),
                "write `string`, `number` …",
            );
            continue;
        };
        let name = fields.need_text("label", "write the name of the variable", report);
        let from = match fields.text("value_type", report).as_deref() {
            Some("variable") => Operand::Variable(fields.need_selector("value", report)),
            _ => Operand::Constant(fields.value("value")),
        };
        variables.push(LoopVariable { name, kind, from });
    }
    if let Some(tree) = data.get("loop_count")
        && data.count("loop_count", 1, report) < 1
    {
        report.fault(tree.at, "`loop_count` is less than 1", "write 1 or more");
    }
    Loop {
        start: data.text_or_empty("start_node_id", report),
        rounds: data.count("loop_count", 1, report).max(1),
        until: conditions(data, "break_conditions", report),
        variables,
    }
}

pub(super) fn aggregator(data: Fields<'_>, report: &mut Report<'_>) -> Aggregator {
    let selectors = |fields: Fields<'_>, report: &mut Report<'_>| {
        let items = fields.list("variables", report).iter();
        let read =
            items.filter_map(|item| crate::document::fields::selector(item, "variables", report));
        read.collect::<Vec<_>>()
    };
    if let Some(settings) = data.map("advanced_settings", report)
        && settings.flag("group_enabled", false, report)
    {
        let groups = settings.maps("groups", report).into_iter();
        let groups = groups.map(|group| {
            (group.need_text("group_name", "write its name", report), selectors(group, report))
        });
        return Aggregator::Groups(groups.collect());
    }
    Aggregator::One(selectors(data, report))
}

pub(super) fn assigner(data: Fields<'_>, report: &mut Report<'_>) -> Vec<Assignment> {
    if data.get("items").is_none() {
        let modes = [
            ("over-write", Operation::Overwrite),
            ("append", Operation::Append),
            ("clear", Operation::Clear),
        ];
        let operation = data.choice("write_mode", &modes, Operation::Overwrite, report);
        let target = data.need_selector("assigned_variable_selector", report);
        let source = data.selector("input_variable_selector", report).unwrap_or_default();
        let operand = Operand::Variable(source);
        return vec![Assignment { target, operation, operand, unchecked: true }];
    }
    let mut all = Vec::new();
    for fields in data.maps("items", report) {
        let operand = match fields.text("input_type", report).as_deref() {
            Some("variable") => match fields.get("value") {
                Some(_) => Operand::Variable(fields.need_selector("value", report)),
                None => Operand::Constant(Value::Null),
            },
            _ => Operand::Constant(fields.value("value")),
        };
        all.push(Assignment {
            target: fields.need_selector("variable_selector", report),
            operation: fields.choice("operation", &OPERATIONS, Operation::Overwrite, report),
            operand,
            unchecked: false,
        });
    }
    all
}

pub(super) fn list_operator(data: Fields<'_>, report: &mut Report<'_>) -> ListOperator {
    let enabled = |key: &'static str, report: &mut Report<'_>| {
        let fields = data.map(key, report)?;
        fields.flag("enabled", false, report).then_some(fields)
    };
    let mut filter = Vec::new();
    if let Some(fields) = enabled("filter_by", report) {
        for condition in fields.maps("conditions", report) {
            let key = condition.text_or_empty("key", report);
            let by =
                condition.choice("comparison_operator", &OPERATORS, Operator::Contains, report);
            filter.push((key, by, expected(condition.get("value"))));
        }
    }
    let extract = enabled("extract_by", report);
    let order = enabled("order_by", report);
    let limit = enabled("limit", report);
    let directions = [("asc", false), ("desc", true), ("", false)];
    ListOperator {
        list: data.need_selector("variable", report),
        filter,
        extract: extract.map(|f| f.text("serial", report).unwrap_or_else(|| "1".to_owned())),
        order: order.map(|fields| {
            let key = fields.text_or_empty("key", report);
            (key, fields.choice_or("value", &directions, false, report))
        }),
        #[expect(clippy::cast_possible_truncation, reason = "casts saturate")]
        limit: limit.map(|fields| fields.number("size", report).unwrap_or(-1.0) as i64),
    }
}
