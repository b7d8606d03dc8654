//! Idle and slow connections (slowloris): each is closed in time, and nobody's
//! connections keep others out.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::{Server, until};
use super::wire::{Answer, Client, connect, connect_narrow};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// No timeout of these tests is longer than a second or two.
const SOON: Duration = Duration::from_secs(15);

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

fn settings(payload: &[u8]) -> Vec<u8> {
    frame(4, 0, 0, payload)
}

fn ping() -> Vec<u8> {
    frame(6, 0, 0, b"12345678")
}

/// A request without a key.
fn get(path: &str, stream: u8) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let fields = [vec![0x82, 0x86, 0x04], text(path), vec![0x01], text("localhost")].concat();
    frame(1, 5, stream, &fields)
}

/// Says the same again and again until the other side has hung up; everything
/// that comes is read.
#[track_caller]
fn closes(mut stream: TcpStream, again: &[u8]) {
    let start = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut read = vec![0; 64 * 1024];
    loop {
        assert!(start.elapsed() < SOON, "it is still open");
        match stream.read(&mut read) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_slow(&error) => {}
            Err(_) => return,
        }
        if stream.write_all(again).is_err() {
            return;
        }
    }
}

/// Never reads, and waits until the socket is lost.
#[track_caller]
fn is_cut(mut stream: TcpStream, again: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    until("the socket is lost", || match stream.write(again) {
        Err(error) if !is_slow(&error) => Some(()),
        _ => None,
    });
}

/// Whether it only takes its time.
fn is_slow(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn cut_so_far(client: &Client) -> u64 {
    let counts = client.get("/metrics").text();
    let name = "windlass_http_connections_cut_total ";
    counts.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn the_rest_of_an_http_2_preface_and_the_first_request_have_the_time_of_a_head() {
    let server = Server::with("server: {header_timeout: 1s}", &[]);
    let whole = [PREFACE, &settings(&[])].concat();
    for (begin, again) in [
        (&PREFACE[..2], vec![]),
        (&PREFACE[..4], vec![]),
        (&PREFACE[..10], vec![]),
        (&PREFACE[..23], vec![]),
        (PREFACE, vec![]),
        (&whole, vec![]),
        (&whole, ping()),
        (&whole, settings(&[])),
    ] {
        let mut stream = connect(server.address);
        stream.write_all(begin).unwrap();
        closes(stream, &again);
    }
}

#[test]
fn an_idle_http_2_connection_that_pings_and_answers_pings_is_closed() {
    let server = Server::with("server: {idle_timeout: 1s}", &[]);
    let mut stream = connect(server.address);
    let begin = [PREFACE, &settings(&[]), &get("/healthz", 1)].concat();
    stream.write_all(&begin).unwrap();
    closes(stream, &ping());
}

#[test]
fn a_head_that_comes_byte_by_byte_is_given_up_also_on_a_connection_that_was_used() {
    let server = Server::with("server: {header_timeout: 1s, idle_timeout: 60s}", &[]);
    for begin in ["", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let mut stream = connect(server.address);
        stream.write_all(begin.as_bytes()).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: ").unwrap();
        closes(stream, b"x");
    }
}

#[test]
fn an_idle_connection_stays_for_its_time_and_then_ends() {
    let server = Server::with("server: {header_timeout: 1s, idle_timeout: 3s}", &[]);
    let ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = connect(server.address);
    for pause in [0, 1500] {
        std::thread::sleep(Duration::from_millis(pause));
        stream.write_all(ask).unwrap();
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1", "it was open for longer than a head may take");
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
        stream.set_read_timeout(Some(SOON)).unwrap();
    }
    let since = Instant::now();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
}

#[test]
fn pipelined_requests_whose_answers_nobody_reads_lose_the_socket() {
    let server = Server::with("server: {reader_timeout: 1s}", &[]);
    let mut stream = connect_narrow(server.address);
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // They need no key: what is sent back without one is enough.
    let ask = "GET /v1/tools HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (asks, mut sent) = (ask.repeat(1000), 0);
    until("the socket is lost", || {
        let start = sent % ask.len();
        match stream.write(&asks.as_bytes()[start..]) {
            Ok(count) => sent += count,
            Err(error) if is_slow(&error) => {}
            Err(_) => return Some(()),
        }
        None
    });
    assert!(cut_so_far(&server.admin()) >= 1, "it was not cut for this");
}

#[test]
fn a_stream_of_http_2_whose_window_stays_shut_loses_the_socket() {
    let server = Server::with("server: {reader_timeout: 1s, idle_timeout: 2s}", &[]);
    // A window of nothing, and one of a single byte, after which the rest of a
    // small answer is as good as sent.
    for window in [0, 1] {
        let mut stream = connect(server.address);
        let shut = settings(&[0, 4, 0, 0, 0, window]);
        let begin = [PREFACE, &shut, &get("/openapi.json", 1)].concat();
        stream.write_all(&begin).unwrap();
        closes(stream, &ping());
    }
    assert!(cut_so_far(&server.admin()) >= 1);
}

#[test]
fn a_reader_of_events_that_takes_nothing_loses_the_socket() {
    let server = Server::with("server: {reader_timeout: 1s}", &[]);
    let client = server.admin();
    let narrow = connect_narrow(server.address);
    let lazy = client.begin_on(narrow, "GET", "/v1/events", &[], b"");
    let name = "x".repeat(400);
    let call = json!({
        "tool": "echo", "arguments": {"message": ""}, "caller_id": name, "conversation_id": name,
    });
    until("the reader is cut off", || {
        client.post("/v1/batches", &json!({"calls": vec![call.clone(); 50]})).is(200);
        (cut_so_far(&client) > 0).then_some(())
    });
    is_cut(lazy.into_inner(), b"x");
}

#[test]
fn a_slow_reader_that_takes_something_gets_all_of_it() {
    let server = Server::with("server: {reader_timeout: 2s, idle_timeout: 2s}", &[]);
    let client = server.admin();
    let whole = client.get("/openapi.json").body;
    let stream = connect_narrow(server.address);
    let mut stream = client.begin_on(stream, "GET", "/openapi.json", &[], b"");
    let answer = Answer::head(&mut stream);
    assert_eq!(answer.status, 200);
    let (mut got, mut part) = (Vec::new(), vec![0; 16 * 1024]);
    let start = Instant::now();
    loop {
        let count = stream.read(&mut part).unwrap();
        if count == 0 {
            break;
        }
        got.extend_from_slice(&part[..count]);
        if start.elapsed() < Duration::from_secs(4) {
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    assert_eq!(got.len(), whole.len());
}

#[test]
fn a_connection_that_is_too_old_is_told_to_end_whatever_it_does() {
    let server = Server::with("server: {connection_timeout: 1s, reader_timeout: 1s}", &[]);
    let client = server.admin();
    closes(connect(server.address), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut events = client.follow("/v1/events", None);
    assert!(events.next().is_none(), "streams end with it");
    client.get("/v1/stats").is(200);
}

fn connect_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// A connection without a key that is busy: its answer is not taken.
fn busy_stranger(from: [u8; 4], address: SocketAddr) -> TcpStream {
    let mut stream = connect_from(from, address);
    let shut = settings(&[0, 4, 0, 0, 0, 0]);
    stream.write_all(&[PREFACE, &shut, &get("/v1/tools", 1)].concat()).unwrap();
    // It is busy as soon as the head of the answer has come.
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; length as usize]).unwrap();
        if head[3] == 1 {
            return stream;
        }
    }
}

/// The status of a request from an address; none where it is not let in.
fn status_from(from: [u8; 4], client: &Client) -> Option<u16> {
    let mut stream = connect_from(from, client.address);
    let head = format!(
        "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        client.key.as_deref().unwrap_or_default()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn connections_that_strangers_hold_and_do_not_use_make_room_for_others() {
    let server = Server::with("server: {max_connections: 8}", &[]);
    let client = server.admin();
    // As many as there are places, several times over, of each kind of idleness.
    let mut held = Vec::new();
    for at in 0..40 {
        let mut stream = connect(server.address);
        let begin: &[u8] = match at % 4 {
            0 => b"",
            1 => b"GET /healthz HTTP/1.1\r\nX-Slow: ",
            2 => b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            _ => PREFACE,
        };
        stream.write_all(begin).unwrap();
        held.push(stream);
        if at % 8 == 0 {
            client.get("/v1/stats").is(200);
        }
    }
    for _ in 0..10 {
        client.get("/v1/stats").is(200);
    }
    drop(held);
}

#[cfg(target_os = "linux")]
#[test]
fn one_address_cannot_hold_all_connections_and_a_second_tenant_gets_in() {
    let server = Server::with("server: {max_connections_per_address: 4}", &[]);
    let (one, two) = (server.key("one", "viewer"), server.key("two", "viewer"));
    // Whoever has shown a key is not counted for an address.
    let known: Vec<_> = (0..6).map(|_| one.follow("/v1/events", None)).collect();
    assert_eq!(status_from([127, 0, 0, 1], &two), Some(200));
    let busy: Vec<_> = (0..4).map(|_| busy_stranger([127, 0, 0, 1], server.address)).collect();
    assert_eq!(status_from([127, 0, 0, 1], &two), None, "its address has four that are busy");
    assert_eq!(status_from([127, 0, 0, 2], &two), Some(200));
    drop(busy);
    until("there is room again", || status_from([127, 0, 0, 1], &two).filter(|it| *it == 200));
    drop(known);
}

#[cfg(target_os = "linux")]
#[test]
fn a_trusted_proxy_has_no_limit_of_an_address() {
    let settings = "server: {max_connections_per_address: 2, trusted_proxies: [127.0.0.3]}";
    let server = Server::with(settings, &[]);
    let client = server.admin();
    let busy: Vec<_> = (0..5).map(|_| busy_stranger([127, 0, 0, 3], server.address)).collect();
    assert_eq!(status_from([127, 0, 0, 3], &client), Some(200));
    drop(busy);
}

#[test]
fn one_key_cannot_hold_all_connections_and_a_second_tenant_gets_in() {
    let server = Server::with("server: {max_connections_per_key: 3}", &[]);
    let (one, two) = (server.key("one", "viewer"), server.key("two", "viewer"));
    let busy: Vec<_> = (0..3).map(|_| one.follow("/v1/events", None)).collect();
    let refused = one.get("/v1/stats");
    refused.problem(429, "too_many_requests");
    assert!(refused.text().contains("max_connections_per_key"), "{refused}");
    two.get("/v1/stats").is(200);
    drop(busy);
    until("there is room again", || (one.get("/v1/stats").status == 200).then_some(()));
}
