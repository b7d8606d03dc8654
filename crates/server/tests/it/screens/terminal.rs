//! A terminal to run a program on: a pseudo-terminal of a fixed width.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::project::Ran;

/// How long a program may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program whose stdout is a terminal; stderr is read apart. With `until`, it is
/// interrupted as soon as it has printed that.
pub(super) fn run(mut command: Command, columns: u16, until: Option<&str>) -> Ran {
    let (near, far) = open(columns);
    // A group of its own: an interrupt is for the program and the shell around it.
    let mut child = command.process_group(0).stdout(far).stderr(Stdio::piped()).spawn().unwrap();
    // The terminal ends when nobody has it open any more.
    drop(command);
    let (heard, hearing) = mpsc::channel();
    let out = thread::spawn(move || read(near, &heard));
    if let Some(until) = until {
        interrupt_after(&child, until, &hearing);
    }
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    let code = child.wait().unwrap().code();
    Ran { code, out: out.join().unwrap(), err }
}

fn open(columns: u16) -> (File, File) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
    let far = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(far.as_fd(), size).unwrap();
    let mut modes = tcgetattr(far.as_fd()).unwrap();
    // Lines end as the program ends them.
    modes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(far.as_fd(), OptionalActions::Now, &modes).unwrap();
    (near.into(), far)
}

/// Reads until the program has closed the terminal, which is an error of the system.
fn read(mut near: File, heard: &mpsc::Sender<String>) -> String {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count) = near.read(&mut bytes) {
        if count == 0 {
            break;
        }
        all.extend_from_slice(&bytes[..count]);
        // Nobody may be listening.
        let _ = heard.send(String::from_utf8_lossy(&all).into_owned());
    }
    String::from_utf8(all).unwrap()
}

fn interrupt_after(child: &Child, until: &str, hearing: &mpsc::Receiver<String>) {
    loop {
        let so_far = hearing.recv_timeout(PATIENCE).unwrap();
        if so_far.contains(until) {
            break;
        }
    }
    let id = Pid::from_child(child);
    kill_process_group(id, Signal::INT).unwrap();
}
