//! Dify's workflow files: reads them, renders their templates, and says what each node
//! does.
//!
//! The crate knows no engine, no network and no model. [`Document::read`] makes a checked
//! graph of a file. Whoever runs it asks each node what is to be done.
//!
//! ```
//! use windlass_dify::{Document, pool::Pool, template, value::Value};
//!
//! let file = "
//! app: {name: greeter, mode: workflow}
//! workflow:
//!   graph:
//!     nodes:
//!     - {id: start, data: {type: start, variables: [{variable: name, type: text-input}]}}
//!     - {id: end, data: {type: end, outputs: [{variable: name, value_selector: [start, name]}]}}
//!     edges:
//!     - {source: start, target: end}
//! ";
//! let document = Document::read("greeter.yml", file).unwrap();
//! assert_eq!(document.graph.nodes().len(), 2);
//!
//! let mut pool = Pool::default();
//! pool.set("start", "name", Value::from("Ada"));
//! assert_eq!(template::render("Hello {{#start.name#}}!", &pool).unwrap(), "Hello Ada!");
//! ```

pub mod condition;
pub mod document;
pub mod dry_run;
pub mod graph;
pub mod jinja;
mod json;
pub mod node;
pub mod pool;
pub mod run;
pub mod step;
pub mod stream;
pub mod template;
pub mod value;

pub use document::{Document, Fault};
