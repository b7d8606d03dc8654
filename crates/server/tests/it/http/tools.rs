//! Tools: lists, formats, pagination, and a tenant's own tools.

use serde_json::{Value, json};

use super::server::{Server, until};
use super::wire::Client;
use crate::project::Project;

fn greet(name: &str, description: &str) -> Value {
    json!({"definition": {
        "name": name,
        "description": description,
        "parameters": [{"name": "message", "type": "string", "required": true}],
        "entry": {"type": "builtin", "handler": "echo"},
    }})
}

fn names(client: &Client, query: &str) -> Vec<String> {
    let page = client.get(&format!("/v1/tools?{query}")).is(200);
    let tools = page["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lists_are_filtered_and_come_in_pages() {
    let project = Project::empty();
    project
        .write("tools/a.yaml", super::server::WRITE)
        .write("tools/p/p.yaml", "identity: {name: acme}\ncredentials_schema: []\n")
        .write(
            "tools/p/tools/ping.yaml",
            "name: acme.ping\nprovider: acme\ngroup: remote\ndescription: {en_US: Knocks., zh_Hans: 敲门。}\n\
             entry: {type: builtin, handler: echo}\nparameters: [{name: message, type: string}]\n",
        );
    let server = Server::run(project.into(), &[], &[], None);
    let client = server.key("default", "viewer");
    let all = names(&client, "");
    assert!(all.len() > 8 && all.is_sorted(), "{all:?}");
    let files = client.get("/v1/tools?category=file").is(200);
    let files = files["tools"].as_array().unwrap();
    assert!(files.iter().any(|tool| tool["name"] == "write_note"));
    assert!(files.iter().all(|tool| tool["category"] == "file") && files.len() < all.len());
    assert_eq!(names(&client, "provider=acme"), ["acme.ping"]);
    assert_eq!(names(&client, "group=remote"), ["acme.ping"]);
    assert_eq!(names(&client, "q=KNOCKS"), ["acme.ping"]);
    assert_eq!(names(&client, "q=%E6%95%B2%E9%97%A8"), ["acme.ping"]);
    assert_eq!(names(&client, "category=file&provider=acme"), [""; 0]);

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = client.get(&format!("/v1/tools?limit=3{cursor}")).is(200);
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.len() <= 3);
        seen.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all, "all pages together are the list");

    for (query, place) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=x", "limit"),
        ("format=yaml", "format"),
        ("lang=fr", "lang"),
        ("colour=red", "colour"),
        ("q=a&q=b", "q"),
        ("q=%00", "q"),
        ("cursor=garbage", "cursor"),
        ("cursor=echo", "cursor"),
    ] {
        let problem = client.get(&format!("/v1/tools?{query}")).problem(400, "invalid_request");
        assert_eq!(problem["errors"][0]["path"], place, "{query}: {problem}");
    }
}

#[test]
fn declarations_are_what_each_model_api_takes() {
    let server = Server::start();
    let client = server.key("default", "viewer");
    let declared = |format: &str| {
        let page = client.get(&format!("/v1/tools?format={format}&q=calculator")).is(200);
        assert_eq!(page["next"], Value::Null);
        page["tools"][0].clone()
    };
    let anthropic = declared("anthropic");
    assert_eq!(anthropic["name"], "calculator");
    assert_eq!(anthropic["input_schema"]["type"], "object");
    let openai = declared("openai");
    assert_eq!(openai["type"], "function");
    assert_eq!(openai["function"]["name"], "calculator");
    assert_eq!(openai["function"]["parameters"]["type"], "object");
    let gemini = declared("gemini");
    assert!(gemini["parameters"].is_object() && gemini["name"] == "calculator", "{gemini}");
    let mcp = declared("mcp");
    assert!(mcp["inputSchema"].is_object() && mcp["name"] == "calculator", "{mcp}");

    let chinese = client.get("/v1/tools/calculator?lang=zh").is(200);
    let english = client.get("/v1/tools/calculator?lang=en").is(200);
    assert!(!chinese["description"].as_str().unwrap().is_ascii());
    assert!(english["description"].as_str().unwrap().is_ascii());
    client.get("/v1/tools/nothing").problem(404, "not_found");
}

#[test]
fn models_of_every_api_see_names_that_can_be_read() {
    let server = Server::start();
    let client = server.key("default", "operator");
    client.post("/v1/tools", &greet("shop/order.make", "Orders something.")).is(201);
    assert_eq!(client.get("/v1/tools/shop__order_make").is(200)["wire_name"], "shop__order_make");
    for (format, pointer) in [
        ("anthropic", "/name"),
        ("openai", "/function/name"),
        ("gemini", "/name"),
        ("mcp", "/name"),
    ] {
        let page = client.get(&format!("/v1/tools?format={format}&q=shop/order")).is(200);
        assert_eq!(page["tools"][0].pointer(pointer).unwrap(), "shop__order_make", "{format}");
    }
    let call = json!({"tool": "shop__order_make", "arguments": {"message": "tea"}});
    let done = client.post("/v1/calls", &call).is(200);
    assert_eq!(done["tool_name"], "shop/order.make", "{done}");
    client.post("/v1/tools", &greet("shop__order_make", "Another one.")).is(201);
    let wire = client.get("/v1/tools/shop%2Forder.make").is(200)["wire_name"].clone();
    assert!(wire.as_str().unwrap().starts_with("shop_order_make__"), "{wire}");
}

#[test]
fn a_tenant_registers_replaces_and_deletes_its_own_tools() {
    let server = Server::start();
    let (ours, theirs) = (server.key("ours", "operator"), server.key("theirs", "operator"));
    let made = ours.post("/v1/tools", &greet("greet/天", "Greets."));
    assert_eq!(made.is(201)["name"], "greet/天");
    let place = made.header("location").unwrap().to_owned();
    assert!(place.is_ascii(), "{place}");
    assert_eq!(ours.get(&place).is(200)["description"], "Greets.");
    ours.post("/v1/tools", &greet("greet/天", "Again.")).problem(409, "conflict");
    let replaced = ours.put(&place, &greet("greet/天", "Greets well.")).is(200);
    assert_eq!(replaced["description"], "Greets well.");
    let other = ours.put(&place, &greet("another", "x")).problem(400, "invalid_request");
    assert_eq!(other["errors"][0]["path"], "/definition/name");

    // Whatever is done to it by another tenant, there is no such tool.
    let unknown = theirs.get("/v1/tools/nothing").text();
    assert_eq!(theirs.get(&place).text(), unknown);
    assert_eq!(theirs.delete(&place).text(), unknown);
    let call = json!({"tool": "greet/天", "arguments": {"message": "hi"}});
    assert_eq!(ours.post("/v1/calls", &call).is(200)["output"], "hi");
    assert_eq!(theirs.post("/v1/calls", &call).is(200)["error_kind"], "tool_not_found");
    // Both may have one of the same name.
    theirs.post("/v1/tools", &greet("greet/天", "Theirs.")).is(201);
    assert_eq!(ours.get(&place).is(200)["description"], "Greets well.");

    // Those of everybody stay.
    ours.delete("/v1/tools/echo").problem(409, "conflict");
    let server = server.kill_and_start();
    let (ours, theirs) = (
        server.client(ours.key.as_deref().unwrap()),
        server.client(theirs.key.as_deref().unwrap()),
    );
    assert_eq!(ours.get(&place).is(200)["description"], "Greets well.", "it was kept");
    ours.delete(&place).is(204);
    ours.get(&place).problem(404, "not_found");
    assert_eq!(theirs.get(&place).is(200)["description"], "Theirs.");
}

#[test]
fn definitions_are_checked_without_being_kept() {
    let server = Server::start();
    let client = server.admin();
    let check = |definition: Value| {
        client.post("/v1/definitions/validate", &json!({"definition": definition})).is(200)
    };
    let good = check(greet("fine", "x")["definition"].clone());
    assert_eq!((&good["valid"], &good["tools"]), (&true.into(), &json!(["fine"])));
    client.get("/v1/tools/fine").problem(404, "not_found");
    let yaml = check("name: two\ndescription: x\nentry: {type: builtin, handler: ehco}\n".into());
    assert_eq!(yaml["valid"], false, "what registers here must run here: {yaml}");
    assert!(yaml["errors"][0]["message"].as_str().unwrap().contains("ehco"), "{yaml}");
    let odd = check("name: three\ndescription: x\nparametres: []\n".into());
    assert_eq!((&odd["valid"], &odd["errors"][0]["line"]), (&false.into(), &3.into()), "{odd}");
    for bad in [json!("{"), json!(""), json!({}), json!("[[[["), json!("a: &a [*a]")] {
        assert_eq!(check(bad.clone())["valid"], false, "{bad}");
    }
    // Registering says the same.
    let sql = "name: shop\ndescription: x\nparameters: [{name: query, type: string, required: true}]\n\
               entry: {type: builtin, handler: sql_query, database: shop}\n";
    let elsewhere = "name: far\ndescription: x\nentry: {type: wasm, module: far.wasm}\n";
    let misspelt = "name: two\ndescription: x\nentry: {type: builtin, handler: ehco}\n";
    for definition in [sql, elsewhere, misspelt] {
        let checked = check(definition.into());
        let body = json!({"definition": definition});
        let refused = client.post("/v1/tools", &body).problem(400, "invalid_request");
        let said = refused["errors"][0]["message"].as_str().unwrap();
        let expected = checked["errors"][0]["message"].as_str().unwrap();
        assert!(said.ends_with(expected), "{said} / {expected}");
    }
    // What is refused leaves nothing behind.
    let refused = client.post("/v1/tools", &json!({"definition": {"name": "bad name"}}));
    let refused = refused.problem(400, "invalid_request");
    assert_eq!(refused["errors"][0]["path"], "/definition");
    // A tool may be called like a route.
    client.post("/v1/tools", &greet("validate", "x")).is(201);
    client.get("/v1/tools/validate").is(200);
    client.delete("/v1/tools/validate").is(204);
}

#[test]
fn a_tool_of_a_provider_is_neither_replaced_nor_lost() {
    let server = Server::start();
    let client = server.key("ours", "operator");
    let provider = "identity: {name: acme}\n---\nname: acme_status\nprovider: acme\n\
        description: Says how Acme does.\nentry: {type: builtin, handler: echo}\n\
        parameters: [{name: message, type: string, required: true}]\n";
    client.post("/v1/providers", &json!({"definition": provider})).is(201);
    let mine = greet("acme_status", "Mine.");
    let still = |why: &str| {
        let tool = client.get("/v1/tools/acme_status").is(200);
        assert_eq!(tool["description"], "Says how Acme does.", "{why}");
    };
    for answer in [client.post("/v1/tools", &mine), client.put("/v1/tools/acme_status", &mine)] {
        let problem = answer.problem(409, "conflict");
        assert!(problem["hint"].as_str().unwrap().contains("/v1/providers/acme"), "{problem}");
        still("after a registration that was refused");
    }
    client.delete("/v1/tools/acme_status").problem(409, "conflict");
    still("after a deletion that was refused");
    // Nor by a tool that is called like the place that the provider is kept in.
    client.post("/v1/tools", &greet("providers/acme", "Elsewhere.")).is(201);
    still("beside such a name");
    client.delete("/v1/tools/providers%2Facme").is(204);
    still("without it");
    // One that cannot be used keeps the one before.
    client.post("/v1/tools", &greet("own", "Mine.")).is(201);
    let mut broken = greet("own", "Broken.");
    broken["definition"]["entry"]["handler"] = json!("ehco");
    client.put("/v1/tools/own", &broken).problem(400, "invalid_request");
    assert_eq!(client.get("/v1/tools/own").is(200)["description"], "Mine.");
}

/// The user's definition of a provider wins over the one that comes with the
/// program, also where it comes later.
#[test]
fn a_provider_of_the_users_wins_over_a_shipped_one() {
    let server = Server::with("reload_interval: 100ms\n", &[]);
    let client = server.admin();
    let author = || client.get("/v1/providers/weather").is(200)["author"].clone();
    assert_ne!(author(), "us");
    let ours = "identity: {name: weather, author: us}\ncredentials_schema: []\n";
    server.project.write("tools/weather.yaml", ours);
    until("the file is read", || (author() == "us").then_some(()));
    server.project.write("tools/weather.yaml", &ours.replace("author: us", "author: still us"));
    until("it is read again", || (author() == "still us").then_some(()));
}
