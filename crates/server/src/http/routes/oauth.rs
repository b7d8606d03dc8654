//! The redirect endpoint of the OAuth authorization code flow.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::{Error, ErrorKind, TenantId};
use windlass_executors::mcp::Account;

use crate::http::app::App;
use crate::http::document::operation::RouteSpec;
use crate::http::front::failed_keys::peer;
use crate::state::audit::{Actor, Happened};
use crate::state::vault::CredentialChoice;

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/oauth/callback", "oauth_callback", callback)
            .open("OAuth redirect endpoint: where a browser returns after a consent")
            .query::<CallbackQuery>()
            .answer_as(200, "A page that confirms the consent", "text/html", None)
            .answer_as(400, "A page that says why it failed", "text/html", None),
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
    // A browser opens this: a malformed query gets a page, too.
    let text = query.unwrap_or_default();
    let query: CallbackQuery = serde_urlencoded::from_str(&text).unwrap_or_default();
    let (Some(state), Some(code), None) = (&query.state, &query.code, &query.error) else {
        return page(StatusCode::BAD_REQUEST, "Access was not granted.", "未获得授权。");
    };
    let address = format!("{}?{text}", app.consents.redirect_uri());
    let login = app.servers.login_of(&address);
    let finished = match app.servers.came_back(&address).await {
        Some(finished) => {
            if let Some(Account { tenant, server, user }) = login {
                let what = ("log_in", server.to_string());
                granted(&app, &tenant, user.as_deref(), what, finished.is_ok()).await;
            }
            finished
        }
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
    let wanted = CredentialChoice { name: None, user: agreed.user() };
    let revealed = app.credentials.reveal(&agreed.tenant, &provider, wanted).await?;
    let fields = revealed.map(|revealed| revealed.values).unwrap_or_default();
    let (tenant, user) = (agreed.tenant.clone(), agreed.user().map(str::to_owned));
    let what = ("grant_consent", provider.name.clone());
    let finished = app.consents.finish(agreed, code, &fields).await;
    granted(app, &tenant, user.as_deref(), what, finished.is_ok()).await;
    finished
}

/// Writes down that somebody let tools act in their name, or tried.
async fn granted(
    app: &App,
    tenant: &TenantId,
    user: Option<&str>,
    (action, target): (&str, String),
    worked: bool,
) {
    let happened = Happened {
        actor: Actor::person(user, peer()),
        action: action.to_owned(),
        target: Some(target),
        status: Some(if worked { 200 } else { 400 }),
        details: None,
    };
    app.write_down(tenant, happened).await;
}

/// A page without untrusted input.
fn page(status: StatusCode, english: &str, chinese: &str) -> Response {
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Windlass</title><p>{english}</p><p lang=\"zh\">{chinese}</p>"
    );
    (status, Html(html)).into_response()
}
