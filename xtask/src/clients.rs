//! `cargo xtask clients`: generates clients from our OpenAPI document with common
//! generators, and runs them against a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::run::{cargo, must, root};
use crate::schemathesis::Server;

/// Versions that are known to read our document.
const PYTHON: [&str; 2] = ["openapi-python-client==0.29.1", "openapi-spec-validator==0.9.0"];
const NPM: [&str; 3] = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"];
/// Without this, the generator formats its output with other programs.
const CONFIG: &str = "post_hooks: []\n";
const PYTHON_SCRIPT: &str = include_str!("clients.py");
const TYPESCRIPT: &str = include_str!("clients.ts");

/// Tools that refuse a call, and that need approval.
const TOOLS: [(&str, &str); 2] = [("forbidden", "deny"), ("asks_first", "ask")];

/// Builds the server and runs them all.
pub(crate) fn with() -> anyhow::Result<()> {
    must(&mut cargo(&["build", "--quiet", "--profile", "test", "--package", "windlass-server"]))?;
    run()
}

/// Generates clients from the document of the program that was built last, and runs them.
pub(crate) fn run() -> anyhow::Result<()> {
    let (python, node) = (python()?, node()?);
    let folder = tempfile::tempdir()?;
    let tools = folder.path().join("tools");
    fs::create_dir(&tools)?;
    for (name, approval) in TOOLS {
        let tool = format!(
            "name: {name}\ndescription: Repeats a message, where it may.\napproval: {approval}\n\
             parameters: [{{name: message, type: string, required: true}}]\n\
             entry: {{type: builtin, handler: echo}}\n"
        );
        fs::write(tools.join(format!("{name}.yaml")), tool)?;
    }
    let server = Server::start(folder.path())?;
    let document = folder.path().join("openapi.json");
    fs::write(&document, server.get("/openapi.json")?)?;
    must(Command::new(python.join("openapi-spec-validator")).arg(&document))
        .context("the document is not valid")?;
    in_python(&python, folder.path(), &document, &server)?;
    in_typescript(&node, folder.path(), &document, &server)
}

fn in_python(python: &Path, folder: &Path, document: &Path, server: &Server) -> anyhow::Result<()> {
    let (config, made) = (folder.join("config.yaml"), folder.join("client"));
    fs::write(&config, CONFIG)?;
    must(
        Command::new(python.join("openapi-python-client"))
            .args(["generate", "--fail-on-warning", "--meta", "none", "--path"])
            .arg(document)
            .arg("--config")
            .arg(&config)
            .arg("--output-path")
            .arg(made.join("windlass_client")),
    )
    .context("openapi-python-client does not read the document")?;
    must(
        Command::new(python.join("python"))
            .args(["-c", PYTHON_SCRIPT, &server.url, &server.key])
            .env("PYTHONPATH", &made),
    )
    .context("the generated Python client does not work")
}

fn in_typescript(
    node: &Path,
    folder: &Path,
    document: &Path,
    server: &Server,
) -> anyhow::Result<()> {
    // Node looks for modules beside the script.
    let place = node.join("work");
    fs::create_dir_all(&place)?;
    let bin = node.join("node_modules/.bin");
    must(
        Command::new(bin.join("openapi-typescript"))
            .arg(document)
            .arg("-o")
            .arg(place.join("api.ts"))
            .current_dir(folder),
    )
    .context("openapi-typescript does not read the document")?;
    fs::write(place.join("clients.ts"), TYPESCRIPT)?;
    must(
        Command::new(bin.join("tsc"))
            .args(["--strict", "--target", "es2022", "--module", "nodenext"])
            .args(["--moduleResolution", "nodenext", "--skipLibCheck"])
            .args(["--lib", "es2022,dom,dom.iterable", "clients.ts"])
            .current_dir(&place),
    )
    .context("the generated types do not fit what is done with them")?;
    must(Command::new("node").arg(place.join("clients.js")).args([&server.url, &server.key]))
        .context("the generated TypeScript client does not work")
}

/// The Python programs, in a virtual environment under `target`.
fn python() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/api-clients");
    let programs = folder.join("bin");
    let there = Command::new(programs.join("pip")).args(["freeze"]).output();
    let there = there.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if there.is_ok_and(|there| PYTHON.iter().all(|own| there.lines().any(|line| line == *own))) {
        return Ok(programs);
    }
    println!("installing {} into target/api-clients", PYTHON.join(" and "));
    must(Command::new("python3").args(["-m", "venv"]).arg(&folder))
        .context("install Python 3 with its venv module")?;
    must(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(PYTHON))?;
    Ok(programs)
}

/// The Node programs, in a folder under `target`.
fn node() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/api-clients-node");
    let stamp = folder.join("installed");
    let wanted = NPM.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(folder);
    }
    println!("installing {} into target/api-clients-node", NPM.join(", "));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    must(
        Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--save-exact"])
            .args(NPM)
            .current_dir(&folder),
    )
    .context("install Node with npm")?;
    ensure!(folder.join("node_modules/.bin/tsc").exists(), "npm installed no compiler");
    fs::write(stamp, wanted)?;
    Ok(folder)
}
