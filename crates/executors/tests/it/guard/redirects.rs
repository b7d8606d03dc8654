//! Redirect policy: where redirects may lead, and which headers go along.

use http::Method;
use windlass::{ErrorKind, Secret};
use windlass_executors::outbound::{Outbound, Request};

use super::{get, refused};
use crate::support::{Site, allowing, redirect, text};

#[tokio::test]
async fn a_redirect_is_judged_like_a_first_request() {
    let inner = Site::at("127.0.0.2:0", |_| text("inside")).await;
    let port = inner.port();
    let targets = [
        format!("http://127.0.0.2:{port}/"),
        format!("//127.0.0.2:{port}/"),
        format!("\\\\127.0.0.2:{port}/"),
        format!("/\\127.0.0.2:{port}/"),
        format!("http://0x7f000002:{port}/"),
        format!("http://127.2:{port}/"),
        format!("http://[::ffff:127.0.0.2]:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://user:pass@127.0.0.2:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.2/".to_owned(),
        "data:text/html,x".to_owned(),
    ];
    for status in [301, 302, 303, 307, 308] {
        for target in &targets {
            let to = target.clone();
            let site = Site::start(move |_| redirect(status, &to)).await;
            let outbound = Outbound::new(allowing(&[&site.address.to_string()]));
            let error = refused(get(&outbound, &site.url("/")).await);
            assert_eq!(error.kind(), ErrorKind::Denied, "{status} {target}: {error:?}");
            assert_eq!(site.seen().len(), 1);
        }
    }
    assert_eq!(inner.seen().len(), 0);
}

#[tokio::test]
async fn a_chain_is_judged_at_every_link() {
    let inner = Site::at("127.0.0.2:0", |_| text("inside")).await;
    let to = inner.url("/");
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/a" => redirect(302, "b?x=1"),
        "/b?x=1" => redirect(307, "/c"),
        "/c" => redirect(308, &to),
        "/loop" => redirect(302, "/loop"),
        "/nowhere" => redirect(302, "http://[broken/"),
        "/open" => redirect(302, "./end"),
        _ => text("end"),
    })
    .await;
    let outbound = Outbound::new(allowing(&[&site.address.to_string()]));
    assert_eq!(refused(get(&outbound, &site.url("/a")).await).kind(), ErrorKind::Denied);
    assert_eq!((site.seen().len(), inner.seen().len()), (3, 0));
    let error = refused(get(&outbound, &site.url("/loop")).await);
    assert_eq!(error.kind(), ErrorKind::UpstreamRejected);
    assert!(error.message().ends_with("redirects more than 5 times"), "{error}");
    let error = refused(get(&outbound, &site.url("/nowhere")).await);
    assert_eq!(error.kind(), ErrorKind::UpstreamRejected, "{error:?}");
    let answer = get(&outbound, &site.url("/open")).await.unwrap();
    assert_eq!(answer.url().as_str(), site.url("/end"));
    let request = Request::parse(Method::GET, &site.url("/open")).unwrap().without_redirects();
    assert_eq!(outbound.send(request).await.unwrap().status(), 302);
}

fn armed(method: Method, url: &str) -> Request {
    Request::parse(method, url)
        .unwrap()
        .bearer(&Secret::new("hush-token"))
        .unwrap()
        .secret_header("X-Api-Key", &Secret::new("hush-key"))
        .unwrap()
        .header("Cookie", "session=hush-cookie")
        .unwrap()
        .header("X-Custom", "hush-custom")
        .unwrap()
        .header("Accept", "text/plain")
        .unwrap()
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let other = Site::start(|_| text("other")).await;
    let to = other.url("/landing");
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/away" => redirect(302, &to),
        "/round" => redirect(302, "/here"),
        _ => text("here"),
    })
    .await;
    let outbound = Outbound::new(allowing(&["127.0.0.1"]));
    outbound.send(armed(Method::GET, &site.url("/away"))).await.unwrap();
    let landed = &other.seen()[0];
    assert!(!format!("{landed:?}").contains("hush"), "{landed:?}");
    assert_eq!(landed.headers["accept"], "text/plain");
    outbound.send(armed(Method::GET, &site.url("/round"))).await.unwrap();
    let seen = site.seen();
    let here = seen.last().unwrap();
    assert_eq!(here.headers["authorization"], "Bearer hush-token");
    assert_eq!(here.headers["x-api-key"], "hush-key");
    assert_eq!(here.headers["cookie"], "session=hush-cookie");
}

#[tokio::test]
async fn a_body_is_not_sent_to_another_origin() {
    let other = Site::start(|_| text("other")).await;
    let to = other.url("/landing");
    let site = Site::start(move |seen| match seen.target.as_str() {
        "/302" => redirect(302, &to),
        "/303" => redirect(303, &to),
        "/307" => redirect(307, &to),
        "/308" => redirect(308, &to),
        "/round" => redirect(307, "/here"),
        _ => text("here"),
    })
    .await;
    let outbound = Outbound::new(allowing(&["127.0.0.1"]));
    let post = |path: &str| {
        armed(Method::POST, &site.url(path)).json(&serde_json::json!({"password": "hush"}))
    };
    for path in ["/307", "/308"] {
        let error = refused(outbound.send(post(path)).await);
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    }
    assert_eq!(other.seen().len(), 0);
    for path in ["/302", "/303"] {
        outbound.send(post(path)).await.unwrap();
        let seen = other.seen();
        let landed = seen.last().unwrap();
        assert_eq!((landed.method.as_str(), landed.body.len()), ("GET", 0));
        assert!(!landed.headers.contains_key("content-type"), "{landed:?}");
        assert!(!format!("{landed:?}").contains("hush"));
    }
    outbound.send(post("/round")).await.unwrap();
    let seen = site.seen();
    let here = seen.last().unwrap();
    assert_eq!((here.method.as_str(), here.text().as_str()), ("POST", "{\"password\":\"hush\"}"));
}
