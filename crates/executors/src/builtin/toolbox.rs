//! [`Builtins`]: registry of the handlers that definitions of kind `builtin` may name,
//! made of toolboxes.

use std::fmt;
use std::sync::Arc;

use windlass::{Error, ErrorKind, Executor, ToolSpec};

/// Creates the executor for a definition.
type Bind = Arc<dyn Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync>;

/// A toolbox: definitions that ship together, and their handlers.
#[derive(Clone)]
pub struct Toolbox {
    definitions: &'static [(&'static str, &'static str)],
    handlers: Vec<(&'static str, Bind)>,
}

impl Toolbox {
    /// A toolbox with these definitions: file names and their YAML.
    pub fn new(definitions: &'static [(&'static str, &'static str)]) -> Self {
        Self { definitions, handlers: Vec::new() }
    }

    /// Adds a handler that is the same for every definition.
    #[must_use]
    pub fn handler(self, name: &'static str, executor: Arc<dyn Executor>) -> Self {
        self.bound(name, move |_| Ok(Arc::clone(&executor)))
    }

    /// Adds a handler that reads settings from the definition's `entry`.
    #[must_use]
    pub fn bound(
        mut self,
        name: &'static str,
        bind: impl Fn(&ToolSpec) -> Result<Arc<dyn Executor>, Error> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.push((name, Arc::new(bind)));
        self
    }
}

/// The registry of handlers. The default has those that use neither files nor the
/// network.
///
/// ```
/// use windlass::{Engine, Kind};
/// use windlass_executors::builtin::Builtins;
///
/// let builtins = Builtins::default();
/// let definitions = builtins.definitions();
/// let engine = Engine::builder().kind(Kind::Builtin, move |spec| builtins.bind(spec)).build()?;
/// for (file, text) in definitions {
///     engine.load_text(file, text);
/// }
/// # Ok::<(), windlass::Error>(())
/// ```
#[derive(Clone)]
pub struct Builtins(Vec<Toolbox>);

impl Default for Builtins {
    fn default() -> Self {
        Self(vec![super::toolbox()])
    }
}

impl Builtins {
    /// Adds a toolbox.
    #[must_use]
    pub fn with(mut self, tools: Toolbox) -> Self {
        self.0.push(tools);
        self
    }

    /// The definitions of all tools: a file name and its YAML.
    pub fn definitions(&self) -> Vec<(&'static str, &'static str)> {
        self.0.iter().flat_map(|tools| tools.definitions.iter().copied()).collect()
    }

    /// The executor of a built-in tool: the handler that its entry names, or the one with
    /// the tool's own name.
    pub fn bind(&self, spec: &ToolSpec) -> Result<Arc<dyn Executor>, Error> {
        let wanted = match spec.entry.handler.as_str() {
            "" => spec.name.as_str(),
            handler => handler,
        };
        match self.handlers().find(|(name, _)| *name == wanted) {
            Some((_, bind)) => bind(spec),
            None => {
                let known: Vec<&str> = self.handlers().map(|(name, _)| *name).collect();
                Err(Error::new(
                    ErrorKind::ExecutorNotFound,
                    format!("no built-in handler `{wanted}`; known: {}", known.join(", ")),
                ))
            }
        }
    }

    fn handlers(&self) -> impl Iterator<Item = &(&'static str, Bind)> {
        self.0.iter().flat_map(|tools| &tools.handlers)
    }
}

impl fmt::Debug for Builtins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.handlers().map(|(name, _)| name)).finish()
    }
}
