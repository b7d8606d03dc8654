//! The baseline: an axum handler that parses a body and returns it.

use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;

use crate::process;

/// Runs the server until it is killed.
pub(crate) fn serve() -> anyhow::Result<()> {
    let echo = post(async |Json(body): Json<Value>| Json(body));
    process::serve(Router::new().route("/v1/calls", echo))
}
