//! Malformed and malicious requests.

use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::Server;
use super::wire::{Answer, connect};

#[test]
fn every_wrong_body_is_a_problem_that_says_where_and_what_to_do() {
    let server = Server::start();
    let client = server.admin();
    let send = |body: &str| {
        let headers = [("Content-Type", "application/json")];
        client.send("POST", "/v1/calls", &headers, body.as_bytes())
    };
    let deep =
        format!("{{\"tool\":\"echo\",\"arguments\":{}{}}}", "[".repeat(500), "]".repeat(500));
    for (body, place) in [
        ("", ""),
        ("{", ""),
        ("null", ""),
        ("[]", ""),
        ("[\"echo\", {\"message\": \"x\"}]", ""),
        ("{\"tool\": 1}", "/tool"),
        ("{}", ""),
        ("{\"tool\": \"echo\"} trailing", ""),
        ("{\"tool\": \"echo\", \"tool\": \"wait\"}", ""),
        ("{\"tool\": \"echo\", \"arguments\": {\"a\": {\"b\": 1, \"b\": 2}}}", "/arguments/a"),
        ("{\"tool\": \"echo\", \"variables\": {\"x\": 1, \"x\": 2}}", "/variables"),
        ("{\"tool\": \"echo\", \"colour\": \"red\"}", "/colour"),
        ("{\"tool\": \"echo\", \"attempts\": 0}", "/attempts"),
        ("{\"tool\": \"echo\", \"priority\": 11}", "/priority"),
        ("{\"tool\": \"echo\", \"priority\": -11}", "/priority"),
        ("{\"tool\": \"echo\", \"attempts\": 1e300}", "/attempts"),
        ("{\"tool\": \"echo\", \"priority\": \"high\"}", "/priority"),
        ("{\"tool\": \"echo\", \"timeout\": -1}", "/timeout"),
        ("{\"tool\": \"echo\", \"timeout\": \"1 parsec\"}", "/timeout"),
        ("{\"tool\": \"echo\", \"caller_type\": \"god\"}", "/caller_type"),
        ("{\"tool\": \"echo\", \"user_id\": \"a\\u0000b\"}", "/user_id"),
        ("{\"tool\": \"echo\", \"conversation_id\": \"a\\r\\nSet-Cookie: x\"}", "/conversation_id"),
        ("{\"tool\": \"echo\", \"variables\": []}", "/variables"),
        (deep.as_str(), "/arguments"),
    ] {
        let problem = send(body).problem(400, "invalid_request");
        let shown: String = body.chars().take(60).collect();
        let path = problem["errors"][0]["path"].as_str().unwrap();
        assert!(path.starts_with(place), "{shown}: {problem}");
        assert!(place.is_empty() == path.is_empty(), "{shown}: {problem}");
        assert!(problem["errors"][0]["message"].as_str().is_some_and(|why| !why.is_empty()));
    }
    let invalid = client.send(
        "POST",
        "/v1/calls",
        &[("Content-Type", "application/json")],
        b"{\"tool\": \"\xff\"}",
    );
    assert!(invalid.problem(400, "invalid_request")["hint"].is_string());
    let media = client.send("POST", "/v1/calls", &[("Content-Type", "text/xml")], b"{}");
    assert!(media.problem(415, "unsupported_media_type")["hint"].is_string());
    let large = format!("{{\"tool\": \"echo\", \"call_ref\": \"{}\"}}", "x".repeat(5_000_000));
    assert!(send(&large).problem(413, "too_large")["hint"].is_string());
    // The same names, too long.
    let long = json!({"tool": "echo", "user_id": "x".repeat(600)});
    assert_eq!(
        client.post("/v1/calls", &long).problem(400, "invalid_request")["errors"][0]["path"],
        "/user_id"
    );
    // Nothing of it was a call.
    assert_eq!(client.get("/v1/stats").is(200)["total"]["calls"], 0);
}

#[test]
fn markers_in_arguments_stay_text() {
    let server = Server::start();
    let client = server.admin();
    for text in [
        "{{secret}}",
        "${HOME}",
        "{\"$ref\": \"#/x\"}",
        "\u{0}",
        "\u{202e}abc",
        "'; DROP TABLE records; --",
    ] {
        let body = json!({"tool": "echo", "arguments": {"message": text}});
        assert_eq!(client.post("/v1/calls", &body).is(200)["output"], text);
    }
}

#[test]
fn names_in_paths_are_names() {
    let server = Server::start();
    let client = server.admin();
    for name in [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "a%00b",
        "%0d%0aSet-Cookie:%20x",
        "%ff",
        "%F0%9F%92%A9",
        "a%5Cb",
        "%7B%7B1%7D%7D",
        "'%20OR%201=1--",
        "%252e%252e%252f",
    ] {
        for path in [
            "/v1/tools/",
            "/v1/calls/",
            "/v1/providers/",
            "/v1/credentials/",
            "/v1/files/",
            "/v1/approvals/",
        ] {
            let answer = client.get(&format!("{path}{name}"));
            assert!(matches!(answer.status, 400 | 404), "{path}{name}: {answer}");
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    let long = client.get(&format!("/v1/tools/{}", "x".repeat(3000)));
    assert_eq!(long.status, 400, "{long}");
    // The dots of a path are nobody's shortcut past a gate.
    let nobody = server.nobody();
    for path in [
        "/healthz/../v1/tools",
        "/healthz/..%2fv1/tools",
        "//v1/tools",
        "/v1//tools",
        "/V1/tools",
        "/v1/tools/",
    ] {
        let answer = nobody.send_unchecked("GET", path, &[], b"");
        assert!(matches!(answer.status, 401 | 404), "{path}: {answer}");
    }
}

#[test]
fn keys_count_where_they_belong_and_nowhere_else() {
    let server = Server::start();
    let key = server.admin().key.unwrap();
    let nobody = server.nobody();
    let status = |method: &str, path: &str, headers: &[(&str, &str)]| {
        nobody.send(method, path, headers, b"").status
    };
    let bearer = format!("Bearer {key}");
    assert_eq!(status("GET", "/v1/tools", &[("Authorization", &bearer)]), 200);
    assert_eq!(
        status("GET", "/v1/tools", &[("Authorization", &bearer.replace("Bearer", "bearer"))]),
        200
    );
    assert_eq!(status("GET", "/v1/tools", &[("X-API-Key", &key)]), 200);
    assert_eq!(status("GET", &format!("/v1/tools?key={key}"), &[]), 401);
    assert_eq!(status("GET", "/v1/tools", &[("Cookie", &format!("key={key}"))]), 401);
    // A password, which browsers send on their own: for looking only.
    let basic = format!("Basic {}", base64(&format!("any:{key}")));
    assert_eq!(status("GET", "/v1/tools", &[("Authorization", &basic)]), 200);
    let body = json!({"tool": "echo", "arguments": {"message": "x"}}).to_string();
    let form =
        [("Authorization", basic.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
    assert_eq!(nobody.send("POST", "/v1/calls", &form, body.as_bytes()).status, 401);
    assert_eq!(status("DELETE", "/v1/tools/echo", &[("Authorization", &basic)]), 401);
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Basic !!!",
        "Bearer wl_",
        "Digest x",
        &format!("Bearer {key}x"),
        &format!("Bearer {}", &key[..key.len() - 1]),
        &format!("Bearer {}", key.to_uppercase()),
    ] {
        let refused = nobody.send("GET", "/v1/tools", &[("Authorization", wrong)], b"");
        refused.problem(401, "unauthorized");
        assert!(refused.header("www-authenticate").is_some());
    }
    // No answer sets a cookie.
    assert_eq!(server.admin().get("/docs").header("set-cookie"), None);
}

fn base64(text: &str) -> String {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - part.len()));
        for at in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at > part.len() { '=' } else { sign });
        }
    }
    out
}

#[test]
fn pages_of_others_and_other_names_are_refused() {
    let settings = "server:\n  hosts: tools.example.com\n  origins: https://app.example.com\n";
    let server = Server::with(settings, &[]);
    let client = server.admin();
    let get = |headers: &[(&str, &str)]| client.send("GET", "/v1/tools", headers, b"");
    for host in
        ["tools.example.com", "TOOLS.example.com:443", "localhost:1", "[::1]:80", "127.0.0.1"]
    {
        assert_eq!(get(&[("Host", host)]).status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "tools.example.com.evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
    ] {
        let refused = get(&[("Host", host)]);
        assert!(matches!(refused.status, 400 | 421), "{host}: {refused}");
    }
    let own = format!("http://{}", server.address);
    assert_eq!(get(&[("Origin", &own)]).status, 200);
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        // Of this name, and of another scheme.
        &own.replace("http:", "https:"),
        &own.replace("http:", "ftp:"),
        &own.replace("http://", ""),
        "https://app.example.com.evil.example",
    ] {
        let refused = get(&[("Origin", origin)]);
        refused.problem(403, "unknown_origin");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    for (origin, status) in [("http://tools.example.com", 200), ("https://tools.example.com", 403)]
    {
        let answer = get(&[("Host", "tools.example.com"), ("Origin", origin)]);
        assert_eq!(answer.status, status, "{origin}: {answer}");
    }
    // Health, too: nothing answers to a name that was made to point here.
    let rebound = server.nobody().send("GET", "/healthz", &[("Host", "evil.example")], b"");
    rebound.problem(421, "unknown_host");
    // A page that was allowed can read answers, and may ask first.
    let app = ("Origin", "https://app.example.com");
    let allowed = get(&[app]);
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some(app.1)));
    let ask = [
        app,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    let asked = server.nobody().send_unchecked("OPTIONS", "/v1/calls", &ask, b"");
    assert_eq!(asked.status, 204, "{asked}");
    assert!(asked.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(asked.header("access-control-allow-credentials"), None);
    let two =
        client.begin("GET", "/v1/tools", &[("Host", "localhost"), ("Host", "evil.example")], b"");
    assert_eq!(Answer::read(&mut { two }).status, 400);
}

#[test]
fn pages_of_names_behind_a_proxy_with_tls_are_of_https() {
    let settings = "server: {hosts: [tools.example.com], without_tls: true}";
    let server = Server::with(settings, &[]);
    let client = server.admin();
    let own = server.address.to_string();
    for (host, origin, status) in [
        ("tools.example.com", "https://tools.example.com", 200),
        ("tools.example.com", "http://tools.example.com", 403),
        (&own, &format!("http://{own}"), 200),
        (&own, &format!("https://{own}"), 403),
    ] {
        let headers = [("Host", host), ("Origin", origin)];
        let answer = client.send("GET", "/v1/tools", &headers, b"");
        assert_eq!(answer.status, status, "{host} {origin}: {answer}");
    }
}

#[test]
fn transfer_codings_besides_chunked_are_refused_and_the_connection_is_closed() {
    let server = Server::start();
    let key = server.admin().key.unwrap();
    let ask = |codings: &str| {
        let mut stream = connect(server.address);
        let body = r#"{"tool": "echo", "arguments": {"message": "hi"}}"#;
        let request = format!(
            "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\n{codings}\r\n{:x}\r\n{body}\r\n0\r\n\r\n\
             GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_to_string(&mut answer);
        answer
    };
    for plain in ["Transfer-Encoding: chunked\r\n", "transfer-encoding:  Chunked \r\n"] {
        let answer = ask(plain);
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{plain}: {answer}");
    }
    for odd in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: deflate,chunked\r\n",
        "Transfer-Encoding: x, chunked\r\nContent-Length: 3\r\n",
    ] {
        let answer = ask(odd);
        assert!(answer.starts_with("HTTP/1.1 501"), "{odd}: {answer}");
        assert!(answer.contains("unknown_transfer_coding"), "{odd}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{odd}: {answer}");
    }
    for odd in ["Transfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked, gzip\r\n"] {
        let answer = ask(odd);
        assert!(answer.starts_with("HTTP/1.1 4"), "{odd}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{odd}: {answer}");
    }
}

#[test]
fn a_client_that_dawdles_is_cut_and_others_go_on() {
    let server = Server::with("server:\n  header_timeout: 1s\n", &[]);
    let client = server.admin();
    let mut slow: Vec<_> = (0..50).map(|_| connect(server.address)).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").unwrap();
    }
    let start = Instant::now();
    for _ in 0..20 {
        client.get("/v1/stats").is(200);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Those that never say what they want are cut.
    for mut stream in slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    // A head without an end.
    let mut endless = connect(server.address);
    endless.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let line = [b"X-Filler: ".as_slice(), &[b'x'; 1000], b"\r\n"].concat();
    let mut sent = 0;
    while sent < 10_000_000 && endless.write_all(&line).is_ok() {
        sent += line.len();
    }
    assert!(sent < 10_000_000, "it is cut off");
    // Very many headers.
    let mut many = connect(server.address);
    many.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let _ = many.write_all("X-A: b\r\n".repeat(2000).as_bytes());
    let _ = many.write_all(b"\r\n");
    let mut answer = Vec::new();
    let _ = BufReader::new(many).read_to_end(&mut answer);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    for garbage in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\u{16}\u{3}\u{1}",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let mut stream = connect(server.address);
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.write_all(garbage.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = BufReader::new(stream).read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 5"), "{garbage:?}: {answer}");
        assert!(answer.matches("HTTP/1.1 200").count() == 0, "{garbage:?}: {answer}");
    }
    client.get("/v1/stats").is(200);
}

#[test]
fn a_body_that_never_ends_is_given_up() {
    let server = Server::with("server: {body_timeout: 1s}", &[]);
    let client = server.admin();
    let key = client.key.as_deref().unwrap();
    let start = Instant::now();
    let mut stream = connect(server.address);
    let head = format!(
        "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"tool\": "
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[test]
fn problems_tell_nothing_of_the_inside() {
    let server = Server::start();
    let client = server.admin();
    let answer = client.get("/v1/nothing");
    let problem: Value = answer.problem(404, "not_found");
    assert!(problem["hint"].is_string());
    for answer in [answer, client.send("PATCH", "/v1/tools", &[], b"")] {
        let text = answer.text();
        assert!(
            !text.contains(".rs") && !text.contains("panick") && !text.contains("/home"),
            "{text}"
        );
    }
}
