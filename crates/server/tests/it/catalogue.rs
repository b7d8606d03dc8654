//! `windlass tools`, `init` and `completion`, and the help.

use crate::project::Project;

#[test]
fn a_new_project_works_from_the_first_minute() {
    let project = Project::empty();
    let out = project.ok(&["init", "my-tools"]);
    assert!(out.contains("wrote my-tools/windlass.yaml") && out.contains("cd my-tools"), "{out}");
    let inside = ["--project", "my-tools"];
    let run = |args: &[&str]| project.ok(&[args, &inside].concat());
    assert!(run(&["tools"]).contains("hello "));
    assert_eq!(run(&["call", "hello"]), "Hello from Windlass!\n");
    assert_eq!(run(&["call", "hello", "message=Hi Ada", "--conversation", "c1"]), "Hi Ada\n");
    assert!(run(&["calls"]).contains("succeeded"));
    assert!(run(&["stats"]).contains("100.0 %"));
    assert_eq!(run(&["check", "--strict"]), "1 file, 1 tool, 0 errors, 0 warnings\n");
    let ignored = std::fs::read_to_string(project.path("my-tools/.gitignore")).unwrap();
    assert_eq!(ignored, ".windlass/\n");
    assert!(project.path("my-tools/.windlass/windlass.db").exists());
}

#[test]
fn init_overwrites_nothing_unless_told() {
    let project = Project::empty();
    project.write("tools/hello.yaml", "mine").write(".gitignore", "target");
    let read = |name| std::fs::read_to_string(project.path(name)).unwrap();
    project.run(&["init"]).fails(2, &["already has tools/hello.yaml", "--force"]);
    assert_eq!(
        (read("tools/hello.yaml").as_str(), read(".gitignore").as_str()),
        ("mine", "target")
    );
    assert!(!project.path("windlass.yaml").exists());
    project.ok(&["init", "--force"]);
    assert_eq!(read(".gitignore"), "target\n.windlass/\n");
    let again = project.json(&["init", "--force"]);
    assert_eq!(again["written"].as_array().unwrap().len(), 3, "the .gitignore is complete");
}

#[test]
fn every_key_of_the_written_settings_is_a_key() {
    let project = Project::new();
    let written = std::fs::read_to_string(project.path("windlass.yaml")).unwrap();
    let keys: String = (written.lines())
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| {
            let key = line.trim_start().split_once(':').map_or("", |(key, _)| key);
            !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(keys.lines().count(), 165, "{keys}");
    project.write("windlass.yaml", &keys);
    assert_eq!(project.ok(&["call", "hello"]), "Hello from Windlass!\n");
}

#[test]
fn tools_are_listed_filtered_and_explained() {
    let project = Project::new();
    let all = project.ok(&["tools"]);
    assert!(all.starts_with("NAME "), "{all}");
    assert!(all.lines().all(|line| line == line.trim_end()), "{all}");
    let names = |args: &[&str]| -> Vec<String> {
        let json = project.json(&[&["tools"], args].concat());
        json.as_array().unwrap().iter().map(|tool| tool["name"].to_string()).collect()
    };
    assert!(names(&[]).len() >= 10);
    assert_eq!(names(&["--tag", "example"]), ["\"hello\""]);
    assert_eq!(names(&["--search", "ARITHMETIC"]), ["\"calculator\""]);
    assert_eq!(names(&["--kind", "native"]), ["\"read_output\"", "\"tool_search\""]);
    assert!(names(&["--group", "none"]).is_empty() && names(&["--category", "none"]).is_empty());
    let detail = project.ok(&["tools", "datetime"]);
    for part in ["PARAMETER", "operation", "required", "one of: now, parse", "UTC", "read-only"] {
        assert!(detail.contains(part), "no {part:?} in {detail}");
    }
    assert!(detail.contains("windlass call datetime operation=now"), "{detail}");
    assert!(project.ok(&["tools", "hello", "--lang", "zh"]).contains("向调用者问好"));
    assert_eq!(project.json(&["tools", "hello"])["source"], "tools/hello.yaml");
    project.run(&["tools", "calculater"]).fails(3, &["no tool `calculater`", "`calculator`"]);
}

#[test]
fn declarations_fit_each_api() {
    let project = Project::empty();
    for (format, key) in [
        ("anthropic", "/0/input_schema/properties"),
        ("openai", "/0/function/parameters/properties"),
        ("gemini", "/0/parameters/properties"),
        ("mcp", "/0/inputSchema/properties"),
    ] {
        let all = project.json(&["tools", "--format", format]);
        assert!(all.pointer(key).is_some(), "{format}: {all}");
        let one = project.json(&["tools", "echo", "--format", format]);
        assert!(one.is_object(), "{format}: {one}");
    }
    project
        .run(&["tools", "--format", "xml"])
        .fails(2, &["anthropic, openai, responses, gemini, mcp"]);
}

#[test]
fn a_broken_file_does_not_keep_the_others_away() {
    let project = Project::new();
    project.write("tools/bad.yaml", "name: bad\nparameters:\n  - {name: a, type: strng}\n");
    let ran = project.run(&["call", "hello"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Hello from Windlass!\n"));
    assert!(ran.err.contains("warning: tools/bad.yaml:3:"), "{ran:?}");
    assert!(ran.err.contains("did you mean `string`"), "{ran:?}");
    assert_eq!(project.run(&["call", "hello", "-q"]).err, "");
}

#[test]
fn a_users_tool_takes_the_place_of_a_built_in_one() {
    let project = Project::new();
    project.write(
        "tools/echo.yaml",
        "name: echo\ndescription: My own.\nparameters:\n  - {name: message, type: string, default: mine}\n\
         entry: {type: builtin, handler: echo}\n",
    );
    assert_eq!(project.ok(&["call", "echo"]), "mine\n");
    assert!(project.ok(&["tools"]).contains("My own."));
}

#[test]
fn a_name_that_is_taken_is_refused_with_its_place() {
    let project = Project::new();
    project.write(
        "tools/mine.yaml",
        "tools:\n  - name: fine\n    entry: {type: builtin, handler: echo}\n  \
         - name: read_output\n    entry: {type: builtin, handler: echo}\n",
    );
    let ran = project.run(&["tools"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.starts_with("warning: tools/mine.yaml:4:5: "), "{ran:?}");
    assert!(ran.err.contains("`read_output`") && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.out.contains("\nfine "), "{ran:?}");
    assert_eq!(project.json(&["tools", "read_output", "-q"])["kind"], "native");
}

#[test]
fn an_example_can_be_run() {
    let project = Project::new();
    project.write(
        "tools/keyed.yaml",
        "name: keyed\nentry: {type: builtin, handler: echo}\nparameters:\n  \
         - {name: message, type: string, required: true, default: \"it's $HOME\"}\n  \
         - {name: unit, type: string, required: true, validation: {enum: [c, f]}}\n  \
         - {name: site, type: string, form: form, required: true}\n  \
         - {name: key, type: secret-input, required: true}\n",
    );
    let example = |name: &str| {
        let detail = project.ok(&["tools", name]);
        detail.lines().last().unwrap().trim().to_owned()
    };
    assert_eq!(
        example("keyed"),
        r"windlass call keyed message='it'\''s $HOME' unit=c --secret key --var site=…"
    );
    for name in ["keyed", "array", "object", "string", "datetime", "current_time", "wait", "hello"]
    {
        let line = example(name);
        let ran = project.shell(&line).env("WINDLASS_SECRET_KEY", "k").output().unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
    }
}

#[test]
fn completion_scripts_know_the_commands() {
    let project = Project::empty();
    for (shell, part) in
        [("bash", "_windlass()"), ("zsh", "#compdef windlass"), ("fish", "complete -c windlass")]
    {
        let script = project.ok(&["completion", shell]);
        assert!(script.contains(part) && script.contains("conversation"), "{shell}");
    }
    project.run(&["completion", "tcsh"]).fails(2, &["bash", "zsh", "fish"]);
}

#[test]
fn help_shows_examples_settings_and_codes() {
    let project = Project::empty();
    let help = project.ok(&["--help"]);
    for part in
        ["Examples:", "WINDLASS_DATABASE", "A flag wins over", "Exit codes:", "130  cancelled"]
    {
        assert!(help.contains(part), "no {part:?} in {help}");
    }
    assert!(project.ok(&["call", "--help"]).contains("Exit codes:"));
    project.run(&[]).fails(2, &["Usage: windlass"]);
    project.run(&["cal"]).fails(2, &["call"]);
}

#[test]
fn colours_are_used_where_they_are_wanted() {
    let project = Project::empty();
    assert!(!project.ok(&["tools"]).contains('\u{1b}'));
    assert!(project.ok(&["tools", "--color", "always"]).contains("\u{1b}["));
    let env = project.command(&["tools", "--color", "auto"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!env.stdout.contains(&0x1b));
}
