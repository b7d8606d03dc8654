//! A scripted server of the legacy era in a process of its own: this test binary, started
//! again.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};

use serde_json::{Value, json};

use crate::project::Project;

/// Whether to play.
const PLAY: &str = "WINDLASS_TEST_PLAY";
/// What no log may have.
pub(super) const CANARY: &str = "canary-7f3a";
/// How many rows its large result has.
pub(super) const ROWS: usize = 20_000;

/// Names the server `played` in a project.
pub(crate) fn add_to(project: &Project) {
    let this = std::env::current_exe().unwrap();
    let server = json!({
        "command": this.display().to_string(),
        "args": ["--exact", "mcp::played::plays", "--nocapture", "--test-threads=1"],
        "env": {PLAY: "yes"},
    });
    project.write("tools/servers.json", &json!({"mcpServers": {"played": server}}).to_string());
}

/// Becomes the server, if that is wanted. What the test harness writes before it
/// is noise on the wire.
#[test]
fn plays() {
    if std::env::var(PLAY).is_err() {
        return;
    }
    let mut stage = Stage::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        stage.hear(&message);
    }
    std::process::exit(0);
}

#[derive(Default)]
struct Stage {
    subscribed: BTreeSet<String>,
    /// The call that waits for an answer.
    asked: Option<Value>,
}

impl Stage {
    fn hear(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        let uri = params["uri"].as_str().unwrap_or_default();
        match message["method"].as_str() {
            Some("initialize") => answer(
                id,
                json!({"protocolVersion": "2025-11-25", "instructions": "Play.",
                    "capabilities": {"tools": {}, "prompts": {}, "resources": {"subscribe": true}},
                    "serverInfo": {"name": "played", "title": "Played", "version": "7"}}),
            ),
            Some("ping") => answer(id, json!({})),
            Some("tools/list") => answer(id, tools()),
            Some("tools/call") => self.call(id, params["name"].as_str().unwrap_or_default()),
            Some("prompts/list") => answer(id, json!({"prompts": [{"name": "p"}]})),
            Some("prompts/get") => {
                let said = json!({"role": "user", "content": {"type": "text", "text": "P."}});
                answer(id, json!({"messages": [said]}));
            }
            Some("resources/list") => {
                let listed = ["a", "never"]
                    .map(|name| json!({"uri": format!("played://{name}"), "name": name}));
                answer(id, json!({"resources": listed}));
            }
            Some("resources/templates/list") => answer(id, json!({"resourceTemplates": []})),
            Some("resources/read") if uri == "played://never" => {}
            Some("resources/read") => {
                answer(id, json!({"contents": [{"uri": uri, "text": "secret"}]}));
            }
            Some("resources/subscribe") => {
                self.subscribed.insert(uri.to_owned());
                answer(id, json!({}));
            }
            Some("resources/unsubscribe") => {
                self.subscribed.remove(uri);
                answer(id, json!({}));
            }
            Some(_) if id.is_null() => {}
            Some(_) => say(&json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "Method not found"}})),
            None => {
                if let Some(call) = self.asked.take() {
                    text(&call, &format!("you said {}", message["result"]["content"]["name"]));
                }
            }
        }
    }

    fn call(&mut self, id: &Value, tool: &str) {
        match tool {
            "big" => answer(
                id,
                json!({"content": [{"type": "text", "text": "x"}],
                    "structuredContent": {"rows": vec!["a row"; ROWS]}}),
            ),
            // Says who is told that something has changed.
            "touch" => {
                for uri in &self.subscribed {
                    say(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                        "params": {"uri": uri}}));
                }
                text(id, &json!(self.subscribed).to_string());
            }
            // Says much that nobody asked for.
            "noise" => {
                let uri = format!("secret://{CANARY}");
                for method in [
                    "notifications/message",
                    "notifications/resources/updated",
                    "notifications/progress",
                    "notifications/cancelled",
                    CANARY,
                ] {
                    say(&json!({"jsonrpc": "2.0", "method": method, "params": {"uri": uri,
                        "level": CANARY, "progressToken": CANARY, "requestId": [CANARY]}}));
                }
                say(&json!({"jsonrpc": "2.0", "id": CANARY, "result": {"text": CANARY}}));
                say(&json!({"jsonrpc": "2.0", "id": CANARY, "error": CANARY}));
                say(&json!({"jsonrpc": "2.0", "id": 70, "method": CANARY, "params": [CANARY]}));
                say(&json!({"jsonrpc": "2.0", "id": 71, "method": "sampling/createMessage",
                    "params": {"messages": CANARY}}));
                say(&json!({"jsonrpc": "2.0", "result": CANARY}));
                println!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"v\":\"{CANARY}\",NaN");
                println!("noise {CANARY}");
                text(id, CANARY);
            }
            "ask" => {
                self.asked = Some(id.clone());
                let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                let params = json!({"message": "Your name?", "requestedSchema": schema});
                say(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": params}));
            }
            _ => {}
        }
    }
}

fn tools() -> Value {
    let plain = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let mut big = plain("big");
    big["outputSchema"] = json!({"type": "object", "required": ["rows"]});
    json!({"tools": [big, plain("touch"), plain("ask"), plain("never"), plain("noise")]})
}

fn text(id: &Value, text: &str) {
    answer(id, json!({"content": [{"type": "text", "text": text}]}));
}

fn answer(id: &Value, result: Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn say(message: &Value) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}").unwrap();
    output.flush().unwrap();
}
