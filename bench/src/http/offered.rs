//! Open-loop load: requests at a fixed rate that does not depend on responses.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};

use super::answer::Answer;
use super::client::{Connection, Load};

/// How often the client checks which requests are due.
const TICK: Duration = Duration::from_millis(1);
/// Maximum number of concurrent requests. It is the client's limit: a run that reaches it
/// says nothing about the server.
const MAX_OPEN: usize = 4_096;

/// The result of an open-loop load.
pub(crate) struct Offered {
    pub(crate) admitted: Load,
    /// Refused requests: the time of each since the beginning, and its response time.
    pub(crate) refused: Vec<(Duration, Duration)>,
}

#[derive(Default)]
struct Times {
    admitted: Vec<Duration>,
    refused: Vec<(Duration, Duration)>,
}

/// Sends requests at this rate, on idle connections where possible.
pub(crate) async fn open_loop(
    address: SocketAddr,
    request: &[u8],
    per_second: f64,
    time: Duration,
) -> anyhow::Result<Offered> {
    let request: Rc<[u8]> = request.into();
    let idle = Rc::new(RefCell::new(Vec::<Connection>::new()));
    let times = Rc::new(RefCell::new(Times::default()));
    let began = Instant::now();
    LocalSet::new()
        .run_until(async {
            let mut asking = JoinSet::new();
            let mut sent = 0;
            while began.elapsed() < time {
                let due = (began.elapsed().as_secs_f64() * per_second) as usize;
                for _ in sent..due {
                    let (request, idle) = (Rc::clone(&request), Rc::clone(&idle));
                    let times = Rc::clone(&times);
                    let given = Instant::now();
                    asking.spawn_local(async move {
                        let free = idle.borrow_mut().pop();
                        let (connection, answer) = ask(free, address, &request).await?;
                        let mut times = times.borrow_mut();
                        match answer.status {
                            200 => times.admitted.push(given.elapsed()),
                            429 | 503 => times.refused.push((given - began, given.elapsed())),
                            other => anyhow::bail!("status {other}"),
                        }
                        idle.borrow_mut().push(connection);
                        Ok(())
                    });
                }
                sent = due;
                while let Some(asked) = asking.try_join_next() {
                    asked??;
                }
                anyhow::ensure!(asking.len() < MAX_OPEN, "{} requests are open", asking.len());
                tokio::time::sleep(TICK).await;
            }
            while let Some(asked) = asking.join_next().await {
                asked??;
            }
            anyhow::Ok(())
        })
        .await?;
    let (times, took) = (times.take(), began.elapsed());
    Ok(Offered { admitted: Load::new(times.admitted, took), refused: times.refused })
}

/// Sends a request on an idle connection, or on a new one: the server may have closed one
/// that was idle for long.
async fn ask(
    free: Option<Connection>,
    address: SocketAddr,
    request: &[u8],
) -> io::Result<(Connection, Answer)> {
    if let Some(mut connection) = free
        && let Ok(answer) = connection.ask(request).await
    {
        return Ok((connection, answer));
    }
    let mut connection = Connection::open(address).await?;
    let answer = connection.ask(request).await?;
    Ok((connection, answer))
}
