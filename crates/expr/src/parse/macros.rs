//! Calls whose arguments are not simply evaluated.

use super::{Made, Parser, error, is_reserved};
use crate::error::Error;
use crate::syntax::{Fold, FoldKind, Id, Kind};
use crate::token::Token;
use crate::value::TypeName;

/// The names of all macros that are methods.
pub(super) const MACROS: [&str; 12] = [
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "map",
    "filter",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "sortBy",
    "optMap",
    "optFlatMap",
];

/// A macro over elements, and how many variables it has.
pub(super) fn named(name: &str) -> Option<(FoldKind, usize, usize)> {
    Some(match name {
        "all" => (FoldKind::All, 1, 2),
        "exists" => (FoldKind::Exists, 1, 2),
        "exists_one" | "existsOne" => (FoldKind::ExistsOne, 1, 2),
        "map" => (FoldKind::Map, 1, 1),
        "filter" => (FoldKind::Filter, 1, 1),
        "transformList" => (FoldKind::Map, 2, 2),
        "transformMap" => (FoldKind::TransformMap, 2, 2),
        "transformMapEntry" => (FoldKind::TransformMapEntry, 2, 2),
        "sortBy" => (FoldKind::SortBy, 1, 1),
        _ => return None,
    })
}

impl Parser<'_> {
    /// `has(a.b)`: the last access becomes a question.
    pub(super) fn has(&mut self, start: usize) -> Made {
        let arguments = self.arguments()?;
        let at = start..self.last;
        let wrong = || error("`has` asks for one field", at.clone()).hint("write has(value.field)");
        let [of] = arguments[..] else { return Err(wrong()) };
        match self.nodes.get_mut(of as usize).map(|node| &mut node.kind) {
            Some(
                Kind::Select { optional, .. }
                | Kind::Index { optional, .. }
                | Kind::Name { optional, .. },
            ) => {
                *optional = true;
            }
            _ => return Err(wrong()),
        }
        self.add(Kind::Has(of), at, &[of])
    }

    /// `default(a.b, 1)`, `first(a, b)`: every access on the way may be absent.
    pub(super) fn first(&mut self, name: &str, start: usize) -> Made {
        let of = self.arguments()?;
        let at = start..self.last;
        let otherwise = name == "default";
        if of.is_empty() || (otherwise && of.len() != 2) {
            let usage = if otherwise { "default(value, otherwise)" } else { "first(value, …)" };
            return Err(error(format!("`{name}` has {} arguments here", of.len()), at)
                .hint(format!("write {usage}")));
        }
        let tried = of.len() - usize::from(otherwise);
        for id in of.iter().take(tried) {
            let mut next = Some(*id);
            while let Some(id) = next {
                next = match self.nodes.get_mut(id as usize).map(|node| &mut node.kind) {
                    Some(Kind::Select { of, optional, .. } | Kind::Index { of, optional, .. }) => {
                        *optional = true;
                        Some(*of)
                    }
                    Some(Kind::Name { optional, .. }) => {
                        *optional = true;
                        None
                    }
                    _ => None,
                };
            }
        }
        let below = of.clone();
        self.add(Kind::First { of, otherwise }, at, &below)
    }

    /// A variable's name, and the comma behind it.
    fn variable(&mut self, of: &str) -> Result<String, Error> {
        let at = self.at.clone();
        let Token::Name(name) = self.next.clone() else {
            return Err(self
                .unexpected(&format!("expected a name for the element in `{of}`"))
                .hint(format!("write {of}(x, …)")));
        };
        if is_reserved(&name) && TypeName::named(&name).is_none() {
            return Err(error(format!("`{name}` is a reserved word"), at));
        }
        self.advance()?;
        if !self.is(",") {
            return Err(error(
                format!("the first argument of `{of}` is a name for the element"),
                at,
            )
            .hint(format!("write {of}(x, …), and use `x` behind the comma")));
        }
        self.advance()?;
        Ok(name)
    }

    /// Whether a further variable comes next: a name and a comma.
    fn is_variable(&self) -> bool {
        matches!(self.next, Token::Name(_))
            && matches!(self.tokens.clone().next(), Ok((Token::Sign(","), _)))
    }

    pub(super) fn fold(
        &mut self,
        kind: FoldKind,
        over: Id,
        name: &str,
        start: usize,
        variables: std::ops::RangeInclusive<usize>,
    ) -> Made {
        let open = self.at.clone();
        self.advance()?;
        let local = self.locals.len() as u32;
        let mut names = vec![self.variable(name)?];
        // `map(x, f, t)` has one variable and a filter, which may be a name, too.
        if *variables.start() == 2 || (*variables.end() == 2 && self.is_variable()) {
            let at = self.at.clone();
            names.push(self.variable(name)?);
            if names.first() == names.last() {
                return Err(error("the two variables have the same name", at));
            }
        }
        let two = names.len() == 2;
        self.locals.extend(names);
        let mut filter = None;
        let mut body = self.expression()?;
        let transforms =
            matches!(kind, FoldKind::Map | FoldKind::TransformMap | FoldKind::TransformMapEntry);
        if transforms && self.take(",")? {
            filter = Some(std::mem::replace(&mut body, self.expression()?));
        }
        self.take(",")?;
        self.expect(")", &open)?;
        self.locals.truncate(local as usize);
        let below: Vec<Id> = [over, body].into_iter().chain(filter).collect();
        let fold = Fold { kind, over, local, two, filter, body };
        self.add(Kind::Fold(Box::new(fold)), start..self.last, &below)
    }

    pub(super) fn opt_map(&mut self, of: Id, flat: bool, start: usize) -> Made {
        let open = self.at.clone();
        self.advance()?;
        let local = self.locals.len() as u32;
        let name = self.variable(if flat { "optFlatMap" } else { "optMap" })?;
        self.locals.push(name);
        let body = self.expression()?;
        self.expect(")", &open)?;
        self.locals.pop();
        self.add(Kind::OptMap { of, body, local, flat }, start..self.last, &[of, body])
    }

    pub(super) fn bind(&mut self, start: usize) -> Made {
        let open = self.at.clone();
        self.advance()?;
        let local = self.locals.len() as u32;
        let name = self.variable("cel.bind")?;
        let value = self.expression()?;
        if !self.take(",")? {
            return Err(self.unexpected("expected `,` and what uses the variable"));
        }
        self.locals.push(name);
        let body = self.expression()?;
        self.expect(")", &open)?;
        self.locals.pop();
        self.add(Kind::Bind { value, body, local }, start..self.last, &[value, body])
    }
}
