//! Calls over real HTTP: requests that are sent, and what becomes of responses.

use serde_json::{Value, json};
use windlass::{Body, ErrorKind, Lang};

use super::support::{call, call_with, engine, engine_for};
use super::upstream::{Reply, TestUpstream};

const PETS: &str = include_str!("pets.yaml");

#[tokio::test]
async fn a_petstore_is_called() {
    let upstream = TestUpstream::start(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/v1/pets?limit=2&tags=a&tags=b%26c") => Reply::json(
            &json!([{"id": 1, "name": "Rex"}]),
        )
        .with(
            "Link",
            "</v1/pets?page=2&ids=1,2>; title=\"a, b\"; rel=\"next\", </v1/pets?page=9>; REL=last",
        )
        .with("X-RateLimit-Remaining", "41"),
        ("POST", "/v1/pets") => Reply::new(201, "application/json", &*seen.body),
        ("GET", "/v1/pets/a%2Fb%20c") => Reply::json(&json!({"id": "a/b c"})),
        ("DELETE", "/v1/pets/7") => Reply { status: 204, headers: vec![], body: vec![] },
        ("GET", "/v1/pets/7/photo") => Reply::new(200, "image/png", [137, 80, 78, 71]),
        other => Reply::new(
            404,
            "application/problem+json",
            json!({"title": "No such pet", "detail": format!("{other:?}"), "status": 404})
                .to_string(),
        ),
    })
    .await;
    let engine = engine_for(PETS, &format!("{}/v1", upstream.url));

    let listed = call(&engine, "listPets", json!({"limit": 2, "tags": ["a", "b&c"]})).await;
    let output = listed.output().unwrap_or_else(|| panic!("{:?}", listed.error()));
    assert_eq!(output.value(), Some(&json!([{"id": 1, "name": "Rex"}])));
    assert_eq!(
        output.metadata.get("links").unwrap()["next"],
        format!("{}/v1/pets?page=2&ids=1,2", upstream.url)
    );
    assert_eq!(
        output.metadata.get("links").unwrap()["last"],
        format!("{}/v1/pets?page=9", upstream.url)
    );
    assert_eq!(output.metadata.get("headers").unwrap()["x-ratelimit-remaining"], "41");

    let pet = json!({"name": "Rex", "owner": {"name": "Ada"}});
    let made = call(&engine, "createPet", pet.clone()).await;
    assert_eq!(made.output().unwrap().value(), Some(&pet));
    assert_eq!(upstream.last().header("content-type"), "application/json");

    let one = call(&engine, "getPet", json!({"petId": "a/b c"})).await;
    assert_eq!(one.output().unwrap().value(), Some(&json!({"id": "a/b c"})));

    let gone = call(&engine, "deletePet", json!({"petId": "7"})).await;
    assert_eq!(gone.output().unwrap().to_text(), "204 No Content");

    let photo = call(&engine, "getPhoto", json!({"petId": "7"})).await;
    assert!(
        matches!(&photo.output().unwrap().content[0].body, Body::Image(data) if data.mime_type == "image/png")
    );

    let missing = call(&engine, "getPet", json!({"petId": "8"})).await;
    let error = missing.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::UpstreamRejected);
    assert!(error.feedback(Lang::En).contains("No such pet"), "{}", error.feedback(Lang::En));
    assert_eq!(upstream.connections(), 1, "connections are used again");
}

#[tokio::test]
async fn paths_cannot_be_left_by_a_value() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({}))).await;
    let engine = engine_for(PETS, &format!("{}/v1", upstream.url));
    for bad in [
        "..",
        ".",
        "%2e%2e",
        "%2E%2e%2Fadmin",
        "..%2f..",
        "a/../../b",
        "../admin",
        "a\\..\\b",
        "x\r\nHost: evil",
        "\0",
        "",
        "%252e%252e",
        "..;/admin",
    ] {
        let result = call(&engine, "getPet", json!({"petId": bad})).await;
        let error =
            result.error().unwrap_or_else(|| panic!("{bad:?} was sent: {:?}", upstream.last()));
        assert_eq!(error.kind(), ErrorKind::InvalidArguments, "{bad:?}");
    }
    assert!(upstream.seen().is_empty());
    for (value, target) in [
        ("a?b=c", "/v1/pets/a%3Fb%3Dc"),
        ("a#b", "/v1/pets/a%23b"),
        ("a/b", "/v1/pets/a%2Fb"),
        ("...", "/v1/pets/..."),
        ("http://evil/", "/v1/pets/http%3A%2F%2Fevil%2F"),
        ("//evil", "/v1/pets/%2F%2Fevil"),
        ("{petId}", "/v1/pets/%7BpetId%7D"),
        ("猫", "/v1/pets/%E7%8C%AB"),
        ("@evil:80", "/v1/pets/%40evil%3A80"),
    ] {
        let result = call(&engine, "getPet", json!({"petId": value})).await;
        assert!(result.is_success(), "{value}: {:?}", result.error());
        assert_eq!(upstream.last().target, target);
    }
}

#[tokio::test]
async fn headers_and_cookies_take_one_line() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({}))).await;
    let engine = engine_for(PETS, &upstream.url);
    for bad in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "naïve"] {
        let result = call(&engine, "listPets", json!({"X-Trace": bad})).await;
        assert_eq!(result.error().unwrap().kind(), ErrorKind::InvalidArguments, "{bad:?}");
    }
    assert!(upstream.seen().is_empty());
    let fine = call(&engine, "listPets", json!({"X-Trace": "t-1", "session": "a; b=c"})).await;
    assert!(fine.is_success(), "{:?}", fine.error());
    let seen = upstream.last();
    assert_eq!((seen.header("x-trace"), seen.header("cookie")), ("t-1", "session=a%3B%20b%3Dc"));
}

#[tokio::test]
async fn forms_and_files_are_written() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({}))).await;
    let engine = engine_for(PETS, &upstream.url);
    let sent = call(
        &engine,
        "uploadPhoto",
        json!({
            "petId": "1",
            "caption": "a \"b\"",
            "meta": {"w": 1},
            "file": {"base64": "iVBORw==", "filename": "a\"\r\n.png", "content_type": "image/png"},
        }),
    )
    .await;
    assert!(sent.is_success(), "{:?}", sent.error());
    let seen = upstream.last();
    let boundary =
        seen.header("content-type").strip_prefix("multipart/form-data; boundary=").unwrap();
    let text = seen.text();
    assert!(text.contains("name=\"caption\"\r\n\r\na \"b\"\r\n"), "{text}");
    assert!(text.contains("name=\"meta\"\r\nContent-Type: application/json\r\n\r\n{\"w\":1}\r\n"));
    assert!(
        text.contains("name=\"file\"; filename=\"a%22.png\"\r\nContent-Type: image/png\r\n\r\n"),
        "{text}"
    );
    assert!(text.ends_with(&format!("--{boundary}--\r\n")));
    assert!(seen.body.windows(4).any(|bytes| bytes == [137, 80, 78, 71]));

    let form = call(
        &engine,
        "search",
        json!({"q": "a&b c", "ids": [1, 2], "filter": {"a": {"b": "x y"}}}),
    )
    .await;
    assert!(form.is_success(), "{:?}", form.error());
    assert_eq!(upstream.last().text(), "q=a%26b%20c&ids=1&ids=2&filter%5Ba%5D%5Bb%5D=x%20y");
}

#[tokio::test]
async fn every_scheme_signs_and_no_secret_comes_back() {
    let upstream = TestUpstream::start(|seen| {
        // An echo of everything, as debugging services do.
        Reply::new(if seen.target.contains("fail") { 500 } else { 200 }, "application/json", json!({
            "target": seen.target, "headers": seen.headers.iter().collect::<Vec<_>>(), "message": format!("{:?}", seen.headers)
        }).to_string())
    }).await;
    let engine = engine_for(include_str!("security.yaml"), &upstream.url);
    let secrets = [
        ("header_key", "s3cret-h"),
        ("query_key", "s3cret q&"),
        ("cookie_key", "s3cret-c"),
        ("token", "s3cret-t"),
        ("login_username", "ada"),
        ("login_password", "s3cret-p"),
    ];
    for (tool, field, wanted) in [
        ("byHeader", "x-api-key", "s3cret-h"),
        ("byQuery", "target", "/query?a=1&key=s3cret%20q%26"),
        ("byCookie", "cookie", "sid=s3cret-c"),
        ("byBearer", "authorization", "Bearer s3cret-t"),
        ("byBasic", "authorization", "Basic YWRhOnMzY3JldC1w"),
        ("failing", "x-api-key", "s3cret-h"),
    ] {
        let result = call_with(&engine, tool, json!({}), &secrets).await;
        let seen = upstream.last();
        let sent = if field == "target" { &seen.target } else { seen.header(field) };
        assert_eq!(sent, wanted, "{tool}");
        let told = format!(
            "{:?} {:?}",
            result.output(),
            result.error().map(|error| (error.message().to_owned(), error.feedback(Lang::En)))
        );
        assert!(!told.contains("s3cret-") && !told.contains("s3cret%20q"), "{tool}: {told}");
    }
    // Both of one way, or the other way alone.
    let both = call_with(&engine, "either", json!({}), &secrets[..2]).await;
    assert!(both.is_success());
    assert_eq!(upstream.last().header("x-api-key"), "s3cret-h");
    assert!(upstream.last().target.contains("key=s3cret"));
    let other =
        call_with(&engine, "either", json!({}), &[("token", "t"), ("header_key", "h")]).await;
    assert!(other.is_success());
    assert_eq!(
        (upstream.last().header("authorization"), upstream.last().header("x-api-key")),
        ("Bearer t", "")
    );
    let before = upstream.seen().len();
    let none = call(&engine, "either", json!({})).await;
    assert_eq!(none.error().unwrap().kind(), ErrorKind::CredentialInvalid);
    assert!(
        none.error().unwrap().message().contains("`header_key` and `query_key`, or `token`"),
        "{:?}",
        none.error()
    );
    assert_eq!(upstream.seen().len(), before, "nothing goes out without a credential");
    assert!(call(&engine, "optional", json!({})).await.is_success());
    assert_eq!(upstream.last().header("authorization"), "");
}

#[tokio::test]
async fn a_client_gets_one_token_for_many_calls() {
    let upstream = TestUpstream::start(|seen| match seen.target.as_str() {
        "/token" => Reply::json(
            &json!({"access_token": format!("t-{}", seen.text().len()), "expires_in": 3600}),
        ),
        _ if seen.header("authorization").starts_with("Bearer t-") => {
            Reply::json(&json!({"ok": true}))
        }
        _ => Reply::new(401, "application/json", "{}"),
    })
    .await;
    let document = include_str!("security.yaml").replace("https://auth.example.com", &upstream.url);
    let engine = engine_for(&document, &upstream.url);
    let secrets = [("client_client_id", "id"), ("client_client_secret", "hush hush")];
    let calls = (0..20).map(|_| call_with(&engine, "byClient", json!({}), &secrets));
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(|result| result.is_success()), "{:?}", results[0].error());
    let tokens: Vec<_> =
        upstream.seen().into_iter().filter(|seen| seen.target == "/token").collect();
    assert_eq!(tokens.len(), 1);
    assert_eq!(tokens[0].text(), "grant_type=client_credentials&scope=read%20write");
    assert_eq!(tokens[0].header("authorization"), "Basic aWQ6aHVzaCUyMGh1c2g=");
}

#[tokio::test]
async fn failures_have_their_kind_and_words() {
    let upstream = TestUpstream::start(|seen| {
        let status: u16 = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        let body = match status {
            422 => json!({"error": {"message": "name is too long", "code": 7}}),
            429 => json!({"message": "slow down"}),
            400 => json!({"errors": [{"field": "name", "message": "is missing"}]}),
            401 => json!({"message": "the token has expired"}),
            418 => {
                let xml = "<?xml version='1.0'?><Error><Code>X</Code><Message>no &lt;pets&gt; left</Message></Error>";
                return Reply::new(status, "application/xml", xml);
            }
            _ => json!("what"),
        };
        Reply::new(status, "application/json", body.to_string()).with("Retry-After", "7")
    })
    .await;
    let engine = engine_for(PETS, &upstream.url);
    for (status, kind, words) in [
        (400, ErrorKind::UpstreamRejected, "is missing"),
        (401, ErrorKind::CredentialInvalid, "Authentication failed: the token has expired"),
        (418, ErrorKind::UpstreamRejected, "no <pets> left"),
        (422, ErrorKind::UpstreamRejected, "name is too long"),
        (500, ErrorKind::UpstreamFailed, "what"),
    ] {
        let result = call(&engine, "removePet", json!({"petId": status.to_string()})).await;
        let error = result.error().unwrap();
        assert_eq!(error.kind(), kind, "{status}");
        assert!(error.feedback(Lang::En).contains(words), "{status}: {}", error.feedback(Lang::En));
    }
    let limited = call(&engine, "removePet", json!({"petId": "429"})).await;
    let error = limited.error().unwrap();
    assert_eq!(error.retry_after().map(|after| after.as_secs()), Some(7));
    assert!(error.feedback(Lang::En).contains("slow down"));
}

#[tokio::test]
async fn definitions_by_hand_are_the_same_kind() {
    let upstream = TestUpstream::start(|_| Reply::json(&json!({"ok": true}))).await;
    let engine = engine();
    let text = format!(
        "
- name: add_note
  description: Adds a note.
  parameters:
    - {{name: id, type: string, required: true}}
    - {{name: notify, type: boolean}}
    - {{name: text, type: string, required: true}}
  entry:
    type: rest
    base_url: {url}/v1
    method: POST
    path: /users/{{id}}/notes
    headers: {{X-Client: windlass}}
    parameters: {{notify: query}}
    auth: {{type: api_key, name: X-Key, field: key}}
- name: anything
  description: Asks anything of the API.
  parameters:
    - {{name: url, type: string, required: true}}
    - {{name: method, type: string}}
    - {{name: body, type: object}}
  entry: {{type: external, baseUrl: \"{url}/v1\"}}
",
        url = upstream.url
    );
    let report = engine.load_text("hand.yaml", &text);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let sent = call_with(
        &engine,
        "add_note",
        json!({"id": "a b", "notify": true, "text": "hi"}),
        &[("key", "k")],
    )
    .await;
    assert!(sent.is_success(), "{:?}", sent.error());
    let seen = upstream.last();
    assert_eq!(
        (seen.method.as_str(), seen.target.as_str(), seen.text().as_str()),
        ("POST", "/v1/users/a%20b/notes?notify=true", "{\"text\":\"hi\"}")
    );
    assert_eq!((seen.header("x-client"), seen.header("x-key")), ("windlass", "k"));
    let free =
        call(&engine, "anything", json!({"url": "/things?x=1", "method": "PUT", "body": {"a": 1}}))
            .await;
    assert!(free.is_success(), "{:?}", free.error());
    let seen = upstream.last();
    assert_eq!(
        (seen.method.as_str(), seen.target.as_str(), seen.text().as_str()),
        ("PUT", "/v1/things?x=1", "{\"a\":1}")
    );
    for outside in [
        "http://127.0.0.1:1/v1/x",
        "../admin",
        "/..%2fadmin",
        "//evil/x",
        "http://u:p@127.0.0.1/v1/x",
    ] {
        let result = call(&engine, "anything", json!({"url": outside})).await;
        let sent = result.is_success().then(|| upstream.last().target);
        assert!(
            sent.as_deref().is_none_or(|target| target.starts_with("/v1/")),
            "{outside}: {sent:?}"
        );
    }
}

#[tokio::test]
async fn answers_of_every_type_become_content() {
    let upstream = TestUpstream::start(|seen| match seen.target.as_str() {
        "/pets/text" => Reply::new(200, "text/plain; charset=iso-8859-1", [0xe9]),
        "/pets/vendor" => Reply::new(200, "application/vnd.pets.v1+json", "{\"a\":1}"),
        "/pets/broken" => Reply::new(200, "application/json", "{\"a\":"),
        "/pets/zip" => Reply::new(200, "application/zip", [1, 2, 3])
            .with("Content-Disposition", "attachment; filename=\"../../a.zip\""),
        "/pets/named" => Reply::new(200, "application/zip", [1]).with(
            "Content-Disposition",
            "attachment; filename=\"b.zip\"; filename*=UTF-8''..%2Fna%C3%AFve%20b.zip",
        ),
        "/pets/marked" => Reply::new(200, "application/json", "\u{feff}{\"a\":2}"),
        _ => Reply::new(200, "application/xml", "<a/>"),
    })
    .await;
    let engine = engine_for(PETS, &upstream.url);
    let get = |id: &'static str| call(&engine, "getPet", json!({"petId": id}));
    assert_eq!(get("text").await.output().unwrap().to_text(), "é");
    assert_eq!(get("vendor").await.output().unwrap().value(), Some(&json!({"a": 1})));
    assert_eq!(get("broken").await.output().unwrap().to_text(), "{\"a\":");
    assert_eq!(get("xml").await.output().unwrap().to_text(), "<a/>");
    assert_eq!(get("marked").await.output().unwrap().value(), Some(&json!({"a": 2})));
    let named = get("named").await;
    let block = &named.output().unwrap().content[0];
    assert_eq!(block.meta.get("filename"), Some(&Value::from("naïve b.zip")));
    let zip = get("zip").await;
    let block = &zip.output().unwrap().content[0];
    assert!(matches!(&block.body, Body::Blob(data) if data.bytes() == Some(vec![1, 2, 3])));
    assert_eq!(block.meta.get("filename"), Some(&Value::from("a.zip")));
}

#[tokio::test]
async fn a_change_that_is_redirected_is_not_sent_again() {
    let upstream = TestUpstream::start(|seen| {
        let redirect = |status, to: &str| Reply::new(status, "text/plain", "").with("Location", to);
        match (seen.method.as_str(), seen.text().as_str()) {
            ("GET", _) if seen.target == "/lost" => Reply::new(500, "text/plain", "broken"),
            ("GET", _) => {
                Reply::json(&json!({"made": seen.target, "trace": seen.header("cookie")}))
            }
            (_, body) if body.contains("here") => redirect(303, "/pets/7?x=1"),
            (_, body) if body.contains("lost") => redirect(303, "/lost"),
            (_, body) if body.contains("away") => redirect(303, "https://other.example/pets/7"),
            _ => redirect(307, "/v2/pets"),
        }
    })
    .await;
    let engine = engine_for(PETS, &upstream.url);
    let make = |name: &'static str| call(&engine, "createPet", json!({"name": name}));
    let here = make("here").await;
    let made = here.output().unwrap_or_else(|| panic!("{:?}", here.error())).value().unwrap();
    assert_eq!(made["made"], "/pets/7?x=1");
    assert_eq!(upstream.seen().len(), 2);

    let lost = make("lost").await.to_text(Lang::En);
    assert!(lost.contains("took the request") && lost.contains("Do not send"), "{lost}");

    for (name, english, chinese) in [
        (
            "away",
            "took the request, and says that the answer is at https://other.example/pets/7",
            "请勿重复",
        ),
        ("moved", "redirects the request (307 Temporary Redirect) to http://127.0.0.1:", "重定向"),
    ] {
        let before = upstream.seen().len();
        let result = make(name).await;
        let error = result.error().unwrap();
        assert_eq!(error.kind(), ErrorKind::UpstreamRejected);
        assert!(error.feedback(Lang::En).contains(english), "{}", error.feedback(Lang::En));
        assert!(error.feedback(Lang::Zh).contains(chinese), "{}", error.feedback(Lang::Zh));
        assert_eq!(upstream.seen().len(), before + 1);
    }
}

/// A service that takes a request and ends without an answer.
async fn dies() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 8192];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
        }
    });
    url
}

#[tokio::test]
async fn a_change_that_was_sent_may_have_happened_and_one_that_was_not_has_not() {
    let doubt = |result: &windlass::CallResult| {
        let english = result.to_text(Lang::En).contains("may have taken effect");
        assert_eq!(english, result.to_text(Lang::Zh).contains("可能已经生效"));
        english
    };
    let make = json!({"name": "Rex"});
    let dying = engine_for(PETS, &dies().await);
    let lost = call(&dying, "createPet", make.clone()).await;
    assert_eq!(lost.error().unwrap().kind(), ErrorKind::Network);
    assert!(doubt(&lost), "{}", lost.to_text(Lang::En));
    let looked = call(&dying, "getPet", json!({"petId": "1"})).await;
    assert!(!doubt(&looked), "looking changes nothing");

    let failing = TestUpstream::start(|_| {
        Reply::new(503, "application/json", r#"{"message": "overloaded"}"#).with("Retry-After", "3")
    })
    .await;
    let failed = call(&engine_for(PETS, &failing.url), "createPet", make.clone()).await;
    assert!(doubt(&failed) && failed.to_text(Lang::En).contains("overloaded"));

    // Nobody listens there: a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = call(&engine_for(PETS, &format!("http://{free}")), "createPet", make).await;
    assert_eq!(nobody.error().unwrap().kind(), ErrorKind::Network);
    assert!(!doubt(&nobody), "{}", nobody.to_text(Lang::En));
}
