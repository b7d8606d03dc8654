//! Turns one operation into one tool.

use http::HeaderValue;
use serde_json::Value;
use url::Url;
use windlass::definition::check_schema;
use windlass::{Approval, Behaviour, Category, Entry, Exposure, Kind, ToolName, ToolSpec};

use super::credential::Addresses;
use super::{Importer, select::Marks};
use crate::rest::document::Operation;
use crate::rest::media;
use crate::rest::plan::Plan;
use crate::rest::request::Base;
use crate::rest::schema::{Bounds, brief};

/// Maximum number of media types in `Accept`.
const MAX_ACCEPT: usize = 4;
/// Maximum number of warnings kept for a tool.
const MAX_NOTES: usize = 10;

impl<'d> Importer<'_, 'd> {
    /// The tool, without its output schema.
    pub(super) fn tool(
        &mut self,
        operation: &Operation<'d>,
        name: ToolName,
    ) -> Result<(ToolSpec, Vec<String>), String> {
        let mut notes = operation.notes.clone();
        let base_url = self.base_url(operation, &mut notes)?;
        let mut arguments = self.arguments(operation);
        let base = Url::parse(&base_url).ok().filter(|_| !base_url.contains('{'));
        let beside = Addresses { base, document: self.url.as_ref() };
        let mut security = self.forms.ways(operation, &beside, &mut notes)?;
        if !self.forms.is_told() {
            if security.is_empty() && !arguments.credentials.is_empty() {
                security = vec![std::mem::take(&mut arguments.credentials)];
            }
            security = self.forms.with_keys(security, std::mem::take(&mut arguments.keys));
        }
        let root = arguments.schema();
        let input = self.input(operation, &root, &mut notes)?;
        notes.append(&mut arguments.notes);
        let mut headers = self.options.headers.clone();
        let accepted = headers.keys().find(|name| name.eq_ignore_ascii_case("accept")).cloned();
        let accepted = accepted.and_then(|name| headers.remove(&name));
        let plan = Plan {
            base_url,
            method: operation.method.clone(),
            path: operation.path.to_owned(),
            headers,
            parameters: arguments.places,
            body: arguments.body,
            security,
            accept: accepted.or_else(|| accept(operation)),
        };
        let config = match serde_json::to_value(&plan) {
            Ok(Value::Object(config)) => config,
            _ => return Err("the request cannot be written down".to_owned()),
        };
        let mut spec = ToolSpec::new(name);
        spec.provider = Some(self.provider.to_owned());
        spec.version = self.api.version.map(str::to_owned);
        spec.label =
            Some(brief(operation.summary, 80)).filter(|text| !text.is_empty()).map(Into::into);
        spec.description = self.description(operation).into();
        spec.category = Category::new("http");
        spec.tags = operation.tags.iter().map(|tag| (*tag).to_owned()).collect();
        spec.kind = Kind::Rest;
        spec.entry = Entry { handler: String::new(), config };
        spec.input = input;
        spec.behaviour = behaviour(operation, &self.marks);
        // Requires approval if the import options say so.
        spec.approval = self.marks.ask.selects(operation).then_some(Approval::Ask);
        if self.marks.defer.selects(operation) {
            spec.exposure = Exposure::Deferred;
        }
        notes.sort();
        notes.dedup();
        notes.truncate(MAX_NOTES);
        Ok((spec, notes))
    }

    /// The input schema, if the engine accepts it.
    fn input(
        &mut self,
        operation: &Operation<'d>,
        root: &Value,
        notes: &mut Vec<String>,
    ) -> Result<Value, String> {
        let bounds = self.bounds();
        let shaper = self.shaper(operation);
        let emitted = shaper.emit(root, bounds);
        notes.extend(emitted.cut);
        notes.extend(shaper.notes_of(root));
        let Err(error) = check_schema(&emitted.schema) else { return Ok(emitted.schema) };
        // A smaller one may be accepted.
        let small = shaper.emit(root, Bounds { description: 60, bytes: 2_000 });
        match check_schema(&small.schema) {
            Ok(()) => {
                notes.push(format!("the schema was simplified: {}", error.message()));
                Ok(small.schema)
            }
            Err(_) => Err(error.message().to_owned()),
        }
    }

    fn description(&self, operation: &Operation<'_>) -> String {
        let most = self.options.max_description.unwrap_or(800);
        let summary = brief(operation.summary, 300);
        let more = brief(operation.description, most);
        let mut text = match (summary.as_str(), more.as_str()) {
            ("", "") => format!("{} {}", operation.method, operation.path),
            ("", more) => more.to_owned(),
            (summary, "") => summary.to_owned(),
            (summary, more) if more.to_lowercase().starts_with(&summary.to_lowercase()) => {
                more.to_owned()
            }
            (summary, more) => format!("{}. {more}", summary.trim_end_matches('.')),
        };
        if operation.deprecated {
            text = format!("Deprecated. {text}");
        }
        text
    }

    /// The base URL of an operation: the import options', else its own servers, else the
    /// document's.
    fn base_url(
        &self,
        operation: &Operation<'_>,
        notes: &mut Vec<String>,
    ) -> Result<String, String> {
        if let Some(base) = &self.options.base_url {
            return Ok(base.clone());
        }
        let own = operation.servers.iter().chain(&self.api.servers).next();
        let written = own.map_or("/", String::as_str);
        if written.contains('{') {
            let shown = brief(written, 80);
            notes.push(format!(
                "the address `{shown}` has a variable without a value; set a base URL"
            ));
            return Ok(written.to_owned());
        }
        let whole = match Url::parse(written) {
            Ok(_) => Some(written.to_owned()),
            Err(_) => self.url.as_ref().and_then(|url| url.join(written).ok()).map(String::from),
        };
        let Some(whole) = whole else {
            notes.push("the document does not say where the API is; set a base URL".to_owned());
            return Ok(written.to_owned());
        };
        absolute(&whole).map_err(|why| format!("the address `{}`: {why}", shown(&whole)))?;
        if let Some((_, query)) = whole.split_once('?') {
            let query = brief(query, 80);
            notes.push(format!("the query `?{query}` of the server's address is not sent"));
        }
        Ok(whole)
    }
}

/// Checks that a URL is absolute.
pub(super) fn absolute(text: &str) -> Result<(), String> {
    Base::new(text).map(|_| ())
}

/// A URL without its password, for messages.
fn shown(text: &str) -> String {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    brief(host, 80)
}

fn behaviour(operation: &Operation<'_>, marks: &Marks<'_>) -> Behaviour {
    let exclusive = Behaviour { concurrency_safe: Some(false), ..Behaviour::default() };
    let mut behaviour = match operation.method.as_str() {
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "QUERY" => Behaviour::READ_ONLY,
        "PUT" => Behaviour { idempotent: true, ..exclusive },
        "DELETE" => Behaviour { idempotent: true, destructive: true, ..exclusive },
        _ => exclusive,
    };
    if marks.destructive.selects(operation) {
        behaviour = Behaviour { destructive: true, read_only: false, ..behaviour };
        behaviour.concurrency_safe = Some(false);
    }
    if marks.idempotent.selects(operation) {
        behaviour.idempotent = true;
    }
    if marks.read_only.selects(operation) {
        behaviour = Behaviour::READ_ONLY;
    }
    behaviour
}

/// The `Accept` header: JSON first.
fn accept(operation: &Operation<'_>) -> Option<String> {
    let kinds = operation.answer.as_ref()?.media_types.iter().map(String::as_str);
    let mut kinds: Vec<&str> = kinds.filter(|kind| HeaderValue::from_str(kind).is_ok()).collect();
    kinds.sort_by_key(|kind| !media::is_json(kind));
    kinds.dedup();
    kinds.truncate(MAX_ACCEPT);
    (!kinds.is_empty()).then(|| kinds.join(", "))
}
