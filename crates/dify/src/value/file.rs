//! References to files, as they travel through a graph. The bytes stay where they are.

use serde_json::{Map, Value as Json};

/// The key that marks an object as a file, and its value.
const MARK: (&str, &str) = ("dify_model_identity", "__dify__file__");

/// A file: where it is, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// `image`, `document`, `audio`, `video` or `custom`.
    pub kind: String,
    /// `remote_url`, `local_file`, `tool_file` or `datasource_file`.
    pub transfer_method: String,
    /// The URL of a remote file.
    pub url: Option<String>,
    /// The id of a stored file.
    pub related_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its extension, with the dot.
    pub extension: Option<String>,
    /// Its MIME type.
    pub mime_type: Option<String>,
    /// Its size in bytes; -1 if unknown.
    pub size: i64,
}

impl File {
    /// A file from an object that has the mark of one.
    pub fn from_marked(object: &Map<String, Json>) -> Option<Self> {
        (object.get(MARK.0)?.as_str()? == MARK.1).then(|| Self::from_object(object))
    }

    /// A file from an object whose place says that it is one.
    pub fn from_object(object: &Map<String, Json>) -> Self {
        let text = |keys: &[&str]| {
            let value = keys.iter().find_map(|key| object.get(*key).and_then(Json::as_str));
            value.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Self {
            kind: text(&["type"]).unwrap_or_else(|| "custom".to_owned()),
            transfer_method: text(&["transfer_method"]).unwrap_or_else(|| "remote_url".to_owned()),
            url: text(&["remote_url", "url"]),
            related_id: text(&["related_id", "reference", "upload_file_id", "tool_file_id"]),
            name: text(&["filename", "name"]),
            extension: text(&["extension"]),
            mime_type: text(&["mime_type"]),
            size: object.get("size").and_then(Json::as_i64).unwrap_or(-1),
        }
    }

    /// The object with the mark.
    pub fn to_marked(&self) -> Map<String, Json> {
        let mut object = Map::new();
        object.insert(MARK.0.to_owned(), MARK.1.into());
        object.extend(self.attributes());
        object
    }

    /// What is known of it, as an object.
    pub fn attributes(&self) -> Map<String, Json> {
        let text = |value: &Option<String>| value.clone().map_or(Json::Null, Json::String);
        Map::from_iter([
            ("type".to_owned(), self.kind.clone().into()),
            ("transfer_method".to_owned(), self.transfer_method.clone().into()),
            ("remote_url".to_owned(), text(&self.url)),
            ("related_id".to_owned(), text(&self.related_id)),
            ("filename".to_owned(), text(&self.name)),
            ("extension".to_owned(), text(&self.extension)),
            ("mime_type".to_owned(), text(&self.mime_type)),
            ("size".to_owned(), self.size.into()),
            ("url".to_owned(), text(&self.url)),
        ])
    }

    /// What a selector such as `[node, file, name]` finds; `None` if there is no
    /// such attribute.
    pub fn attribute(&self, name: &str) -> Option<Json> {
        let text = |value: &Option<String>| value.clone().map_or(Json::Null, Json::String);
        Some(match name {
            "type" => self.kind.clone().into(),
            "size" => self.size.into(),
            "name" => text(&self.name),
            "mime_type" => text(&self.mime_type),
            "transfer_method" => self.transfer_method.clone().into(),
            "url" => text(&self.url),
            "extension" => text(&self.extension),
            "related_id" => text(&self.related_id),
            _ => return None,
        })
    }

    /// A link in Markdown, or an image.
    pub fn markdown(&self) -> String {
        let url = self.url.as_deref().unwrap_or("None");
        match self.kind.as_str() {
            "image" => format!("![{}]({url})", self.name.as_deref().unwrap_or_default()),
            _ => format!("[{}]({url})", self.name.as_deref().unwrap_or(url)),
        }
    }
}
