//! Sources of settings and their precedence.

use crate::project::Project;

const TOOL: &str = "description: Says where it is from.\nentry: {type: builtin, handler: echo}\n\
                    parameters:\n  - {name: message, type: string, default: ";

fn tool(from: &str) -> String {
    format!("name: where\n{TOOL}{from}}}\n")
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let project = Project::empty();
    project.write("windlass.yaml", "tools_directory: in-file\ndatabase: file.db\nlang: zh\n");
    for from in ["in-file", "in-env", "in-flag"] {
        project.write(&format!("{from}/where.yaml"), &tool(from));
    }
    assert_eq!(project.ok(&["call", "where"]), "in-file\n");
    let mut env = project.command(&["call", "where"]);
    env.env("WINDLASS_TOOLS", "in-env").env("WINDLASS_DATABASE", "env.db");
    assert_eq!(env.output().unwrap().stdout, b"in-env\n");
    let mut flag =
        project.command(&["call", "where", "--tools", "in-flag", "--database", "flag.db"]);
    flag.env("WINDLASS_TOOLS", "in-env").env("WINDLASS_DATABASE", "env.db");
    assert_eq!(flag.output().unwrap().stdout, b"in-flag\n");
    for name in ["file.db", "env.db", "flag.db"] {
        assert!(project.path(name).exists(), "{name}");
    }
    project.run(&["call", "x_y_z"]).fails(3, &["error: 未知工具"]);
    let english = project.command(&["call", "x_y_z"]).env("WINDLASS_LANG", "en").output().unwrap();
    assert!(String::from_utf8_lossy(&english.stderr).contains("error: unknown tool"));
}

#[test]
fn a_project_is_found_from_below() {
    let project = Project::new();
    project.write("deep/er/file", "");
    let mut below = project.command(&["call", "hello"]);
    let ran = below.current_dir(project.path("deep/er")).output().unwrap();
    assert_eq!(ran.stdout, b"Hello from Windlass!\n");
    assert!(project.path(".windlass/windlass.db").exists());
}

#[test]
fn without_a_project_records_go_to_the_users_data() {
    let project = Project::empty();
    project.ok(&["call", "echo", "message=a"]);
    assert!(project.path(".local/share/windlass/windlass.db").exists());
    let mut xdg = project.command(&["call", "echo", "message=a"]);
    xdg.env("XDG_DATA_HOME", project.path("data"));
    assert!(xdg.output().unwrap().status.success());
    assert!(project.path("data/windlass/windlass.db").exists());
}

#[test]
fn a_broken_settings_file_is_explained() {
    let project = Project::empty();
    project.write("windlass.yaml", "max_concurent: 3\n\nqueue_size: many\n");
    let ran = project.run(&["tools"]);
    ran.fails(2, &["windlass.yaml:1: unknown key `max_concurent`; did you mean `max_concurrent`?"]);
    ran.fails(2, &["windlass.yaml:3: `queue_size` is a whole number from 0, found `many`"]);
    project.write("windlass.yaml", "concurrency:\n  stratgy: fifo\nretry:\n  attempts: no\n");
    let ran = project.run(&["check"]);
    ran.fails(2, &["windlass.yaml:2: unknown key `stratgy`; did you mean `strategy`?"]);
    ran.fails(2, &["windlass.yaml:4: `retry.attempts` is a whole number from 1, found `no`"]);
    project.write("windlass.yaml", "lang: \"en\n");
    project.run(&["tools"]).fails(2, &["windlass.yaml:", "not valid YAML"]);
}

#[test]
fn the_address_of_traces_holds_no_key() {
    let project = Project::empty();
    for endpoint in ["http://c.example:4318?key=hush", "http://c.example/v1/traces?key=hush"] {
        project.write("windlass.yaml", &format!("telemetry:\n  endpoint: '{endpoint}'\n"));
        let ran = project.run(&["config"]);
        ran.fails(2, &["windlass.yaml:2", "telemetry.headers"]);
        assert!(!ran.err.contains("hush") && !ran.out.contains("hush"), "{ran:?}");
    }
}

#[test]
fn folders_that_are_missing_are_named() {
    let project = Project::empty();
    project.run(&["tools", "--tools", "nowhere"]).fails(2, &["--tools nowhere: no such folder"]);
    project.run(&["tools", "--project", "nowhere"]).fails(2, &["windlass init nowhere"]);
    project.write("windlass.yaml", "tools_directory: nowhere\n");
    let ran = project.run(&["tools"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("warning: nowhere: no such folder of tools"), "{ran:?}");
}

#[test]
fn settings_reach_the_engine() {
    let project = Project::empty();
    project.write("windlass.yaml", "strict_validation: true\n");
    project.run(&["call", "echo", "message=a", "other=1"]).fails(2, &["/other"]);
    let verbose = project.run(&["call", "echo", "message=a", "-v"]);
    for part in ["settings: windlass.yaml", "database: .windlass/windlass.db", "every 5s", "call 0"]
    {
        assert!(verbose.err.contains(part), "no {part:?} in {verbose:?}");
    }
}

#[test]
fn limits_reach_the_engine_and_are_told() {
    let project = Project::empty();
    project.write(
        "windlass.yaml",
        "concurrency:\n  max_concurrent: 7\n  strategy: reject\n  bucket_limits: {custom: 1}\n  \
         reserved_slots: 2\nretry: {attempts: 5, backoff: 200ms}\nbreaker: off\ncache_entries: 9\n",
    );
    project.write("tools/none.yaml", "name: none\ndescription: Does nothing at all.\n");
    for command in ["tools", "check"] {
        let verbose = project.run(&[command, "-v"]);
        for part in [
            "limits: 7 calls at once, 100 may wait, reject, custom: 1, 2 kept for others",
            "batches: at most 50 calls, 10 at once",
            "attempts: 5, 200ms apart, times 2, at most 30s",
            "breaker: off; cached results: 9",
        ] {
            assert!(verbose.err.contains(part), "no {part:?} in {verbose:?}");
        }
    }
    // One call of the category at once, and none may wait.
    let call = r#"{"tool": "wait", "arguments": {"seconds": 0.2}}"#;
    let ran = project.run(&["batch", &format!("[{call}, {call}]"), "--json"]);
    let results: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(results[0]["is_success"], true, "{results}");
    assert_eq!(results[1]["error_kind"], "queue_full", "{results}");
}
