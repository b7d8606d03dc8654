//! Tools with network, file and database access, as far as the settings allow it.

use crate::project::Project;
use crate::upstream::{Said, TestUpstream};

#[test]
fn a_request_reaches_what_the_operator_allows() {
    let address =
        TestUpstream::start(|_| Said::text("200 OK", "text/plain", "hello".into())).address;
    let project = Project::empty();
    let url = format!("url=http://{address}/?key=hush");
    let call = ["call", "http_request", url.as_str()];
    let refused = project.run(&call);
    assert_ne!(refused.code, Some(0));
    assert!(refused.err.contains("leads to a loopback address"), "{}", refused.err);
    assert!(!refused.err.contains("hush"), "{}", refused.err);
    project.write("windlass.yaml", &format!("outbound:\n  allow: [\"{address}\"]\n"));
    assert!(project.ok(&call).contains("hello"));
    project.write("windlass.yaml", "outbound:\n  allow: [\"not a host\"]\n");
    project.run(&call).fails(2, &["outbound.allow", "is no host, address or network"]);
    for star in ["*", "*:443", "a.*.b"] {
        project.write("windlass.yaml", &format!("outbound:\n  allow: [\"{star}\"]\n"));
        project.run(&call).fails(2, &["outbound.allow", "would open nothing", "0.0.0.0/0"]);
    }
}

#[test]
fn files_are_those_of_the_granted_folder() {
    let project = Project::empty();
    project.write("shared/note.txt", "kept").write("secret.txt", "hush");
    let refused = project.run(&["call", "read_file", "path=note.txt"]);
    assert!(refused.err.contains("no folder is granted"), "{}", refused.err);
    project.write("windlass.yaml", "outbound:\n  files:\n    folder: shared\n");
    assert!(project.ok(&["call", "read_file", "path=note.txt"]).contains("kept"));
    let refused = project.run(&["call", "read_file", "path=../secret.txt"]);
    assert!(refused.code != Some(0) && !refused.err.contains("hush"), "{}", refused.err);
}

#[test]
fn addresses_of_databases_are_not_shown() {
    let project = Project::empty();
    project.write(
        "windlass.yaml",
        "outbound:\n  proxy: http://me:hush@proxy.internal:3128\n  \
         databases: {shop: \"postgres://reader:hush@db.internal/shop\"}\n",
    );
    let shown = project.ok(&["config"]);
    for part in ["shop", "[hidden]", "http://proxy.internal:3128"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains("hush"), "{shown}");
}
