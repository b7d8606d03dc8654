//! `windlass providers add NAME -- COMMAND`: adds an MCP server to a file in the
//! tools folder, in the `mcpServers` format that other programs use, too.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use windlass::definition;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Screen;
use crate::cli::permissions;
use crate::settings::Settings;

/// What a server is told, and how far it is trusted.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// A variable for the server's process: NAME=VALUE, or NAME for ${NAME}
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header of every request: NAME=VALUE. ${VARIABLE} is resolved when a request
    /// is sent; for secrets use a credential
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Trust the server's annotations of its tools, such as read-only
    #[arg(long)]
    trust_annotations: bool,
    /// Hold changed tools back until somebody has reviewed them
    #[arg(long)]
    quarantine: bool,
}

impl ServerArgs {
    /// The headers for the requests of an API; an error for what only servers
    /// of tools know.
    pub(super) fn of_document(&self) -> Result<BTreeMap<String, String>, Failure> {
        let servers_only = [
            ("--env", !self.env.is_empty()),
            ("--trust-annotations", self.trust_annotations),
            ("--quarantine", self.quarantine),
        ];
        if let Some((flag, _)) = servers_only.iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!("{flag} is for MCP servers"))
                .hint("give --mcp with a server's address, or a command after --"));
        }
        let read = |word: &String| match word.split_once('=') {
            Some((name, value)) if !value.contains("${") => {
                Ok((name.trim().to_owned(), value.to_owned()))
            }
            Some((name, _)) => {
                let why = format!("the header `{name}` of an API is sent as it is written");
                let hint = format!("--auth header:{name}, and `windlass credentials set`");
                Err(Failure::usage(why).hint(hint))
            }
            None => Err(Failure::usage(format!("`{word}` is no header: write NAME=VALUE"))),
        };
        self.header.iter().map(read).collect()
    }

    fn add_to(&self, server: &mut Value) {
        let pairs = |words: &[String]| -> Map<String, Value> {
            let pair = |word: &String| match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.into()),
                None => (word.clone(), format!("${{{word}}}").into()),
            };
            words.iter().map(pair).collect()
        };
        if !self.env.is_empty() {
            server["env"] = pairs(&self.env).into();
        }
        if !self.header.is_empty() {
            server["headers"] = pairs(&self.header).into();
        }
        for (key, wanted) in
            [("trust_annotations", self.trust_annotations), ("quarantine", self.quarantine)]
        {
            if wanted {
                server[key] = true.into();
            }
        }
    }
}

/// Adds a server that is a process.
pub(super) fn add_command(
    name: &str,
    command: &[String],
    args: &ServerArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<(), Failure> {
    let (program, rest) =
        command.split_first().ok_or_else(|| Failure::usage("the command is empty"))?;
    add(name, json!({"command": program, "args": rest}), args, settings, screen)
}

/// Adds a server at an address.
pub(super) fn add_address(
    name: &str,
    url: &str,
    args: &ServerArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<(), Failure> {
    add(name, json!({"type": "http", "url": url}), args, settings, screen)
}

fn add(
    name: &str,
    mut server: Value,
    args: &ServerArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<(), Failure> {
    args.add_to(&mut server);
    let list = json!({"mcpServers": {name: server}});
    let text = format!("{list:#}\n");
    if let Err(errors) =
        definition::parse_all("definition", &text, &definition::DefinitionLimits::default())
    {
        let said: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
        return Err(Failure::usage(said.join("; ")));
    }
    let folder =
        settings.tools.first().map_or_else(|| PathBuf::from("tools"), |own| own.path.clone());
    permissions::folder(&folder)?;
    let path = folder.join(format!("mcp-{name}.json"));
    let file = permissions::file().create_new(true).open(&path);
    let mut file = file.map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
            .hint("edit that file, or choose another name")
    })?;
    file.write_all(text.as_bytes())?;
    screen.note(format_args!("wrote {}; `windlass tools` asks the server", path.display()));
    Ok(())
}
