//! The stream type of the HTTP client: plain TCP or TLS, counted against the connection
//! limit.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::places::Place;

/// A duplex byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// A connection and its slot in the connection limit.
pub(super) struct Wire {
    stream: TokioIo<Box<dyn Stream>>,
    place: Place,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>, place: Place) -> Self {
        Self { stream: TokioIo::new(stream), place }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TokioIo<Box<dyn Stream>>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.place.held())
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.as_mut().stream().poll_read(context, buffer);
        if read.is_pending() {
            let line = self.place.line();
            line.tell(context.waker());
            // Somebody else needs its place: it ends here.
            if line.is_closed() {
                return Poll::Ready(Ok(()));
            }
        }
        read
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.place.line().keep() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
