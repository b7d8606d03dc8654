//! Macros over the elements of a list or map.

use std::rc::Rc;

use super::{ELEMENT, Evaluation, insert};
use crate::error::{Fault, Faulty};
use crate::functions;
use crate::syntax::{Fold, FoldKind};
use crate::value::{Map, Table, Value};

/// What a macro has found so far.
struct Findings<'a> {
    list: Vec<Value<'a>>,
    table: Table<'a>,
    keys: Vec<Value<'a>>,
    matches: usize,
    /// The first failure, which another element may make irrelevant.
    failed: Option<Box<Fault>>,
}

impl<'a> Evaluation<'a, '_> {
    #[inline(never)]
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Faulty<Value<'a>> {
        let over = self.value(fold.over)?;
        let mut findings = Findings {
            list: Vec::new(),
            table: Table::new(),
            keys: Vec::new(),
            matches: 0,
            failed: None,
        };
        match &over {
            Value::List(list) => {
                for (index, value) in list.iter().enumerate() {
                    let key = Value::Int(index as i64);
                    if self.visit(fold, &key, value, false, &mut findings)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.entries() {
                    if self.visit(fold, &key.value(), value, true, &mut findings)? {
                        break;
                    }
                }
            }
            other => {
                let fault = Fault::new(format!(
                    "a macro goes through a list or a map, not {}",
                    other.described()
                ));
                return Err(match other {
                    Value::Null | Value::Optional(_) => {
                        fault.hint("write default(value, []) if it may be absent")
                    }
                    _ => fault,
                });
            }
        }
        self.conclude(fold, findings)
    }

    /// Evaluates the macro for one element. Returns whether it is decided.
    fn visit(
        &mut self,
        fold: &'a Fold,
        key: &Value<'a>,
        value: Value<'a>,
        of_map: bool,
        findings: &mut Findings<'a>,
    ) -> Faulty<bool> {
        self.meter.step(1)?;
        self.locals.truncate(fold.local as usize);
        // One variable is an element of a list, or a key of a map.
        let element = if of_map { key.clone() } else { value.clone() };
        if fold.two {
            self.locals.extend([key.clone(), value]);
        } else {
            self.locals.push(element.clone());
        }
        let result = self.step(fold, key, element, findings);
        self.locals.truncate(fold.local as usize);
        result
    }

    fn step(
        &mut self,
        fold: &'a Fold,
        key: &Value<'a>,
        element: Value<'a>,
        findings: &mut Findings<'a>,
    ) -> Faulty<bool> {
        if let Some(filter) = fold.filter {
            let holds = self.value(filter)?;
            if !boolean(&holds, "the filter of a macro")? {
                return Ok(false);
            }
        }
        match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                let decides = fold.kind == FoldKind::Exists;
                match self
                    .value(fold.body)
                    .and_then(|value| boolean(&value, "the condition of a macro"))
                {
                    Ok(holds) if holds == decides => {
                        findings.matches += 1;
                        return Ok(true);
                    }
                    Ok(_) => {}
                    Err(fault) if fault.limit => return Err(fault),
                    Err(fault) => {
                        findings.failed.get_or_insert(fault);
                    }
                }
            }
            FoldKind::ExistsOne => {
                let holds = self.value(fold.body)?;
                findings.matches += usize::from(boolean(&holds, "the condition of a macro")?);
            }
            FoldKind::Filter => {
                let holds = self.value(fold.body)?;
                if boolean(&holds, "the condition of `filter`")? {
                    self.meter.allocate(ELEMENT)?;
                    findings.list.push(element);
                }
            }
            FoldKind::Map => {
                self.meter.allocate(ELEMENT)?;
                let made = self.value(fold.body)?;
                findings.list.push(made);
            }
            FoldKind::SortBy => {
                self.meter.allocate(2 * ELEMENT)?;
                let made = self.value(fold.body)?;
                findings.keys.push(made);
                findings.list.push(element);
            }
            FoldKind::TransformMap => {
                self.meter.allocate(2 * ELEMENT)?;
                let made = self.value(fold.body)?;
                insert(&mut findings.table, key, made)?;
            }
            FoldKind::TransformMapEntry => {
                let Value::Map(made) = self.value(fold.body)? else {
                    return Err(Fault::new("`transformMapEntry` needs a map from its body"));
                };
                self.meter.allocate(made.len() * 2 * ELEMENT)?;
                for (key, value) in made.entries() {
                    self.meter.step(1)?;
                    insert(&mut findings.table, &key.value(), value)?;
                }
            }
        }
        Ok(false)
    }

    fn conclude(&mut self, fold: &Fold, findings: Findings<'a>) -> Faulty<Value<'a>> {
        match fold.kind {
            FoldKind::All | FoldKind::Exists => match findings.failed {
                _ if findings.matches > 0 => Ok(Value::Bool(fold.kind == FoldKind::Exists)),
                Some(fault) => Err(fault),
                None => Ok(Value::Bool(fold.kind == FoldKind::All)),
            },
            FoldKind::ExistsOne => Ok(Value::Bool(findings.matches == 1)),
            FoldKind::Map | FoldKind::Filter => Ok(Value::list(findings.list)),
            FoldKind::SortBy => functions::sorted(&findings.list, &findings.keys, self.meter),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                Ok(Value::Map(Map::Shared(Rc::new(findings.table))))
            }
        }
    }
}

fn boolean(value: &Value<'_>, what: &str) -> Faulty<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(Fault::new(format!("{what} is {}, not a bool", other.described()))
            .hint("compare the value: x != null, x != \"\", size(x) > 0")),
    }
}
