//! Which parts of a server's settings are secret: values of its environment and headers,
//! our environment variables, and parts of its URL. A server may repeat them in anything
//! it sends, so all of that is redacted by a [`Veil`] on arrival.
//!
//! Not every value is a secret: redacting `production` or `/usr/bin` would remove
//! ordinary words from results. The rule:
//!
//! - a name that says so (`API_KEY`, `Authorization`) makes its value secret;
//! - a well-known name (`PATH`, `LOG_LEVEL`, `Accept`) does not;
//! - any other value is secret unless it is plain: short, a word, a number, a path, or a
//!   URL without anything secret in it. Some names (`AWS_REGION`) have words with digits
//!   as values.

use windlass::Secret;
use windlass::definition::McpTransport;

use super::expand::{Expansion, expand};

/// Last words of names whose values are secret.
const SECRET: [&str; 18] = [
    "key",
    "token",
    "secret",
    "pass",
    "passwd",
    "password",
    "passphrase",
    "pwd",
    "credential",
    "auth",
    "authorization",
    "cookie",
    "session",
    "signature",
    "jwt",
    "bearer",
    "dsn",
    "webhook",
];
/// Names whose values are not secret.
const PLAIN: [&str; 30] = [
    "path",
    "home",
    "lang",
    "language",
    "tz",
    "shell",
    "user",
    "logname",
    "term",
    "tmpdir",
    "pwd",
    "oldpwd",
    "hostname",
    "host",
    "port",
    "node_env",
    "env",
    "environment",
    "log_level",
    "loglevel",
    "rust_log",
    "debug",
    "accept",
    "accept-language",
    "content-type",
    "user-agent",
    "origin",
    "referer",
    "pythonpath",
    "node_path",
];
/// Last words of names whose values are plain if they are short.
const WORDS: [&str; 18] = [
    "region",
    "zone",
    "profile",
    "mode",
    "level",
    "dir",
    "host",
    "port",
    "locale",
    "timezone",
    "version",
    "format",
    "timeout",
    "name",
    "type",
    "user",
    "env",
    "environment",
];
/// Maximum length of a value that counts as a word.
const WORD: usize = 14;

/// The secrets in a server's settings. `variable` looks up our environment, which is
/// empty for a tenant's server.
pub(super) fn of(
    transport: &McpTransport,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Secret> {
    let mut found = Found { secrets: Vec::new(), variable };
    match transport {
        McpTransport::Command { command, args, env, cwd } => {
            for text in [command].into_iter().chain(args).chain(cwd) {
                found.variables(text);
            }
            env.iter().for_each(|(name, value)| found.value(name, value));
            found.arguments(args);
        }
        McpTransport::Url { url, headers } => {
            found.variables(url);
            found.address(url);
            headers.iter().for_each(|(name, value)| found.value(name, value));
        }
    }
    found.secrets
}

/// Whether a transport's settings hold a secret.
pub fn has_secrets(transport: &McpTransport) -> bool {
    !of(transport, |_| None).is_empty()
}

/// The name of a secret value that is too short to be redacted, if there is one.
pub fn short_secret(transport: &McpTransport) -> Option<&str> {
    let values = match transport {
        McpTransport::Command { env, .. } => env,
        McpTransport::Url { headers, .. } => headers,
    };
    let is_short = |value: &str| {
        let alone = value.trim().split_once(' ').map_or(value, |(_, alone)| alone);
        !value.is_empty() && alone.trim().chars().count() < Secret::MIN_CHARS
    };
    let mut short = values.iter().filter(|(name, value)| says_secret(name) && is_short(value));
    short.next().map(|(name, _)| name.as_str())
}

struct Found<F> {
    secrets: Vec<Secret>,
    variable: F,
}

impl<F: Fn(&str) -> Option<String>> Found<F> {
    /// Adds a value, given its name.
    fn value(&mut self, name: &str, value: &str) {
        self.variables(value);
        let value = self.expanded(value);
        if is_secret(name, &value) {
            self.add(name, &value);
        }
    }

    /// A text with its variables; nothing where one is missing.
    fn expanded(&self, text: &str) -> String {
        let find = |name: &str| match (self.variable)(name) {
            Some(value) => Expansion::Value(value),
            None => Expansion::Missing,
        };
        expand(text, find).unwrap_or_default()
    }

    /// Arguments that a name says to be secret of, and addresses among them.
    fn arguments(&mut self, args: &[String]) {
        let mut before = "";
        for argument in args {
            let named = match argument.split_once('=').or_else(|| argument.split_once(": ")) {
                Some((name, value)) if !name.contains("://") => Some((name, value)),
                _ if before.starts_with('-') && !argument.starts_with('-') => {
                    Some((before, argument.as_str()))
                }
                _ => None,
            };
            let secret = named.filter(|(name, value)| says_secret(name) && !is_count(value));
            match secret {
                Some((name, value)) => self.value(name, value),
                None if is_address(argument) => self.address(argument),
                None => {}
            }
            before = argument;
        }
    }

    /// The variables of ours in a text.
    fn variables(&mut self, text: &str) {
        for named in text.split("${").skip(1).filter_map(|rest| rest.split_once('}')) {
            let name = named.0.split(":-").next().unwrap_or_default();
            let name = name.strip_prefix("env:").unwrap_or(name);
            if let Some(value) = (self.variable)(name).filter(|value| is_secret(name, value)) {
                self.add(name, &value);
            }
        }
    }

    /// Adds the secret parts of a URL, but not the URL.
    fn address(&mut self, url: &str) {
        let url = self.expanded(url);
        self.secrets.extend(Secret::new(url).parts());
    }

    fn add(&mut self, name: &str, value: &str) {
        let value = value.trim();
        let secret = Secret::new(value);
        // A URL that is not secret as a whole may have secret parts.
        if is_address(value) && !says_secret(name) {
            return self.secrets.extend(secret.parts());
        }
        // An authentication scheme and its credentials, such as `Bearer x`.
        if let Some((_, alone)) = value.split_once(' ').filter(|_| !value.contains('\n')) {
            self.secrets.push(Secret::new(alone.trim()));
            self.secrets.extend(password(alone.trim()));
        }
        self.secrets.push(secret);
    }
}

/// The password in HTTP basic authentication.
fn password(encoded: &str) -> Option<Secret> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(Secret::new(text.split_once(':')?.1))
}

/// Whether a value is to be redacted.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_long = value.chars().count() >= Secret::MIN_CHARS;
    let is_short_word = value.len() <= WORD && WORDS.contains(&last_word(name).as_str());
    is_long && (says_secret(name) || !(is_known(name) || is_short_word || is_plain(value)))
}

/// The last word of a name, such as `key` of `API_KEY` and `X-Api-Key-2`.
fn last_word(name: &str) -> String {
    let mut words = name.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    words.next_back().unwrap_or_default().to_ascii_lowercase()
}

/// Whether a name says that its value is secret: by its last word, as in `API_KEY` or
/// `accessToken`, but not in `KEY_FILE` or `AUTHOR`.
pub(super) fn says_secret(name: &str) -> bool {
    let last = last_word(name);
    let one = last.strip_suffix('s').unwrap_or(&last);
    !is_known(name) && SECRET.iter().any(|word| last.ends_with(word) || one.ends_with(word))
}

fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PLAIN.contains(&name.as_str()) || name.starts_with("lc_")
}

/// Whether a value is a word, a number, a path or a URL without secrets.
fn is_plain(value: &str) -> bool {
    let is_word = value.len() <= WORD && value.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
    let is_number = value.len() < 8 && value.parse::<f64>().is_ok();
    let path = |c: char| c.is_ascii_alphanumeric() || "/._-:~, ".contains(c);
    let is_path = value.starts_with(['/', '~', '.'])
        && value.chars().all(path)
        && !value.split(['/', ':']).any(|part| part.len() >= 24 && Secret::is_likely(part));
    let is_nothing = is_address(value) && Secret::new(value).parts().is_empty();
    is_word || is_number || is_path || is_nothing
}

/// Whether a value is a number of something, as in `--max-tokens 100000`.
fn is_count(value: &str) -> bool {
    value.len() <= 8 && value.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_address(value: &str) -> bool {
    value.contains("://") && !value.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_and_values_tell_what_is_secret() {
        for (name, value, secret) in [
            ("API_KEY", "hunter22", true),
            ("API_KEY", "short", false),
            ("Authorization", "Bearer abcdef", true),
            ("DB_PASSWORD", "correcthorse", true),
            ("accessToken", "abcdefgh", true),
            ("PASSWORD_2", "correcthorse", true),
            ("AWS_CREDENTIALS", "abcdefgh", true),
            ("AUTHOR", "somebody", false),
            ("AWS_REGION", "eu-central-1", false),
            ("AWS_REGION", "canary-0123456789abcdef", true),
            ("DIRS", "/srv/a,/srv/b", false),
            ("KEYBOARD", "dvorak", false),
            ("TOKEN_FILE", "/run/token", false),
            ("ANYTHING", "canary-env-1234", true),
            ("MODE", "production", false),
            ("FLAG", "true", false),
            ("LEVEL", "1", false),
            ("PATH", "/usr/local/bin:/usr/bin:/opt/s3cr3tstuff", false),
            ("DATA_DIR", "/var/lib/app", false),
            ("BASE", "https://api.example.com/v2", false),
            ("BASE", "https://u:hunter22@api.example.com/", true),
            ("Accept", "application/json, text/event-stream", false),
            ("LC_ALL", "en_US.UTF-8", false),
        ] {
            assert_eq!(is_secret(name, value), secret, "{name}={value}");
        }
    }

    #[test]
    fn arguments_that_are_secret_are_found() {
        let args = [
            "-y",
            "server@latest",
            "--api-key",
            "sk-first-1",
            "--token=tok-second",
            "-e",
            "GITHUB_TOKEN=ghp_third",
            "--header",
            "Authorization: Bearer fourth-4",
            "--verbose",
            "--password",
            "--max-tokens",
            "100000",
            "--mode",
            "production",
            "https://mcp.example.com/s/5f1fth5ecret/mcp",
            "postgres://me:s1xth-6@db/shop",
            "https://mcp.example.com/mcp",
            "/srv/keys/token",
        ];
        let transport = McpTransport::Command {
            command: "npx".to_owned(),
            args: args.map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            cwd: None,
        };
        let secrets = of(&transport, |_| None);
        let found: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        for wanted in
            ["sk-first-1", "tok-second", "ghp_third", "fourth-4", "5f1fth5ecret", "s1xth-6"]
        {
            assert!(found.contains(&wanted), "{wanted}: {found:?}");
        }
        for plain in ["100000", "production", "server@latest", "--verbose", "/srv/keys/token"] {
            assert!(!found.contains(&plain), "{plain}: {found:?}");
        }
        assert!(!found.iter().any(|part| part.contains("example.com")), "{found:?}");
        assert!(has_secrets(&transport));
    }

    #[test]
    fn all_that_a_server_is_told_is_found() {
        let variable = |name: &str| (name == "OURS").then(|| "0urs-variable".to_owned());
        let told = |transport: McpTransport| {
            let secrets = of(&transport, variable);
            secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>()
        };
        let env = BTreeMap::from([("X_TOKEN".to_owned(), "a ${OURS} b".to_owned())]);
        let found = told(McpTransport::Command {
            command: "x".to_owned(),
            args: vec!["--key=${env:OURS}".to_owned()],
            env,
            cwd: None,
        });
        assert!(found.contains(&"0urs-variable".to_owned()), "{found:?}");
        assert!(found.contains(&"a 0urs-variable b".to_owned()), "{found:?}");
        let basic = "Basic dXNlcjpodW50ZXIyMg==";
        let found = told(McpTransport::Url {
            url: "https://mcp.example.com/s/4bcdef123456/mcp?k=s3cretvalue".to_owned(),
            headers: BTreeMap::from([("Authorization".to_owned(), basic.to_owned())]),
        });
        for wanted in [basic, "dXNlcjpodW50ZXIyMg==", "hunter22", "4bcdef123456", "s3cretvalue"] {
            assert!(found.contains(&wanted.to_owned()), "{wanted}: {found:?}");
        }
        assert!(!found.iter().any(|part| part.contains("example.com")), "{found:?}");
    }
}
