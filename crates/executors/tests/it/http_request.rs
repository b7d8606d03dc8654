//! `http_request` through the engine and over real HTTP (S0.6).

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;
use windlass::{CallRequest, Lang};

use crate::support::{
    Desk, Site, json as json_reply, kind, raw, read, redirect, reply, text, value,
};

async fn echo() -> Site {
    Site::start(|seen| match seen.target.as_str() {
        "/text" => text("plain words"),
        "/missing" => json_reply(404, &json!({"error": "no such item"})),
        "/broken" => reply(500, &[("content-type", "text/plain")], "oops"),
        "/bytes" => reply(200, &[("content-type", "image/png")], [0x89, 0x50, 0xff]),
        "/gbk" => reply(200, &[("content-type", "text/plain; charset=gbk")], [0xc4, 0xe3]),
        "/half" => reply(200, &[("content-type", "application/json")], "{\"a\":"),
        "/none" => reply(204, &[], ""),
        "/twice" => reply(200, &[("x-a", "1"), ("x-a", "2")], ""),
        "/moved" => redirect(302, "/text"),
        _ => json_reply(
            200,
            &json!({"method": seen.method, "target": seen.target, "body": seen.text()}),
        ),
    })
    .await
}

#[tokio::test]
async fn it_answers_with_status_headers_and_body() {
    let site = echo().await;
    let desk = Desk::new(&["127.0.0.1"]);
    let get =
        async |path: &str| value(&desk.call("http_request", json!({"url": site.url(path)})).await);
    let found = get("/items?page=2").await;
    assert_eq!(found["status_code"], 200);
    assert_eq!(found["headers"]["content-type"], "application/json");
    assert_eq!(found["body"], json!({"method": "GET", "target": "/items?page=2", "body": ""}));
    assert_eq!(get("/text").await["body"], "plain words");
    assert_eq!(get("/moved").await["body"], "plain words");
    assert_eq!(get("/gbk").await["body"], "你");
    assert_eq!(get("/half").await["body"], "{\"a\":");
    assert_eq!(get("/none").await["body"], json!(null));
    assert_eq!(get("/twice").await["headers"]["x-a"], "1, 2");
    assert_eq!(get("/bytes").await["body"], json!({"base64": "iVD/", "media_type": "image/png"}));
    // A status is what was asked for, not a failure of the tool.
    let missing = get("/missing").await;
    assert_eq!(
        (&missing["status_code"], &missing["body"]["error"]),
        (&json!(404), &json!("no such item"))
    );
    assert_eq!(get("/broken").await["status_code"], 500);
    assert_eq!(site.seen().iter().filter(|seen| seen.target == "/broken").count(), 1);
}

#[tokio::test]
async fn bodies_and_headers_are_sent_as_asked() {
    let site = echo().await;
    let desk = Desk::new(&["127.0.0.1"]);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let arguments = json!({
            "url": site.url("/"), "method": method, "body": {"a": [1, "x"]},
            "headers": {"X-Token": "t", "X-Number": 7},
        });
        assert!(desk.call("http_request", arguments).await.is_success());
        let seen = site.seen().pop().unwrap();
        assert_eq!((seen.method.as_str(), seen.json()), (method, json!({"a": [1, "x"]})));
        assert_eq!(seen.headers["content-type"], "application/json");
        assert_eq!((&*seen.headers["x-token"], &*seen.headers["x-number"]), ("t", "7"));
        assert!(seen.headers["user-agent"].starts_with("windlass/"));
    }
    let form = json!({
        "url": site.url("/"), "method": "POST", "body": {"a": "x y", "b": 1},
        "headers": {"content-type": "application/x-www-form-urlencoded"},
    });
    assert!(desk.call("http_request", form).await.is_success());
    assert_eq!(site.seen().pop().unwrap().text(), "a=x+y&b=1");
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_it_is_sent() {
    let site = echo().await;
    let desk = Desk::new(&["127.0.0.1"]);
    let url = site.url("/");
    for arguments in [
        json!({}),
        json!({"url": "ftp://example.com"}),
        json!({"url": "example.com"}),
        json!({"url": url, "method": "TRACE"}),
        json!({"url": url, "timeout": 0}),
        json!({"url": url, "timeout": 301}),
        json!({"url": url, "body": "text"}),
        json!({"url": url, "body": {"a": 1}}),
        json!({"url": url, "headers": {"Host": "other"}}),
        json!({"url": url, "headers": {"x": "a\r\nb: c"}}),
        json!({"url": url, "headers": {"x": ["a"]}}),
        json!({"url": "http://"}),
    ] {
        let result = desk.call("http_request", arguments.clone()).await;
        assert_eq!(kind(&result), "invalid_arguments", "{arguments}");
    }
    let closed = Desk::new(&[]);
    let result = closed.call("http_request", json!({"url": format!("{url}?key=hush")})).await;
    assert_eq!(kind(&result), "denied");
    assert!(
        !result.to_text(Lang::En).contains("hush") && !result.to_text(Lang::Zh).contains("hush")
    );
    assert_eq!(site.seen().len(), 0);
}

#[tokio::test]
async fn its_timeout_is_the_callers() {
    let slow = raw(|mut stream| async move {
        read(&mut stream).await;
        sleep(Duration::from_secs(60)).await;
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let began = Instant::now();
    let result =
        desk.call("http_request", json!({"url": format!("http://{slow}/"), "timeout": 1})).await;
    assert_eq!(kind(&result), "timeout");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(result.attempts, 1, "a request that may change something is sent once");
}

/// GET runs beside GET; what may change something runs alone.
#[tokio::test]
async fn only_a_get_runs_beside_others() {
    let spans = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
    let kept = std::sync::Arc::clone(&spans);
    let site = raw(move |mut stream| {
        let kept = std::sync::Arc::clone(&kept);
        async move {
            use tokio::io::AsyncWriteExt;
            while read(&mut stream).await.is_some() {
                {
                    let mut now = kept.lock().unwrap();
                    now.0 += 1;
                    now.1 = now.1.max(now.0);
                }
                sleep(Duration::from_millis(100)).await;
                kept.lock().unwrap().0 -= 1;
                if stream.write_all(&text("x")).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    for (method, most) in [("GET", 3), ("POST", 1)] {
        *spans.lock().unwrap() = (0, 0);
        let one = || {
            let url = format!("http://{site}/");
            CallRequest::new("http_request", json!({"url": url, "method": method}))
        };
        let results = desk.engine.call_batch(vec![one(), one(), one()]).await;
        assert!(results.iter().all(|result| result.is_success()), "{results:?}");
        assert_eq!(spans.lock().unwrap().1, most, "{method}");
    }
}
