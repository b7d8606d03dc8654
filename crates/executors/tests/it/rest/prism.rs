//! Prism as a second oracle, over real HTTP: it mocks an API from its document, every
//! tool of the document is called, and Prism says whether the request conforms.
//!
//! The verdict is read from its log, because its responses are those of the document even
//! for requests that it rejects. Some of its rejections are wrong: those are listed by
//! name. Documents with arrays in headers are skipped: Prism crashes when such a header
//! is missing.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use windlass::{CallRequest, Context, Engine};
use windlass_executors::rest::{Import, ImportOptions};

use super::generate::arguments;
use super::support::{engine_once, install, read_with};

/// Documents of every version and of many hands: the large ones first, so that
/// both threads end together.
const DOCUMENTS: [&str; 18] = [
    "real/twilio-api.yaml",
    "real/slack.yaml",
    "real/asana.yaml",
    "real/docker-engine.yaml",
    "real/spotify.yaml",
    "real/telegram-bot.yaml",
    "real/httpbin-0.10.4-2.0.json",
    "real/kinto-26.5.0-2.0.json",
    "real/powerdns-4.7.3-2.0.yaml",
    "real/petstore-swagger-io-3.0.yaml",
    "real/alertmanager-v0.25.0-2.0.yaml",
    "real/visualcrossing-weather.yaml",
    "real/open-meteo-forecast.yml",
    "real/xkcd.yaml",
    "examples/readme-oas-examples/3.1/json/train-travel.json",
    "examples/readme-oas-examples/3.0/json/form-data.json",
    "own/pets.yaml",
    "own/security.yaml",
];

/// What Prism refuses though it fits: the document, a part of what Prism says,
/// and why it is wrong.
const FALSE_ALARMS: [(&str, &str, &str); 9] = [
    ("real/twilio-api.yaml", "must be array", ONE_OF_A_LIST),
    ("own/pets.yaml", "ids must be array", ONE_OF_A_LIST),
    ("real/telegram-bot.yaml", "must be array", JSON_PART),
    ("real/telegram-bot.yaml", "must be object", JSON_PART),
    ("real/telegram-bot.yaml", "must match a schema in anyOf", JSON_PART),
    ("own/pets.yaml", "meta must be object", JSON_PART),
    (
        "own/pets.yaml",
        "must have required property 'id'",
        "what is `readOnly` is still demanded inside of another object",
    ),
    (
        "real/httpbin-0.10.4-2.0.json",
        "No supported content types",
        "fields of a form are a form, also where the document has no `consumes`",
    ),
    (
        "real/docker-engine.yaml",
        "parameter content-type must be equal to one of the allowed values: application/x-tar",
        "`consumes` of the same operation has application/octet-stream alone",
    ),
];
const ONE_OF_A_LIST: &str = "a list with one item in a form is one field";
const JSON_PART: &str = "parts of a form that are JSON are not read";

/// How long Prism may take to start, and to say what it thinks.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs Prism: run by `cargo xtask upstreams`"]
fn prism_takes_every_request() {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = DOCUMENTS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = judged(name);
                    let mut all = all.lock().unwrap();
                    all.requests += own.requests;
                    all.tools += own.tools;
                    all.faults.extend(own.faults);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    let is_alarm = |fault: &str, (name, said, _): &(&str, &str, &str)| {
        fault.starts_with(name) && fault.contains(said)
    };
    let (alarms, faults): (Vec<&String>, Vec<&String>) = all
        .faults
        .iter()
        .partition(|fault| FALSE_ALARMS.iter().any(|alarm| is_alarm(fault, alarm)));
    println!(
        "Prism judged {} requests of {} tools in {} documents: {} false alarms, {} faults: {faults:#?}",
        all.requests,
        all.tools,
        DOCUMENTS.len(),
        alarms.len(),
        faults.len(),
    );
    assert!(faults.is_empty(), "{} faults", faults.len());
    assert!(all.tools > 900 && all.requests > 1_800, "{} requests", all.requests);
    for alarm in &FALSE_ALARMS {
        let seen = alarms.iter().any(|fault| is_alarm(fault, alarm));
        assert!(seen, "Prism has learned: {alarm:?} is no alarm any more");
    }
}

/// A judge that says yes to everything would be none.
#[test]
#[ignore = "needs Prism: run by `cargo xtask upstreams`"]
fn prism_refuses_what_does_not_fit() {
    let prism = Prism::start(&place_of("own/pets.yaml"));
    for (target, wanted) in [("/pets?limit=many", "must be integer"), ("/nothing", "no path")] {
        let mut stream = TcpStream::connect(&prism.address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let said = prism.verdict().unwrap_err();
        assert!(said.iter().any(|said| said.contains(wanted)), "{target}: {said:?}");
    }
}

#[derive(Default)]
struct Tally {
    tools: usize,
    requests: usize,
    faults: Vec<String>,
}

/// Calls every tool of a document, with little and with much.
fn judged(name: &str) -> Tally {
    let place = place_of(name);
    let prism = Prism::start(&place);
    let options = ImportOptions {
        base_url: Some(format!("http://{}", prism.address)),
        ..ImportOptions::default()
    };
    let import = read_with(&std::fs::read_to_string(place).unwrap(), &options);
    let mut tally = Tally { tools: import.tools.len(), ..Tally::default() };
    let context = credentials(&import);
    let mut calls = Vec::new();
    for tool in &import.tools {
        // What cannot be generated is counted where the corpus is judged.
        for given in arguments(&tool.spec.input).into_iter().flatten() {
            calls.push((tool.operation.clone(), tool.spec.name.to_string(), given));
        }
    }
    let engine = install(engine_once(), import);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (operation, tool, given) in calls {
        let request = CallRequest::new(tool, given.clone()).context(context.clone());
        tally.requests += 1;
        let said = prism.ask(&runtime, &engine, request).err().into_iter().flatten();
        tally.faults.extend(said.map(|said| format!("{name}: {operation}: {said}, with {given}")));
    }
    tally
}

/// A value for every field of the credential form.
fn credentials(import: &Import) -> Context {
    let fields = import.provider.credentials.iter();
    fields.fold(Context::default(), |context, field| context.secret(&field.name, "key-of-a-test"))
}

fn place_of(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    match name.strip_prefix("own/") {
        Some(own) => here.join("tests/it/rest").join(own),
        None => here.join("../../../shared/corpora/openapi").join(name),
    }
}

/// A Prism that serves a document, until it is dropped.
struct Prism {
    child: Child,
    document: String,
    address: String,
    lines: Receiver<String>,
}

impl Prism {
    fn start(document: &Path) -> Self {
        let program = std::env::var_os("WINDLASS_TEST_PRISM")
            .unwrap_or_else(|| panic!("run `cargo xtask upstreams`"));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new(program)
            .args(["mock", "--errors", "--multiprocess", "false", "--port", &port.to_string()])
            .arg(document)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let (document, address) = (document.display().to_string(), format!("127.0.0.1:{port}"));
        let prism = Self { child, document, address, lines };
        let start = Instant::now();
        while !prism.line().is_some_and(|line| line.contains("Prism is listening")) {
            assert!(start.elapsed() < PATIENCE, "Prism cannot read {}", prism.document);
        }
        prism
    }

    /// Makes a call, and says what Prism has against its request.
    fn ask(
        &self,
        runtime: &tokio::runtime::Runtime,
        engine: &Engine,
        request: CallRequest,
    ) -> Result<(), Vec<String>> {
        // What came after the last verdict.
        while self.lines.try_recv().is_ok() {}
        let result = runtime.block_on(engine.call(request));
        self.verdict().map_err(|said| match (said.as_slice(), result.error()) {
            ([], error) => vec![format!("nothing was sent: {error:?}")],
            _ => said,
        })
    }

    /// What Prism has against the next request; nothing at all where there was
    /// none.
    fn verdict(&self) -> Result<(), Vec<String>> {
        let mut faults: Option<Vec<String>> = None;
        let mut begun = false;
        while let Some(line) = self.line() {
            begun |= line.contains("Request received");
            if !begun {
                continue;
            }
            if line.contains("The request passed the validation rules") {
                return Ok(());
            }
            if let Some((_, why)) = line.split_once("Request terminated with error: ") {
                return Err(faults.unwrap_or_else(|| vec![why.to_owned()]));
            }
            match (&mut faults, line.split_once("✖  error")) {
                (None, _) if line.contains("Request did not pass") => faults = Some(Vec::new()),
                (Some(faults), Some((_, why))) => faults.push(why.trim().to_owned()),
                (Some(faults), None) => return Err(std::mem::take(faults)),
                (None, _) => {}
            }
        }
        Err(Vec::new())
    }

    fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(Duration::from_secs(5)) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the Prism of {} ended", self.document),
        }
    }
}

impl Drop for Prism {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
