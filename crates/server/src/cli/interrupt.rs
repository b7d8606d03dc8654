//! SIGINT (Ctrl-C) and SIGTERM.

use std::io;

use tokio::sync::mpsc;

/// Two are all that anybody acts on: cancel, then give up waiting.
const HEARD: usize = 2;

/// Signals to stop. From the moment this is made they no longer end the
/// process; whoever made it must.
pub(crate) struct Interrupts(mpsc::Receiver<()>);

impl Interrupts {
    /// Begins to listen.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (heard, receiver) = mpsc::channel(HEARD);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if matches!(heard.try_send(()), Err(mpsc::error::TrySendError::Closed(()))) {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }

    /// Begins to listen.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        let (heard, receiver) = mpsc::channel(HEARD);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if matches!(heard.try_send(()), Err(mpsc::error::TrySendError::Closed(()))) {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }

    /// Hears nothing: a signal to the process reaches every listener in it.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self(mpsc::channel(HEARD).1)
    }

    /// Ends when the next signal comes.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
