//! `windlass workflow`: runs workflows, and deals with their runs.

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass::{CallId, CallRequest, CallResult, Engine, Kind, TenantId, Tool};
use windlass_workflow::log::{RunHead, RunStatus, Wait};
use windlass_workflow::picture::{self, States};
use windlass_workflow::store::RunPage;
use windlass_workflow::{Answer, PlaceStatus, RunView, Runs};

use crate::cli::arguments;
use crate::cli::context::{ContextArgs, Stdin};
use crate::cli::exit::{Exit, Failure};
use crate::cli::finish::finish;
use crate::cli::follow::{ProgressWatch, follow};
use crate::cli::interrupt::Interrupts;
use crate::cli::options;
use crate::cli::output::{Grid, Screen, cell, count, local_time, nearest, strong, visible};
use crate::installation::{Installation, block_on};
use crate::mcp::CommandServers;
use crate::settings::Settings;

/// How many runs are listed.
const RUNS: usize = 50;

/// Run workflows, and deal with their runs
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    command: Option<WorkflowCommand>,
}

#[derive(Debug, Subcommand)]
enum WorkflowCommand {
    /// List the workflows (the default)
    List,
    /// Run a workflow
    Run(RunArgs),
    /// List runs, the newest first
    Runs {
        /// Only runs of this workflow
        name: Option<String>,
    },
    /// Show a run: its steps, what it waits for, how it ended
    Show {
        /// The run's id
        run: String,
    },
    /// Draw a workflow, or a run with the state of its steps as colours
    Graph(GraphArgs),
    /// Answer a question of a run, which then goes on
    Answer(AnswerArgs),
    /// Send a signal to a run
    Signal {
        /// The run's id
        run: String,
        /// The name that a step waits for
        name: String,
        /// What the step goes on with: JSON, @file.json, key=value
        #[arg(value_name = "VALUE")]
        value: Vec<String>,
        /// Two signals with the same key are one
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
    },
    /// Cancel a run; what it has done is not undone
    Cancel {
        /// The run's id
        run: String,
    },
    /// Repeat a run that has ended: steps that are asked for the same are taken over
    Retry {
        /// The run's id
        run: String,
        /// The step from which on everything runs again
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
        /// With the present definition, not that of the run
        #[arg(long)]
        latest: bool,
    },
    /// Go on with a run that nobody drives, as servers do by themselves
    Resume {
        /// The run's id
        run: String,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The workflow's name
    name: String,
    /// Its arguments, as `windlass call` takes them: JSON, @file.json, key=value
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    context: ContextArgs,
}

#[derive(Debug, Args)]
struct GraphArgs {
    /// A workflow's name, or a run's id
    name: String,
    /// How it is drawn
    #[arg(long, value_name = "FORMAT", default_value = "mermaid")]
    format: PictureFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PictureFormat {
    Mermaid,
    Dot,
    Svg,
}

#[derive(Debug, Args)]
struct AnswerArgs {
    /// The run's id
    run: String,
    /// What is chosen, of the actions of the question
    action: Option<String>,
    /// The step that asks, if several do
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// What is filled in, as JSON
    #[arg(long, value_name = "JSON")]
    form: Option<String>,
    /// What else there is to say
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Who answers
    #[arg(long = "as", value_name = "NAME")]
    who: Option<String>,
}

fn after_help() -> String {
    let examples = options::examples(&[
        ("See which workflows there are", "windlass workflow"),
        ("Run one", "windlass workflow run answer_ticket ticket_id=T-17"),
        ("See what a run waits for", "windlass workflow show RUN"),
        ("Answer its question", "windlass workflow answer RUN approve"),
        ("Draw it", "windlass workflow graph answer_ticket --format svg > ticket.svg"),
    ]);
    format!("{examples}\n\n{}", options::exit_codes())
}

/// Runs the command.
pub(crate) fn run(
    args: WorkflowArgs,
    settings: &Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    let command = args.command.unwrap_or(WorkflowCommand::List);
    if let WorkflowCommand::List = command {
        return list(settings, screen);
    }
    block_on(async {
        let installation = Installation::new(settings, screen);
        let (engine, runs) = installation.engine_with_runs().await?;
        let own = TenantId::default();
        let house = House { installation: &installation, engine, runs, own };
        match command {
            WorkflowCommand::List => Ok(Exit::Success),
            WorkflowCommand::Run(args) => {
                let tool = find(&house.engine, &args.name)?;
                let values = arguments::read(&args.arguments, Some(tool.model_schema()))?;
                let stdin = match arguments::take_stdin(&args.arguments) {
                    true => Stdin::Taken,
                    false => Stdin::Free,
                };
                let request = CallRequest::new(tool.name().as_str(), values);
                house.call(request.context(args.context.resolve(stdin)?)).await
            }
            WorkflowCommand::Runs { name } => house.list(name.as_deref()).await,
            WorkflowCommand::Show { run } => house.show(&run).await,
            WorkflowCommand::Graph(args) => house.draw(&args).await,
            WorkflowCommand::Answer(args) => house.answer(args).await,
            WorkflowCommand::Signal { run, name, value, key } => {
                let value = arguments::read(&value, None)?;
                let key = key.unwrap_or_else(|| CallId::at(jiff::Timestamp::now()).to_string());
                house.runs.signal(&house.own, &run, &name, value, &key, None).await?;
                house.go_on(&run).await
            }
            WorkflowCommand::Cancel { run } => {
                house.runs.cancel(&house.own, &run, None).await?;
                house.go_on(&run).await
            }
            WorkflowCommand::Retry { run, from, latest } => {
                let request = house.runs.retry(&house.own, &run, from.as_deref(), latest).await?;
                house.call(request).await
            }
            WorkflowCommand::Resume { run } => house.go_on(&run).await,
        }
    })
}

fn flows(engine: &Engine) -> impl Iterator<Item = Arc<Tool>> {
    engine.registry().list().into_iter().filter(|tool| tool.spec().kind == Kind::Workflow)
}

fn find(engine: &Engine, name: &str) -> Result<Arc<Tool>, Failure> {
    let found = engine.registry().get(name).filter(|tool| tool.spec().kind == Kind::Workflow);
    found.ok_or_else(|| {
        let failure = Failure::new(Exit::NotFound, format!("there is no workflow `{name}`"));
        let known: Vec<Arc<Tool>> = flows(engine).collect();
        match nearest(name, known.iter().map(|tool| tool.name().as_str())) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`windlass workflow` lists all workflows"),
        }
    })
}

fn list(settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let installation = Installation::to_look_at(settings, screen);
    let engine = block_on(installation.catalogue())?;
    let found: Vec<Arc<Tool>> = flows(&engine).collect();
    if screen.json {
        let all: Vec<_> = found.iter().map(|tool| json!(tool.spec())).collect();
        screen.document(&all)?;
        return Ok(Exit::Success);
    }
    if found.is_empty() {
        screen.note("there are no workflows; a definition with `kind: workflow` is one");
        return Ok(Exit::Success);
    }
    let mut table = Grid::new(&["!WORKFLOW", ">STEPS", "DESCRIPTION"]).one_line();
    for tool in &found {
        let spec = tool.spec();
        let steps = spec.entry.config.get("steps").and_then(Value::as_object);
        table.row([
            strong(spec.name.as_str()),
            cell(steps.map_or(0, serde_json::Map::len).to_string()),
            cell(spec.description.get(settings.lang)),
        ]);
    }
    screen.table(&table)?;
    Ok(Exit::Success)
}

/// What the commands work with.
struct House<'a> {
    installation: &'a Installation<'a>,
    engine: Engine,
    runs: Runs,
    own: TenantId,
}

impl House<'_> {
    fn screen(&self) -> Screen {
        self.installation.screen
    }

    async fn call(&self, request: CallRequest) -> Result<Exit, Failure> {
        let settings = self.installation.settings;
        let upstream = CommandServers::all(self.installation, &self.engine).await?;
        let mut interrupts = Interrupts::listen()?;
        let work =
            |engine: Engine, token| async move { engine.call(request.cancel_token(token)).await };
        let result = follow(&self.engine, work, ProgressWatch::Nothing, &mut interrupts).await?;
        let stored = finish(&self.engine, &settings.database, self.screen(), &mut interrupts).await;
        upstream.stop().await;
        stored?;
        self.told(&result.value)
    }

    /// Shows what came of a run.
    fn told(&self, result: &CallResult) -> Result<Exit, Failure> {
        let (screen, lang) = (self.screen(), self.installation.settings.lang);
        if screen.json {
            screen.document(&result.to_json(lang))?;
        }
        let run = result.metadata().and_then(|facts| facts.get("run")).cloned().unwrap_or_default();
        match &result.outcome {
            Ok(output) if run["status"] == "waiting" => {
                if !screen.json {
                    screen.line(visible(&output.to_text()))?;
                }
                let id = run["id"].as_str().unwrap_or_default();
                screen.hint(format_args!("`windlass workflow show {id}` shows what it waits for"));
                Ok(Exit::Success)
            }
            Ok(output) => {
                if !screen.json {
                    screen.line(visible(&output.to_text()))?;
                }
                Ok(Exit::Success)
            }
            Err(error) => {
                screen.error(error.explain(lang));
                if let Some(id) = run["id"].as_str() {
                    screen.hint(format_args!("`windlass workflow show {id}` shows its steps"));
                }
                Ok(Exit::of(error.kind()))
            }
        }
    }

    /// Goes on with a run, and shows it; a server that was faster does it, too.
    async fn go_on(&self, run: &str) -> Result<Exit, Failure> {
        let ended = self.view(run).await?.head.status.has_ended();
        if !ended {
            match self.runs.go_on(&self.own, run).await {
                Err(error) if error.kind() == windlass::ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            self.engine.finish().await;
        }
        self.show(run).await
    }

    async fn answer(&self, args: AnswerArgs) -> Result<Exit, Failure> {
        let form = match &args.form {
            None => None,
            Some(form) => Some(serde_json::from_str(form).map_err(|error| {
                Failure::usage(format!("--form is no JSON: {error}"))
                    .hint("write --form '{\"reason\": \"damaged\"}'")
            })?),
        };
        let who = args.who.or_else(|| std::env::var("USER").ok());
        let AnswerArgs { run, action, step: place, comment, .. } = args;
        let answer = Answer { place, action, form, comment, who };
        self.runs.answer(&self.own, &run, answer).await?;
        self.go_on(&run).await
    }

    async fn view(&self, run: &str) -> Result<RunView, Failure> {
        self.runs.show(&self.own, run).await?.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there is no run `{run}`"))
                .hint("`windlass workflow runs` lists the runs")
        })
    }

    async fn list(&self, name: Option<&str>) -> Result<Exit, Failure> {
        let page = RunPage { workflow: name, before: None, limit: RUNS };
        let runs = self.runs.list(&self.own, page).await?;
        let screen = self.screen();
        if screen.json {
            screen.document(&runs)?;
            return Ok(Exit::Success);
        }
        if runs.is_empty() {
            screen.note("there are no runs; `windlass workflow run NAME` begins one");
            return Ok(Exit::Success);
        }
        let mut table = Grid::new(&["!RUN", "WORKFLOW", "STATUS", "BEGAN", "WAITS FOR"]).one_line();
        for head in &runs {
            table.row([
                strong(&head.id),
                cell(&head.workflow),
                cell(head.status.name()),
                cell(local_time(head.created_at)),
                cell(waits(head)),
            ]);
        }
        screen.table(&table)?;
        Ok(Exit::Success)
    }

    async fn show(&self, run: &str) -> Result<Exit, Failure> {
        let view = self.view(run).await?;
        let screen = self.screen();
        if screen.json {
            screen.document(&view)?;
            return Ok(Exit::Success);
        }
        let head = &view.head;
        screen.line(format_args!("{} {}: {}", head.workflow, head.id, head.status.name()))?;
        let mut table = Grid::new(&["!STEP", "STATUS", "VALUE"]).one_line();
        for place in &view.places {
            let value = match (&place.value, &place.error) {
                (_, Some(error)) => error.message.to_string(),
                (Some(value), None) => value.to_string(),
                (None, None) => match &place.wait {
                    Some(wait) if place.status == PlaceStatus::Waiting => wait_of(wait),
                    _ => String::new(),
                },
            };
            let status = json!(place.status);
            let status = status.as_str().unwrap_or_default().to_owned();
            table.row([strong(&place.place), cell(status), cell(value)]);
        }
        screen.table(&table)?;
        if let Some(end) = &head.end {
            let end = json!(end);
            let told = end.get("value").or_else(|| end.get("error")).cloned().unwrap_or_default();
            screen.line(visible(&told.to_string()))?;
        }
        if head.status == RunStatus::Waiting {
            let asks = head.waits.iter().filter(|open| matches!(open.wait, Wait::Person { .. }));
            match asks.count() {
                0 => {}
                asks => screen.hint(format_args!(
                    "it asks {}: `windlass workflow answer {} ACTION`",
                    count(asks, "question"),
                    head.id
                )),
            }
        }
        Ok(Exit::Success)
    }

    async fn draw(&self, args: &GraphArgs) -> Result<Exit, Failure> {
        let (spec, states) = match self.engine.registry().get(&args.name) {
            Some(tool) if tool.spec().kind == Kind::Workflow => {
                (tool.spec().clone(), States::none())
            }
            _ => match self.runs.show(&self.own, &args.name).await? {
                Some(view) => (self.runs.definition(&view.head).await?, States::of(&view)),
                None => {
                    return Err(find(&self.engine, &args.name).err().unwrap_or_else(|| {
                        Failure::new(Exit::NotFound, format!("there is no `{}`", args.name))
                    }));
                }
            },
        };
        let plan = self.runs.plan(&spec)?;
        let drawn = match args.format {
            PictureFormat::Mermaid => picture::mermaid(&plan, &states),
            PictureFormat::Dot => picture::dot(&plan, &states),
            PictureFormat::Svg => picture::svg(&plan, &states),
        };
        self.screen().bytes(drawn.as_bytes())?;
        Ok(Exit::Success)
    }
}

/// What a run waits for.
fn waits(head: &RunHead) -> String {
    head.waits.iter().map(|open| wait_of(&open.wait)).collect::<Vec<_>>().join("; ")
}

fn wait_of(wait: &Wait) -> String {
    match wait {
        Wait::Time { until } => local_time(*until),
        Wait::Signal { name, .. } => format!("the signal `{name}`"),
        Wait::Person { ask, .. } => format!("{} [{}]", ask.text, ask.actions.join(", ")),
        Wait::Run { run } => format!("the run {run}"),
        Wait::Call { call } => format!("the approval of the call {call}"),
    }
}
