//! `cargo xtask`: development tasks of this repository.

mod bench;
mod bfcl;
mod cel;
mod chaos;
mod clients;
mod conformance;
mod docs;
mod mcp;
mod postgres;
mod requirements;
mod run;
mod schemathesis;
mod sdks;
mod test;
mod upstreams;

const HELP: &str = "\
cargo xtask test                  check formatting, lints, docs, and run all tests and examples
cargo xtask bench [NAME…] [--json] [--quick]
                                  measure; NAME is one of call, burst, sustained, definitions,
                                  admission, threads, batch, pages, durable, openapi, http,
                                  sse, start, tenants, overload, turn, agents, search, mcp
cargo xtask chaos [--kills N] [--minutes N]
                                  kill a process under load again and again (200 kills, 10 minutes)
cargo xtask cel-spec              the conformance tests of the Common Expression Language, against
                                  the expressions of workflows
cargo xtask clients               clients that others generate from our OpenAPI document, in use
cargo xtask conformance [server|client|through|rounds…]
                                  the official suite of the Model Context Protocol, and 200
                                  starts and ends of servers that leave nothing behind
cargo xtask docs [--check]        write docs/reference, or check that it is up to date and that
                                  the tests exist which docs/requirements.md names
cargo xtask schemathesis [--cases N]
                                  made-up requests against our own OpenAPI document (10,000)
cargo xtask sdks                  our messages against the types of the SDKs of Anthropic and OpenAI
cargo xtask upstreams             import and call real services on loopback: httpbin, Kinto;
                                  have requests for others judged by Prism
cargo xtask with-postgres CMD…    run a command with a PostgreSQL server for tests
";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[][..]),
    };
    match task {
        "test" => test::run(),
        "bench" => bench::run(rest),
        "cel-spec" => cel::run(),
        "chaos" => chaos::run(rest),
        "clients" => clients::with(),
        "conformance" => conformance::run(rest),
        "docs" => docs::run(rest.iter().any(|argument| argument == "--check")),
        "schemathesis" => schemathesis::with(rest),
        "sdks" => sdks::run(),
        "upstreams" => upstreams::run().map(drop),
        "with-postgres" => postgres::with(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        unknown => anyhow::bail!("there is no task `{unknown}`\n\n{HELP}"),
    }
}
