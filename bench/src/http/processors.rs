//! CPU usage: of this benchmark and its server, and of all other processes.

use std::fs::read_to_string;

use anyhow::Context;

/// CPU time since the machine started, in ticks.
pub(crate) struct Processors {
    /// All of it.
    all: u64,
    /// Time used by processes, and stolen by the hypervisor.
    used: u64,
    /// Time used by this process and the server.
    own: u64,
}

impl Processors {
    pub(crate) fn now(server: u32) -> anyhow::Result<Self> {
        let machine = read_to_string("/proc/stat")?;
        let line = machine.lines().next().context("/proc/stat is empty")?;
        let times: Vec<u64> =
            line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; `user` includes guests.
        let [user, nice, system, .., steal] = *times.get(..8).context("/proc/stat is short")?
        else {
            anyhow::bail!("/proc/stat is short")
        };
        Ok(Self {
            all: times[..8].iter().sum(),
            used: user + nice + system + steal,
            own: of_process(std::process::id())? + of_process(server)?,
        })
    }

    /// The share of other processes since an earlier sample.
    pub(crate) fn others_since(&self, before: &Self) -> f64 {
        let (used, own) = (self.used - before.used, self.own - before.own);
        used.saturating_sub(own) as f64 / (self.all - before.all).max(1) as f64
    }
}

/// CPU time of a process, in ticks.
fn of_process(id: u32) -> anyhow::Result<u64> {
    let about = read_to_string(format!("/proc/{id}/stat"))?;
    // The program's name comes first, in parentheses, and may contain anything.
    let (_, rest) = about.rsplit_once(')').context("a process without a name")?;
    let field = |at: usize| rest.split_whitespace().nth(at).and_then(|text| text.parse().ok());
    let (user, system): (Option<u64>, Option<u64>) = (field(11), field(12));
    user.zip(system).map(|(user, system)| user + system).context("a process without times")
}
