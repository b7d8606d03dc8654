//! Requirements that fix names or numbers and that no other test shows as a whole.
//! `docs/requirements.md` says which requirement each test shows.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use windlass::definition::{self, DefinitionLimits};
use windlass::{Kind, ToolSpec};
use windlass_executors::outbound::OutboundPolicy;

#[test]
fn connections_begin_as_the_documents_say() {
    let policy = OutboundPolicy::default();
    assert_eq!(policy.connect_timeout, Duration::from_secs(3));
    assert_eq!(policy.read_timeout, Duration::from_secs(10));
    // 20 for each of 10 hosts are 200, which is what one tenant alone may have:
    // four of five.
    assert_eq!((policy.idle_per_host, policy.max_connections * 4 / 5), (20, 200));
}

/// The definitions of the example.
fn desk() -> Vec<ToolSpec> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/immigration-desk");
    let mut all = Vec::new();
    for file in ["tools.yaml", "specialists.yaml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let parsed = definition::parse_all(file, &text, &DefinitionLimits::default());
        let tools = parsed.unwrap_or_else(|errors| panic!("{errors:?}")).tools;
        all.extend(tools.into_iter().map(|tool| tool.spec));
    }
    all
}

fn tool<'t>(desk: &'t [ToolSpec], name: &str) -> &'t ToolSpec {
    desk.iter().find(|tool| tool.name.as_str() == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn the_desk_says_which_calls_may_run_together() {
    let desk = desk();
    let specialists = [
        "invoke_policy_expert",
        "invoke_assessment_expert",
        "invoke_strategist",
        "invoke_objection_handler",
        "invoke_case_analyst",
    ];
    let direct = [
        "search_knowledge",
        "get_user_context",
        "get_current_datetime",
        "web_search",
        "get_exchange_rate",
        "check_off_topic",
    ];
    for name in specialists {
        assert_eq!(tool(&desk, name).kind, Kind::Agent, "{name}");
    }
    for name in specialists.into_iter().chain(direct) {
        assert_eq!(tool(&desk, name).behaviour.concurrency_safe, Some(true), "{name}");
    }
    for name in ["invoke_memory_manager", "save_user_memory", "generate_payment"] {
        assert_ne!(tool(&desk, name).behaviour.concurrency_safe, Some(true), "{name}");
    }
}

#[test]
fn the_desk_has_the_documents_schemas_times_and_estimates() {
    let desk = desk();
    let shape = |name: &str| {
        let input = &tool(&desk, name).input;
        let names: Vec<&String> = input["properties"].as_object().unwrap().keys().collect();
        (json!(names), input["required"].clone())
    };
    for (name, properties, required) in [
        ("invoke_policy_expert", json!(["query", "category"]), json!(["query"])),
        ("invoke_assessment_expert", json!(["userInfo", "targetCategories"]), json!(["userInfo"])),
        (
            "invoke_memory_manager",
            json!(["action", "userMessage", "assistantMessage", "memoryData"]),
            json!(["action"]),
        ),
        ("generate_payment", json!(["service", "userId"]), json!(["service", "userId"])),
    ] {
        assert_eq!(shape(name), (properties, required), "{name}");
    }
    let choices = |name: &str, parameter: &str| -> Value {
        tool(&desk, name).input["properties"][parameter]["enum"].clone()
    };
    assert_eq!(choices("invoke_memory_manager", "action"), json!(["extract", "save", "load"]));
    assert_eq!(choices("generate_payment", "service"), json!(["detailed_assessment"]));
    let seconds = |name: &str| tool(&desk, name).timeout.unwrap().as_secs();
    for (name, timeout) in [
        ("invoke_policy_expert", 30),
        ("invoke_case_analyst", 15),
        ("search_knowledge", 10),
        ("save_user_memory", 5),
        ("generate_payment", 10),
        ("get_current_datetime", 1),
        ("web_search", 15),
    ] {
        assert_eq!(seconds(name), timeout, "{name}");
    }
    for (name, millis) in [
        ("invoke_policy_expert", 5000),
        ("invoke_assessment_expert", 6000),
        ("invoke_memory_manager", 3000),
        ("generate_payment", 2000),
        ("get_current_datetime", 5),
    ] {
        let estimate = tool(&desk, name).estimated_duration;
        assert_eq!(estimate, Some(Duration::from_millis(millis)), "{name}");
    }
}
