//! Checks of the listener (address, TLS, host names) and of the trace collector.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::Diagnosis;
use crate::http::Tls;
use crate::settings::Settings;

/// How long others may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// A certificate that ends sooner should be renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);

pub(super) async fn examine(settings: &Settings) -> Vec<Diagnosis> {
    let server = &settings.server;
    let mut findings = vec![address(server.listen, server.tls.is_some()).await];
    findings.extend(server.tls.as_ref().map(certificate));
    if let Err(refused) = server.refuse_plain_text() {
        let mut finding = Diagnosis::broken("tls", refused.message);
        finding.hint = refused.hint;
        findings.push(finding);
    }
    if server.is_remote() {
        let plain = server.tls.is_none() && server.http.without_tls;
        findings.extend(plain.then(|| {
            let message = "there is none here: what is in front has it (server.without_tls)";
            Diagnosis::ok("tls", message)
        }));
        findings.extend(server.http.hosts.is_empty().then(|| {
            Diagnosis::warning("hosts", "requests for a name are refused: server.hosts is empty")
                .hint("add the names by which others call this server")
        }));
    }
    findings.extend(collector(settings).await);
    findings
}

async fn address(address: SocketAddr, has_tls: bool) -> Diagnosis {
    let about = "listen";
    let error = match TcpListener::bind(address).await {
        Ok(_) => return Diagnosis::ok(about, format!("{address} is free")),
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => match who_answers(address).await {
            Some(version) => {
                Diagnosis::ok(about, format!("windlass {version} answers on {address}"))
            }
            None if has_tls => Diagnosis::warning(about, format!("something listens on {address}"))
                .hint("if it is not your windlass, choose another address: server.listen"),
            None => Diagnosis::broken(about, format!("another program listens on {address}"))
                .hint("choose another address: server.listen, or serve --listen"),
        },
        io::ErrorKind::PermissionDenied => {
            Diagnosis::broken(about, format!("{address}: only root may listen on this port"))
                .hint("choose a port from 1024 on, or give the program CAP_NET_BIND_SERVICE")
        }
        _ => Diagnosis::broken(about, format!("cannot listen on {address}: {error}"))
            .hint("choose an address of this machine: server.listen"),
    }
}

/// The version of a windlass that has the address.
async fn who_answers(mut address: SocketAddr) -> Option<String> {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let ask = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let asked = format!("GET /healthz HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.take(16 * 1024).read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8(answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let health: serde_json::Value = serde_json::from_str(body).ok()?;
        health["version"].as_str().map(str::to_owned)
    };
    timeout(PATIENCE, ask).await.ok().flatten()
}

fn certificate(tls: &Tls) -> Diagnosis {
    let about = "tls";
    let place = tls.certificate.display();
    if let Err(error) = tls.acceptor() {
        return Diagnosis::broken(about, error.to_string())
            .hint("both files are PEM, and the key is that of the first certificate");
    }
    let Some((from, until)) = validity(tls) else {
        return Diagnosis::warning(about, format!("{place}: its dates cannot be read"));
    };
    let now = SystemTime::now();
    let day = |time: SystemTime| {
        let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX);
        time.strftime("%Y-%m-%d").to_string()
    };
    if now >= until {
        return Diagnosis::broken(about, format!("{place} expired on {}", day(until)))
            .hint("renew the certificate; a server that runs has to be started again");
    }
    if now < from {
        return Diagnosis::broken(about, format!("{place} is not valid before {}", day(from)))
            .hint("look at the clock of this machine, and at the certificate");
    }
    let message = format!("{place} is valid until {}", day(until));
    match until.duration_since(now) {
        Ok(left) if left < SOON => Diagnosis::warning(about, message).hint("renew it soon"),
        _ => Diagnosis::ok(about, message),
    }
}

/// From when until when the server's own certificate is valid.
fn validity(tls: &Tls) -> Option<(SystemTime, SystemTime)> {
    let first = CertificateDer::pem_file_iter(&tls.certificate).ok()?.next()?.ok()?;
    let validity = Certificate::from_der(&first).ok()?.tbs_certificate.validity;
    let time = |time: x509_cert::time::Time| SystemTime::UNIX_EPOCH + time.to_unix_duration();
    Some((time(validity.not_before), time(validity.not_after)))
}

/// Whether somebody takes traces.
async fn collector(settings: &Settings) -> Option<Diagnosis> {
    let endpoint = &settings.telemetry.endpoint.as_ref()?.0;
    let about = "traces";
    let host = endpoint.host()?.trim_start_matches('[').trim_end_matches(']');
    let fallback = if endpoint.scheme_str() == Some("https") { 443 } else { 80 };
    let port = endpoint.port_u16().unwrap_or(fallback);
    Some(match timeout(PATIENCE, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Diagnosis::ok(about, format!("{endpoint} can be reached")),
        Ok(Err(error)) => unreachable(endpoint, &error.to_string()),
        Err(_) => unreachable(endpoint, "no answer"),
    })
}

fn unreachable(endpoint: &axum::http::Uri, why: &str) -> Diagnosis {
    Diagnosis::warning("traces", format!("{endpoint} cannot be reached: {why}"))
        .hint("start the collector, or correct telemetry.endpoint; calls run without it")
}
