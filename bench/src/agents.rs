//! Tool calls started while the model is still streaming, and memory of many agent runs.

mod model;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use windlass::{
    Behaviour, CallRequest, Context, Engine, Kind, Lang, SseDecoder, SseEvent, ToolBuilder, Turn,
    TurnFormat,
};
use windlass_executors::agent::Agents;
use windlass_executors::model::{ModelSettings, Models};
use windlass_executors::outbound::OutboundPolicy;

use crate::process::{OwnServer, resident_kb};
use crate::report::Figure;
pub(crate) use model::{MODEL, serve as serve_model};

/// Duration of a call, and the times at which its block and the stream are complete.
const CALL: Duration = Duration::from_millis(300);
const BLOCKS: [u64; 3] = [300, 600, 900];
const STREAM: u64 = 1_000;
const ROUNDS: usize = 5;

const RUNS: usize = 1_000;
const MAX_KB: f64 = 100.0;

/// Measures a turn of three calls in a stream of one second.
pub(crate) fn turn() -> anyhow::Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = Engine::builder().tool(waiting()).build()?;
        let (mut streamed, mut waited) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            streamed.push(streaming(&engine).await?);
            waited.push(waiting_for_the_end(&engine).await?);
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        // The later of the end of the stream and the end of the last call.
        let last = BLOCKS[2] as f64 + CALL.as_millis() as f64;
        let best = last.max(STREAM as f64);
        let streamed = median(streamed);
        Ok(vec![
            Figure::new("streamed turn / what it takes at best", "ms", streamed, best)
                .at_most(1.05),
            Figure::new("the same / after the end of the stream", "ms", streamed, median(waited)),
        ])
    })
}

fn waiting() -> ToolBuilder {
    let wait = |_: Value| async {
        tokio::time::sleep(CALL).await;
        "done"
    };
    ToolBuilder::from_fn("get_it", wait).behaviour(Behaviour::READ_ONLY)
}

/// The events of the stream, each with its time.
fn stream() -> Vec<(u64, Value)> {
    let mut events = vec![(0, json!({"type": "message_start", "message": {}}))];
    for (at, millis) in BLOCKS.into_iter().enumerate() {
        let call =
            json!({"type": "tool_use", "id": format!("t{at}"), "name": "get_it", "input": {}});
        let begin = json!({"type": "content_block_start", "index": at, "content_block": call});
        events.push((millis - 100, begin));
        let delta = json!({"type": "input_json_delta", "partial_json": "{\"a\": 1}"});
        let delta = json!({"type": "content_block_delta", "index": at, "delta": delta});
        events.push((millis, delta));
        events.push((millis, json!({"type": "content_block_stop", "index": at})));
    }
    events.push((STREAM, json!({"type": "message_stop"})));
    events
}

async fn streaming(engine: &Engine) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut turn = engine.open_turn(None, Context::default(), Lang::En);
    for (at, event) in stream() {
        sleep_until(start + Duration::from_millis(at)).await;
        turn.feed(format!("data: {event}\n\n").as_bytes())?;
    }
    let answer = turn.finish().await;
    anyhow::ensure!(answer.results.len() == 3 && answer.is_whole, "a call is missing");
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// The same turn with a driver that first reads the message to its end.
async fn waiting_for_the_end(engine: &Engine) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut decoder = SseDecoder::default();
    let mut blocks = Vec::new();
    for (at, event) in stream() {
        sleep_until(start + Duration::from_millis(at)).await;
        for told in decoder.feed(format!("data: {event}\n\n").as_bytes()) {
            if let SseEvent::Json(mut event) = told
                && event.get("content_block").is_some()
            {
                blocks.push(event["content_block"].take());
            }
        }
    }
    let message = json!({"role": "assistant", "content": blocks});
    let turn = Turn::read_as(TurnFormat::Anthropic, message)?;
    let answer = engine.turn(turn, Context::default(), Lang::En).await;
    anyhow::ensure!(answer.results.len() == 3, "a call is missing");
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Measures the memory of a thousand runs that all wait for their models.
pub(crate) fn many() -> anyhow::Result<Vec<Figure>> {
    let model = OwnServer::start(MODEL)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = engine(&model)?;
        // Warm-up: what the first run allocates, the others share.
        run(&engine, 1).await?;
        let before = resident_kb("self");
        let running = tokio::spawn({
            let engine = engine.clone();
            async move { run(&engine, RUNS).await }
        });
        let mut peak: f64 = before;
        while !running.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            peak = peak.max(resident_kb("self"));
        }
        let took = running.await??;
        let each = (peak - before) / RUNS as f64;
        println!("{RUNS} runs of two turns and a call ended after {:.1} s", took.as_secs_f64());
        Ok(vec![Figure::new("memory of a run of 1,000 / 100 KB", "KB", each, MAX_KB).at_most(1.0)])
    })
}

fn engine(model: &OwnServer) -> anyhow::Result<Engine> {
    let mut settings = ModelSettings::default();
    let endpoint = format!("anthropic http://{}", model.address);
    let endpoint = endpoint.parse().map_err(anyhow::Error::msg)?;
    settings.providers.insert("anthropic".to_owned(), endpoint);
    let agents = Agents::new(Models::new(settings, OutboundPolicy::default()));
    let engine = Engine::builder()
        .tool(waiting())
        .kind(Kind::Agent, move |spec| agents.bind(spec))
        .settings(|settings| settings.limits.max_concurrent = RUNS)
        .build()?;
    let definition =
        "name: helper\nkind: agent\nmodel: claude-sonnet-4-20250514\ntools: [get_it]\n";
    let report = engine.load_text("helper.yaml", definition);
    anyhow::ensure!(report.errors.is_empty(), "{:?}", report.errors);
    Ok(engine)
}

async fn run(engine: &Engine, count: usize) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let engine = Arc::new(engine.clone());
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..count {
        let engine = Arc::clone(&engine);
        runs.spawn(async move {
            engine.call(CallRequest::new("helper", json!({"message": "Go"}))).await
        });
    }
    while let Some(result) = runs.join_next().await {
        let result = result?;
        anyhow::ensure!(result.to_text(Lang::En) == "Done.", "{:?}", result.outcome);
    }
    Ok(start.elapsed())
}
