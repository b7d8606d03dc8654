//! `windlass config`: effective settings and where they come from.

use crate::project::Project;

#[test]
fn every_source_is_named_and_the_strongest_wins() {
    let project = Project::empty();
    project.write(
        "windlass.yaml",
        "max_concurrent: 3\nqueue_size: 9\nserver:\n  drain: 5s\n  hosts: [a.example, b.example]\n",
    );
    let mut command = project.command(&["config", "--json", "--lang", "zh"]);
    command
        .env("WINDLASS_MAX_CONCURRENT", "7")
        .env("WINDLASS_SERVER_ORIGINS", "https://a,https://b");
    command.env("WINDLASS_LANG", "en").env("WINDLASS_LISTEN", "127.0.0.1:1234");
    let output = command.output().unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name).unwrap();
        (one["value"].clone(), one["origin"].as_str().unwrap().to_owned())
    };
    let told = |value: serde_json::Value, origin: &str| (value, origin.to_owned());
    assert_eq!(of("max_concurrent"), told(7.into(), "env WINDLASS_MAX_CONCURRENT"));
    assert_eq!(of("queue_size"), told(9.into(), "windlass.yaml:2"));
    assert_eq!(of("server.drain"), told("5s".into(), "windlass.yaml:4"));
    assert_eq!(of("server.hosts").0, serde_json::json!(["a.example", "b.example"]));
    assert_eq!(of("server.origins").0, serde_json::json!(["https://a", "https://b"]));
    assert_eq!(of("server.listen"), told("127.0.0.1:1234".into(), "env WINDLASS_LISTEN"));
    assert_eq!(of("lang"), told("zh".into(), "flag --lang"));
    assert_eq!(of("max_batch"), told(50.into(), "default"));
}

#[test]
fn secrets_are_masked() {
    let project = Project::empty();
    project.write("windlass.yaml", "telemetry:\n  headers: [authorization=hunter2]\n");
    for args in [
        &["config"][..],
        &["config", "--json"],
        &["config", "telemetry.headers"],
        &["config", "-v"],
    ] {
        let mut command = project.command(args);
        command.env("WINDLASS_DATABASE", "postgres://ada:hunter2@db.example/w");
        let ran = crate::project::Ran::from(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"), "{ran:?}");
    }
    let one = project.ok(&["config", "telemetry.headers"]);
    assert_eq!(one, "authorization=[hidden]\n");
}

#[test]
fn one_setting_is_printed_alone_and_a_wrong_name_is_corrected() {
    let project = Project::empty();
    assert_eq!(project.ok(&["config", "server.listen"]), "127.0.0.1:7700\n");
    project.run(&["config", "drain"]).fails(3, &["did you mean `server.drain`?"]);
    project.run(&["config", "max_concurent"]).fails(3, &["did you mean `max_concurrent`?"]);
    assert!(project.run(&["config", "--changed"]).err.contains("nothing is set"));
}

#[test]
fn variables_are_checked_like_the_file() {
    let project = Project::empty();
    let run = |name: &str, value: &str| {
        let output = project.command(&["config"]).env(name, value).output().unwrap();
        crate::project::Ran::from(output)
    };
    run("WINDLASS_QUEUE_SIZE", "many")
        .fails(2, &["WINDLASS_QUEUE_SIZE is a whole number from 0, found `many`"]);
    run("WINDLASS_SERVER_LISTEN", "here").fails(2, &["an address with a port"]);
    run("WINDLASS_LOG", "loud").fails(2, &["WINDLASS_LOG is error, warn"]);
    run("WINDLASS_BUCKET_LIMITS", "http").fails(2, &["http=5,ai=2"]);
    let fine = run("WINDLASS_BUCKET_LIMITS", "http=5,ai=2");
    assert!(fine.out.contains("ai: 2, http: 5"), "{fine:?}");
    let odd = run("WINDLASS_QEUE_SIZE", "1");
    assert_eq!(odd.code, Some(0));
    assert!(odd.err.contains("did you mean WINDLASS_QUEUE_SIZE?"), "{odd:?}");
    project.write("windlass.yaml", "zzz: 1\n");
    let both = run("WINDLASS_QUEUE_SIZE", "many");
    both.fails(2, &["windlass.yaml:1: unknown key", "WINDLASS_QUEUE_SIZE"]);
}
