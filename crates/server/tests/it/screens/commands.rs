//! The one table of screens: each command, and the lines that are typed.
//!
//! `{call}` and `{key}` stand for the newest of them. A line with `# until TEXT` is
//! interrupted once it has printed that.

use serde_json::json;

use super::{Screens, check};
use crate::agents::{HELPER, Model, calculating, settings};
use crate::project::Project;

macro_rules! screens {
    ($($(#[$about:meta])* $test:ident = $command:literal, $prepare:expr, [$($line:literal),* $(,)?];)+) => {
        /// All commands.
        pub(super) const ALL: &[Screens] = &[$(
            Screens { command: $command, prepare: $prepare, lines: &[$($line),*] },
        )+];

        $($(#[$about])* #[test]
        fn $test() {
            check(ALL.iter().find(|screens| screens.command == $command).unwrap());
        })+
    };
}

screens! {
    windlass = "windlass", empty, [
        "windlass",
        "windlass --version",
        "windlass cal",
        "windlass tools --nonsense",
        "windlass tools --project nowhere",
        "windlass tools --lang fr",
        "echo 'max_concurent: 3' > windlass.yaml; windlass tools; rm windlass.yaml",
        "WINDLASS_MAX_BATCH=many windlass tools",
    ];
    agent = "agent", with_agent, [
        "windlass agent",
        "windlass agent list",
        "windlass agent run helper 'What is 6 * 7?'",
        "windlass agent run helpr hi",
        "windlass agent run nobody hi",
        "windlass agent resume 019a2b3c-0000-7000-8000-000000000000",
    ];
    audit = "audit", with_keys, [
        "windlass audit list",
        "windlass audit list --action rotate_key",
        "windlass audit export",
        "windlass audit verify",
        "windlass audit export > audit.jsonl; windlass audit verify audit.jsonl",
        "sed s/create_key/revoke_key/ audit.jsonl > other.jsonl; windlass audit verify other.jsonl",
        "windlass audit verify missing.jsonl",
    ];
    batch = "batch", project, [
        r#"windlass batch '[{"tool": "weekday", "arguments": {"date": "2024-05-17"}}]'"#,
        r#"windlass batch '[{"tool": "calculator", "arguments": {"expression": "1/0"}}, {"tool": "nope"}, {"tool": "hello"}]'"#,
        "windlass batch answer.json --format anthropic",
        "windlass batch '[]'",
        "windlass batch missing.json",
        "windlass batch '{\"tools\": 1}'",
        "% windlass batch answer.json --serial --progress",
    ];
    call = "call", project, [
        "windlass call calculator expression='2^10 / 3'",
        "windlass call object operation=merge object:='{\"a\": 1}' other:='{\"b\": [true, null]}'",
        "windlass call calculator",
        "windlass call calculator expression=1/0",
        "windlass call calculator expression:=7 unit=m --strict",
        "windlass call calculater expression=1",
        "windlass call wait seconds=1",
        "windlass call wait seconds=9 --timeout 50ms",
        "windlass call wipe",
        "windlass call broken",
        "windlass call list_pets",
        "windlass call echo message=hi --key invoice-17",
        "windlass call echo message=hi --key invoice-17",
        "windlass call echo message=ho --key invoice-17",
        "windlass call echo message=@long.txt",
        "windlass call echo message=@missing.txt",
        "windlass call echo message",
        "windlass call echo message=hi --attempts 0",
        "% windlass call hello --progress",
        "% windlass call hello --verbose",
        "% windlass call hello --raw",
    ];
    calls = "calls", with_calls, [
        "windlass calls",
        "windlass calls {call}",
        "windlass calls --status succeeded --limit 1",
        "% windlass calls {call} --output",
        "windlass calls --tool nothing",
        "windlass calls 019a8c21-f3e2",
        "windlass calls xyz",
        "windlass calls --summary trip",
        "windlass calls --summary trip --brief",
        "windlass calls --summary nobody",
    ];
    chat = "chat", with_agent, [
        "printf 'What is 6 * 7?\\nAnd now?\\n' | windlass chat helper",
        "windlass chat helpr",
    ];
    check_ = "check", with_wrong_tools, [
        "windlass check",
        "windlass check tools/hello.yaml",
        "windlass check plain.yaml --strict",
        "windlass check missing.yaml",
    ];
    completion = "completion", empty, [
        "% windlass completion bash | head -3",
        "windlass completion tcsh",
    ];
    config = "config", project, [
        "% windlass config",
        "windlass config --changed",
        "windlass config server.listen",
        "windlass config server.lisen",
    ];
    credentials = "credentials", project, [
        "windlass credentials list",
        "echo sk-one-12345 | windlass credentials set weather --stdin",
        "echo sk-two-12345 | windlass credentials set weather --stdin",
        "echo sk-two-12345 | windlass credentials set weather --name spare --stdin",
        "echo sk-one-12345 | windlass credentials set wether --stdin",
        "windlass credentials set weather </dev/null",
        "windlass credentials list",
        "windlass credentials show weather",
        "windlass credentials show nobody",
        "echo sk-new-12345 | windlass credentials rotate weather --stdin",
        "windlass credentials make-default weather/spare",
        "windlass credentials rename weather/spare main",
        "windlass credentials delete weather",
        "windlass credentials rotate-data-key",
        "windlass credentials rotate-master-key",
        "windlass credentials rotate-master-key --prune",
    ];
    doctor = "doctor", with_wrong_tools, [
        "% WINDLASS_LISTEN=127.0.0.1:0 windlass doctor",
        "WINDLASS_MAX_BATCH=many windlass doctor",
    ];
    init = "init", empty, [
        "windlass init my-tools",
        "windlass init my-tools",
        "windlass init my-tools --force",
    ];
    keys = "keys", project, [
        "windlass keys list",
        "windlass keys create agent-7 --user ada --tool 'files/*'",
        "windlass keys create ci --role admin --expires 2999-01-31",
        "windlass keys create bad --expires yesterday",
        "windlass keys list",
        "windlass keys quota {key}",
        "windlass keys quota {key} calls_per_day=1000",
        "windlass keys quota {key} calls_per_day=many",
        "windlass keys rotate {key}",
        "windlass keys revoke {key}",
        "windlass keys revoke key_none",
    ];
    login = "login", project, [
        "windlass login github",
    ];
    mcp = "mcp", project, [
        "windlass mcp --listen 0.0.0.0:8000",
        "windlass mcp --provider nobody </dev/null",
        r#"% echo '{"jsonrpc": "2.0", "id": 1, "method": "tools/none"}' | windlass mcp"#,
    ];
    providers = "providers", with_documents, [
        "windlass providers list",
        "windlass providers add pets pets.yaml --dry-run",
        "windlass providers add pets pets.yaml",
        "windlass providers add pets pets.yaml",
        "windlass providers add more missing.yaml",
        "windlass providers add more plain.yaml",
        "windlass providers list",
        "windlass providers show pets",
        "windlass providers update pets pets.yaml",
        "windlass providers update pets new.yaml --dry-run",
        "windlass providers update pets new.yaml",
        "windlass providers accept pets list_pets",
        "windlass providers accept pets",
        "windlass providers accept pets",
        "windlass providers remove pets",
        "windlass providers show pets",
    ];
    serve = "serve", project, [
        "windlass serve --listen nowhere",
        "windlass serve --listen 0.0.0.0:7700",
        "windlass serve --tls-certificate missing.pem --tls-key missing.pem",
        "% windlass serve --listen 127.0.0.1:0  # until password",
    ];
    stats = "stats", with_calls, [
        "windlass stats",
        "windlass stats hello",
        "windlass stats nobody",
    ];
    tools = "tools", project, [
        "% windlass tools",
        "windlass tools --tag example",
        "windlass tools hello",
        "% windlass tools datetime",
        "% windlass tools http_request",
        "windlass tools --format mcp hello",
        "windlass tools --search nothing-like-it",
        "windlass tools calculater",
        "windlass tools --format xml",
    ];
    workflow = "workflow", with_workflow, [
        "windlass workflow",
        "windlass workflow list",
        "windlass workflow run greet name=Ada",
        "windlass workflow run greeet",
        "% windlass workflow runs | head -1",
        "windlass workflow graph greet",
        "windlass workflow show 019a2b3c-0000-7000-8000-000000000000",
        "windlass workflow answer 019a2b3c-0000-7000-8000-000000000000 approve",
        "windlass workflow signal 019a2b3c-0000-7000-8000-000000000000 paid",
        "windlass workflow cancel 019a2b3c-0000-7000-8000-000000000000",
        "windlass workflow retry 019a2b3c-0000-7000-8000-000000000000",
        "windlass workflow resume 019a2b3c-0000-7000-8000-000000000000",
    ];
}

/// A folder with nothing in it.
fn empty(_: &Project) -> Option<Model> {
    None
}

/// What `windlass init` makes, with tools that ask, fail or need something.
fn project(project: &Project) -> Option<Model> {
    project.ok(&["init"]);
    project.write(
        "tools/wipe.yaml",
        "name: wipe\ndescription: Deletes all that there is.\napproval: ask\n\
         entry: {type: builtin, handler: echo}\nbehaviour: {destructive: true}\n",
    );
    project.write(
        "tools/broken.yaml",
        "name: broken\ndescription: Runs nowhere.\nentry: {type: builtin, handler: nothing}\n",
    );
    project.write("tools/pets/openapi.yaml", &pets()).write(
        "tools/pets/pets.yaml",
        "identity: {name: pets, label: Our pets}\nopenapi: ./openapi.yaml\n",
    );
    let line = "A line of a text that is longer than what is shown of it.\n";
    project.write("long.txt", &line.repeat(12)).write("answer.json", &answer());
    let settings = project.path("windlass.yaml");
    let template = std::fs::read_to_string(&settings).unwrap();
    // First of all, so that its line stays the same.
    let set = format!("max_output_bytes: 500\n{template}");
    project.write("windlass.yaml", &set);
    None
}

/// A message of a model, with two calls.
fn answer() -> String {
    let call = |id: &str, message: &str| json!({"type": "tool_use", "id": id, "name": "echo", "input": {"message": message}});
    let calls = [call("toolu_1", "one"), call("toolu_2", "two")];
    json!({"role": "assistant", "content": calls}).to_string()
}

fn with_agent(project: &Project) -> Option<Model> {
    let model = calculating();
    project.write("windlass.yaml", &settings(&model)).write("tools/helper.yaml", HELPER);
    Some(model)
}

fn with_workflow(project: &Project) -> Option<Model> {
    project.write(
        "tools/greet.yaml",
        "name: greet\nkind: workflow\ndescription: Greets somebody by name.\n\
         parameters: [{name: name, type: string, required: true, description: Who it is.}]\n\
         steps:\n  say: {call: echo, with: {message: \"Hello, ${input.name}!\"}}\n\
         output: \"${say}\"\n",
    );
    None
}

fn with_keys(project: &Project) -> Option<Model> {
    self::project(project);
    project.run(&["keys", "create", "agent-7"]);
    project.run(&["keys", "create", "ada", "--role", "admin"]);
    None
}

fn with_calls(project: &Project) -> Option<Model> {
    self::project(project);
    project.run(&["call", "hello", "--conversation", "trip"]);
    project.run(&["call", "calculator", "--conversation", "trip"]);
    project.run(&["call", "wait", "seconds=9", "--timeout", "50ms"]);
    project.run(&["call", "calculator", "expression=1/0", "--caller", "planner"]);
    None
}

fn with_wrong_tools(project: &Project) -> Option<Model> {
    self::project(project);
    project
        .write("tools/mistakes.yaml", "name: mistakes\nparameters:\n  - {name: a, type: strng}\n");
    project.write("plain.yaml", "name: plain\nentry: {type: builtin, handler: nothing}\n");
    None
}

fn with_documents(project: &Project) -> Option<Model> {
    project.ok(&["init"]);
    let new =
        pets().replace("{name: {type: string}}", "{name: {type: string}, tag: {type: string}}");
    let new = new.replace(
        "/owners: {get: {operationId: list_owners",
        "/toys: {get: {operationId: list_toys",
    );
    project.write("pets.yaml", &pets()).write("new.yaml", &new).write("plain.yaml", "a: b\n");
    None
}

fn pets() -> String {
    crate::providers::PETS.to_owned()
}
