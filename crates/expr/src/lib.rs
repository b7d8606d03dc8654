//! The expressions of workflows: `${…}`, in the CEL language, over JSON values.
//!
//! An expression is parsed when its file is loaded, and evaluated as often as its step runs.
//! It is total: there are no loops but over the elements of lists and maps, every evaluation
//! is bounded in steps and bytes by a [`Meter`], and nothing recurses deeper than the parser
//! allowed. It knows what its [`Scope`] names and nothing else: no environment, secrets,
//! clock or randomness. Texts that come from arguments or results are never parsed.
//!
//! ```
//! use serde_json::json;
//! use windlass_expr::{Meter, Tree};
//!
//! let tree = Tree::parse(&json!({
//!     "to": "${order.customer.email}",
//!     "text": "Your order ${order.id} has ${size(order.items)} items.",
//!     "total": "${order.items.map(item, item.price * item.count).sum()}",
//!     "note": "${default(order.note, 'none')}",
//! }))?;
//! let read: Vec<String> = tree.references().map(|(_, reference)| reference.root.to_owned()).collect();
//! assert_eq!(read, ["order", "order", "order", "order", "order"]);
//!
//! let scope = json!({"order": {
//!     "id": 17,
//!     "customer": {"email": "ann@example.com"},
//!     "items": [{"price": 2.5, "count": 2}, {"price": 1, "count": 1}],
//! }});
//! let value = tree.evaluate(scope.as_object().unwrap(), &mut Meter::default())?;
//! assert_eq!(value, json!({
//!     "to": "ann@example.com",
//!     "text": "Your order 17 has 2 items.",
//!     "total": 6.0,
//!     "note": "none",
//! }));
//! # Ok::<(), windlass_expr::Error>(())
//! ```
//!
//! In the order of a text's way: [`Tree`] and [`Text`] find the expressions, `token` and
//! `parse` read them into `syntax`, `reference` says what they read, `infer` checks `types`,
//! `evaluate` computes with `value`s by the table of `functions`, and `meter` bounds it.

mod error;
mod evaluate;
mod expr;
mod functions;
mod infer;
mod meter;
mod parse;
mod reference;
mod syntax;
mod text;
mod token;
mod tree;
mod types;
mod value;

pub use error::{Error, ErrorKind};
pub use evaluate::Scope;
pub use expr::Expr;
pub use meter::Meter;
pub use parse::is_reserved;
pub use reference::{Access, Reference, Segment};
pub use text::{Part, Text};
pub use tree::Tree;
pub use types::{Object, Type, Types};
