//! Definitions of the providers of models: each wants an API key.

use serde_json::json;

use super::{Api, Endpoint};

/// What a definition says about a provider.
struct About<'a> {
    name: &'a str,
    label: &'a str,
    description: (String, String),
    keys_url: Option<&'a str>,
}

impl Api {
    /// The definition of the API's own provider: a file name and its text.
    pub(crate) fn provider_definition(self) -> (String, String) {
        let own = self.own();
        let models = own.models();
        let description =
            (format!("{models} models, for agents."), format!("供智能体使用的 {models} 模型。"));
        let (name, label) = (own.provider(), own.label());
        About { name, label, description, keys_url: Some(own.keys_url()) }.definition()
    }
}

impl Endpoint {
    /// The definition of a provider of the settings.
    pub(crate) fn provider_definition(&self, name: &str) -> (String, String) {
        let url = &self.base_url;
        let description =
            (format!("Models at {url}, for agents."), format!("供智能体使用的模型,位于 {url}。"));
        About { name, label: name, description, keys_url: None }.definition()
    }
}

impl About<'_> {
    fn definition(self) -> (String, String) {
        let mut key = json!({
            "name": "api_key", "type": "secret-input", "required": false,
            "label": {"en_US": "API key", "zh_Hans": "API 密钥"},
            "help": {
                "en_US": "Agents ask their models with it. Without it, the environment's is used.",
                "zh_Hans": "智能体用它调用模型;未设置时使用环境变量中的密钥。",
            },
        });
        if let Some(url) = self.keys_url {
            key["url"] = url.into();
        }
        let (english, chinese) = self.description;
        let about = json!({
            "identity": {
                "name": self.name, "author": "Windlass", "label": self.label, "tags": ["model"],
                "description": {"en_US": english, "zh_Hans": chinese},
            },
            "credentials_schema": [key],
        });
        (format!("models/{}.yaml", self.name), about.to_string())
    }
}
