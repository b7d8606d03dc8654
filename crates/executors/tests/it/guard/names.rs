//! DNS: which addresses names resolve to, DNS rebinding, and the number of lookups.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt;
use windlass::ErrorKind;
use windlass_executors::outbound::{Outbound, OutboundPolicy, Request};

use super::{get, lookup, refused};
use crate::support::{Site, allowing, raw, read, reply, text};

fn close(body: &str) -> Vec<u8> {
    reply(200, &[("connection", "close")], body)
}

#[tokio::test]
async fn a_name_is_judged_by_all_that_it_resolves_to() {
    let site = Site::start(|_| text("inside")).await;
    let inner = [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "172.20.0.1",
        "169.254.169.254",
        "100.64.1.1",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "2002:7f00:1::",
    ];
    for address in inner {
        let address: IpAddr = address.parse().unwrap();
        let outbound =
            Outbound::with_lookup(OutboundPolicy::default(), lookup(move |_| vec![address]));
        for name in
            ["rebind.example", "localhost", "LOCALHOST.", "metadata.google.internal", "a_b.c"]
        {
            let url = format!("http://{name}:{}/?key=hush", site.port());
            let error = refused(get(&outbound, &url).await);
            assert_eq!(error.kind(), ErrorKind::Denied, "{name} {address}: {error:?}");
            assert!(!error.message().contains("hush"), "{error}");
        }
    }
    assert_eq!(site.seen().len(), 0);
}

#[tokio::test]
async fn the_system_says_what_localhost_is_and_it_is_refused() {
    let site = Site::start(|_| text("inside")).await;
    let outbound = Outbound::new(OutboundPolicy::default());
    for name in ["localhost", "LocalHost", "localhost."] {
        let url = format!("http://{name}:{}/", site.port());
        assert_eq!(refused(get(&outbound, &url).await).kind(), ErrorKind::Denied, "{name}");
    }
    let error = refused(get(&outbound, "http://no-such-name.invalid/").await);
    assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
    assert_eq!(site.seen().len(), 0);
    // A connection for another protocol takes the same way.
    let error = refused(outbound.connect("localhost", site.port()).await);
    assert_eq!(error.kind(), ErrorKind::Denied);
}

/// The name answers with an address that is fine while it is judged, and with
/// another one whenever it is asked again.
#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let open = Site::start(|_| close("open")).await;
    let port = open.port();
    let inner = Site::at(&format!("127.0.0.2:{port}"), |_| close("inside")).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answers = lookup(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => vec!["127.0.0.1".parse().unwrap()],
        _ => vec!["127.0.0.2".parse().unwrap()],
    });
    let outbound = Outbound::with_lookup(allowing(&[&format!("127.0.0.1:{port}")]), answers);
    let url = format!("http://rebind.example:{port}/");
    let answer = get(&outbound, &url).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), "open");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one connection, one question");
    for _ in 0..3 {
        assert_eq!(refused(get(&outbound, &url).await).kind(), ErrorKind::Denied);
    }
    assert_eq!((open.seen().len(), inner.seen().len()), (1, 0));
}

#[tokio::test]
async fn of_several_addresses_only_the_fine_ones_are_tried() {
    let open = Site::start(|_| close("open")).await;
    let port = open.port();
    let inner = Site::at(&format!("127.0.0.2:{port}"), |_| close("inside")).await;
    let found: Vec<IpAddr> =
        ["127.0.0.2", "::1", "127.0.0.1", "10.0.0.1"].map(|text| text.parse().unwrap()).into();
    let outbound = Outbound::with_lookup(
        allowing(&[&format!("127.0.0.1:{port}")]),
        lookup(move |_| found.clone()),
    );
    for _ in 0..5 {
        let answer = get(&outbound, &format!("http://mixed.example:{port}/")).await.unwrap();
        assert_eq!(answer.bytes().await.unwrap(), "open");
    }
    assert_eq!((open.seen().len(), inner.seen().len()), (5, 0));
}

#[tokio::test]
async fn connections_are_used_again_and_counted() {
    let site = Site::start(|_| text("again")).await;
    let mut policy = allowing(&["127.0.0.1"]);
    policy.max_connections = 1;
    policy.connect_timeout = std::time::Duration::from_millis(300);
    let outbound = Outbound::new(policy);
    for _ in 0..5 {
        let answer = get(&outbound, &site.url("/")).await.unwrap();
        assert_eq!(answer.bytes().await.unwrap(), "again");
    }
    let held = get(&outbound, &site.url("/")).await.unwrap();
    let other = Site::start(|_| text("other")).await;
    let error = refused(get(&outbound, &other.url("/")).await);
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    drop(held);
}

/// This test runs itself again with proxies in the environment.
#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    const SITE: &str = "WINDLASS_TEST_SITE";
    if let Ok(url) = std::env::var(SITE) {
        let answer = get(&Outbound::new(allowing(&["127.0.0.1"])), &url).await.unwrap();
        assert_eq!(answer.bytes().await.unwrap(), "direct");
        return;
    }
    let (site, trap) =
        (Site::start(|_| text("direct")).await, Site::start(|_| text("proxy")).await);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "guard::names::proxies_of_the_environment_are_ignored"]);
    child.env(SITE, site.url("/"));
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        child.env(name, trap.url(""));
    }
    let done = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert_eq!((site.seen().len(), trap.seen().len()), (1, 0));
}

/// A proxy that is configured is told the address that was checked.
#[tokio::test]
async fn a_proxy_gets_addresses_and_no_names() {
    let site = Site::start(|_| close("through")).await;
    let (to, told) = (site.address, Arc::new(std::sync::Mutex::new(Vec::new())));
    let kept = Arc::clone(&told);
    let proxy = raw(move |mut stream| {
        let kept = Arc::clone(&kept);
        async move {
            let asked = read(&mut stream).await.unwrap();
            kept.lock().unwrap().push((asked.target, asked.headers["proxy-authorization"].clone()));
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let mut other = tokio::net::TcpStream::connect(to).await.unwrap();
            drop(tokio::io::copy_bidirectional(&mut stream, &mut other).await);
        }
    })
    .await;
    let mut policy = allowing(&["127.0.0.3"]);
    policy.proxy = Some(format!("http://me:pass@{proxy}").parse().unwrap());
    let outbound = Outbound::with_lookup(
        policy,
        lookup(|name| match name {
            "fine.example" => vec!["127.0.0.3".parse().unwrap()],
            _ => vec!["10.0.0.1".parse().unwrap()],
        }),
    );
    let request = Request::parse(http::Method::GET, "http://fine.example/").unwrap();
    let answer = outbound.send(request).await.unwrap();
    assert_eq!(answer.bytes().await.unwrap(), "through");
    assert_eq!(site.seen()[0].headers["host"], "fine.example");
    assert_eq!(refused(get(&outbound, "http://inner.example/").await).kind(), ErrorKind::Denied);
    assert_eq!(refused(get(&outbound, "http://10.0.0.1/").await).kind(), ErrorKind::Denied);
    let told = told.lock().unwrap();
    assert_eq!(told.as_slice(), [("127.0.0.3:80".to_owned(), "Basic bWU6cGFzcw==".to_owned())]);
}
