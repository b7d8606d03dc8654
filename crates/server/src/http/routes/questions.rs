//! Elicitation over HTTP: questions of a background call's tool, and their answers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::CallId;

use super::view;
use crate::http::app::App;
use crate::http::cluster::background;
use crate::http::document::operation::RouteSpec;
use crate::http::front::extract::{Authenticated, JsonBody, PathName};
use crate::http::front::problem::Problem;
use crate::state::identity::{Identity, Permission};

pub(crate) fn rows() -> Vec<RouteSpec> {
    vec![
        RouteSpec::get("/v1/calls/{call_id}/questions", "get_questions", get)
            .may(
                Permission::ReadCalls,
                "List the open questions of a background call (elicitation)",
            )
            .details(
                "An MCP server may ask in the middle of a call: a form for a person \
                 (`elicitation/create`), or a message for a model (`sampling/createMessage`). \
                 Only calls with `Prefer: respond-async` can be asked; for others the request \
                 is declined at once.",
            )
            .answer::<QuestionsDoc>(200, "The questions, by name"),
        RouteSpec::post("/v1/calls/{call_id}/answers", "answer_questions", answer)
            .may(Permission::CallTools, "Answer the questions of a background call")
            .details(
                "Whoever made the call answers: its key, or a key of the person on whose behalf \
                 it is made. Operators and admins answer for others.",
            )
            .body::<AnswersBody>()
            .example(|| json!({"answers": {"question": {"action": "accept", "content": {}}}}))
            .answer::<AnsweredDoc>(200, "The call continues"),
    ]
}

/// The open questions of a call.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Questions")]
struct QuestionsDoc {
    /// Each is a `method` and its `params`, as MCP writes them.
    questions: Map<String, Value>,
}

/// Answers to all questions of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AnswersBody {
    /// By the names of the questions, as MCP writes them: `action` and `content`
    /// for a form, `role`, `content` and `model` for a message.
    answers: Map<String, Value>,
}

/// How the questions were answered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Answered")]
struct AnsweredDoc {
    /// How many questions.
    answered: usize,
}

async fn get(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    let open = app.questions.open(&who.tenant, id).ok_or_else(|| Problem::not_found("question"))?;
    Ok(view::ok(&json!({"questions": open})))
}

async fn answer(
    State(app): State<Arc<App>>,
    Authenticated(who): Authenticated,
    name: PathName,
    JsonBody(body): JsonBody<AnswersBody>,
) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    if !may_answer(&app, &who, &name.0).await? {
        let why = "another key made this call";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", why)
            .hint("use the key that made it, or one of an operator or an admin"));
    }
    let answers = body.answers.into_iter().collect();
    match app.questions.answer(&who.tenant, id, &answers) {
        Some(Ok(answered)) => Ok(view::ok(&AnsweredDoc { answered })),
        Some(Err(error)) => {
            Err(Problem::bad("an answer is wrong").at("/answers", error.message().to_owned()))
        }
        None => Err(Problem::not_found("question")),
    }
}

/// Whether somebody may answer for a call: what is asked is for whoever made it.
async fn may_answer(app: &App, who: &Identity, id: &str) -> Result<bool, Problem> {
    if who.may(Permission::CancelCalls) {
        return Ok(true);
    }
    // An unknown call has no questions, too.
    let Some(call) = background::find(app, &who.tenant, id).await? else { return Ok(true) };
    let of_key = call.begun_by.as_deref() == Some(&*who.key_id);
    let of_person =
        call.user.is_some_and(|user| who.bound_user().is_some_and(|own| **own == *user));
    Ok(of_key || of_person)
}
