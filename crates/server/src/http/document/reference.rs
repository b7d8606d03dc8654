//! The API reference as an HTML page: for each operation its parameters, its
//! answers and a `curl` line. It loads no scripts and nothing from other hosts.

use std::fmt::Write;

use serde_json::Value;

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// The page of a document.
pub(crate) fn page(document: &Value) -> String {
    let mut page = String::from(HEAD);
    let routes: Vec<Route<'_>> = routes(document).collect();
    contents(&mut page, &routes);
    let about = document["info"]["description"].as_str().unwrap_or_default();
    let _ = write!(page, "<main><h1>Windlass API</h1><p>{}</p>{KEYS}", marked(about));
    let mut tag = "";
    for route in &routes {
        if route.tag() != tag {
            tag = route.tag();
            let _ = write!(page, "<h2 id=\"{0}\">{0}</h2>", escape(tag));
        }
        route.write(&mut page, document);
    }
    types(&mut page, document);
    page.push_str("</main></body></html>");
    page
}

/// What goes in and comes out, by name.
fn types(page: &mut String, document: &Value) {
    page.push_str("<h2 id=types>Types</h2>");
    let all = document["components"]["schemas"].as_object();
    for (name, schema) in all.into_iter().flatten() {
        let about = schema["description"].as_str().unwrap_or_default();
        let name = escape(name);
        let _ = write!(page, "<article id=\"type-{name}\"><h3>{name}</h3><p>{}</p>", marked(about));
        if schema["properties"].is_object() {
            properties(page, schema);
        } else {
            let _ = write!(page, "<p><small>{}</small></p>", kind(schema));
        }
        page.push_str("</article>");
    }
}

/// The properties of an object.
fn properties(page: &mut String, schema: &Value) {
    page.push_str("<table>");
    let required = schema["required"].as_array();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.is_some_and(|all| all.iter().any(|own| own == name));
        let kind = kind(schema);
        let kind = if needed { format!("{kind}, always") } else { kind };
        row(page, name, &kind, schema["description"].as_str().unwrap_or_default());
    }
    page.push_str("</table>");
}

/// One method of one path.
struct Route<'a> {
    path: &'a str,
    method: String,
    operation: &'a Value,
}

fn routes(document: &Value) -> impl Iterator<Item = Route<'_>> {
    document["paths"].as_object().into_iter().flatten().flat_map(|(path, item)| {
        METHODS.iter().filter_map(move |method| {
            let operation = item.get(method)?;
            Some(Route { path, method: method.to_uppercase(), operation })
        })
    })
}

fn contents(page: &mut String, routes: &[Route<'_>]) {
    page.push_str("<nav>");
    let mut tag = "";
    for route in routes {
        if route.tag() != tag {
            tag = route.tag();
            let _ = write!(page, "<b><a href=\"#{0}\">{0}</a></b>", escape(tag));
        }
        let (id, summary) = (escape(route.text("operationId")), marked(route.text("summary")));
        let _ = write!(page, "<a href=\"#{id}\">{summary}</a>");
    }
    page.push_str("<b><a href=#types>Types</a></b></nav>");
}

impl Route<'_> {
    fn text(&self, key: &str) -> &str {
        self.operation[key].as_str().unwrap_or_default()
    }

    fn tag(&self) -> &str {
        self.operation["tags"][0].as_str().unwrap_or_default()
    }

    fn write(&self, page: &mut String, document: &Value) {
        let _ = write!(
            page,
            "<section id=\"{}\"><h3><code class={m}>{m}</code> <code>{}</code></h3>\
             <p>{} <small>{}</small></p>",
            escape(self.text("operationId")),
            escape(self.path),
            marked(self.text("summary")),
            escape(self.text("x-roles")),
            m = self.method,
        );
        if let Some(details) = self.operation["description"].as_str() {
            let _ = write!(page, "<p>{}</p>", marked(details));
        }
        self.parameters(page);
        self.body(page, document);
        self.answers(page);
        let _ = write!(page, "<pre>{}</pre></section>", escape(&self.curl()));
    }

    fn parameters(&self, page: &mut String) {
        let Some(parameters) = self.operation["parameters"].as_array() else { return };
        page.push_str("<table>");
        for parameter in parameters {
            let own = |key: &str| parameter[key].as_str().unwrap_or_default();
            let kind = kind(&parameter["schema"]);
            row(page, own("name"), &format!("{}, {kind}", own("in")), own("description"));
        }
        page.push_str("</table>");
    }

    fn body(&self, page: &mut String, document: &Value) {
        let Some(content) = self.operation["requestBody"]["content"].as_object() else { return };
        for (media, body) in content {
            let schema = resolve(document, &body["schema"]);
            let _ = write!(page, "<p>Body: <code>{}</code></p>", escape(media));
            properties(page, schema);
        }
    }

    /// What it answers. The problems that every route may answer with are said
    /// once, at the top.
    fn answers(&self, page: &mut String) {
        let answers = self.operation["responses"].as_object().into_iter().flatten();
        page.push_str("<ul>");
        for (status, answer) in answers {
            let content = answer["content"].as_object();
            let is_problem = content.is_some_and(|content| {
                content.contains_key("application/problem+json")
                    && !(status == "404" && self.path.contains('{'))
            });
            if is_problem {
                continue;
            }
            let about = marked(answer["description"].as_str().unwrap_or_default());
            let _ = write!(page, "<li><code>{status}</code> {about}");
            for (media, body) in content.into_iter().flatten() {
                let _ = write!(page, " <small>{} {}</small>", escape(media), kind(&body["schema"]));
            }
            page.push_str("</li>");
        }
        page.push_str("</ul>");
    }

    /// A line to try it with.
    fn curl(&self) -> String {
        let mut line = String::from("curl");
        if self.method != "GET" && self.method != "POST" {
            let _ = write!(line, " -X {}", self.method);
        }
        if self.operation["security"].as_array().is_none_or(|open| !open.is_empty()) {
            line.push_str(" -H \"Authorization: Bearer $KEY\"");
        }
        let path = self.path.replace('{', "$").replace('}', "").to_uppercase();
        let path = self.path.split('/').zip(path.split('/'));
        let path: Vec<&str> =
            path.map(|(own, upper)| if own.starts_with('{') { upper } else { own }).collect();
        let _ = write!(line, " \"$URL{}\"", path.join("/"));
        let content = self.operation["requestBody"]["content"].as_object();
        let example = content.and_then(|all| all.get("application/json")?.get("example"));
        if let Some(example) = example {
            let body = example.to_string().replace('\'', "'\\''");
            let _ = write!(line, " \\\n  -H 'Content-Type: application/json' -d '{body}'");
        } else if content.is_some() {
            line.push_str(" \\\n  -H 'Content-Type: text/plain' --data-binary @notes.txt");
        } else if self.method == "POST" {
            line.push_str(" -X POST");
        }
        line
    }
}

fn row(page: &mut String, name: &str, kind: &str, about: &str) {
    let _ = write!(
        page,
        "<tr><td><code>{}</code></td><td><small>{kind}</small></td><td>{}</td></tr>",
        escape(name),
        marked(about)
    );
}

/// The schema that a reference stands for.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    place.and_then(|place| document.pointer(place)).unwrap_or(schema)
}

/// A schema in a word or two, as HTML.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.rsplit('/').next()) {
        return format!("<a href=\"#type-{0}\">{0}</a>", escape(name));
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let named = |choice: &Value| match choice["const"].as_str() {
                Some(only) => escape(only),
                None => kind(choice),
            };
            let kinds: Vec<String> =
                choices.iter().map(named).filter(|kind| kind != "null").collect();
            return kinds.join(" | ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return escape(&values.join(" | "));
    }
    // Events of a stream are identified by their SSE name.
    if let Some(name) = schema["properties"]["event"]["const"].as_str() {
        let data = &schema["properties"]["data"]["contentSchema"];
        return match data.get("$ref") {
            Some(_) => format!("{} ({})", escape(name), kind(data)),
            None => escape(name),
        };
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => {
            format!("list of {}", self::kind(&schema["items"]))
        }
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<&str> =
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            kinds.join(" | ")
        }
        _ => "any JSON".to_owned(),
    }
}

/// Text with `code` in it.
fn marked(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const KEYS: &str = "<p>The machine-readable form is <a href=/openapi.json>/openapi.json</a>. Every \
route but health needs an API key: <code>Authorization: Bearer KEY</code> or <code>X-API-Key: \
KEY</code>. The examples take the address of the server from <code>$URL</code> and the key from \
<code>$KEY</code>.</p><p>Besides what stands at each route, every route may answer with a problem \
(<code>application/problem+json</code>): <code>400</code> the request is wrong, <code>401</code> no \
key that works, <code>403</code> the role may not, <code>408</code> and <code>413</code> the body is \
too slow or too large, <code>415</code> it is not JSON, <code>421</code> the server does not answer \
for this name, <code>429</code> too many calls, <code>503</code> the server is full, ends or has no \
database.</p>";

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
<meta name=viewport content='width=device-width,initial-scale=1'><title>Windlass API</title><style>\
*{box-sizing:border-box}\
body{font:16px/1.55 system-ui,sans-serif;margin:0;background:#fff;color:#1c1e21;display:flex}\
nav{position:sticky;top:0;height:100vh;overflow:auto;flex:0 0 17rem;padding:1.5rem 1rem;\
border-right:1px solid #e3e5e8;font-size:14px}nav a{display:block;color:inherit;\
text-decoration:none;padding:.1rem 0}nav b{display:block;margin-top:.9rem}nav a:hover{color:#06c}\
main{flex:1;min-width:0;max-width:60rem;padding:1.5rem 2rem}\
h2{margin-top:3rem;text-transform:capitalize}section,article{border-top:1px solid #e3e5e8;padding:.75rem 0}\
h3{margin:.5rem 0}code{font:14px ui-monospace,monospace;background:#f2f3f5;padding:.1rem .35rem;\
border-radius:4px}pre{background:#f2f3f5;padding:.75rem 1rem;border-radius:6px;overflow:auto;\
font:13px/1.5 ui-monospace,monospace}table{border-collapse:collapse;width:100%;font-size:15px}\
td{border-top:1px solid #eceef0;padding:.3rem .6rem .3rem 0;vertical-align:top}\
td:first-child{white-space:nowrap}ul{padding-left:1.2rem}\
.GET{color:#087f5b}.POST{color:#1864ab}.PUT{color:#995c00}.DELETE{color:#c92a2a}small,small a{color:#667}\
@media(max-width:50rem){body{display:block}nav{position:static;height:auto;border:0}}\
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}code,pre{background:#24272d}\
section,article,td,nav{border-color:#30343b}small,small a{color:#98a0ab}.GET{color:#63e6be}.POST{color:#74c0fc}\
.PUT{color:#ffd43b}.DELETE{color:#ff8787}}</style></head><body>";
