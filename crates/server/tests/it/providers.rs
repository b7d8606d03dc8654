//! `windlass providers`, and API documents in folders of definitions.

use serde_json::json;

use crate::project::Project;

pub(crate) const PETS: &str = "
openapi: 3.0.3
info: {title: Pets, version: '1'}
servers: [{url: 'http://127.0.0.1:9/v1'}]
security: [{key: []}]
paths:
  /pets:
    get: {operationId: list_pets, tags: [pets], summary: List all pets, responses: {}}
    post:
      operationId: create_pet
      tags: [pets]
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}
      responses: {}
  /owners: {get: {operationId: list_owners, tags: [owners], responses: {}}}
  /broken: {get: [1]}
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}
";

fn changed() -> String {
    PETS.replace("{name: {type: string}}", "{name: {type: string}, tag: {type: string}}").replace(
        "/owners: {get: {operationId: list_owners, tags: [owners], responses: {}}}",
        "/toys: {get: {operationId: list_toys, responses: {}}}",
    )
}

#[test]
fn a_document_becomes_tools_that_can_be_seen_and_called() {
    let project = Project::empty();
    project.write("pets.yaml", PETS);
    let dry = project.run(&["providers", "add", "pets", "pets.yaml", "--dry-run", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&dry.out).unwrap();
    assert_eq!(report["tools"][1]["operation"], "POST /pets", "{report}");
    assert_eq!(report["unsupported"][0]["operation"], "GET /broken");
    assert_eq!(report["credentials_schema"][0]["name"], "key");
    assert_eq!(
        project
            .json(&["providers", "list"])
            .as_array()
            .map_or(0, |all| all.iter().filter(|one| one["imported"] == true).count()),
        0
    );

    let added = project.run(&["providers", "add", "pets", "pets.yaml", "--exclude-tag", "owners"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.out.contains("list_pets") && !added.out.contains("list_owners"), "{added:?}");
    project
        .run(&["providers", "add", "pets", "pets.yaml"])
        .fails(1, &["there already", "providers update"]);
    let tools = project.json(&["tools", "--kind", "rest"]);
    assert_eq!(tools.as_array().unwrap().len(), 2);
    assert_eq!(project.json(&["tools", "create_pet"])["model_schema"]["required"], json!(["name"]));

    // Nothing goes out without a credential, and nothing to this machine.
    project.run(&["call", "list_pets"]).fails(1, &["`pets` needs a credential: `key`"]);
    let stored = project.pipe("s3cret-key-1", &["credentials", "set", "pets", "--stdin"]);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let refused = project.run(&["call", "list_pets"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains("127.0.0.1"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("s3cret-key-1"));
}

#[test]
fn another_import_shows_what_changed_and_changed_tools_ask() {
    let project = Project::empty();
    project.write("pets.yaml", PETS).write("new.yaml", &changed());
    assert_eq!(project.run(&["providers", "add", "pets", "pets.yaml"]).code, Some(0));
    let same = project.json(&["providers", "update", "pets", "pets.yaml"]);
    assert_eq!(same["diff"]["unchanged"], 3);
    let wanted = json!({
        "added": ["list_toys"], "removed": ["list_owners"], "unchanged": 1,
        "changed": [{"name": "create_pet", "operation": "POST /pets", "parts": ["input", "request"]}],
    });
    for (flags, tools) in [(&["--dry-run"][..], 3), (&[][..], 3)] {
        let diff = project.json(&[&["providers", "update", "pets", "new.yaml"], flags].concat());
        assert_eq!(diff["diff"], wanted);
        assert_eq!(diff["flagged"], json!(["create_pet"]));
        assert_eq!(project.json(&["tools", "--kind", "rest"]).as_array().unwrap().len(), tools);
    }
    assert_eq!(project.json(&["tools", "create_pet"])["approval"], "ask");
    assert_eq!(project.json(&["tools", "list_toys"])["name"], "list_toys");
    project.run(&["tools", "list_owners"]).fails(3, &["no tool `list_owners`"]);
    project.run(&["providers", "accept", "pets", "list_pets"]).fails(3, &["does not wait"]);
    assert_eq!(project.json(&["providers", "accept", "pets"])["accepted"], json!(["create_pet"]));
    assert_eq!(project.json(&["tools", "create_pet"])["approval"], json!(null));
    project.ok(&["providers", "remove", "pets"]);
    assert_eq!(project.json(&["tools", "--kind", "rest"]), json!([]));
    project.run(&["providers", "show", "pets"]).fails(3, &["no imported provider"]);
}

#[test]
fn a_definition_names_a_document_beside_it() {
    let project = Project::empty();
    project.write("tools/pets/openapi.yaml", PETS).write(
        "tools/pets/pets.yaml",
        "identity: {name: pets, label: Our pets}\nopenapi: ./openapi.yaml\noptions: {include: ['tag:pets'], prefix: pet_}\n",
    );
    let tools = project.json(&["tools", "--kind", "rest"]);
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pet_create_pet", "pet_list_pets"]);
    project.write("tools/pets/pets.yaml", "identity: {name: pets}\nopenapi: ./missing.yaml\n");
    let ran = project.run(&["tools", "--kind", "rest", "--json"]);
    assert!(ran.err.contains("pets.yaml:2:") && ran.err.contains("missing.yaml"), "{ran:?}");
    project.write(
        "tools/pets/pets.yaml",
        "identity: {name: pets}\nopenapi: ./openapi.yaml\noptions: {colour: red}\n",
    );
    let ran = project.run(&["tools", "--kind", "rest", "--json"]);
    assert!(ran.err.contains("colour"), "{ran:?}");
}

#[test]
fn two_providers_and_built_in_tools_keep_their_names() {
    let project = Project::empty();
    project.write("pets.yaml", &PETS.replace("list_owners", "calculator"));
    for (name, warned) in [("one", false), ("two", true)] {
        let added = project.run(&["providers", "add", name, "pets.yaml"]);
        assert_eq!(added.code, Some(0), "{added:?}");
        assert!(added.err.contains("`calculator` is another tool"), "{added:?}");
        assert_eq!(added.err.contains("`list_pets` is another tool"), warned, "{added:?}");
    }
    assert_eq!(project.json(&["tools", "--kind", "rest"]).as_array().unwrap().len(), 6);
    assert_eq!(project.json(&["tools", "calculator"])["kind"], "builtin");
    // Its own names are not another's.
    let same = project.json(&["providers", "update", "two", "pets.yaml"]);
    assert_eq!(same["diff"]["unchanged"], 3, "{same}");
    project
        .run(&["providers", "add", "three", "pets.yaml", "--exclude", "tag:Pets"])
        .fails(2, &["`tag:Pets` of `exclude` selects nothing"]);
}

#[test]
fn the_check_reads_the_document_of_a_provider() {
    let project = Project::empty();
    project
        .write("tools/pets/openapi.yaml", PETS)
        .write("tools/pets/pets.yaml", "identity: {name: pets}\nopenapi: ./openapi.yaml\n");
    let report = project.json(&["check", "tools"]);
    assert_eq!((&report["tools"], &report["errors"]), (&json!(3), &json!(0)), "{report}");
    let finding = &report["findings"][0];
    assert_eq!((&finding["severity"], &finding["line"]), (&json!("warning"), &json!(2)));
    assert!(finding["message"].as_str().unwrap().starts_with("GET /broken is no tool"), "{report}");
}

#[test]
fn what_is_no_document_is_refused_with_a_reason() {
    let project = Project::empty();
    project.write("a.yaml", "a: b").write("b.yaml", "openapi: 3.0.0\npaths: [");
    for (file, why) in [
        ("a.yaml", "neither `openapi` nor `swagger`"),
        ("b.yaml", "not valid YAML"),
        ("c.yaml", "c.yaml"),
    ] {
        let ran = project.run(&["providers", "add", "x", file]);
        assert_ne!(ran.code, Some(0));
        assert!(ran.err.contains(why), "{ran:?}");
    }
    let ran = project.run(&["providers", "add", "x", "http://169.254.169.254/openapi.json"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("169.254.169.254"), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_the_folder_of_a_document() {
    let project = Project::empty();
    let schema = "{type: object, properties: {told: {type: string, description: the inside}}}";
    project
        .write("secret.yaml", &schema.replace("inside", "outside"))
        .write("api/own.yaml", schema);
    let document = |file: &str| {
        let body = format!("{{content: {{application/json: {{schema: {{$ref: {file}}}}}}}}}");
        format!(
            "openapi: 3.0.0\nservers: [{{url: 'https://x.example'}}]\n\
             paths: {{/a: {{post: {{operationId: a, requestBody: {body}}}}}}}\n"
        )
    };
    std::os::unix::fs::symlink(project.path("secret.yaml"), project.path("api/link.yaml")).unwrap();
    std::os::unix::fs::symlink(project.path("api/own.yaml"), project.path("api/near.yaml"))
        .unwrap();
    for (file, leads) in [("link.yaml", false), ("near.yaml", true)] {
        project.write("api/a.yaml", &document(file));
        let ran = project.run(&["providers", "add", "x", "api/a.yaml", "--dry-run", "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.out.contains("the outside"), "{ran:?}");
        assert_eq!(ran.out.contains("leads to nothing"), !leads, "{ran:?}");
    }
}

#[test]
fn a_flag_that_means_nothing_to_a_provider_is_refused() {
    let project = Project::empty();
    project.write("pets.yaml", PETS);
    for (flags, told) in [
        (["--env", "A=b"].as_slice(), "--env is for MCP servers"),
        (&["--quarantine"], "--quarantine is for MCP servers"),
        (&["--header", "Authorization=Bearer x"], "is a secret"),
        (&["--header", "X-Token=${TOKEN}"], "--auth header:X-Token"),
        (&["--auth", "digest"], "none, bearer, basic, header:NAME"),
        (&["--auth", "scheme:other"], "no security scheme `other`"),
    ] {
        let ran = project.run(&[&["providers", "add", "pets", "pets.yaml"], flags].concat());
        assert!(ran.code != Some(0) && format!("{ran:?}").contains(told), "{flags:?}: {ran:?}");
    }
    let ran =
        project.run(&["providers", "add", "x", "--mcp", "https://x.example", "--auth", "none"]);
    assert!(ran.code == Some(2) && ran.err.contains("an MCP server says itself"), "{ran:?}");
    let headers = ["--header", "X-Client=windlass", "--auth", "none", "--deferred"];
    let ran =
        project.run(&[&["providers", "add", "pets", "pets.yaml"], headers.as_slice()].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let tool = project.json(&["tools", "list_pets"]);
    assert_eq!(tool["entry"]["headers"], json!({"X-Client": "windlass"}), "{tool}");
    assert_eq!((&tool["entry"]["security"], &tool["exposure"]), (&json!(null), &json!("deferred")));
    let changed = project.run(&["providers", "update", "pets", "pets.yaml", "--auth", "bearer"]);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    let tool = project.json(&["tools", "list_pets"]);
    assert_eq!(
        tool["entry"]["security"],
        json!([[{"type": "bearer", "field": "token"}]]),
        "{tool}"
    );
}

#[test]
fn a_removed_provider_leaves_or_takes_its_credentials_as_told() {
    let project = Project::empty();
    project.write("pets.yaml", PETS);
    let add = || assert_eq!(project.run(&["providers", "add", "pets", "pets.yaml"]).code, Some(0));
    let stored = || project.json(&["credentials", "list"]).as_array().map_or(0, Vec::len);
    add();
    let set = project.pipe("s3cret-key-1", &["credentials", "set", "pets", "--stdin"]);
    assert_eq!((set.code, stored()), (Some(0), 1), "{set:?}");
    let kept = project.run(&["providers", "remove", "pets"]);
    assert!(kept.err.contains("its credentials stay (1)"), "{kept:?}");
    assert_eq!(stored(), 1);
    add();
    let gone = project.run(&["providers", "remove", "pets", "--remove-credentials"]);
    assert!(gone.out.contains("removed pets and its credentials (1)"), "{gone:?}");
    assert_eq!(stored(), 0);
}

#[test]
fn imports_load_together_each_with_its_own_tools() {
    let project = Project::empty();
    project.write("pets.yaml", PETS);
    for name in ["one", "two", "three"] {
        let prefix = format!("{name}_");
        let added =
            project.run(&["providers", "add", name, "pets.yaml", "--prefix", prefix.as_str()]);
        assert_eq!(added.code, Some(0), "{added:?}");
    }
    let tools = project.json(&["tools", "--kind", "rest"]);
    let sources: Vec<(&str, &str)> = (tools.as_array().unwrap().iter())
        .filter(|tool| tool["name"].as_str().unwrap().ends_with("list_pets"))
        .map(|tool| (tool["name"].as_str().unwrap(), tool["source"].as_str().unwrap()))
        .collect();
    assert_eq!(
        sources,
        [
            ("one_list_pets", "api/providers/one"),
            ("three_list_pets", "api/providers/three"),
            ("two_list_pets", "api/providers/two"),
        ]
    );

    // A name that two sources have is told of the one that comes later, and
    // nothing else of it is lost.
    project.write(
        "tools/own.yaml",
        "name: two_list_pets\ndescription: Mine.\nentry: {type: builtin, handler: echo}\n",
    );
    let shown = project.run(&["tools", "two_list_pets", "--json"]);
    assert!(shown.err.contains("api/providers/two") && shown.err.contains("already"), "{shown:?}");
    assert!(shown.out.contains("Mine."), "{shown:?}");
    let other = project.run(&["tools", "two_create_pet", "--json"]);
    let other: serde_json::Value = serde_json::from_str(&other.out).unwrap();
    assert_eq!(other["source"], "api/providers/two");
}
