//! The file tools, and attempts to escape from their directory.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::{CallRequest, Caller, Context, Lang, TenantId};

use crate::support::{Desk, kind, value};

/// A folder beside a secret, and tools that may use the folder.
fn place(max_bytes: u64) -> (TempDir, Desk) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("granted/sub")).unwrap();
    fs::write(root.path().join("secret.txt"), "hush").unwrap();
    fs::write(root.path().join("granted/a.txt"), "first\nsecond\n").unwrap();
    let desk = Desk::with_folder(&root.path().join("granted"), max_bytes);
    (root, desk)
}

#[tokio::test]
async fn files_are_listed_read_and_written() {
    let (root, desk) = place(1_000);
    let written = desk.call("write_file", json!({"path": "sub/b.md", "content": "# B\n"})).await;
    assert_eq!(value(&written), json!({"path": "sub/b.md", "mode": "create", "bytes": 4}));
    let listed = desk.call("list_files", json!({"recursive": true})).await;
    assert_eq!(listed.to_text(Lang::En), "a.txt (13 bytes)\nsub/\nsub/b.md (4 bytes)");
    assert_eq!(
        desk.call("list_files", json!({})).await.to_text(Lang::En),
        "a.txt (13 bytes)\nsub/"
    );
    let read = desk.call("read_file", json!({"path": "./sub/../a.txt"})).await;
    assert_eq!(read.to_text(Lang::En), "first\nsecond\n");
    let part =
        value(&desk.call("read_file", json!({"path": "a.txt", "offset": 6, "length": 3})).await);
    assert_eq!(
        (&part["text"], &part["truncated"], &part["size"]),
        (&json!("sec"), &json!(true), &json!(13))
    );

    let again = desk.call("write_file", json!({"path": "a.txt", "content": "x"})).await;
    assert_eq!(kind(&again), "tool_error");
    let over =
        json!({"path": "a.txt", "content": "AAEC", "mode": "overwrite", "encoding": "base64"});
    assert!(desk.call("write_file", over).await.is_success());
    assert_eq!(fs::read(root.path().join("granted/a.txt")).unwrap(), [0, 1, 2]);
    let bytes = desk.call("read_file", json!({"path": "a.txt"})).await;
    assert_eq!(bytes.output().unwrap().files().count(), 1, "what is no text comes as bytes");
    let add = json!({"path": "log", "content": "1\n", "mode": "append"});
    for _ in 0..2 {
        assert!(desk.call("write_file", add.clone()).await.is_success());
    }
    assert_eq!(fs::read_to_string(root.path().join("granted/log")).unwrap(), "1\n1\n");
    let deep = json!({"path": "x/y/z", "content": "", "create_folders": true});
    assert!(desk.call("write_file", deep).await.is_success());
    let left = fs::read_dir(root.path().join("granted")).unwrap().count();
    assert_eq!(left, 4, "nothing is left behind");
}

#[tokio::test]
async fn there_is_no_way_out_of_the_folder() {
    let (root, desk) = place(1_000);
    let granted = root.path().join("granted");
    symlink("../secret.txt", granted.join("link")).unwrap();
    symlink("..", granted.join("up")).unwrap();
    symlink("/", granted.join("root")).unwrap();
    symlink("/etc/passwd", granted.join("passwd")).unwrap();
    symlink("sub", granted.join("inside")).unwrap();
    symlink("/proc/self/root", granted.join("proc")).unwrap();
    let secret = root.path().join("secret.txt").display().to_string();
    let mut paths: Vec<String> = [
        "../secret.txt",
        "sub/../../secret.txt",
        "./../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "link",
        "up/secret.txt",
        "root/etc/passwd",
        "passwd",
        "proc/etc/passwd",
        "inside/../../secret.txt",
        "sub/../link",
        "..",
        "/",
        "sub/./.././../secret.txt",
        "../granted/../secret.txt",
    ]
    .map(str::to_owned)
    .into();
    paths.push(secret);
    for path in &paths {
        for (tool, more) in [
            ("read_file", json!({})),
            ("list_files", json!({})),
            (
                "write_file",
                json!({"content": "broken in", "mode": "overwrite", "create_folders": true}),
            ),
            ("write_file", json!({"content": "broken in", "mode": "append"})),
            ("write_file", json!({"content": "broken in", "mode": "create"})),
        ] {
            let mut arguments = more;
            arguments["path"] = path.as_str().into();
            let result = desk.call(tool, arguments.clone()).await;
            assert!(!result.is_success(), "{tool} {path}: {}", result.to_text(Lang::En));
            assert!(!result.to_text(Lang::En).contains("hush"), "{tool} {path}");
        }
    }
    assert_eq!(fs::read_to_string(root.path().join("secret.txt")).unwrap(), "hush");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn links_inside_of_the_folder_work_and_odd_things_do_not() {
    let (root, desk) = place(10);
    let granted = root.path().join("granted");
    symlink("a.txt", granted.join("same")).unwrap();
    let read = value(&desk.call("read_file", json!({"path": "same"})).await);
    assert_eq!((&read["text"], &read["truncated"]), (&json!("first\nseco"), &json!(true)));
    let made = std::process::Command::new("mkfifo").arg(granted.join("pipe")).status().unwrap();
    assert!(made.success());
    for (tool, arguments) in [
        ("read_file", json!({"path": "pipe"})),
        ("write_file", json!({"path": "pipe", "content": "x", "mode": "append"})),
        ("read_file", json!({"path": "sub"})),
        ("read_file", json!({"path": "none"})),
        ("write_file", json!({"path": "none/x", "content": "x"})),
        ("write_file", json!({"path": "sub", "content": "x", "mode": "overwrite"})),
        ("list_files", json!({"path": "a.txt"})),
    ] {
        assert_eq!(
            kind(&desk.call(tool, arguments.clone()).await),
            "tool_error",
            "{tool} {arguments}"
        );
    }
    for (tool, arguments) in [
        ("write_file", json!({"path": "x", "content": "more than ten"})),
        ("write_file", json!({"path": "x", "content": "?", "encoding": "base64"})),
        ("read_file", json!({"path": "a.txt", "offset": 99})),
        ("read_file", json!({"path": "a\u{0}b"})),
        ("read_file", json!({"path": ""})),
        ("read_file", json!({"path": "x".repeat(2000)})),
    ] {
        assert_eq!(
            kind(&desk.call(tool, arguments.clone()).await),
            "invalid_arguments",
            "{tool} {arguments}"
        );
    }
}

#[tokio::test]
async fn tenants_do_not_share_a_folder() {
    let (_root, desk) = place(1_000);
    let caller = Caller { tenant: TenantId::new("other"), ..Caller::default() };
    let request = CallRequest::new("read_file", json!({"path": "a.txt"}));
    let result = desk.engine.call(request.context(Context::new(caller))).await;
    assert_eq!(kind(&result), "denied");
}

#[tokio::test]
async fn without_a_folder_the_tools_say_so() {
    let desk = Desk::new(&[]);
    let calls: [(&str, Value); 3] = [
        ("read_file", json!({"path": "a"})),
        ("list_files", json!({})),
        ("write_file", json!({"path": "a", "content": ""})),
    ];
    for (tool, arguments) in calls {
        let result = desk.call(tool, arguments).await;
        assert_eq!(kind(&result), "denied");
        assert!(result.to_text(Lang::En).contains("no folder is granted"), "{tool}");
    }
}
