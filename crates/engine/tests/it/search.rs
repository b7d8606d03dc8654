//! Tool search, and activation of the tools that it finds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use needs_shared::needs_shared;
use serde_json::{Value, json};
use windlass::{
    BoxFuture, CallRequest, Caller, Context, CredentialSource, Embedder, Engine, EngineBuilder,
    Error, ErrorKind, Exposure, Lang, SearchScope, Secret, Session, TenantId, Text, ToolBuilder,
    ToolIndex, ToolSpec,
};

use crate::definition::export::corpora;

/// Name, English and Chinese.
const TOOLS: [(&str, &str, &str); 8] = [
    ("get_weather", "The weather of a city, now and in the next days.", "查询城市的天气预报。"),
    ("send_mail", "Sends an e-mail to somebody.", "发送电子邮件。"),
    ("create_invoice", "Creates an invoice for a customer.", "为客户开具发票。"),
    ("list_invoices", "Lists the invoices of a customer.", "列出客户的发票。"),
    ("convert_currency", "Converts an amount of money into another currency.", "货币汇率换算。"),
    ("translate_text", "Translates a text into another language.", "把文本翻译成其他语言。"),
    ("book_flight", "Books a flight between two airports.", "预订机票。"),
    ("cancel_booking", "Cancels a booking of a flight or a hotel.", "取消机票或酒店的预订。"),
];

fn tool((name, english, chinese): (&str, &str, &str)) -> ToolBuilder {
    let about = [("en_US", english), ("zh_Hans", chinese)];
    let about = about.map(|(lang, text)| (lang.to_owned(), text.to_owned()));
    ToolBuilder::from_fn(name, |_: Value| async { "done" })
        .description(Text::Many(about.into()))
        .with(|spec| {
            spec.exposure = Exposure::Deferred;
            spec.input = json!({"type": "object", "properties": {
                "iata_code": {"type": "string", "description": "Where from"},
            }});
        })
}

fn engine() -> Engine {
    let builder = Engine::builder().search_tool();
    TOOLS.into_iter().fold(builder, |builder, own| builder.tool(tool(own))).build().unwrap()
}

fn names(engine: &Engine, session: &Session) -> Vec<String> {
    engine.active_tools(Some(session)).iter().map(|tool| tool.name().to_string()).collect()
}

#[test]
fn questions_find_the_right_tool_in_both_languages() {
    let index = ToolIndex::new(engine().registry().list());
    for (question, right) in [
        ("Will it rain in Paris? I need the weather", "get_weather"),
        ("I want to e-mail Ada", "send_mail"),
        ("creating invoices", "create_invoice"),
        ("How much is 5 dollars in another currency", "convert_currency"),
        ("cancelled my flight booking", "cancel_booking"),
        ("明天北京天气怎么样", "get_weather"),
        ("我想把这段话翻译成英文", "translate_text"),
        ("取消酒店", "cancel_booking"),
        ("人民币汇率", "convert_currency"),
    ] {
        let found = index.find(question);
        assert_eq!(found[0].0.name().as_str(), right, "{question}");
    }
    // Nothing fits nothing, and hostile questions harm nobody.
    assert!(index.find("").is_empty() && index.find("zzz qqq").is_empty());
    assert!(index.find(&"\u{0}🦀 weather ".repeat(100_000)).len() <= TOOLS.len());
    assert!(index.find(&"weather".repeat(1_000_000)).is_empty());
    assert!(ToolIndex::new([]).find("weather").is_empty());
}

#[test]
fn a_typing_slip_still_finds_the_tool() {
    let index = ToolIndex::new(engine().registry().list());
    for (question, right) in [
        ("wether tomorrow", "get_weather"),
        ("weahter in Paris", "get_weather"),
        ("convrt currancy", "convert_currency"),
        ("tranlsate this", "translate_text"),
        ("lsit my invoces", "list_invoices"),
        ("bookflight", "book_flight"),
        ("cancle my bokking", "cancel_booking"),
    ] {
        let found = index.find(question);
        let first = found.first().map(|(tool, _)| tool.name().as_str());
        assert_eq!(first, Some(right), "{question}");
    }
}

#[test]
fn synonyms_of_the_trade_find_the_tool_but_its_own_words_come_first() {
    let index = ToolIndex::new(engine().registry().list());
    let first = |question: &str| {
        index.find(question).first().map(|(tool, _)| tool.name().to_string()).unwrap_or_default()
    };
    for (question, right) in [
        ("what is the temperature outside", "get_weather"),
        ("airline tickets", "book_flight"),
        ("enumerate bills of a client", "list_invoices"),
        ("dispatch a message to the inbox", "send_mail"),
        ("revoke my reservation", "cancel_booking"),
        ("exchange dollars", "convert_currency"),
    ] {
        assert_eq!(first(question), right, "{question}");
    }
    assert_eq!(first("list invoices"), "list_invoices");
    assert_eq!(first("create invoices"), "create_invoice");
    // Chinese finds tools that are described in English alone.
    let english = TOOLS.map(|(name, english, _)| tool((name, english, english)));
    let engine = english.into_iter().fold(Engine::builder(), EngineBuilder::tool).build().unwrap();
    let index = ToolIndex::new(engine.registry().list());
    for (question, right) in [
        ("北京的天气怎么样", "get_weather"),
        ("取消预订", "cancel_booking"),
        ("发送邮件", "send_mail"),
    ] {
        assert_eq!(index.find(question)[0].0.name().as_str(), right, "{question}");
    }
}

#[test]
fn arguments_count_less_than_what_is_asked() {
    let things = ("list_todos", "Lists what is on a to-do list.", "列出待办事项。");
    let events = ("find_events", "Concerts and other events of a town.", "查找城市的活动。");
    let units = ("convert_units", "Converts °C into °F, and L into gal.", "单位换算。");
    let files = ("list_files", "Lists the files of a drive.", "列出文件。");
    let tools = TOOLS.into_iter().chain([things, events, units, files]).map(tool);
    let engine = tools.fold(Engine::builder(), EngineBuilder::tool).build().unwrap();
    let index = ToolIndex::new(engine.registry().list());
    for (question, right) in [
        ("translate the text 'cancel the booking of my flight' please", "translate_text"),
        ("把“取消机票预订”翻译成英文", "translate_text"),
        (
            "send https://weather.example/forecast/weather/flight/booking to Ada by mail",
            "send_mail",
        ),
        ("is there something to do in my town", "find_events"),
        ("list drive c", "list_files"),
    ] {
        let found = index.find(question);
        assert_eq!(found[0].0.name().as_str(), right, "{question}");
    }
    // A description's examples count less than what it says.
    let about = ["Renames a file, such as 'weather report'.", "Prints the weather report."];
    let tools = [("a_file", about[0], "文件"), ("print_it", about[1], "打印")].map(tool);
    let engine = tools.into_iter().fold(Engine::builder(), EngineBuilder::tool).build().unwrap();
    let index = ToolIndex::new(engine.registry().list());
    let scores: Vec<f32> = index.find("weather report").iter().map(|(_, score)| *score).collect();
    assert!(scores.len() == 2 && scores[1] < 0.8 * scores[0], "{scores:?}");
}

#[test]
fn words_that_follow_each_other_find_the_name_in_which_they_do() {
    let about = "It is done with flights.";
    let tools = ["book_flight", "flight_book"].map(|name| tool((name, about, about)));
    let engine = tools.into_iter().fold(Engine::builder(), EngineBuilder::tool).build().unwrap();
    let index = ToolIndex::new(engine.registry().list());
    for (question, right) in [("book a flight", "book_flight"), ("my flight book", "flight_book")] {
        assert_eq!(index.find(question)[0].0.name().as_str(), right, "{question}");
    }
}

/// The share of questions whose right tool is among the first five, in per cent,
/// over functions that nobody here wrote. The bench measures more.
#[needs_shared]
#[test]
fn most_questions_of_others_find_their_tool_among_the_first_five() {
    const FLOOR: f64 = 93.0;
    let folder = corpora("functions/bfcl");
    let read = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (mut tools, mut questions) = (BTreeMap::new(), Vec::new());
    for set in ["simple_python", "multiple"] {
        let (asked, answers) = (
            read(&format!("BFCL_v4_{set}.json")),
            read(&format!("possible_answer/BFCL_v4_{set}.json")),
        );
        for (asked, answer) in asked.iter().zip(&answers) {
            for function in asked["function"].as_array().unwrap() {
                let name = function["name"].as_str().unwrap();
                let about = function["description"].as_str().unwrap();
                let properties = function["parameters"]["properties"].as_object().unwrap();
                let properties = properties.iter().map(|(name, own)| {
                    let about = own["description"].as_str().unwrap_or_default();
                    (name.clone(), json!({"description": about}))
                });
                let properties: serde_json::Map<String, Value> = properties.collect();
                let tool = ToolBuilder::from_fn(name, |_: Value| async { "" })
                    .description(about)
                    .with(|spec| spec.input = json!({"type": "object", "properties": properties}));
                tools.entry(name.to_owned()).or_insert(tool);
            }
            let right = answer["ground_truth"][0].as_object().unwrap().keys().next().unwrap();
            let text = asked["question"][0][0]["content"].as_str().unwrap();
            questions.push((text.to_owned(), right.clone()));
        }
    }
    let engine = tools.into_values().fold(Engine::builder(), EngineBuilder::tool).build().unwrap();
    let index = ToolIndex::new(engine.registry().list());
    let found = questions.iter().filter(|(text, right)| {
        index.find(text).iter().take(5).any(|(tool, _)| tool.name().as_str() == right)
    });
    let rate = found.count() as f64 * 100.0 / questions.len() as f64;
    assert!(questions.len() == 600 && rate >= FLOOR, "{rate:.1} % of {}", questions.len());
}

/// Gives every text a vector by whether it is about the sky, and fails on demand.
#[derive(Clone, Default)]
struct Sky {
    fails: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    key: Arc<Mutex<Option<String>>>,
}

impl Embedder for Sky {
    fn provider(&self) -> Option<&str> {
        Some("sky")
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        key: Option<&'a Secret>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, Error>> {
        Box::pin(async move {
            *self.key.lock().unwrap() = key.map(|key| key.expose().to_owned());
            if self.fails.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::UpstreamFailed, "no vectors today"));
            }
            self.asked.fetch_add(texts.len(), Ordering::Relaxed);
            let is_sky = |text: &str| ["umbrella", "weather"].iter().any(|own| text.contains(own));
            let vector = |text: &String| match (is_sky(text), text.contains("language")) {
                (true, _) => vec![2.0, 0.0],
                (_, true) => vec![1.0, 1.0],
                _ => vec![0.1, 5.0],
            };
            Ok(texts.iter().map(vector).collect())
        })
    }
}

struct Keys;

impl CredentialSource for Keys {
    fn secrets<'a>(
        &'a self,
        tool: &'a ToolSpec,
        _: &'a Caller,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(String, Secret)>, Error>> {
        let is_sky = tool.provider.as_deref() == Some("sky");
        let key = is_sky.then(|| ("api_key".to_owned(), Secret::new("sk-sky")));
        Box::pin(async move { Ok(key.into_iter().collect()) })
    }
}

#[tokio::test(start_paused = true)]
async fn meanings_are_fused_with_words_and_words_decide_where_they_fail() {
    let sky = Sky::default();
    let builder = Engine::builder().search_embedder(sky.clone()).credentials(Keys);
    let engine = TOOLS.into_iter().fold(builder, |builder, own| builder.tool(tool(own)));
    let engine = engine.build().unwrap();
    let find = async |question: &str| -> Vec<String> {
        let found = engine.find_tools(engine.registry().list(), question).await;
        found.iter().map(|tool| tool.name().to_string()).collect()
    };
    // No word of it is in any description.
    assert_eq!(find("umbrella?").await[0], "get_weather");
    assert_eq!(sky.key.lock().unwrap().as_deref(), Some("sk-sky"));
    // What the words say counts as much.
    let found = find("translate umbrella").await;
    assert_eq!(found[0], "translate_text", "{found:?}");
    assert!(found.contains(&"get_weather".to_owned()), "{found:?}");
    // Tools are sent once, questions each time.
    assert_eq!(sky.asked.load(Ordering::Relaxed), TOOLS.len() + 2);
    sky.fails.store(true, Ordering::Relaxed);
    assert_eq!(find("umbrella?").await, [""; 0]);
    assert_eq!(find("translate it").await[0], "translate_text");
    // It is asked again only after a while.
    sky.fails.store(false, Ordering::Relaxed);
    assert_eq!(find("umbrella?").await, [""; 0]);
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    assert_eq!(find("umbrella?").await[0], "get_weather");
}

#[tokio::test]
async fn what_is_found_is_shown_in_its_conversation_alone() {
    let engine = engine();
    let (own, other) = ("talk", "another");
    let session = |name: &str| Session::new(TenantId::default(), name);
    assert_eq!(names(&engine, &session(own)), ["tool_search"]);
    let search = |query: &str, context: Context| {
        engine.call(
            CallRequest::new("tool_search", json!({"query": query, "limit": 2})).context(context),
        )
    };
    let result = search("invoice", Context::for_conversation("agent", own)).await;
    let found = result.output().unwrap().value().unwrap()["tools"].clone();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    assert!(found[0]["input_schema"]["properties"]["iata_code"].is_object());
    assert_eq!(names(&engine, &session(own)), ["create_invoice", "list_invoices", "tool_search"]);
    assert_eq!(names(&engine, &session(other)), ["tool_search"]);
    let tenant = TenantId::new("other");
    assert_eq!(names(&engine, &Session::new(tenant, own)), ["tool_search"]);
    // Whoever may not see a tool does not find it.
    let scope = SearchScope::new(|spec| spec.name.as_str() != "create_invoice");
    let result = search("invoice", Context::default().object(scope)).await;
    let found = result.to_text(Lang::En);
    assert!(found.contains("list_invoices") && !found.contains("create_invoice"), "{found}");
}

#[tokio::test]
async fn the_search_is_hidden_where_there_is_nothing_to_find() {
    let engine = Engine::builder()
        .search_tool()
        .tool(ToolBuilder::from_fn("get_it", |_: Value| async { "" }))
        .build()
        .unwrap();
    let shown = engine.active_tools(None);
    assert_eq!(shown.len(), 1);
    // A tool that comes later is found by the same search.
    engine.registry().register(tool(TOOLS[0])).unwrap();
    let result = engine.call(CallRequest::new("tool_search", json!({"query": "天气"}))).await;
    assert!(result.to_text(Lang::En).contains("get_weather"));
}
