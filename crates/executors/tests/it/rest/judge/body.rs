//! Bodies, by media type.

use serde_json::{Map, Value, json};
use windlass_executors::rest::Preview;

use super::Judge;
use super::document::{Spot, decode};
use super::parameter::insert_deep;

impl Judge {
    pub(super) fn check_body(
        &self,
        spot: Spot<'_>,
        item: Spot<'_>,
        request: &Preview,
        faults: &mut Vec<String>,
    ) {
        let swagger: Vec<Spot<'_>> = item
            .items("parameters")
            .into_iter()
            .chain(spot.items("parameters"))
            .map(|one| self.follow(one))
            .collect();
        if self.is_swagger() {
            let body = swagger.iter().find(|one| one.text("in") == Some("body"));
            let form: Vec<_> =
                swagger.iter().filter(|one| one.text("in") == Some("formData")).collect();
            match (&request.body, body) {
                (Some((kind, _)), Some(_)) if !kind.contains("json") => {}
                (Some((_, bytes)), Some(body)) => {
                    faults.extend(self.check_json(body.get("schema"), bytes));
                }
                (None, Some(body)) if body.value.get("required") == Some(&json!(true)) => {
                    faults.push("the body is missing".into());
                }
                (Some((kind, bytes)), None) if !form.is_empty() => {
                    let sent = fields(kind, bytes);
                    for field in form {
                        let name = field.text("name").unwrap();
                        let given = sent.iter().any(|(own, _)| own == name);
                        if field.value.get("required") == Some(&json!(true)) && !given {
                            faults.push(format!("the field {name} is missing"));
                        }
                    }
                }
                (Some(_), None) => faults.push("there is a body".into()),
                _ => {}
            }
            return;
        }
        let Some(body) = spot.get("requestBody").map(|body| self.follow(body)) else {
            if request.body.is_some() {
                faults.push("there is a body".into());
            }
            return;
        };
        let Some((kind, bytes)) = &request.body else {
            let empty =
                body.value.get("content").and_then(Value::as_object).is_none_or(Map::is_empty);
            if body.value.get("required") == Some(&json!(true)) && !empty {
                faults.push("the body is missing".into());
            }
            return;
        };
        let plain = kind.split(';').next().unwrap_or_default();
        let content = body.value.get("content").and_then(Value::as_object);
        let media = content.into_iter().flatten().find(|(own, _)| {
            let own = own.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            own == plain
                || matches!(own.as_str(), "*/*" | "application/*") && plain == "application/json"
        });
        let Some((_, media)) = media else {
            faults.push(format!("the type {kind} is none of the body's"));
            return;
        };
        let media = self.follow(Spot { file: body.file, value: media });
        let Some(schema) = media.get("schema") else { return };
        if plain.ends_with("json") {
            faults.extend(self.check_json(Some(schema), bytes));
        } else if plain == "application/x-www-form-urlencoded" || plain == "multipart/form-data" {
            faults.extend(self.check_form(schema, media, kind, bytes));
        }
    }

    fn check_json(&self, schema: Option<Spot<'_>>, bytes: &[u8]) -> Option<String> {
        match serde_json::from_slice(bytes) {
            Ok(value) => self.reject(schema?, &value).map(|why| format!("the body: {why}")),
            Err(error) => Some(format!("the body is no JSON: {error}")),
        }
    }

    /// Plain fields of a form; those with a structure are put together again.
    fn check_form(
        &self,
        schema: Spot<'_>,
        media: Spot<'_>,
        kind: &str,
        bytes: &[u8],
    ) -> Option<String> {
        let mut object = Map::new();
        for (name, text) in fields(kind, bytes) {
            let base = name.split('[').next().unwrap_or_default().to_owned();
            let deep = media
                .get("encoding")
                .and_then(|all| all.get(&base))
                .and_then(|one| one.text("style"))
                == Some("deepObject");
            if deep && name.contains('[') {
                let keys: Vec<String> = name
                    .split('[')
                    .skip(1)
                    .map(|key| key.trim_end_matches(']').to_owned())
                    .collect();
                insert_deep(object.entry(base).or_insert(Value::Null), &keys, text);
                continue;
            }
            let property = self.property(schema, &name, 0);
            let is_list = property.is_some_and(|property| self.is_type(property, "array"))
                && !text.starts_with('[');
            match object.get_mut(&name) {
                Some(Value::Array(items)) => items.push(json!(text)),
                _ if is_list => drop(object.insert(name, json!([text]))),
                _ => drop(object.insert(name, json!(text))),
            }
        }
        let value = self.coerce(schema, Value::Object(object), 0);
        self.reject(schema, &value).map(|why| format!("the form: {why} in {value}"))
    }
}

/// The fields of a form, as text.
fn fields(kind: &str, bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let Some((_, boundary)) = kind.split_once("boundary=") else {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        return pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decode(name), decode(value)))
            .collect();
    };
    let boundary = format!("--{boundary}");
    let parts = text.split(&boundary).skip(1);
    parts
        .filter_map(|part| {
            let (head, body) = part.split_once("\r\n\r\n")?;
            let name = head.split("name=\"").nth(1)?.split('"').next()?;
            Some((name.to_owned(), body.strip_suffix("\r\n").unwrap_or(body).to_owned()))
        })
        .collect()
}
