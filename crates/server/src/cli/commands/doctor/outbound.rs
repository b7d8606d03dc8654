//! Checks of outbound access: DNS, and the folders, CA files and databases that the
//! settings open to tools.

use std::env;
use std::fs::File;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;

use super::Diagnosis;
use crate::settings::Settings;

const ABOUT: &str = "outbound";
/// How long it may take to find a name.
const PATIENCE: Duration = Duration::from_secs(3);
/// A name that always exists.
const KNOWN: &str = "example.com:443";
/// Variables that other programs take proxies from.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

pub(super) async fn examine(settings: &Settings) -> Vec<Diagnosis> {
    let (policy, files) = (&settings.outbound.policy, &settings.outbound.files);
    let mut findings = Vec::new();
    for path in &policy.ca_files {
        if let Err(error) = File::open(path) {
            let message = format!("{} cannot be read: {error}", path.display());
            findings.push(Diagnosis::broken(ABOUT, message).hint("correct outbound.ca_files"));
        }
    }
    if let Some(folder) = files.folder.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("{} is no folder; the file tools are refused", folder.display());
        let hint = format!("make it with `mkdir -p {}`", folder.display());
        findings.push(Diagnosis::broken(ABOUT, message).hint(hint));
    }
    let proxy = PROXIES.iter().find(|name| env::var_os(name).is_some());
    if let (Some(name), None) = (proxy, &policy.proxy) {
        findings.push(
            Diagnosis::warning(ABOUT, format!("{name} is set; tools do not use it"))
                .hint("if requests have to go through it, set outbound.proxy"),
        );
    }
    findings.push(names(settings).await);
    findings
}

/// Whether names are found at all, and what is open besides the internet.
async fn names(settings: &Settings) -> Diagnosis {
    let open = &settings.outbound.policy.allow;
    let more = match open.is_empty() {
        true => "tools reach the open internet only".to_owned(),
        false => {
            let open: Vec<String> = open.iter().map(ToString::to_string).collect();
            format!("tools reach the open internet, and {}", open.join(", "))
        }
    };
    match timeout(PATIENCE, lookup_host(KNOWN)).await {
        Ok(Ok(_)) => Diagnosis::ok(ABOUT, more),
        _ => Diagnosis::warning(ABOUT, format!("{more}; but names cannot be found"))
            .hint("tools that reach out need DNS: look at /etc/resolv.conf"),
    }
}
