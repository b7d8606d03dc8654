//! `webscraper`: pages, robots.txt, and content that is no page.

use serde_json::json;
use windlass::Lang;

use crate::support::{Desk, Site, kind, redirect, reply, text, value};

fn page(body: &str) -> Vec<u8> {
    reply(200, &[("content-type", "text/html; charset=utf-8")], body)
}

#[tokio::test]
async fn a_page_becomes_text_title_and_links() {
    let site = Site::start(|seen| match seen.target.as_str() {
        "/robots.txt" => reply(404, &[], "none"),
        "/start" => redirect(301, "/docs/page"),
        "/docs/page" => page(
            "<title>The page</title><nav>Menu</nav><h1>Head</h1><p>Some <b>text</b>.</p>
             <script>alert(1)</script><a href='next'>Next</a>",
        ),
        "/notes.txt" => text("just notes"),
        "/gbk" => reply(
            200,
            &[("content-type", "text/html")],
            [b"<meta charset=gbk><p>".as_slice(), &[0xc4, 0xe3, 0xba, 0xc3]].concat(),
        ),
        "/image" => reply(200, &[("content-type", "image/png")], [1, 2, 3]),
        "/large" => page(&"<p>x".repeat(2_000_000)),
        "/long" => page(&"word ".repeat(1000)),
        _ => reply(410, &[], ""),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let result = desk.call("webscraper", json!({"url": site.url("/start")})).await;
    let found = value(&result);
    assert_eq!(found["url"], site.url("/docs/page"));
    assert_eq!(found["title"], "The page");
    assert_eq!(found["text"], "# Head\n\nSome text.\n\nNext");
    assert_eq!(found["links"], json!([{"text": "Next", "url": site.url("/docs/next")}]));
    assert_eq!(found["truncated"], false);
    assert_eq!(result.to_text(Lang::En), "The page\n\n# Head\n\nSome text.\n\nNext");
    let get = async |path: &str, more: serde_json::Value| {
        let mut arguments = more;
        arguments["url"] = site.url(path).into();
        desk.call("webscraper", arguments).await
    };
    assert_eq!(value(&get("/notes.txt", json!({})).await)["text"], "just notes");
    assert_eq!(value(&get("/gbk", json!({})).await)["text"], "你好");
    let long = value(&get("/long", json!({"max_chars": 100, "links": false})).await);
    assert_eq!((long["text"].as_str().unwrap().len(), &long["truncated"]), (100, &json!(true)));
    assert_eq!(kind(&get("/image", json!({})).await), "tool_error");
    assert_eq!(kind(&get("/large", json!({})).await), "upstream_rejected");
    assert_eq!(kind(&get("/gone", json!({})).await), "upstream_rejected");
    let asked = site.seen().iter().filter(|seen| seen.target == "/robots.txt").count();
    assert_eq!(asked, 1, "the rules of a site are kept");
}

#[tokio::test]
async fn robots_txt_is_obeyed_also_after_a_redirect() {
    let closed = Site::start(|seen| match seen.target.as_str() {
        "/robots.txt" => text("User-agent: *\nDisallow: /\n"),
        _ => page("closed"),
    })
    .await;
    let to = closed.url("/page");
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/robots.txt" => text("User-agent: windlass\nDisallow: /private\nAllow: /private/ok\n"),
        "/away" => redirect(302, &to),
        _ => page("open"),
    })
    .await;
    let broken = Site::start(|seen| match seen.target.as_str() {
        "/robots.txt" => reply(500, &[], ""),
        _ => page("broken"),
    })
    .await;
    let desk = Desk::new(&["127.0.0.1"]);
    let get = async |url: String| desk.call("webscraper", json!({"url": url})).await;
    assert_eq!(value(&get(site.url("/")).await)["text"], "open");
    assert_eq!(value(&get(site.url("/private/ok")).await)["text"], "open");
    assert_eq!(kind(&get(site.url("/private/x")).await), "denied");
    assert_eq!(kind(&get(site.url("/away")).await), "denied");
    assert_eq!(kind(&get(closed.url("/page")).await), "denied");
    assert_eq!(kind(&get(broken.url("/page")).await), "upstream_failed");
    for site in [closed, broken] {
        assert!(site.seen().iter().all(|seen| seen.target == "/robots.txt"));
    }
}

#[tokio::test]
async fn a_page_cannot_lead_inside() {
    let inner = Site::at("127.0.0.2:0", |_| page("inside")).await;
    let to = inner.url("/");
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/robots.txt" => redirect(302, &to),
        _ => redirect(302, &to),
    })
    .await;
    let desk = Desk::new(&[&site.address.to_string()]);
    assert_eq!(kind(&desk.call("webscraper", json!({"url": site.url("/")})).await), "denied");
    assert_eq!(kind(&desk.call("webscraper", json!({"url": inner.url("/")})).await), "denied");
    assert_eq!(inner.seen().len(), 0);
}
