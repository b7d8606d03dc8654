//! Tools that are found by words, and shown once they were.

use serde_json::{Value, json};
use windlass::{
    CallRequest, Context, Engine, Exposure, Lang, SearchScope, Session, TenantId, Text,
    ToolBuilder, ToolIndex,
};

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
    assert!(ToolIndex::new([]).find("weather").is_empty());
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
