//! Tools of providers: search, weather, speech, notifications.

use serde_json::{Value, json};
use windlass::{Content, Lang};

use crate::support::{Desk, Seen, Site, json as json_reply, kind, redirect, reply, value};

const KEY: &str = "hush-api-key";

fn query(seen: &Seen) -> std::collections::BTreeMap<String, String> {
    let url = url::Url::parse(&format!("http://x{}", seen.target)).unwrap();
    url.query_pairs().into_owned().collect()
}

#[tokio::test]
async fn a_search_is_shaped_for_models() {
    let site = Site::start(|seen| match query(seen)["q"].as_str() {
        "nothing" => json_reply(200, &json!({"searchInformation": {"totalResults": "0"}})),
        "bad key" => json_reply(400, &json!({"error": {"message": "API key not valid. Pass a valid API key."}})),
        "busy" => reply(429, &[("retry-after", "0")], ""),
        "odd" => reply(200, &[("content-type", "text/html")], "<html>"),
        _ => json_reply(200, &json!({
            "searchInformation": {"totalResults": "1230"},
            "items": [
                {"title": "One ", "link": "https://one.example/", "snippet": "First", "kind": "x", "pagemap": {}},
                {"title": "Two", "link": "https://two.example/"},
            ],
        })),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let base = site.url("/prefix/");
    let secrets = [("api_key", KEY), ("search_engine_id", "cx-1"), ("base_url", base.as_str())];
    let ask = async |query: &str| {
        desk.call_as(&secrets, "google_search", json!({"query": query, "count": 2})).await
    };
    let result = ask("rust & more").await;
    assert_eq!(
        value(&result),
        json!({
            "query": "rust & more", "total": 1230,
            "results": [
                {"title": "One", "link": "https://one.example/", "snippet": "First"},
                {"title": "Two", "link": "https://two.example/", "snippet": ""},
            ],
        })
    );
    assert!(result.to_text(Lang::En).starts_with("1. One\nhttps://one.example/\nFirst\n\n2. Two"));
    let sent = &site.seen()[0];
    assert!(sent.target.starts_with("/prefix/customsearch/v1?"), "{}", sent.target);
    let sent = query(sent);
    assert_eq!(
        (&*sent["key"], &*sent["cx"], &*sent["num"], &*sent["q"]),
        (KEY, "cx-1", "2", "rust & more")
    );
    assert_eq!(ask("nothing").await.to_text(Lang::En), "No results for: nothing");
    assert_eq!(kind(&ask("bad key").await), "credential_invalid");
    assert_eq!(kind(&ask("odd").await), "upstream_failed");
    let busy = ask("busy").await;
    assert_eq!((kind(&busy), busy.attempts), ("rate_limited", 3));
    for result in [ask("bad key").await, busy] {
        assert!(!format!("{result:?}").contains(KEY));
    }
    let missing = desk.call("google_search", json!({"query": "x"})).await;
    assert_eq!(kind(&missing), "credential_invalid");
    assert!(missing.to_text(Lang::En).starts_with("Authentication failed"), "S3.22");
}

/// Whoever stores a credential is not the operator: its address is judged.
#[tokio::test]
async fn an_address_in_a_credential_is_no_way_in() {
    let inner = Site::at("127.0.0.2:0", |_| json_reply(200, &json!({"text": "inside"}))).await;
    let desk = Desk::new(&["127.0.0.1"]);
    let base = inner.url("");
    let secrets = [
        ("api_key", KEY),
        ("search_engine_id", "x"),
        ("base_url", &*base),
        ("webhook_url", &*base),
    ];
    for (tool, arguments) in [
        ("google_search", json!({"query": "x"})),
        ("get_weather", json!({"city": "x"})),
        ("asr", json!({"audio": "AAAA"})),
        ("asr", json!({"audio": inner.url("/a.mp3")})),
        ("tts", json!({"text": "x"})),
        ("send_notification", json!({"message": "x"})),
    ] {
        assert_eq!(kind(&desk.call_as(&secrets, tool, arguments).await), "denied", "{tool}");
    }
    for wrong in ["file:///etc/passwd", "nonsense", "http://x/?y=1"] {
        let secrets = [("api_key", KEY), ("base_url", wrong)];
        let result = desk.call_as(&secrets, "get_weather", json!({"city": "x"})).await;
        assert_eq!(kind(&result), "credential_invalid", "{wrong}");
    }
    assert_eq!(inner.seen().len(), 0);
}

#[tokio::test]
async fn weather_comes_in_words_and_numbers() {
    let site = Site::start(|seen| match query(seen)["q"].as_str() {
        "Atlantis" => json_reply(404, &json!({"cod": "404", "message": "city not found"})),
        "Locked" => json_reply(401, &json!({"cod": 401, "message": "Invalid API key"})),
        "Empty" => json_reply(200, &json!({})),
        _ => json_reply(200, &json!({
            "name": "Beijing", "sys": {"country": "CN"}, "weather": [{"description": "clear sky"}],
            "main": {"temp": 12.3, "feels_like": 11, "humidity": 40, "pressure": 1013},
            "wind": {"speed": 3.1},
        })),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let base = site.url("");
    let secrets = [("api_key", KEY), ("base_url", base.as_str())];
    let ask = async |city: &str| {
        desk.call_as(&secrets, "get_weather", json!({"city": city, "language": "zh"})).await
    };
    let result = ask("Beijing").await;
    assert_eq!(
        result.to_text(Lang::En),
        "Beijing: 12.3 °C, clear sky, feels like 11 °C, humidity 40 %, wind 3.1 m/s"
    );
    assert_eq!(value(&result)["country"], "CN");
    let sent = query(&site.seen()[0]);
    assert_eq!((&*sent["appid"], &*sent["units"], &*sent["lang"]), (KEY, "metric", "zh_cn"));
    let lost = ask("Atlantis").await;
    assert_eq!(kind(&lost), "upstream_rejected");
    assert!(lost.to_text(Lang::En).contains("city not found"));
    assert_eq!(kind(&ask("Locked").await), "credential_invalid");
    assert_eq!(kind(&ask("Empty").await), "upstream_failed");
}

#[tokio::test]
async fn speech_becomes_text_and_text_speech() {
    let site = Site::start(|seen| match seen.target.as_str() {
        "/v1/audio/transcriptions" => json_reply(200, &json!({"text": "hello world"})),
        "/v1/audio/speech" if seen.json()["input"] == "no" => {
            json_reply(400, &json!({"error": {"message": "no such voice"}}))
        }
        "/v1/audio/speech" if seen.json()["input"] == "odd" => json_reply(200, &json!({})),
        "/v1/audio/speech" => reply(200, &[("content-type", "audio/mpeg")], [0xff, 0xfb, 0]),
        "/voice.wav" => reply(200, &[("content-type", "audio/wav")], "RIFF"),
        _ => reply(404, &[], ""),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let base = site.url("/v1");
    let secrets = [("api_key", KEY), ("base_url", base.as_str())];
    let ask = async |tool: &str, arguments: Value| desk.call_as(&secrets, tool, arguments).await;
    for (audio, name, bytes) in [
        ("SGVsbG8=".to_owned(), "audio.mp3", "Hello"),
        ("data:audio/ogg;base64,SGVsbG8=".to_owned(), "audio.ogg", "Hello"),
        (site.url("/voice.wav"), "audio.wav", "RIFF"),
    ] {
        let result =
            ask("asr", json!({"audio": audio, "language": "en", "prompt": "a\r\n--b"})).await;
        assert_eq!(value(&result), json!({"text": "hello world"}));
        let seen = site.seen().pop().unwrap();
        assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
        assert!(seen.headers["content-type"].starts_with("multipart/form-data; boundary="));
        let form = seen.text();
        assert!(form.contains(&format!("filename=\"{name}\"")), "{form}");
        assert!(form.contains(&format!("\r\n\r\n{bytes}\r\n")), "{form}");
        assert!(form.contains("name=\"model\"\r\n\r\nwhisper-1\r\n"), "{form}");
        assert!(form.contains("name=\"language\"\r\n\r\nen\r\n"), "{form}");
    }
    for audio in ["not base64!", "data:audio/mp3;base64,"] {
        assert_eq!(
            kind(&ask("asr", json!({"audio": audio})).await),
            "invalid_arguments",
            "{audio}"
        );
    }
    assert_eq!(kind(&ask("asr", json!({"audio": site.url("/none")})).await), "upstream_rejected");

    let result = ask("tts", json!({"text": "hello", "voice": "nova", "speed": 1.5})).await;
    let output = result.output().unwrap();
    let expected = Content::blob([0xff, 0xfb, 0], "audio/mpeg");
    assert_eq!(output.content[0].body, expected.body);
    assert_eq!(value(&result), json!({"media_type": "audio/mpeg", "size": 3, "format": "mp3"}));
    let sent = site.seen().pop().unwrap().json();
    assert_eq!(
        sent,
        json!({
            "model": "tts-1", "input": "hello", "voice": "nova", "response_format": "mp3", "speed": 1.5,
        })
    );
    let refused = ask("tts", json!({"text": "no"})).await;
    assert!(refused.to_text(Lang::En).contains("no such voice"), "{refused:?}");
    assert_eq!(kind(&ask("tts", json!({"text": "odd"})).await), "upstream_failed");
}

#[tokio::test]
async fn a_notification_is_sent_once_to_where_the_credential_says() {
    let site = Site::start(|seen| match seen.target.split('?').next().unwrap() {
        "/down" => reply(503, &[("retry-after", "0")], ""),
        "/moved" => redirect(307, "/ok"),
        "/refused" => {
            json_reply(200, &json!({"errcode": 310000, "errmsg": "keywords not in content"}))
        }
        _ => json_reply(200, &json!({"ok": true})),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let send = async |path: &str, format: &str| {
        let url = site.url(path);
        let secrets = [("webhook_url", url.as_str()), ("format", format), ("token", KEY)];
        let arguments = json!({"message": "disk full", "title": "Alert", "level": "error", "data": {"free": 0}});
        desk.call_as(&secrets, "send_notification", arguments).await
    };
    let text = "Alert\ndisk full";
    for (format, expected) in [
        (
            "json",
            json!({"message": "disk full", "level": "error", "title": "Alert", "data": {"free": 0}}),
        ),
        ("slack", json!({"text": text})),
        ("discord", json!({"content": text, "allowed_mentions": {"parse": []}})),
        ("feishu", json!({"msg_type": "text", "content": {"text": text}})),
        ("dingtalk", json!({"msgtype": "text", "text": {"content": text}})),
        ("wecom", json!({"msgtype": "text", "text": {"content": text}})),
    ] {
        let result = send("/ok?token=hush-hush", format).await;
        assert_eq!(value(&result), json!({"sent": true, "status_code": 200}));
        let seen = site.seen().pop().unwrap();
        assert_eq!((seen.method.as_str(), seen.json()), ("POST", expected), "{format}");
        assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    }
    let before = site.seen().len();
    let down = send("/down?token=hush-hush", "json").await;
    assert_eq!((kind(&down), down.attempts, site.seen().len() - before), ("upstream_failed", 1, 1));
    assert!(!format!("{down:?}").contains("hush-hush"));
    assert_eq!(kind(&send("/moved", "json").await), "upstream_rejected");
    assert_eq!(kind(&send("/refused", "dingtalk").await), "upstream_rejected");
    assert_eq!(kind(&send("/ok", "pigeon").await), "credential_invalid");
    assert_eq!(
        kind(&desk.call("send_notification", json!({"message": "x"})).await),
        "credential_invalid"
    );
}
