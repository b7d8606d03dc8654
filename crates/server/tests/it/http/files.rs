//! Files: full results, uploads, ranges, temporary links.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::server::Server;
use super::wire::{Answer, Client};

fn upload(client: &Client, media: &str, name: &str, bytes: &[u8]) -> String {
    let headers = [("Content-Type", media), ("X-File-Name", name)];
    let made = client.send("POST", "/v1/files", &headers, bytes);
    let file = made.is(201);
    assert_eq!((&file["size"], &file["media_type"]), (&json!(bytes.len()), &json!(media)));
    made.header("location").unwrap().to_owned()
}

#[test]
fn a_result_that_was_cut_is_there_as_a_whole() {
    let server = Server::start();
    let client = server.admin();
    let text: String = (0..300_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    let body = json!({"tool": "echo", "arguments": {"message": text}});
    let result = client.post("/v1/calls", &body).is(200);
    let truncated = &result["truncated"];
    assert_eq!(truncated["total_bytes"], 300_000, "{truncated}");
    let handle = truncated["handle"].as_str().unwrap();
    let whole = client.get(&format!("/v1/files/{handle}"));
    assert_eq!((whole.status, whole.text()), (200, text));
    let stranger = server.key("theirs", "operator");
    let unknown = stranger.get("/v1/files/00000000-0000-7000-8000-000000000000").text();
    assert_eq!(stranger.get(&format!("/v1/files/{handle}")).text(), unknown);
    let link = format!("/v1/files/{handle}/link");
    assert_eq!(stranger.post(&link, &json!({})).text(), unknown);
}

#[test]
fn parts_are_what_was_asked_for() {
    let server = Server::start();
    let client = server.admin();
    let place = upload(&client, "text/plain", "digits.txt", b"0123456789");
    let part = |range: &str| client.send("GET", &place, &[("Range", range)], b"");
    for (range, expected, header) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=4-4", "4", "bytes 4-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=7-100", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
    ] {
        let part = part(range);
        assert_eq!((part.status, part.text().as_str()), (206, expected), "{range}");
        assert_eq!(part.header("content-range"), Some(header), "{range}");
    }
    for range in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
        let none = part(range);
        assert_eq!(
            (none.status, none.header("content-range")),
            (416, Some("bytes */10")),
            "{range}"
        );
    }
    for range in ["bytes=x-y", "lines=0-1", "bytes=5-2", "bytes=0-1,4-5"] {
        let whole = part(range);
        assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"), "{range}");
    }
}

#[test]
fn a_file_cannot_run_as_a_page_of_ours() {
    let server = Server::start();
    let client = server.admin();
    let page = b"<script>fetch('/v1/keys')</script>";
    for media in ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml"] {
        let place = upload(&client, media, "p\"a;ge.html", page);
        let sent = client.get(&place);
        let how = sent.header("content-disposition").unwrap();
        assert!(how.starts_with("attachment"), "{media}: {how}");
        assert!(!how.contains('"') && how.contains("filename*=UTF-8''p%22a%3Bge%2Ehtml"), "{how}");
        assert_eq!(sent.header("x-content-type-options"), Some("nosniff"));
        assert!(sent.header("content-security-policy").unwrap().contains("sandbox"));
    }
    let text = client.get(&upload(&client, "text/plain", "a.txt", page));
    assert!(text.header("content-disposition").unwrap().starts_with("inline"));
}

#[test]
fn a_link_needs_no_key_and_works_for_one_file_and_a_while() {
    let server = Server::start();
    let (ours, nobody) = (server.key("ours", "caller"), server.nobody());
    let place = upload(&ours, "text/plain", "a.txt", b"ours");
    let other = upload(&ours, "text/plain", "b.txt", b"other");
    let link = |life: &str| {
        let made = ours.post(&format!("{place}/link"), &json!({"expires_in": life})).is(200);
        made["url"].as_str().unwrap().to_owned()
    };
    let url = link("1h");
    let by_link: Answer = nobody.get(&url);
    assert_eq!((by_link.status, by_link.text().as_str()), (200, "ours"));
    assert_eq!(nobody.send("GET", &url, &[("Range", "bytes=1-2")], b"").text(), "ur");
    // Another file, another tenant, a later end, another signature.
    let (file, other) = (place.rsplit('/').next().unwrap(), other.rsplit('/').next().unwrap());
    let (head, signature) = url.rsplit_once('=').unwrap();
    let mut broken = signature.to_owned();
    broken.replace_range(..1, if signature.starts_with('A') { "B" } else { "A" });
    let unknown = nobody.get(&url.replace(file, "00000000-0000-7000-8000-000000000000"));
    assert_eq!(unknown.status, 404);
    for tampered in [
        url.replace(file, other),
        url.replace("tenant=b3Vycw", "tenant=dGhlaXJz"),
        url.replace("expires=", "expires=9"),
        format!("{head}={broken}"),
        format!("{head}="),
        format!("{head}=%00"),
    ] {
        let refused = nobody.get(&tampered);
        assert!(refused.status == 404 || refused.status == 400, "{tampered}: {refused}");
        assert!(!refused.text().contains("ours"));
    }
    assert!(url.contains("tenant=b3Vycw"), "{url}");
    let short = link("1s");
    sleep(Duration::from_millis(2100));
    assert_eq!(nobody.get(&short).text(), unknown.text(), "it is over");
    ours.post(&format!("{place}/link"), &json!({"expires_in": "never"}))
        .problem(400, "invalid_request");
    nobody.get(&place).problem(401, "unauthorized");
}

#[test]
fn files_are_listed_and_deleted() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "caller"), server.key("theirs", "caller"));
    let places: Vec<String> = ["a.txt", "b.txt", "c.txt"]
        .iter()
        .map(|name| upload(&ours, "text/plain", name, b"text"))
        .collect();
    upload(&theirs, "text/plain", "theirs.txt", b"theirs");
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = ours.get(&format!("/v1/files?limit=2{cursor}")).is(200);
        let files = page["files"].as_array().unwrap();
        names.extend(files.iter().map(|file| file["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["a.txt", "b.txt", "c.txt"]);
    ours.get("/v1/files?cursor=garbage").problem(400, "invalid_request");
    let link = ours.post(&format!("{}/link", places[1]), &json!({})).is(200);
    theirs.delete(&places[1]).problem(404, "not_found");
    ours.delete(&places[1]).is(204);
    ours.delete(&places[1]).problem(404, "not_found");
    ours.get(&places[1]).problem(404, "not_found");
    server.nobody().get(link["url"].as_str().unwrap()).problem(404, "not_found");
    assert_eq!(ours.get("/v1/files").is(200)["files"].as_array().unwrap().len(), 2);
    assert_eq!(ours.get(&places[2]).text(), "text");
    // The result of a call goes with its record.
    let long = json!({"tool": "echo", "arguments": {"message": "x".repeat(300_000)}});
    let result = ours.post("/v1/calls", &long).is(200);
    let handle = result["truncated"]["handle"].as_str().unwrap();
    ours.delete(&format!("/v1/files/{handle}")).problem(409, "conflict");
    assert_eq!(ours.get(&format!("/v1/files/{handle}")).status, 200);
}
