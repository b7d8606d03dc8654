//! The program `windlass`: the command line of `windlass_server`.

use std::process::ExitCode;

/// Records outlive the calls that make them, which costs the system allocator
/// more than the call itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    windlass_server::command_line()
}
