//! `windlass doctor`: diagnoses, without changing anything.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::project::{Project, Ran};

fn examine(project: &Project, variables: &[(&str, &str)]) -> (Option<i32>, Value) {
    let output = project.command(&["doctor", "--json"]).envs(variables.iter().copied()).output();
    let ran = Ran::from(output.unwrap());
    let found = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran.code, found)
}

/// What was found about something, in words.
fn about<'a>(found: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let all = found["findings"].as_array().unwrap().iter().filter(|one| one["about"] == name);
    all.map(|one| (one["state"].as_str().unwrap(), one["message"].as_str().unwrap())).collect()
}

/// A port that nobody has.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_new_project_is_healthy_and_stays_as_it_is() {
    let project = Project::new();
    let (code, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
    assert_eq!((code, &found["healthy"]), (Some(0), &true.into()), "{found:#}");
    assert!(!project.path(".windlass").exists(), "nothing was made");
    project.ok(&["call", "hello"]);
    let (code, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
    assert_eq!(code, Some(0), "{found:#}");
    assert!(about(&found, "database")[0].1.contains("is whole and writable"), "{found:#}");
    assert!(!project.path(".windlass/windlass.key").exists(), "no key was made");
}

#[test]
fn tools_that_wait_to_be_configured_are_named_with_the_way_to_switch_them_on() {
    let project = Project::new();
    let said = |found: &Value, name: &str, hint: &str| {
        let mut all = found["findings"].as_array().unwrap().iter();
        all.any(|one| {
            one["about"] == "tools"
                && one["message"].as_str().is_some_and(|message| message.contains(name))
                && one["hint"].as_str().is_some_and(|own| own.contains(hint))
        })
    };
    let (code, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
    assert_eq!(code, Some(0), "{found:#}");
    assert!(said(&found, "get_weather", "windlass credentials set weather"), "{found:#}");
    assert!(said(&found, "read_file", "outbound.files.folder"), "{found:#}");
    let set = project.pipe("key-12345", &["credentials", "set", "weather", "--stdin"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let (_, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
    assert!(!said(&found, "get_weather", "credentials set weather"), "{found:#}");
}

#[test]
fn what_is_broken_is_named_with_the_way_to_mend_it() {
    let project = Project::empty();
    project.write("windlass.yaml", "max_concurent: 3\n");
    let (code, found) = examine(&project, &[]);
    assert_eq!(code, Some(1));
    assert!(about(&found, "settings")[0].1.contains("did you mean `max_concurrent`"), "{found:#}");
    project.write("windlass.yaml", "tools_directory: t\ndatabase: w.db\n");
    project.write("t/bad.yaml", "name: x\ndescription: [\n");
    project.write(
        "t/idle.yaml",
        "name: idle\ndescription: Does it.\nentry: {type: builtin, handler: nope}\n",
    );
    project.write("w.db", &"no database at all".repeat(100));
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    // Something that answers, and is no windlass.
    std::thread::spawn(move || {
        for stream in busy.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
        }
    });
    let (code, found) =
        examine(&project, &[("WINDLASS_LISTEN", &address), ("WINDLASS_LITSEN", "x")]);
    assert_eq!(code, Some(1));
    let tools = about(&found, "tools");
    assert!(
        tools.iter().any(|(state, why)| *state == "broken" && why.contains("bad.yaml")),
        "{tools:?}"
    );
    assert!(
        tools.iter().any(|(state, why)| *state == "warning" && why.contains("idle")),
        "{tools:?}"
    );
    assert!(
        about(&found, "database")
            .iter()
            .any(|(state, why)| *state == "broken" && why.contains("not a SQLite"))
    );
    assert!(about(&found, "listen")[0].1.contains("another program listens"), "{found:#}");
    assert!(about(&found, "settings").iter().any(|(_, why)| why.contains("WINDLASS_LISTEN?")));
    let hints = found["findings"].as_array().unwrap();
    assert!(
        hints
            .iter()
            .filter(|one| one["state"] == "broken" && one["about"] != "database")
            .all(|one| one["hint"].is_string())
    );
}

#[cfg(unix)]
#[test]
fn a_wrong_master_key_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::empty();
    project.write("windlass.yaml", "");
    project.write(
        "tools/skies/skies.yaml",
        "identity: {name: skies, author: ada, label: Skies}\n\
         credentials_for_provider:\n  token: {type: secret-input, required: true}\n",
    );
    let set = project.pipe("hunter2", &["credentials", "set", "skies", "--stdin"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let listen = free();
    let look = |variables: &[(&str, &str)]| {
        let all = [&[("WINDLASS_LISTEN", listen.as_str())], variables].concat();
        let (code, found) = examine(&project, &all);
        let (state, why) = about(&found, "vault")[0];
        (code, state.to_owned(), why.to_owned())
    };
    let (code, state, why) = look(&[]);
    assert_eq!((code, state.as_str()), (Some(0), "ok"), "{why}");
    assert!(why.contains("opens the credentials of 1 tenant"), "{why}");
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let (code, state, why) = look(&[("WINDLASS_MASTER_KEY", other)]);
    assert_eq!((code, state.as_str()), (Some(1), "broken"), "{why}");
    assert!(why.contains("sealed by the master key") && !why.contains(other), "{why}");
    let key = project.path(".windlass/windlass.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, why) = look(&[]);
    assert!(code == Some(1) && why.contains("chmod 600"), "{why}");
    fs::remove_file(&key).unwrap();
    let (code, state, why) = look(&[]);
    assert_eq!((code, state.as_str()), (Some(1), "broken"), "{why}");
    assert!(!key.exists(), "none was made up");
}

#[test]
fn damage_in_the_database_is_found() {
    let project = Project::new();
    let path = project.path(".windlass/windlass.db");
    let message = "x".repeat(15_000);
    let calls = vec![json!({"tool": "echo", "arguments": {"message": message}}); 50];
    project.write("calls.json", &json!(calls).to_string());
    // The log beside the file is only written to the file from a certain size on.
    while fs::metadata(&path).map_or(0, |file| file.len()) < 8192 * 12 {
        project.ok(&["batch", "calls.json", "--json"]);
    }
    let _ = fs::remove_file(project.path(".windlass/windlass.db-wal"));
    let mut bytes = fs::read(&path).unwrap();
    // The first page says what it is; the others hold the tables.
    let end = bytes.len().min(8192 * 12);
    bytes[8192..end].fill(0xAB);
    fs::write(&path, bytes).unwrap();
    let (code, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
    assert_eq!(code, Some(1), "{found:#}");
    let database = about(&found, "database");
    assert!(database.iter().any(|(state, _)| *state == "broken"), "{database:?}");
}

/// Makes a certificate that was valid once.
fn expired(project: &Project) {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    project.write("past.pem", &certificate.pem()).write("past.key", &key.serialize_pem());
}

#[test]
fn keys_and_folders_that_are_gone_are_told() {
    let project = Project::empty();
    project.write("windlass.yaml", "outbound: {files: {folder: gone}, ca_files: [gone.pem]}\n");
    let listen = [("WINDLASS_LISTEN", &*free())];
    let (code, found) = examine(&project, &listen);
    assert_eq!(code, Some(1));
    let outbound = about(&found, "outbound");
    let broken =
        |part: &str| outbound.iter().any(|(state, why)| *state == "broken" && why.contains(part));
    assert!(broken("gone.pem cannot be read") && broken("gone is no folder"), "{outbound:?}");

    project.write("windlass.yaml", "");
    let made = project.json(&["keys", "create", "ada", "--role", "admin"]);
    let (_, found) = examine(&project, &listen);
    assert_eq!(about(&found, "api keys")[0], ("ok", "1 admin key can be used"));
    project.ok(&["keys", "revoke", made["key"]["id"].as_str().unwrap()]);
    let (code, found) = examine(&project, &listen);
    let (state, why) = about(&found, "api keys")[0];
    assert_eq!((code, state), (Some(1), "broken"), "{why}");
    assert!(why.contains("revoked"), "{why}");
}

#[test]
fn certificates_are_looked_at() {
    let project = Project::new();
    let make = |name: &str, days: &str| {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
            .args(["-subj", "/CN=localhost", "-days", days])
            .current_dir(project.path(""))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    make("good", "365");
    make("soon", "3");
    expired(&project);
    for (certificate, key, state, part) in [
        ("good.pem", "good.key", "ok", "is valid until"),
        ("soon.pem", "soon.key", "warning", "is valid until"),
        ("past.pem", "past.key", "broken", "expired on 2020-02-01"),
        ("good.pem", "soon.key", "broken", "good.pem"),
        ("gone.pem", "good.key", "broken", "gone.pem"),
    ] {
        project.write(
            "windlass.yaml",
            &format!(
                "server:\n  listen: {}\n  tls_certificate: {certificate}\n  tls_key: {key}\n",
                free()
            ),
        );
        let (_, found) = examine(&project, &[]);
        let (found_state, why) = about(&found, "tls")[0];
        assert_eq!(found_state, state, "{certificate} {key}: {why}");
        assert!(why.contains(part), "{why}");
    }
    project.write("windlass.yaml", "server: {listen: \"0.0.0.0:0\"}\n");
    let (code, found) = examine(&project, &[]);
    assert_eq!(code, Some(1), "{found:#}");
    let (state, why) = about(&found, "tls")[0];
    assert!(state == "broken" && why.contains("there is no TLS"), "{why}");
    let (code, found) = examine(&project, &[("WINDLASS_SERVER_WITHOUT_TLS", "true")]);
    assert_eq!(code, Some(0), "warnings alone are no failure");
    assert_eq!(about(&found, "tls")[0].0, "ok");
    assert_eq!(about(&found, "hosts")[0].0, "warning");
    project.run(&["doctor", "--strict", "--quiet"]).fails(1, &[]);
}

#[cfg(unix)]
#[test]
fn what_other_users_could_change_or_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    project.write("cert.pem", &made.cert.pem());
    project.write("key.pem", &made.signing_key.serialize_pem());
    project.write(
        "tools/deep/more.yaml",
        "name: more\ndescription: More.\nentry: {type: builtin, handler: echo}\n",
    );
    project.write(
        "windlass.yaml",
        "server: {listen: \"127.0.0.1:0\", tls_certificate: cert.pem, tls_key: key.pem}\n",
    );
    project.ok(&["call", "hello"]);
    let set = |name: &str, mode: u32| {
        fs::set_permissions(project.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let safe = [
        ("windlass.yaml", 0o644),
        ("tools", 0o755),
        ("tools/hello.yaml", 0o644),
        ("tools/deep", 0o755),
        ("tools/deep/more.yaml", 0o644),
        (".windlass", 0o700),
        (".windlass/windlass.db", 0o600),
        ("cert.pem", 0o644),
        ("key.pem", 0o640),
        ("", 0o700),
    ];
    safe.iter().for_each(|(name, mode)| set(name, *mode));
    let modes = || {
        let (code, found) = examine(&project, &[]);
        let modes = about(&found, "modes");
        (code, modes.iter().map(|(state, why)| format!("{state} {why}")).collect::<Vec<_>>())
    };
    let (code, found) = modes();
    assert!(code == Some(0) && found.len() == 1 && found[0].starts_with("ok"), "{found:?}");
    for (name, mode, state) in [
        ("windlass.yaml", 0o666, "broken"),
        ("tools", 0o777, "broken"),
        ("tools", 0o1777, "broken"),
        ("tools/hello.yaml", 0o646, "broken"),
        ("tools/deep", 0o777, "broken"),
        ("tools/deep/more.yaml", 0o666, "broken"),
        (".windlass", 0o777, "broken"),
        (".windlass", 0o755, "warning"),
        (".windlass/windlass.db", 0o644, "broken"),
        (".windlass/windlass.db", 0o640, "warning"),
        ("cert.pem", 0o666, "broken"),
        ("key.pem", 0o644, "broken"),
        ("", 0o777, "broken"),
    ] {
        set(name, mode);
        let (code, found) = modes();
        assert_eq!(code, Some(i32::from(state == "broken")), "{name} {mode:o}: {found:?}");
        assert!(found.len() == 1 && found[0].starts_with(state), "{name} {mode:o}: {found:?}");
        let said = format!("{name} has mode {mode:o}");
        assert!(name.is_empty() || found[0].contains(&said), "{name} {mode:o}: {found:?}");
        set(name, safe.iter().find(|(own, _)| *own == name).unwrap().1);
    }
}

#[cfg(unix)]
#[test]
fn what_is_made_under_any_umask_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let provider = "identity: {name: skies, author: ada, label: Skies}\n\
                    credentials_for_provider:\n  token: {type: secret-input, required: true}\n";
    for umask in ["000", "022", "077"] {
        let project = Project::empty();
        project.write("skies.yaml", provider);
        let line = format!(
            "umask {umask}; windlass init -q && windlass call hello && windlass providers add x \
             -- true && mv skies.yaml tools && chmod 644 tools/skies.yaml && printf secret | \
             windlass credentials set skies --stdin"
        );
        let ran = Ran::from(project.shell(&line).output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let mode =
            |name: &str| fs::metadata(project.path(name)).unwrap().permissions().mode() & 0o777;
        for (name, own) in [(".windlass", 0o700), (".windlass/windlass.key", 0o600)] {
            assert_eq!(mode(name), own, "{umask} {name}");
        }
        for name in ["windlass.yaml", "tools", "tools/hello.yaml", "tools/mcp-x.json"] {
            assert_eq!(mode(name) & 0o022, 0, "{umask} {name}: {:o}", mode(name));
        }
        let (_, found) = examine(&project, &[("WINDLASS_LISTEN", &free())]);
        assert_eq!(about(&found, "modes")[0].0, "ok", "{umask}: {found:#}");
    }
}
