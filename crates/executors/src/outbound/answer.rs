//! [`Answer`]: an HTTP response whose body is decoded and size-limited while it is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::Stream;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hyper::body::{Body as _, Incoming};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};
use tokio_util::io::StreamReader;
use url::Url;
use windlass::{Error, ErrorKind};

use super::fault;
use super::places::Using;
use super::request::RequestLimits;
use super::target;

/// How many bytes of an error response are quoted in the error.
const MAX_QUOTE: usize = 1_000;
/// Buffer size of the gzip decoder.
const STEP: usize = 16 * 1024;

/// An HTTP response. Its body has not been read yet.
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    url: Url,
    body: Body,
    read: u64,
    limits: RequestLimits,
    until: Instant,
    /// The connection that it comes over.
    _using: Option<Using>,
}

enum Body {
    Plain(RawBody),
    Gzip(Box<GzipDecoder<StreamReader<RawBody, Bytes>>>),
}

impl Answer {
    pub(super) fn new(
        response: http::Response<Incoming>,
        url: Url,
        limits: RequestLimits,
        until: Instant,
        using: Option<Using>,
    ) -> Result<Self, Error> {
        let (parts, body) = response.into_parts();
        let is_empty = body.is_end_stream();
        let raw = RawBody { body, left: limits.max_bytes.saturating_add(STEP as u64) };
        let body = match encoding(&parts.headers).as_str() {
            _ if is_empty => Body::Plain(raw),
            "" | "identity" => Body::Plain(raw),
            "gzip" | "x-gzip" => {
                let mut decoder = GzipDecoder::new(StreamReader::new(raw));
                decoder.multiple_members(true);
                Body::Gzip(Box::new(decoder))
            }
            _ => {
                let from = target::shown(&url);
                let why = format!("{from} answered in an encoding that was not asked for");
                return Err(Error::new(ErrorKind::UpstreamRejected, why));
            }
        };
        let (status, headers) = (parts.status, parts.headers);
        Ok(Self { status, headers, url, body, read: 0, limits, until, _using: using })
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The response headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Takes the headers, leaving an empty map.
    #[cfg(feature = "rest")]
    pub(crate) fn take_headers(&mut self) -> HeaderMap {
        std::mem::take(&mut self.headers)
    }

    /// The value of a header; `None` if it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The media type in lower case, without parameters; empty if there is none.
    pub fn media_type(&self) -> String {
        let whole = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The final URL, after all redirects.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The next decoded chunk of the body; `None` at its end. Fails once the body exceeds
    /// the size limit.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let silent = Instant::now() + self.limits.read_timeout;
        let next = timeout_at(silent.min(self.until), self.body.next()).await;
        let chunk = match next {
            Err(_) => return Err(fault::too_slow(&self.url, &self.limits, self.until)),
            Ok(Err(cause)) if is_too_large(&cause) => return Err(self.too_large()),
            Ok(Err(cause)) => {
                let why = format!("the answer of {} broke off", target::shown(&self.url));
                return Err(Error::new(ErrorKind::Network, why).with_source(cause));
            }
            Ok(Ok(chunk)) => chunk,
        };
        self.read += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        if self.read > self.limits.max_bytes {
            return Err(self.too_large());
        }
        Ok(chunk)
    }

    /// The whole body.
    pub async fn bytes(mut self) -> Result<Bytes, Error> {
        // Most bodies are a single chunk, which need not be copied.
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.chunk().await? else { return Ok(first) };
        let mut whole = BytesMut::from(first);
        whole.extend_from_slice(&second);
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Returns the response if its status is a success; otherwise the error for that
    /// status, which quotes the beginning of a text body. All kinds of tools share this
    /// mapping.
    pub async fn checked(mut self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        let is_text = ["text/plain", "application/json", "application/problem+json"]
            .contains(&self.media_type().as_str());
        let quote = if is_text { self.quote().await } else { String::new() };
        Err(fault::of_status(&self.url, self.status, &self.headers, &quote))
    }

    async fn quote(&mut self) -> String {
        let mut said = Vec::new();
        while said.len() < MAX_QUOTE {
            match self.chunk().await {
                Ok(Some(chunk)) => said.extend_from_slice(&chunk),
                _ => break,
            }
        }
        if said.len() > MAX_QUOTE {
            // Cuts at the last word boundary: a secret that is cut in two would no longer
            // be found and redacted.
            said.truncate(MAX_QUOTE);
            let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\",;<>{}[]()".contains(byte);
            let end = said.iter().rposition(is_end).unwrap_or_default();
            said.truncate(end);
        }
        let words = String::from_utf8_lossy(&said);
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn too_large(&self) -> Error {
        let why = format!(
            "the answer of {} is larger than {} bytes",
            target::shown(&self.url),
            self.limits.max_bytes
        );
        Error::new(ErrorKind::UpstreamRejected, why)
    }
}

impl Body {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Plain(raw) => {
                std::future::poll_fn(|context| Pin::new(&mut *raw).poll_next(context))
                    .await
                    .transpose()
            }
            Self::Gzip(decoder) => {
                let mut chunk = BytesMut::with_capacity(STEP);
                let read = decoder.read_buf(&mut chunk).await?;
                Ok((read > 0).then(|| chunk.freeze()))
            }
        }
    }
}

/// The body as received, before decoding. Its size is bounded as well, because a body
/// that decodes to nothing could go on for ever.
struct RawBody {
    body: Incoming,
    left: u64,
}

impl Stream for RawBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(cause)) => return Poll::Ready(Some(Err(io::Error::other(cause)))),
                Some(Ok(frame)) => frame,
            };
            // Frames without data are trailers, which nothing here uses.
            let Ok(data) = frame.into_data() else { continue };
            let left = self.left.checked_sub(data.remaining() as u64);
            let Some(left) = left else {
                return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::FileTooLarge))));
            };
            self.left = left;
            return Poll::Ready(Some(Ok(data)));
        }
    }
}

fn is_too_large(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::FileTooLarge
}

/// All `Content-Encoding` values, joined.
fn encoding(headers: &HeaderMap) -> String {
    if !headers.contains_key(CONTENT_ENCODING) {
        return String::new();
    }
    let all: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase())
        .collect();
    all.join(",")
}
