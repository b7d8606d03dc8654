//! HTTP transport: versions, TLS, compression, methods, request ids.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream as TcpConnection;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::server::Server;
use super::wire::{Answer, connect};
use crate::project::Project;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Calls a tool over HTTP/2.
async fn call_over_2<S>(stream: S, uri: &str, key: &str) -> Response<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let body = json!({"tool": "echo", "arguments": {"message": "over two"}}).to_string();
    let request = Request::post(uri)
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

#[test]
fn http_2_works_without_tls_and_names_are_checked_there_too() {
    let server = Server::start();
    let key = server.admin().key.unwrap();
    block_on(async {
        let stream = || async { TcpStream::connect(server.address).await.unwrap() };
        let uri = format!("http://{}/v1/calls", server.address);
        let answer = call_over_2(stream().await, &uri, &key).await;
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
        let result: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(result["output"], "over two");
        let foreign = call_over_2(stream().await, "http://evil.example/v1/calls", &key).await;
        assert_eq!(foreign.status().as_u16(), 421);
        let nobody = call_over_2(stream().await, &uri, "wl_nothing").await;
        assert_eq!(nobody.status().as_u16(), 401);
    });
}

#[test]
fn tls_by_flag_speaks_both_versions() {
    let project = Project::empty();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    project.write("cert.pem", &made.cert.pem());
    project.write("key.pem", &made.signing_key.serialize_pem());
    let args = ["--tls-certificate", "cert.pem", "--tls-key", "key.pem"];
    let server = Server::run(Arc::new(project), &args, &[], None);
    let key = server.admin().key.unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    for alpn in ["h2", "http/1.1"] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        block_on(async {
            let stream = TcpStream::connect(server.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
            if alpn == "h2" {
                let answer = call_over_2(stream, "https://localhost/v1/calls", &key).await;
                assert_eq!(answer.status().as_u16(), 200);
            } else {
                let io = TokioIo::new(stream);
                let (mut sender, connection) =
                    hyper::client::conn::http1::handshake(io).await.unwrap();
                tokio::spawn(connection);
                let request = Request::get("/healthz").header("host", "localhost");
                let request = request.body(Full::new(Bytes::new())).unwrap();
                assert_eq!(sender.send_request(request).await.unwrap().status().as_u16(), 200);
            }
        });
    }
    // Plain text to it is no request.
    let mut plain = connect(server.address);
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    // Files that are no certificate are explained.
    server.project.write("bad.pem", "nothing");
    let bad = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tls-certificate",
        "bad.pem",
        "--tls-key",
        "key.pem",
    ];
    let ran = server.project.run(&bad);
    assert!(ran.code != Some(0) && ran.err.contains("bad.pem"), "{ran:?}");
    assert!(ran.err.contains("--tls-certificate") && !ran.err.contains("--listen"), "{ran:?}");
    assert!(fs::metadata(server.project.path("log")).is_ok());
}

#[test]
fn plain_text_beyond_this_machine_has_to_be_asked_for() {
    let project = Project::empty();
    project.write("windlass.yaml", "");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7700", "[::ffff:192.0.2.1]:7700"] {
        let refused = project.run(&["serve", "--listen", address]);
        refused.fails(2, &["no TLS", "--without-tls", "server.without_tls"]);
        // Told so, it goes on; where this machine has no such address, it fails there.
        if address.contains("192.0.2.1") {
            let told = project.run(&["serve", "--listen", address, "--without-tls"]);
            told.fails(1, &["cannot listen on"]);
        }
    }
    project.write("windlass.yaml", "server: {listen: \"192.0.2.1:7700\", without_tls: true}");
    project.run(&["serve"]).fails(1, &["cannot listen on"]);
    assert!(!project.path(".windlass").exists(), "nothing was made");
}

#[cfg(unix)]
#[test]
fn a_server_warns_of_what_other_users_could_change() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::empty();
    project.write("windlass.yaml", "").write("tools/a.yaml", super::server::WRITE);
    let open = |name: &str, mode| {
        fs::set_permissions(project.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    open("windlass.yaml", 0o644);
    open("tools", 0o777);
    open("tools/a.yaml", 0o666);
    let server = Server::run(Arc::new(project), &[], &[], None);
    let log = server.log();
    for part in ["tools has mode 777", "tools/a.yaml has mode 666", "chmod o-w"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("windlass.yaml has mode"), "{log}");
}

#[test]
fn answers_have_ids_and_are_compressed_where_that_is_wanted() {
    let server = Server::start();
    let client = server.admin();
    let given = client.send("GET", "/v1/stats", &[("X-Request-Id", "mine-1")], b"");
    assert_eq!(given.header("x-request-id"), Some("mine-1"));
    let (one, two) = (client.get("/v1/stats"), client.get("/v1/stats"));
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    for odd in ["", &"x".repeat(200), "é"] {
        let own = client.send("GET", "/v1/stats", &[("X-Request-Id", odd)], b"");
        assert!(own.header("x-request-id").is_some_and(|id| id.len() == 36), "{odd}: {own}");
    }
    assert_eq!(one.header("cache-control"), Some("no-store"));
    assert_eq!(one.header("x-content-type-options"), Some("nosniff"));
    let plain = client.get("/v1/tools");
    let packed = client.send("GET", "/v1/tools", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(
        (plain.header("content-encoding"), packed.header("content-encoding")),
        (None, Some("gzip"))
    );
    assert!(packed.body.len() * 2 < plain.body.len() && packed.body.starts_with(&[0x1f, 0x8b]));
    let small = client.send("GET", "/healthz", &[("Accept-Encoding", "gzip")], b"");
    assert_eq!(small.header("content-encoding"), None);
}

#[test]
fn methods_that_a_route_does_not_have_are_named() {
    let server = Server::start();
    let client = server.admin();
    let head = client.send_unchecked("HEAD", "/v1/tools", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for method in ["PATCH", "TRACE", "OPTIONS", "PUT", "BREW"] {
        let refused = client.send("BREW".replace("BREW", method).as_str(), "/v1/tools", &[], b"");
        refused.problem(405, "method_not_allowed");
        let allow = refused.header("allow").unwrap();
        assert!(allow.contains("GET") && allow.contains("POST"), "{method}: {allow}");
    }
    // A stranger learns no more from it than from the document.
    let nobody = server.nobody().send("DELETE", "/v1/keys", &[], b"");
    assert!(matches!(nobody.status, 401 | 405), "{nobody}");
}

#[test]
fn a_request_may_come_in_pieces_and_its_version_is_found_all_the_same() {
    let mut server = Server::start();
    // Most begin with the letter that HTTP/2 begins with, too.
    for begin in ["PUT /healthz", "PROPFIND /healthz", "PRI_ /healthz", "GET /healthz"] {
        let mut stream = connect(server.address);
        stream.set_nodelay(true).unwrap();
        for byte in begin.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        stream.write_all(b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = if begin.starts_with("GET") { "200" } else { "405" };
        assert_eq!(answer.split(' ').nth(1), Some(status), "{begin}: {answer}");
    }
    // Whoever says nothing, or only half of it, holds nobody else up.
    let (silent, mut half) = (connect(server.address), connect(server.address));
    half.write_all(b"PR").unwrap();
    assert_eq!(server.nobody().get("/healthz").status, 200);
    let since = Instant::now();
    server.terminate();
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    drop((silent, half));
}

#[test]
fn more_requests_than_may_be_open_are_refused_at_once() {
    let server = Server::with("server:\n  max_requests: 2\n", &[]);
    let client = server.admin();
    let body = json!({"tool": "wait", "arguments": {"seconds": 60}}).to_string();
    let json = [("Content-Type", "application/json")];
    let slow = || client.begin("POST", "/v1/calls", &json, body.as_bytes());
    // One of the three is too many, whichever comes last.
    let mut waiting = vec![slow(), slow(), slow()];
    let since = Instant::now();
    let at = loop {
        let answered = waiting.iter_mut().position(|stream| {
            stream.get_ref().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            stream.fill_buf().is_ok()
        });
        if let Some(at) = answered {
            break at;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "none was refused");
    };
    let refused = Answer::read(&mut waiting.remove(at));
    refused.problem(429, "too_many_requests");
    client.get("/v1/stats").problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.header("x-request-id").is_some());
    // How the server does can be asked all the same, and says that.
    assert_eq!(server.nobody().get("/healthz").status, 200);
    assert_eq!(server.nobody().get("/readyz").status, 200);
    let counts = client.get("/metrics").text();
    let count = counts.lines().find_map(|line| line.strip_prefix("windlass_http_refused_total "));
    assert!(count.is_some_and(|count| count != "0"), "{counts}");
    // Whoever hangs up makes room.
    drop(waiting);
    let since = Instant::now();
    while client.get("/v1/stats").status != 200 {
        assert!(since.elapsed() < Duration::from_secs(20), "there is no room");
        std::thread::sleep(Duration::from_millis(10));
    }
    // A stream that only follows does not count.
    let _readers: Vec<_> = (0..4).map(|_| client.follow("/v1/events", None)).collect();
    assert_eq!(client.get("/v1/stats").status, 200);
}

#[test]
fn one_connection_too_many_waits_until_another_closes() {
    let server = Server::with("server:\n  max_connections: 2\n", &[]);
    let client = server.admin();
    let answered = |stream: &mut TcpConnection, patience: u64| {
        stream.set_read_timeout(Some(Duration::from_millis(patience))).unwrap();
        stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0)
    };
    // Both are busy, so that neither makes room.
    let [one, two] = [(); 2].map(|()| client.follow("/v1/events", None));
    let mut three = connect(server.address);
    three.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(!answered(&mut three, 300), "it was let in");
    drop(two);
    assert!(answered(&mut three, 10_000), "it was never let in");
    drop(one);
}

#[test]
fn a_body_that_is_too_large_is_answered_and_not_cut_off() {
    let server = Server::start();
    let key = server.admin().key.unwrap();
    let mut stream = BufReader::new(connect(server.address));
    let mut ask = |method: &str, path: &str, more: &str, body: &[u8]| {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n{more}\
             Content-Length: ",
            server.address
        );
        let connection = stream.get_mut();
        connection.write_all(format!("{head}{}\r\n\r\n", body.len()).as_bytes()).unwrap();
        connection.write_all(body).unwrap();
        let mut answer = Answer::head(&mut stream);
        let size = answer.header("content-length").unwrap().parse().unwrap();
        answer.body.resize(size, 0);
        stream.read_exact(&mut answer.body).unwrap();
        answer
    };
    let large = vec![b'x'; 15 << 20];
    ask("POST", "/v1/files", "", &large).problem(413, "too_large");
    // The connection goes on.
    ask("GET", "/v1/stats", "", b"").is(200);
    // Whoever asks first need not send it.
    let mut stream = BufReader::new(connect(server.address));
    let head = format!(
        "POST /v1/files HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\
         Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
        server.address
    );
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::head(&mut stream).status, 413);
}
