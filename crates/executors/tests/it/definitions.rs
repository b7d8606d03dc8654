//! Definitions of built-in tools with network, file or database access.

use windlass::Kind;
use windlass::definition::{self, DefinitionLimits, Parsed};
use windlass_executors::{files, network, sql};

fn all() -> Vec<(&'static str, &'static str, Parsed)> {
    let boxes = [files::DEFINITIONS, network::DEFINITIONS, sql::DEFINITIONS].into_iter().flatten();
    let parse = |(file, text): &(&'static str, &'static str)| {
        let parsed = definition::parse_all(file, text, &DefinitionLimits::default());
        (*file, *text, parsed.unwrap_or_else(|errors| panic!("{file}: {errors:?}")))
    };
    boxes.map(parse).collect()
}

#[test]
fn they_have_nothing_to_complain_about() {
    let mut names = Vec::new();
    for (file, text, parsed) in all() {
        assert_eq!(text.matches("en_US:").count(), text.matches("zh_Hans:").count(), "{file}");
        for tool in &parsed.tools {
            let spec = &tool.spec;
            assert_eq!(definition::lint(tool), [], "{}", spec.name);
            assert_eq!(spec.kind, Kind::Builtin);
            assert!(spec.timeout.is_some() && spec.output.is_some(), "{}", spec.name);
            let again = spec.retry.is_none_or(|retry| retry.attempts > 1);
            assert!(spec.behaviour.read_only || !again, "{} may be sent twice", spec.name);
            names.push(spec.name.to_string());
        }
    }
    assert_eq!(
        names,
        [
            "list_files",
            "read_file",
            "write_file",
            "google_search",
            "http_request",
            "send_notification",
            "asr",
            "tts",
            "get_weather",
            "webscraper",
            "sql_query",
        ]
    );
}

#[test]
fn providers_ask_for_credentials_and_hide_the_secret_ones() {
    let mut found = Vec::new();
    for (_, _, parsed) in all() {
        for provider in parsed.providers {
            let names: Vec<String> =
                provider.credentials.into_iter().map(|field| field.name).collect();
            found.push(format!("{}: {}", provider.name, names.join(", ")));
        }
    }
    assert_eq!(
        found,
        [
            "google: api_key, search_engine_id, base_url",
            "notification: webhook_url, format, token",
            "speech: api_key, base_url",
            "weather: api_key, base_url",
            "database: url",
        ]
    );
}
