//! Jinja, as template-transform nodes and prompts have it.
//!
//! An interpreter of its own, for two reasons. Values are written as Python writes them
//! everywhere (`True`, `1e+21`, `['a']`), also by `~` and `join`. And memory is bounded
//! exactly: every step, every byte of every text and every item of every list is paid
//! for, so that forty lines of `{% set a = a ~ a %}` end early instead of asking for a
//! terabyte; the fuel of other engines counts instructions, whatever they make.
//!
//! Left out: what loads other templates (`include`, `import`, `extends`), randomness, and
//! escaping, which Dify has switched off.

mod eval;
mod filter;
mod lexer;
mod method;
mod parser;
mod syntax;

use std::fmt;

use crate::value::Object;

/// What a template may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of evaluation.
    pub steps: usize,
    /// Bytes of all values that are made on the way.
    pub memory: usize,
    /// Characters of the result.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1_000_000, memory: 16 << 20, output: 400_000 }
    }
}

/// What becomes of a variable or attribute that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// It is an error to print or use it; `is defined` and `default` work.
    #[default]
    Fails,
    /// It prints as nothing.
    IsEmpty,
}

/// Why a template could not be read or rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JinjaError {
    /// What is wrong.
    pub message: String,
    /// In which line of the template; 0 if it was not the fault of one.
    pub line: u32,
}

impl JinjaError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: 0 }
    }

    fn at(mut self, line: u32) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }
}

impl fmt::Display for JinjaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.line {
            0 => Ok(()),
            line => write!(f, " (line {line} of the template)"),
        }
    }
}

/// A template that was read.
#[derive(Debug)]
pub struct Jinja {
    nodes: Vec<syntax::Node>,
}

impl Jinja {
    /// Reads a template.
    pub fn parse(source: &str) -> Result<Self, JinjaError> {
        Ok(Self { nodes: parser::parse(source)? })
    }

    /// Renders it with these variables.
    pub fn render(
        &self,
        variables: &Object,
        missing: Missing,
        limits: Limits,
    ) -> Result<String, JinjaError> {
        eval::render(&self.nodes, variables, missing, limits)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::Value;

    fn render(source: &str) -> Result<String, JinjaError> {
        let variables = json!({
            "name": "World", "n": 5, "f": 1.0, "yes": true, "none": null,
            "items": ["a", "b"], "rows": [{"k": 1, "t": "x"}, {"k": 2, "t": "y"}],
            "map": {"a": 1, "b": [1, 2]},
        });
        let Value::Object(variables) = Value::from_json(variables) else { unreachable!() };
        Jinja::parse(source)?.render(&variables, Missing::Fails, Limits::default())
    }

    #[test]
    fn values_are_written_as_python_writes_them() {
        for (source, expected) in [
            ("Hello {{ name }}!", "Hello World!"),
            (
                "{{ yes }} {{ none }} {{ f }} {{ items }} {{ map }}",
                "True None 1.0 ['a', 'b'] {'a': 1, 'b': [1, 2]}",
            ),
            ("{{ n ~ yes ~ none }}", "5TrueNone"),
            ("{{ items | join(', ') }}|{{ rows | join(',', attribute='k') }}", "a, b|1,2"),
            ("{{ n / 2 }} {{ n // 2 }} {{ n % 3 }} {{ 2 ** 10 }} {{ -n }}", "2.5 2 2 1024 -5"),
            (
                "{{ 1 + 2 * 3 - 4 }} {{ 'a' + 'b' }} {{ 'ab' * 2 }} {{ [1] + [2] }}",
                "3 ab abab [1, 2]",
            ),
            ("{{ n > 3 and not none }} {{ none or 'x' }} {{ 1 < n <= 5 }}", "True x True"),
            ("{{ 'a' in items }} {{ 'z' not in items }} {{ 'or' in name }}", "True True True"),
            ("{{ 'yes' if n == 5 else 'no' }} {{ 'x' if n == 6 }}", "yes "),
            (
                "{{ rows[0].t }} {{ rows[-1]['t'] }} {{ name[1:3] }} {{ items[::-1] }}",
                "x y or ['b', 'a']",
            ),
            (
                "{% for i in items %}{{ loop.index }}{{ i }}{{ ',' if not loop.last }}{% endfor %}",
                "1a,2b",
            ),
            ("{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}", "a=1;b=[1, 2];"),
            ("{% for i in [] %}x{% else %}none{% endfor %}", "none"),
            ("{% for r in rows if r.k > 1 %}{{ r.t }}{% endfor %}", "y"),
            ("{% if n == 1 %}a{% elif n == 5 %}b{% else %}c{% endif %}", "b"),
            ("{% set x = 1 %}{% for i in items %}{% set x = 2 %}{% endfor %}{{ x }}", "1"),
            (
                "{% set ns = namespace(x=0) %}{% for i in [1,2,3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
                "6",
            ),
            ("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c %}<{{ a }}>{% endset %}{{ c }}", "12<1>"),
            (
                "{% macro m(x, y=2) %}[{{ x }}{{ y }}]{% endmacro %}{{ m(1) }}{{ m(1, y=3) }}",
                "[12][13]",
            ),
            (
                "{% filter upper %}a{{ name }}{% endfilter %}{% with z = 1 %}{{ z }}{% endwith %}",
                "AWORLD1",
            ),
            ("{% raw %}{{ x }}{% endraw %}{# gone #}", "{{ x }}"),
            ("a\n{%- if true -%}\n b \n{%- endif %}\nc\n", "ab\nc"),
            (
                "{{ missing | default('d') }} {{ '' | default('e', true) }} {{ missing is defined }}",
                "d e False",
            ),
            ("{{ items | length }} {{ name | upper | lower }} {{ ' x ' | trim }}", "2 world x"),
            ("{{ '3.5' | float }} {{ '3' | int + 1 }} {{ 3.14159 | round(2) }}", "3.5 4 3.14"),
            ("{{ map | tojson }}", "{\"a\": 1, \"b\": [1, 2]}"),
            (
                "{{ rows | map(attribute='t') | list }} {{ rows | selectattr('k', 'gt', 1) | list | length }}",
                "['x', 'y'] 1",
            ),
            (
                "{{ [3,1,2] | sort }} {{ [1,1,2] | unique | list }} {{ [1,2,3] | sum }} {{ [1,2,3] | max }}",
                "[1, 2, 3] [1, 2] 6 3",
            ),
            (
                "{{ 'a,b'.split(',') }} {{ name.startswith('W') }} {{ ' '.join(items) }} {{ map.get('z', 0) }}",
                "['a', 'b'] True a b 0",
            ),
            (
                "{{ '%s-%d' | format('a', 3) }} {{ '{} {}'.format(1, 2) }} {{ name | replace('o', '0') }}",
                "a-3 1 2 W0rld",
            ),
            (
                "{% set l = [] %}{% for i in items %}{% set _ = l.append(i) %}{% endfor %}{{ l }}",
                "['a', 'b']",
            ),
            (
                "{{ range(3) | list }} {{ dict(a=1) }} {{ n is odd }} {{ name is string }}",
                "[0, 1, 2] {'a': 1} True True",
            ),
            (
                "{{ items | first }}{{ items | last }}{{ name | truncate(3, true, '', 0) }}{{ name | capitalize }}",
                "abWorWorld",
            ),
            (
                "{{ rows | groupby('k') | length }} {{ [1,2,3,4] | batch(2) | list }}",
                "2 [[1, 2], [3, 4]]",
            ),
        ] {
            assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        for (source, expected) in [
            ("{{ missing }}", "'missing' is undefined (line 1 of the template)"),
            ("\n{{ map.zz }}", "'dict object' has no attribute 'zz' (line 2 of the template)"),
            (
                "{% for x in y %}",
                "'for' is not closed; write {% endfor %} (line 1 of the template)",
            ),
            ("{{ 1 + }}", "expected a value, found the end of the block (line 1 of the template)"),
            ("{{ 1 | nope }}", "no filter named 'nope' (line 1 of the template)"),
            (
                "{% include 'x' %}",
                "'include' is not available in Dify's templates (line 1 of the template)",
            ),
            ("{{ 1 / 0 }}", "division by zero (line 1 of the template)"),
        ] {
            assert_eq!(render(source).unwrap_err().to_string(), expected, "{source}");
        }
    }

    #[test]
    fn templates_that_burn_time_or_memory_are_stopped() {
        let doubling = format!("{{% set a = 'xxxxxxxx' %}}{}", "{% set a = a ~ a %}".repeat(60));
        let nested =
            format!("{{% set a = ['x'] %}}{}{{{{ a }}}}", "{% set a = [a, a] %}".repeat(60));
        let deep = "{% set ns = namespace(a=[]) %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a }}";
        let captured = format!(
            "{{% set a %}}{{% for i in range(90000) %}}{}{{% endfor %}}{{% endset %}}",
            "x".repeat(10_000)
        );
        let compared = format!(
            "{{% set a = [1] %}}{{% set b = [1] %}}{}{{{{ a == b }}}}",
            "{% set a = [a, a] %}{% set b = [b, b] %}".repeat(50)
        );
        for source in [
            doubling.as_str(),
            &nested,
            deep,
            &captured,
            &compared,
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "{{ 'x' * 999999999999 }}",
            "{{ range(999999999) | list }}",
            "{{ 10 ** 10 ** 10 }}",
            "{{ 'x'.ljust(9999999999) }}{{ 'x' | center(9999999999) }}",
            "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
            "{% for i in range(99999) %}0123456789{% endfor %}",
            &"{% if 1 %}".repeat(5000),
            &"{{ ".repeat(5000),
            &format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000)),
            &format!("{{{{ {}1 }}}}", "not ".repeat(50_000)),
            &format!("{{{{ {}1 }}}}", "-".repeat(50_000)),
            &format!("{{{{ a{} }}}}", ".b".repeat(50_000)),
            &format!("{{{{ 1{} }}}}", " + 1".repeat(500_000)),
        ] {
            let started = std::time::Instant::now();
            assert!(render(source).is_err(), "{}", &source[..source.len().min(80)]);
            assert!(started.elapsed().as_secs() < 20, "{}", &source[..source.len().min(80)]);
        }
    }
}
