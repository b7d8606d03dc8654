//! Opens a tunnel through an HTTP proxy with `CONNECT`.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::{Error, ErrorKind, Secret};

/// Maximum size of the proxy's response headers.
const MAX_ANSWER: usize = 8 * 1024;

/// Sends `CONNECT` and reads the response. After that the stream belongs to the
/// destination.
pub(super) async fn ask(
    stream: &mut TcpStream,
    to: SocketAddr,
    authorization: Option<&Secret>,
) -> Result<(), Error> {
    let own = authorization
        .map(|secret| format!("Proxy-Authorization: {}\r\n", secret.expose()))
        .unwrap_or_default();
    let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{own}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut answer = Vec::with_capacity(256);
    // Byte by byte: whatever follows the empty line already comes from the destination.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_ANSWER {
            return Err(failed("the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await.map_err(broken)?);
    }
    let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    match status {
        [b'2', _, _] => Ok(()),
        b"407" => Err(failed("the proxy wants a user name and password")),
        _ => Err(failed("the proxy did not connect")),
    }
}

fn broken(cause: std::io::Error) -> Error {
    failed("the proxy broke off").with_source(cause)
}

fn failed(message: &str) -> Error {
    Error::new(ErrorKind::Network, message).nothing_done()
}
