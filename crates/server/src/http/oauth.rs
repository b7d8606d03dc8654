//! Where people come back to after they agreed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::{Error, ErrorKind, TenantId};

use super::app::App;
use super::extract::Query;
use super::operation::Operation;
use crate::vault::Wanted;

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/oauth/callback", "oauth_callback", callback)
            .open("Where a browser comes back to after a person agreed")
            .query::<CallbackQuery>()
            .answer_as(200, "It worked: a page that says so", "text/html", None)
            .answer_as(400, "It did not: a page that says why", "text/html", None),
    ]
}

/// What the service says. It may say more.
#[derive(Deserialize, JsonSchema)]
struct CallbackQuery {
    /// What is taken for tokens.
    code: Option<String>,
    /// Which consent it is.
    state: Option<String>,
    /// Why there is none.
    error: Option<String>,
}

async fn callback(State(app): State<Arc<App>>, Query(query): Query<CallbackQuery>) -> Response {
    let (Some(state), Some(code), None) = (&query.state, &query.code, &query.error) else {
        return page(StatusCode::BAD_REQUEST, "Access was not granted.", "未获得授权。");
    };
    let client = async |tenant: &TenantId, provider: &str, user: Option<&str>| {
        let missing = || Error::new(ErrorKind::ProviderNotFound, "the provider is gone");
        let provider = app.engine.providers().get_for(tenant, provider).ok_or_else(missing)?;
        let wanted = Wanted { name: None, user };
        let revealed = app.credentials.reveal(tenant, &provider, wanted).await?;
        Ok(revealed.map(|revealed| revealed.values).unwrap_or_default())
    };
    match app.consents.finish(state, code, client).await {
        Ok(done) => {
            tracing::info!(provider = done.provider, "a person agreed");
            page(
                StatusCode::OK,
                "Access was granted. You can close this page.",
                "已授权,可以关闭此页面。",
            )
        }
        Err(error) => {
            tracing::warn!(%error, "a consent could not be finished");
            page(
                StatusCode::BAD_REQUEST,
                "Access could not be granted. Try again.",
                "授权失败,请重试。",
            )
        }
    }
}

/// A page without anything that a stranger wrote.
fn page(status: StatusCode, english: &str, chinese: &str) -> Response {
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Windlass</title><p>{english}</p><p lang=\"zh\">{chinese}</p>"
    );
    (status, Html(html)).into_response()
}
