//! What a tool asks in the middle of a call that runs in the background.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass::CallId;

use super::view;
use crate::http::app::App;
use crate::http::document::operation::Operation;
use crate::http::front::extract::{Body, Name, Who};
use crate::http::front::problem::Problem;
use crate::state::identity::Action;

pub(crate) fn rows() -> Vec<Operation> {
    vec![
        Operation::get("/v1/calls/{call_id}/questions", "get_questions", get)
            .may(Action::ReadCalls, "What a call in the background waits to be told")
            .details(
                "A server of tools may ask in the middle of a call: a form for a person \
                 (`elicitation/create`), or a message for a model (`sampling/createMessage`). \
                 Only calls with `Prefer: respond-async` are asked; others say no at once.",
            )
            .answer::<QuestionsDoc>(200, "The questions, by name"),
        Operation::post("/v1/calls/{call_id}/answers", "answer_questions", answer)
            .may(Action::CallTools, "Answer what a call in the background waits for")
            .body::<AnswersBody>()
            .example(|| json!({"answers": {"question": {"action": "accept", "content": {}}}}))
            .answer::<AnsweredDoc>(200, "The call goes on"),
    ]
}

/// What a call waits to be told.
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

/// What was answered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Answered")]
struct AnsweredDoc {
    /// How many questions.
    answered: usize,
}

async fn get(State(app): State<Arc<App>>, Who(who): Who, name: Name) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    let open = app.questions.open(&who.tenant, id).ok_or_else(|| Problem::not_found("question"))?;
    Ok(view::ok(&json!({"questions": open})))
}

async fn answer(
    State(app): State<Arc<App>>,
    Who(who): Who,
    name: Name,
    Body(body): Body<AnswersBody>,
) -> Result<Response, Problem> {
    let id: CallId = name.id("call")?;
    let answers = body.answers.into_iter().collect();
    match app.questions.answer(&who.tenant, id, &answers) {
        Some(Ok(answered)) => Ok(view::ok(&AnsweredDoc { answered })),
        Some(Err(error)) => {
            Err(Problem::bad("an answer is wrong").at("/answers", error.message().to_owned()))
        }
        None => Err(Problem::not_found("question")),
    }
}
