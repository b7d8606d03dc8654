//! [`Template`]: Jinja, bounded in time and memory.

use std::sync::{Arc, LazyLock};

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

use crate::limits::RunLimits;

/// A template that was parsed. It reads values and writes a text; it has no
/// files, no clock, no chance.
#[derive(Clone)]
pub struct Template {
    text: Arc<str>,
    names: Arc<[String]>,
}

static PLAIN: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_recursion_limit(50);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    // What is null is nothing, as in `${…}`.
    environment.set_formatter(|out, state, value| match value.is_none() {
        true => Ok(()),
        false => minijinja::escape_formatter(out, state, value),
    });
    environment
}

impl Template {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let template = PLAIN.template_from_str(text).map_err(|error| told(&error))?;
        growth(text)?;
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.sort();
        let globals: Vec<&str> = PLAIN.globals().map(|(name, _)| name).collect();
        names.retain(|name| !globals.contains(&name.as_str()));
        Ok(Self { text: text.into(), names: names.into() })
    }

    /// The names that it reads.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The text that it makes of these values.
    pub fn render(
        &self,
        known: &[(Arc<str>, Arc<Value>)],
        limits: &RunLimits,
    ) -> Result<String, String> {
        let mut environment = PLAIN.clone();
        environment.set_fuel(Some(limits.template_fuel));
        let template = environment.template_from_str(&self.text).map_err(|error| told(&error))?;
        let values = known.iter().map(|(name, value)| (name.to_string(), &**value));
        let values: std::collections::BTreeMap<String, &Value> = values.collect();
        let mut written = Bounded { text: Vec::new(), most: limits.template_bytes };
        let values = minijinja::Value::from(minijinja::value::Serde(&values));
        template.render_captured_to(values, &mut written).map_err(|error| told(&error))?;
        String::from_utf8(written.text).map_err(|error| error.to_string())
    }
}

/// Refuses variables that grow by themselves: `{% set b = a ~ a %}` forty times
/// is a terabyte, for which fuel does not count. So what a `set` joins must not
/// be the work of another `set`.
fn growth(text: &str) -> Result<(), String> {
    let mut made: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("{%") {
        let tag = rest[at + 2..].trim_start_matches(['-', '+']).trim_start();
        rest = &rest[at + 2..];
        let Some(set) = tag.strip_prefix("set").filter(|set| set.starts_with(char::is_whitespace))
        else {
            continue;
        };
        let end = set.find("%}").unwrap_or(set.len());
        let (names, value) = match set[..end].split_once('=') {
            Some((names, value)) => (names, value),
            None => (&set[..end], &set[end..set.find("endset").unwrap_or(set.len())]),
        };
        let words = |text: &str, word: &str| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            text.split(|c| !is_part(c)).any(|found| found == word)
        };
        let joins = value.contains(['~', '+', '*', '|', '{', '(']);
        if joins && let Some(name) = made.iter().find(|name| words(value, name)) {
            return Err(format!(
                "`set` joins `{name}`, which another `set` has made: a text could grow without \
                 end; write it out where it is used"
            ));
        }
        let names = names.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        made.extend(names.filter(|name| !name.is_empty()));
    }
    Ok(())
}

fn told(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!(" in its line {line}")).unwrap_or_default();
    match error.detail() {
        Some(detail) => format!("the template fails{line}: {}: {detail}", error.kind()),
        None => format!("the template fails{line}: {}", error.kind()),
    }
}

struct Bounded {
    text: Vec<u8>,
    most: usize,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.text.len() + bytes.len() > self.most {
            let why = format!("it writes more than {} bytes", self.most);
            return Err(std::io::Error::other(why));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
