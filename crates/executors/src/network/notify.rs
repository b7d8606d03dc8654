//! `send_notification`: posts a message to the webhook in the credential.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass::{Call, Error, ErrorKind, Output};

use super::NetworkContext;
use super::provider::{credential, setting};
use crate::outbound::Request;

const TIME: Duration = Duration::from_secs(9);
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Deserialize)]
struct NotificationArguments {
    message: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    data: Option<Value>,
}

/// Sends a message without retries: after an error it may have been delivered.
pub(super) async fn run(context: &NetworkContext, call: &Call) -> Result<Output, Error> {
    let asked: NotificationArguments = call.parse()?;
    let webhook = credential(call, "webhook_url")?;
    let payload = payload(&asked, setting(call, "format").unwrap_or("json"))?;
    let request = Request::parse(Method::POST, webhook.expose().trim()).map_err(|_| {
        Error::new(ErrorKind::CredentialInvalid, "the credential's `webhook_url` is no URL")
    })?;
    let mut request = request
        .made_by(call)
        .json(&payload)
        .without_redirects()
        .read_timeout(TIME)
        .total_timeout(TIME)
        .max_bytes(MAX_BYTES);
    if let Some(token) = call.secret("token").filter(|token| !token.expose().is_empty()) {
        request = request.bearer(token)?;
    }
    let answer = context.outbound.send(request).await?.checked().await?;
    let status = answer.status().as_u16();
    let said: Value = serde_json::from_slice(&answer.bytes().await?).unwrap_or_default();
    refused(&said)?;
    Ok(Output::text("The notification was sent.")
        .with_structured(json!({"sent": true, "status_code": status})))
}

/// The JSON payload in the format of the service.
fn payload(asked: &NotificationArguments, format: &str) -> Result<Value, Error> {
    let text = match asked.title.as_deref().filter(|title| !title.is_empty()) {
        Some(title) => format!("{title}\n{}", asked.message),
        None => asked.message.clone(),
    };
    Ok(match format {
        "slack" => json!({"text": text}),
        "discord" => json!({"content": text, "allowed_mentions": {"parse": []}}),
        "feishu" => json!({"msg_type": "text", "content": {"text": text}}),
        "dingtalk" | "wecom" => json!({"msgtype": "text", "text": {"content": text}}),
        "json" => {
            let mut own = json!({
                "message": asked.message,
                "level": asked.level.as_deref().unwrap_or("info"),
            });
            if let Some(title) = &asked.title {
                own["title"] = title.as_str().into();
            }
            if let Some(data) = &asked.data {
                own["data"] = data.clone();
            }
            own
        }
        _ => {
            let why = "the credential's `format` is none of json, slack, discord, feishu, dingtalk \
                       and wecom";
            return Err(Error::new(ErrorKind::CredentialInvalid, why));
        }
    })
}

/// Some services report errors with status 200.
fn refused(said: &Value) -> Result<(), Error> {
    let code = ["errcode", "code"].iter().find_map(|name| said[*name].as_i64());
    match code {
        None | Some(0) => Ok(()),
        Some(code) => {
            let why = format!("the webhook did not take the message: code {code}");
            Err(Error::new(ErrorKind::UpstreamRejected, why))
        }
    }
}
