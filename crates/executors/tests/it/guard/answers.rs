//! Responses that are too slow, too large (zip bombs) or not what they seem.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;
use windlass::{ErrorKind, Secret};
use windlass_executors::outbound::{Outbound, OutboundPolicy, Request};

use super::{get, refused};
use crate::support::{Site, allowing, raw, read, reply, text};

/// A policy in a hurry.
fn quick() -> OutboundPolicy {
    OutboundPolicy {
        read_timeout: Duration::from_millis(300),
        total_timeout: Duration::from_millis(900),
        max_response_bytes: 1_000_000,
        max_header_bytes: 16 * 1024,
        ..allowing(&["127.0.0.1"])
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_body_is_decoded_and_its_decoded_size_counts() {
    let bomb = gzip(&vec![0; 50_000_000]);
    assert!(bomb.len() < 50_000, "{} bytes", bomb.len());
    let site = Site::start(move |seen| {
        let encoded = [("content-encoding", "gzip")];
        match seen.target.as_str() {
            "/small" => reply(200, &encoded, gzip(b"hello")),
            "/two" => reply(200, &encoded, [gzip(b"hel"), gzip(b"lo")].concat()),
            "/exact" => reply(200, &encoded, gzip(&vec![b'x'; 1_000_000])),
            "/bomb" => reply(200, &encoded, &bomb),
            "/bombs" => reply(200, &[("content-encoding", "gzip, gzip")], gzip(&bomb)),
            "/garbage" => reply(200, &encoded, "this is no gzip"),
            "/cut" => reply(200, &encoded, &gzip(&[1; 5000])[..20]),
            "/br" => reply(200, &[("content-encoding", "br")], "x"),
            "/none" => reply(204, &encoded, ""),
            "/plain" => reply(200, &[("content-encoding", "identity")], "plain"),
            _ => reply(200, &[], vec![b'x'; 1_000_001]),
        }
    })
    .await;
    let outbound = Outbound::new(quick());
    let bytes = async |path: &str| match get(&outbound, &site.url(path)).await {
        Ok(answer) => answer.bytes().await,
        Err(error) => Err(error),
    };
    for (path, expected) in
        [("/small", "hello"), ("/two", "hello"), ("/none", ""), ("/plain", "plain")]
    {
        assert_eq!(bytes(path).await.unwrap(), expected, "{path}");
    }
    assert_eq!(bytes("/exact").await.unwrap().len(), 1_000_000);
    assert_eq!(site.seen()[0].headers["accept-encoding"], "gzip");
    let began = Instant::now();
    for path in ["/bomb", "/large"] {
        let error = refused(bytes(path).await);
        assert_eq!(error.kind(), ErrorKind::UpstreamRejected, "{path}: {error:?}");
        assert!(error.message().ends_with("is larger than 1000000 bytes"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(2));
    for path in ["/bombs", "/br"] {
        assert_eq!(refused(bytes(path).await).kind(), ErrorKind::UpstreamRejected, "{path}");
    }
    for path in ["/garbage", "/cut"] {
        assert_eq!(refused(bytes(path).await).kind(), ErrorKind::Network, "{path}");
    }
    let request = Request::parse(Method::GET, &site.url("/exact")).unwrap().max_bytes(10);
    let error = refused(outbound.send(request).await.unwrap().bytes().await);
    assert!(error.message().ends_with("is larger than 10 bytes"), "{error}");
}

/// What a hostile server does with a connection once it has read a request.
#[derive(Clone, Copy, Debug)]
enum Evil {
    Silent,
    DripHeaders,
    SilentBody,
    DripBody,
    EndlessBody,
    EndlessHeader,
    ManyHeaders,
    NoHttp,
    Hangup,
    ShortBody,
    EndlessChunkExtension,
    EmptyGzipMembers,
}

async fn misbehave(evil: Evil, mut stream: tokio::net::TcpStream) {
    if read(&mut stream).await.is_none() {
        return;
    }
    let head = "HTTP/1.1 200 OK\r\n";
    let (first, then, pause): (String, Vec<u8>, u64) = match evil {
        Evil::Silent => (String::new(), Vec::new(), 50),
        Evil::DripHeaders => (head.into(), b"a".to_vec(), 50),
        Evil::SilentBody => (format!("{head}content-length: 10\r\n\r\nabc"), Vec::new(), 50),
        Evil::DripBody => (format!("{head}\r\n"), b"a".to_vec(), 50),
        Evil::EndlessBody => (format!("{head}\r\n"), vec![b'x'; 65536], 0),
        Evil::EndlessHeader => (format!("{head}x: "), vec![b'x'; 65536], 0),
        Evil::ManyHeaders => {
            let many: String = (0..1000).map(|at| format!("x{at}: y\r\n")).collect();
            (format!("{head}{many}\r\n"), Vec::new(), 50)
        }
        Evil::NoHttp => ("SSH-2.0-OpenSSH_9.6\r\n\r\n".into(), Vec::new(), 50),
        Evil::Hangup => return,
        Evil::ShortBody => {
            let whole = format!("{head}content-length: 10\r\n\r\nabc");
            drop(stream.write_all(whole.as_bytes()).await);
            return;
        }
        Evil::EndlessChunkExtension => {
            (format!("{head}transfer-encoding: chunked\r\n\r\n5;"), vec![b'x'; 65536], 0)
        }
        Evil::EmptyGzipMembers => {
            (format!("{head}content-encoding: gzip\r\n\r\n"), gzip(b"").repeat(500), 0)
        }
    };
    if stream.write_all(first.as_bytes()).await.is_err() {
        return;
    }
    while stream.write_all(&then).await.is_ok() {
        sleep(Duration::from_millis(pause)).await;
        if then.is_empty() && stream.write_all(b"").await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn hostile_servers_are_left_in_time() {
    let cases: [(Evil, &[ErrorKind]); 12] = [
        (Evil::Silent, &[ErrorKind::Timeout]),
        (Evil::DripHeaders, &[ErrorKind::Timeout]),
        (Evil::SilentBody, &[ErrorKind::Timeout]),
        (Evil::DripBody, &[ErrorKind::Timeout]),
        (Evil::EndlessBody, &[ErrorKind::UpstreamRejected]),
        (Evil::EndlessHeader, &[ErrorKind::UpstreamFailed]),
        (Evil::ManyHeaders, &[ErrorKind::UpstreamFailed]),
        (Evil::NoHttp, &[ErrorKind::UpstreamFailed]),
        (Evil::Hangup, &[ErrorKind::Network]),
        (Evil::ShortBody, &[ErrorKind::Network]),
        (Evil::EndlessChunkExtension, &[ErrorKind::Network]),
        (Evil::EmptyGzipMembers, &[ErrorKind::UpstreamRejected, ErrorKind::Timeout]),
    ];
    for (evil, expected) in cases {
        let address = raw(move |stream| misbehave(evil, stream)).await;
        let outbound = Outbound::new(quick());
        let began = Instant::now();
        let outcome = match get(&outbound, &format!("http://{address}/?key=hush")).await {
            Ok(answer) => answer.bytes().await,
            Err(error) => Err(error),
        };
        let error = refused(outcome);
        assert!(expected.contains(&error.kind()), "{evil:?}: {error:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{evil:?}: {:?}", began.elapsed());
        assert!(!error.message().contains("hush"), "{error}");
    }
}

#[tokio::test]
async fn nobody_listens_and_nobody_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outbound = Outbound::new(quick());
    let error = refused(get(&outbound, &format!("http://{address}/")).await);
    assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn headers_that_carry_the_message_are_not_for_callers() {
    let site = Site::start(|_| text("x")).await;
    let request = || Request::parse(Method::GET, &site.url("/")).unwrap();
    for name in ["Host", "content-length", "Transfer-Encoding", "connection", "Proxy-Authorization"]
    {
        assert!(request().header(name, "x").is_err(), "{name}");
    }
    for (name, value) in
        [("x\r\ny", "z"), ("", "z"), ("x y", "z"), ("x", "y\r\nz: 1"), ("x", "a\u{0}")]
    {
        assert!(request().header(name, value).is_err(), "{name:?} {value:?}");
    }
    let error = request().secret_header("x-key", &Secret::new("hush\n")).err().unwrap();
    assert!(!error.message().contains("hush"), "{error}");
}

#[tokio::test]
async fn a_status_becomes_an_error_that_quotes_what_was_said() {
    let site = Site::start(|seen| {
        let status = seen.target.trim_start_matches('/').parse().unwrap();
        let headers = [("content-type", "application/json"), ("retry-after", "3")];
        reply(status, &headers, "{\"error\": \"no   such\\n thing\"}")
    })
    .await;
    let outbound = Outbound::new(quick());
    for (status, kind) in [
        (400, ErrorKind::UpstreamRejected),
        (401, ErrorKind::CredentialInvalid),
        (404, ErrorKind::UpstreamRejected),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::UpstreamFailed),
    ] {
        let answer = get(&outbound, &site.url(&format!("/{status}"))).await.unwrap();
        let error = refused(answer.checked().await);
        assert_eq!(error.kind(), kind);
        assert!(error.message().contains("{\"error\": \"no such"), "{error}");
        let wait = error.is_retryable().then_some(Duration::from_secs(3));
        assert_eq!(error.retry_after(), wait);
    }
    let answer = get(&outbound, &site.url("/200")).await.unwrap();
    assert!(answer.checked().await.is_ok());
}
