//! Where people come back to after they agreed.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::{Error, ErrorKind};

use crate::http::app::App;
use crate::http::document::operation::Operation;
use crate::state::vault::Wanted;

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
#[derive(Default, Deserialize, JsonSchema)]
struct CallbackQuery {
    /// What is taken for tokens.
    code: Option<String>,
    /// Which consent it is.
    state: Option<String>,
    /// Why there is none.
    error: Option<String>,
}

async fn callback(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    // A browser shows a page, whatever somebody wrote into its address.
    let text = query.unwrap_or_default();
    let query: CallbackQuery = serde_urlencoded::from_str(&text).unwrap_or_default();
    let (Some(state), Some(code), None) = (&query.state, &query.code, &query.error) else {
        return page(StatusCode::BAD_REQUEST, "Access was not granted.", "未获得授权。");
    };
    let address = format!("{}?{text}", app.consents.redirect_uri());
    let finished = match app.servers.came_back(&address).await {
        Some(finished) => finished,
        None => finish(&app, state, code).await,
    };
    match finished {
        Ok(()) => {
            let english = "Access was granted. You can close this page.";
            page(StatusCode::OK, english, "已授权,可以关闭此页面。")
        }
        Err(error) => {
            tracing::warn!(%error, "a consent could not be finished");
            let english = "Access could not be granted. Try again.";
            page(StatusCode::BAD_REQUEST, english, "授权失败,请重试。")
        }
    }
}

async fn finish(app: &App, state: &str, code: &str) -> Result<(), Error> {
    let agreed = app.consents.take(state).await?;
    let provider = app.engine.providers().get_for(&agreed.tenant, agreed.provider());
    let missing = || Error::new(ErrorKind::ProviderNotFound, "the provider is gone");
    let provider = provider.ok_or_else(missing)?;
    let wanted = Wanted { name: None, user: agreed.user() };
    let revealed = app.credentials.reveal(&agreed.tenant, &provider, wanted).await?;
    let fields = revealed.map(|revealed| revealed.values).unwrap_or_default();
    app.consents.finish(agreed, code, &fields).await
}

/// A page without anything that a stranger wrote.
fn page(status: StatusCode, english: &str, chinese: &str) -> Response {
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Windlass</title><p>{english}</p><p lang=\"zh\">{chinese}</p>"
    );
    (status, Html(html)).into_response()
}
