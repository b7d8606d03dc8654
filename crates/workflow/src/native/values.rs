//! Steps that compute or end: `set`, `template`, `fail`, `return`.

use std::sync::Arc;

use serde_json::Value;
use windlass::{BoxFuture, Error, ErrorKind, Tools};

use super::formula::Formula;
use super::reader::{Fields, Names, Reading, StepRead};
use crate::jinja::Template;
use crate::run::{At, StepValue};
use crate::step::{Done, Halt, Step};

/// `set`: values.
struct Set(Formula);

pub(super) fn set(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("set");
    let value = fields.get("set")?;
    Some(StepRead::new(Set(reading.formula(value, &key, names)?)))
}

impl Step for Set {
    fn kind(&self) -> &'static str {
        "set"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        let value = self.0.at(at);
        Box::pin(std::future::ready(value.map(Done::new).map_err(Halt::Failed)))
    }
}

/// `template`: a text with Jinja.
struct Text {
    template: Template,
    roots: Vec<Arc<str>>,
}

pub(super) fn template(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("template");
    let text = fields.get("template").and_then(|text| reading.text(text, &key))?;
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            reading.flaw(&key, error, "the template is Jinja, such as `Hello {{ input.name }}`");
            return None;
        }
    };
    let roots: Vec<Arc<str>> = template.names().map(Arc::from).collect();
    for root in &roots {
        reading.template_name(root, &key, names);
    }
    Some(StepRead::new(Text { template, roots }))
}

impl Step for Text {
    fn kind(&self) -> &'static str {
        "template"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn is_logged(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        Box::pin(async move {
            // A step that was skipped is undefined, as Jinja says it.
            let known = self.roots.iter().filter_map(|root| match at.get(root)? {
                StepValue::Value(value) => Some((Arc::clone(root), value)),
                StepValue::Skipped => None,
            });
            let (template, limits) = (self.template.clone(), at.limits().clone());
            let known: Vec<_> = known.collect();
            // It may take a while, and cannot be stopped from outside.
            let made = tokio::task::spawn_blocking(move || template.render(&known, &limits));
            let text =
                made.await.map_err(|_| Error::new(ErrorKind::Cancelled, "it was stopped"))?;
            let text = text.map_err(|why| Error::new(ErrorKind::ToolError, why).nothing_done())?;
            Ok(Done::new(text))
        })
    }
}

/// `fail`: the run fails here.
struct Fail(Formula);

pub(super) fn fail(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("fail");
    let text = fields.get("fail")?;
    reading.text(text, &key)?;
    let step = Box::new(Fail(reading.formula(text, &key, names)?));
    Some(StepRead { step, is_barrier: true })
}

impl Step for Fail {
    fn kind(&self) -> &'static str {
        "fail"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        let failed = match self.0.at(at) {
            Ok(Value::String(text)) => Error::tool(text),
            Ok(other) => Error::tool(other.to_string()),
            Err(error) => error,
        };
        Box::pin(std::future::ready(Err(Halt::Failed(failed.nothing_done()))))
    }
}

/// `return`: the run ends here with a value.
struct Return(Formula);

pub(super) fn returning(
    reading: &mut Reading<'_>,
    fields: &mut Fields<'_>,
    names: &Names,
) -> Option<StepRead> {
    let key = fields.key_of("return");
    let value = fields.get("return")?;
    let step = Box::new(Return(reading.formula(value, &key, names)?));
    Some(StepRead { step, is_barrier: true })
}

impl Step for Return {
    fn kind(&self) -> &'static str {
        "return"
    }

    fn may_change(&self, _: &Tools) -> bool {
        false
    }

    fn run<'a>(&'a self, at: &'a At<'a>) -> BoxFuture<'a, Result<Done, Halt>> {
        let halt = match self.0.at(at) {
            Ok(value) => Halt::Returned(Arc::new(value)),
            Err(error) => Halt::Failed(error),
        };
        Box::pin(std::future::ready(Err(halt)))
    }
}
