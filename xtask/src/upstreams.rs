//! `cargo xtask upstreams`: imports the API documents of real services on loopback, and
//! calls their tools with our program.
//!
//! httpbin and Kinto are installed from PyPI into a virtual environment under `target`.
//! Nothing here knows their routes except the names of a few tools. For other APIs, Prism
//! validates the requests.

mod prism;

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::run::{cargo, must, root};

/// Versions that are known to work; Kinto brings the HTTP server for both.
const PACKAGES: [&str; 2] = ["httpbin[mainapp]==0.10.4", "kinto==26.5.0"];
/// How long a service may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call, and what its result must contain.
type Case = (&'static str, Value, &'static str, Value);

/// Imports both services, calls their tools, and runs the tests with Prism. Returns how
/// many tests that are ignored elsewhere ran here.
pub(crate) fn run() -> anyhow::Result<u64> {
    must(&mut cargo(&["build", "--quiet", "--profile", "test", "--package", "windlass-server"]))?;
    let folder = installed()?;
    let project = tempfile::tempdir()?;
    std::fs::write(project.path().join("windlass.yaml"), "outbound: {allow: [127.0.0.1]}\n")?;
    let mut calls = 0;
    let port = free_port()?;
    let bind = format!("127.0.0.1:{port}");
    let _httpbin = Service::start(
        Command::new(folder.join("bin/waitress-serve")).args(["--listen", &bind, "httpbin:app"]),
        port,
    )?;
    add(
        project.path(),
        "httpbin",
        &format!("http://{bind}/spec.json"),
        Some(&format!("http://{bind}")),
    )?;
    for case in httpbin() {
        check(project.path(), &case)?;
        calls += 1;
    }
    let port = free_port()?;
    let settings = project.path().join("kinto.ini");
    std::fs::write(&settings, KINTO.replace("PORT", &port.to_string()))?;
    let _kinto = Service::start(
        Command::new(folder.join("bin/kinto")).arg("start").arg("--ini").arg(&settings),
        port,
    )?;
    add(project.path(), "kinto", &format!("http://127.0.0.1:{port}/v1/__api__"), None)?;
    for case in kinto() {
        check(project.path(), &case)?;
        calls += 1;
    }
    println!("{calls} calls of httpbin and Kinto did what they should");
    prism::run()
}

fn httpbin() -> Vec<Case> {
    vec![
        ("get_get", json!({}), "/output/headers/Accept", json!("application/json")),
        ("get_anything_anything", json!({"anything": "a b?c#d"}), "/output/method", json!("GET")),
        ("put_anything", json!({}), "/output/method", json!("PUT")),
        ("get_base64_value", json!({"value": "aGVsbG8="}), "/output", json!("hello")),
        ("get_status_codes", json!({"codes": "404"}), "/error_kind", json!("upstream_rejected")),
        ("post_status_codes", json!({"codes": "500"}), "/error_kind", json!("upstream_failed")),
        ("post_status_codes", json!({"codes": "429"}), "/error_kind", json!("rate_limited")),
        ("get_status_codes", json!({"codes": "401"}), "/error_kind", json!("credential_invalid")),
        ("get_image_png", json!({}), "/content/0/type", json!("image")),
        ("get_xml", json!({}), "/content/0/type", json!("text")),
        ("get_bytes_n", json!({"n": 16}), "/content/0/type", json!("blob")),
        ("get_gzip", json!({}), "/output/gzipped", json!(true)),
        ("get_relative-redirect_n", json!({"n": 2}), "/is_success", json!(true)),
        (
            "get_anything_anything",
            json!({"anything": ".."}),
            "/error_kind",
            json!("invalid_arguments"),
        ),
    ]
}

fn kinto() -> Vec<Case> {
    let place = |more: Value| {
        let mut all = json!({"bucket_id": "b-1", "collection_id": "c-1"});
        for (key, value) in more.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        all
    };
    vec![
        ("update_bucket", json!({"id": "b-1"}), "/output/data/id", json!("b-1")),
        (
            "update_collection",
            json!({"bucket_id": "b-1", "id": "c-1"}),
            "/output/data/id",
            json!("c-1"),
        ),
        (
            "update_record",
            place(json!({"id": "r-1", "data": {"name": "Rex", "n": 7}})),
            "/output/data/n",
            json!(7),
        ),
        (
            "patch_record",
            place(json!({"id": "r-1", "data": {"n": 8}})),
            "/output/data/name",
            json!("Rex"),
        ),
        ("get_records", place(json!({"_limit": 1})), "/output/data/0/n", json!(8)),
        ("get_record", place(json!({"id": "r-2"})), "/error_kind", json!("upstream_rejected")),
        ("delete_record", place(json!({"id": "r-1"})), "/output/data/deleted", json!(true)),
    ]
}

const KINTO: &str = "
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = PORT
[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.bucket_create_principals = system.Everyone
kinto.userid_hmac_secret = 0123456789
";

fn windlass(project: &Path, arguments: &[&str]) -> anyhow::Result<std::process::Output> {
    let mut command = Command::new(root().join("target/debug/windlass"));
    command.args(arguments).current_dir(project).env("HOME", project);
    Ok(command.output()?)
}

fn add(project: &Path, name: &str, url: &str, base: Option<&str>) -> anyhow::Result<()> {
    let mut arguments = vec!["providers", "add", name, url];
    arguments.extend(base.into_iter().flat_map(|base| ["--base-url", base]));
    let added = windlass(project, &arguments)?;
    ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    Ok(())
}

fn check(project: &Path, (tool, arguments, place, wanted): &Case) -> anyhow::Result<()> {
    let called = windlass(project, &["call", tool, &arguments.to_string(), "--json"])?;
    let result: Value = serde_json::from_slice(&called.stdout)
        .with_context(|| format!("{tool}: {}", String::from_utf8_lossy(&called.stderr)))?;
    let found = result.pointer(place).unwrap_or(&Value::Null);
    ensure!(found == wanted, "{tool} {arguments}: {place} is {found}, not {wanted}: {result}");
    Ok(())
}

/// The virtual environment with both services.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/upstreams");
    let is_there =
        Command::new(folder.join("bin/python")).args(["-c", "import httpbin, kinto"]).output();
    if is_there.is_ok_and(|output| output.status.success()) {
        return Ok(folder);
    }
    println!("installing {} into target/upstreams", PACKAGES.join(" and "));
    must(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("install Python 3 with its venv module")?;
    must(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).args(PACKAGES))?;
    Ok(folder)
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A service that runs until it is dropped.
struct Service(Child);

impl Service {
    fn start(command: &mut Command, port: u16) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let service = Self(child);
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(start.elapsed() < PATIENCE, "{command:?} does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
