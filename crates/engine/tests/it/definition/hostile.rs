//! Malicious definition files: each is rejected quickly, with a reason.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use windlass::definition::{DefinitionLimits, load_folder, parse, read_file};

/// The first fault of a text, which must be found quickly.
fn refused(text: &str) -> String {
    let begun = Instant::now();
    let errors = parse("t.yaml", text).expect_err("refused");
    // An unoptimised build on a busy machine is far slower than a release.
    let limit = if cfg!(debug_assertions) { 3_000 } else { 300 };
    assert!(begun.elapsed() < Duration::from_millis(limit), "{:?}", begun.elapsed());
    errors[0].to_string()
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..=10 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    assert!(refused(&bomb).contains("more than 50000 values, aliases expanded"));

    let text = "x".repeat(500_000);
    let copies = vec!["*a"; 10_000].join(", ");
    let bomb = format!("a: &a {text}\nb: [{copies}]");
    assert!(refused(&bomb).contains("bytes of text, aliases expanded"));

    // Anchors inside anchors are copied as well.
    let mut nested = "&z [".repeat(60);
    for _ in 0..40_000 {
        nested.push_str("1,");
    }
    nested.push_str(&"]".repeat(60));
    assert!(refused(&nested).contains("more than 50000 values"));

    assert!(refused("a: &a [*a]").contains("an alias inside its own anchor"));
    assert!(refused("a: *b").contains("not valid YAML or JSON"));
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a: ", "- ", "? "] {
        let found = refused(&open.repeat(100_000));
        assert!(found.starts_with("t.yaml:1:"), "{found}");
    }
    let mut deep = String::new();
    for level in 0..200 {
        writeln!(deep, "{}a:", " ".repeat(level)).unwrap();
    }
    refused(&deep);
}

#[test]
fn too_much_is_refused() {
    assert!(refused(&"a".repeat((1 << 20) + 1)).contains("larger than 1048576 bytes"));
    let many = format!("[{}]", vec!["1"; 60_000].join(","));
    assert!(refused(&many).contains("more than 50000 values"));
    let mut keys = String::from("name: t\n");
    for key in 0..20_000 {
        writeln!(keys, "k{key}: 1").unwrap();
    }
    refused(&keys);
    let mut same = String::from("name: t\n");
    same.push_str(&"k: 1\n".repeat(20_000));
    assert!(refused(&same).contains("duplicate key `k`"));
}

#[test]
fn odd_bytes_are_refused_and_a_bom_is_not() {
    assert_eq!(refused("name: a\nx: \0"), "t.yaml:2:4: a control character, 0x00");
    assert!(refused("name: \u{7}").contains("0x07"));
    assert!(refused("name: t\nentry:\n\ttype: builtin").contains("t.yaml:3:"));
    let tools = parse("t.yaml", "\u{feff}name: a\r\ndescription: b\r\n").unwrap();
    assert_eq!((tools[0].spec.name.as_str(), tools[0].column), ("a", 1));
    let tabs = "{\n\t\"name\": \"a\",\n\t\"description\": \"\\ud83d\\ude00\\/\"\n}";
    let tools = parse("t.json", tabs).unwrap();
    assert_eq!(tools[0].spec.description.to_string(), "😀/");
}

#[test]
fn costly_patterns_are_refused() {
    let text = r#"
name: t
parameters:
  - {name: p, type: string, validation: {pattern: '(\w{100}){100}{100}'}}
"#;
    assert!(refused(text).contains("does not compile"));
}

#[test]
fn work_per_file_is_bounded() {
    // Thousands of costly patterns; each default compiles all that is inside.
    let mut patterns = String::from("name: t\nparameters:\n");
    for index in 0..5_000 {
        let limits = format!("validation: {{pattern: '(\\w{{20}}){{9}}{index}'}}");
        writeln!(patterns, "- {{name: p{index}, type: string, default: '', {limits}}}").unwrap();
    }
    refused(&patterns);
    let mut nested = String::from("name: t\ninput_schema: ");
    nested.push_str(&"{properties: {a: {type: object, default: {}}, b: ".repeat(25));
    nested.push_str(&format!("{{enum: [{}]}}", vec!["1"; 40_000].join(",")));
    nested.push_str(&"}, default: {}}".repeat(25));
    assert!(refused(&nested).contains("too many patterns and defaults"));
    // Many names that are nearly right, and many that are wrong.
    let names: Vec<String> = (0..12_000).map(|index| format!("name{index}x")).collect();
    let properties: Vec<String> = names.iter().map(|name| format!("{name}: {{}}")).collect();
    refused(&format!(
        "name: t\ninput_schema: {{properties: {{{}}}, required: [{}]}}",
        properties.join(", "),
        names.join("y, "),
    ));
    let options = names.join(", ");
    let text =
        format!("name: t\nparameters:\n- {{name: p, type: select, options: [{options}, x, x]}}");
    assert!(refused(&text).contains("the option \"x\" is given twice"));
    let merges = vec!["*a"; 9_000].join(", ");
    refused(&format!("name: t\na: &a {{b: 1}}\nentry: {{<<: [{merges}], c: 1}}"));
    // A message does not repeat the file.
    assert!(refused(&format!("name: t\n{}: 1", "k".repeat(900))).len() < 1_500);
}

#[test]
fn secrets_are_not_repeated() {
    let text = "name: t\nparameters:\n- {name: key, type: secret-input}\npresets: {key: 123456}";
    assert_eq!(refused(text), "t.yaml:4:16: the preset of `key` is a secret, and must be a text");
    let text = text.replace("123456", "hunter2");
    let shown = format!("{:?}", parse("t.yaml", &text).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn files_are_looked_at_before_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let huge = dir.path().join("huge.yaml");
    fs::File::create(&huge).unwrap().set_len(100 << 20).unwrap();
    fs::write(dir.path().join("latin.yaml"), b"name: t\ndescription: caf\xe9").unwrap();
    fs::write(dir.path().join("good.yaml"), "name: good").unwrap();
    let begun = Instant::now();
    let folder = load_folder(dir.path());
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    let errors: Vec<String> = folder.all_errors().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].ends_with("huge.yaml:1:1: larger than 1048576 bytes"), "{errors:?}");
    assert!(errors[1].ends_with("latin.yaml:2:17: not UTF-8 text"), "{errors:?}");
    assert!(folder.files[0].outcome.is_ok());
    assert!(read_file(dir.path(), &DefinitionLimits::default()).is_err());
}

#[test]
fn folders_are_read_whole_and_faults_stay_local() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("a.yaml", "name: a");
    write("b.yml", "nme: b");
    write("c.json", r#"[{"name": "c1"}, {"name": "c2"}]"#);
    write("d.yaml", "name: a");
    write("notes.txt", "not a tool");
    write(".hidden.yaml", "not a tool");
    write("google/google.yaml", "identity: {name: google, label: {en_US: G}}");
    write("google/tools/search.yaml", "identity: {name: search}\ndescription: Finds.");
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.path(), dir.path().join("google/loop")).unwrap();

    let folder = load_folder(dir.path());
    assert_eq!(folder.errors, []);
    let outcomes: Vec<String> = folder
        .files
        .iter()
        .map(|file| {
            let path = file.path.strip_prefix(dir.path()).unwrap().display();
            match &file.outcome {
                Ok(parsed) => format!("{path}: {} tools", parsed.tools.len()),
                Err(errors) => format!("{path}: {}", errors[0].message),
            }
        })
        .collect();
    let first = dir.path().join("a.yaml");
    let expected = [
        "a.yaml: 1 tools".to_owned(),
        "b.yml: a tool needs `name`".to_owned(),
        "c.json: 2 tools".to_owned(),
        format!("d.yaml: the tool `a` is already defined in {}", first.display()),
        "google/google.yaml: 0 tools".to_owned(),
        "google/tools/search.yaml: 1 tools".to_owned(),
    ];
    assert_eq!(outcomes, expected);
    let search = &folder.files[5].outcome.as_ref().unwrap().tools[0].spec;
    assert_eq!(search.provider.as_deref(), Some("google"));

    let missing = load_folder(&dir.path().join("nowhere"));
    assert_eq!(missing.errors.len(), 1);
}

#[test]
fn ten_thousand_files_load_quickly() {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..10_000 {
        let text = format!(
            "name: tool_{index}\ndescription: Does the thing number {index}.\nparameters:\n\
             - {{name: url, type: string, required: true, validation: {{max_length: 99}}}}\n\
             - {{name: size, type: integer, default: 3, validation: {{min: 1, max: 9}}}}\n"
        );
        fs::write(dir.path().join(format!("{index}.yaml")), text).unwrap();
    }
    let begun = Instant::now();
    let folder = load_folder(dir.path());
    let took = begun.elapsed();
    println!("10,000 files: {took:?}");
    assert_eq!(folder.files.len(), 10_000);
    assert_eq!(folder.all_errors().count(), 0);
    let limit = if cfg!(debug_assertions) { 20 } else { 1 };
    assert!(took < Duration::from_secs(limit), "{took:?}");
}

fn fragments() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "name",
        "parameters",
        "type",
        "string",
        "identity",
        "- ",
        ": ",
        "\n",
        "  ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "'",
        "&a ",
        "*a",
        "<<: ",
        "!t ",
        "---\n",
        "#",
        "|",
        ">",
        "?",
        "1",
        "null",
        "input_schema",
        "function",
        "tools",
        "presets",
        "validation",
        "enum",
        "\t",
        "😀",
        "options",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = parse("t", &text);
    }

    #[test]
    fn parsing_never_panics_on_yaml_like_text(text in fragments()) {
        if let Err(errors) = parse("t", &text) {
            prop_assert!(errors.iter().all(|error| error.line >= 1 && error.column >= 1));
        }
    }
}
