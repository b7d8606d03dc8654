//! Terminal output: results on stdout, everything else on stderr.
//!
//! Styled text goes through `anstream`, which removes colours when they are not
//! wanted. The result of a tool does not: its bytes are passed through unchanged.
//! Writing never panics, so that `windlass tools | head -1` ends quietly.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, Width,
    presets,
};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
pub(crate) use windlass::duration::human as spent;

use crate::cli::exit::Failure;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Columns below which a table cannot be read. A terminal that says it has
/// fewer, or none at all, does not know its width.
const NARROWEST: u16 = 40;

/// How much of a long list is written at a time, in bytes.
const BUFFER: usize = 64 << 10;
/// Characters below which a column of a table cannot be read.
const SLIMMEST: u16 = 8;
/// Spaces between columns.
const PADDING: u16 = 2;

/// Where a command writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Print JSON in place of tables and text.
    pub(crate) json: bool,
    /// Leave out warnings, notes and progress.
    pub(crate) quiet: bool,
    /// Say more.
    pub(crate) verbose: bool,
}

impl Screen {
    /// Writes a line of styled text.
    pub(crate) fn line(&self, text: impl Display) -> io::Result<()> {
        writeln!(anstream::stdout().lock(), "{text}")
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Writes a text that a tool or a model chose. A terminal would obey the
    /// control characters in it, so there they are made visible.
    pub(crate) fn foreign(&self, text: &str) -> io::Result<()> {
        let mut shown = if io::stdout().is_terminal() { visible(text) } else { text.to_owned() };
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        self.bytes(shown.as_bytes())
    }

    /// Writes one JSON document.
    pub(crate) fn document(&self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
        text.push('\n');
        self.bytes(text.as_bytes())
    }

    /// Writes a list as one JSON document, item by item: no two of them are made at
    /// the same time.
    pub(crate) fn documents(
        &self,
        items: impl IntoIterator<Item = impl Serialize>,
    ) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(BUFFER, io::stdout().lock());
        write_list(&mut out, items)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Writes a table; of a terminal's width where there is one.
    pub(crate) fn table(&self, table: &Grid) -> io::Result<()> {
        self.line(table.render())
    }

    /// Writes a text of people, broken between words where a terminal ends.
    pub(crate) fn paragraph(&self, text: &str) -> io::Result<()> {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).add_row([visible(text)]);
        if let Some(width) = table.width().and_then(usable) {
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 0));
        }
        self.line(table.trim_fmt())
    }

    /// Warns; where asked to be quiet, only in the log.
    pub(crate) fn warn(&self, text: impl Display) {
        match self.quiet {
            true => tracing::warn!("{text}"),
            false => say(DOUBTFUL, "warning", text),
        }
    }

    /// Tells something that is good to know.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            say(HINT, "note", text);
        }
    }

    /// Tells what only the curious want to know.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.verbose {
            let _ = writeln!(anstream::stderr().lock(), "{DIM}{text}{DIM:#}");
        }
    }

    /// Says what went wrong.
    pub(crate) fn error(&self, text: impl Display) {
        say(BAD, "error", text);
    }

    /// Says what to do next.
    pub(crate) fn hint(&self, text: impl Display) {
        say(HINT, "hint", text);
    }

    /// Says why the command ends.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json {
            let mut document = serde_json::json!({"error": failure.message});
            if let Some(hint) = &failure.hint {
                document["hint"] = hint.as_str().into();
            }
            document["exit_code"] = failure.exit.code().into();
            // The exit code tells it too, if nobody reads this.
            let _ = self.document(&document);
            return;
        }
        self.error(&failure.message);
        if let Some(hint) = &failure.hint {
            self.hint(hint);
        }
    }
}

/// An error of stderr cannot be reported anywhere.
fn say(style: Style, word: &str, text: impl Display) {
    let text = visible(&text.to_string());
    let _ = writeln!(anstream::stderr().lock(), "{style}{word}{style:#}: {text}");
}

/// A table in the making.
pub(crate) struct Grid {
    table: Table,
    terminal: Option<u16>,
    one_line: bool,
}

impl Grid {
    /// A table with these columns. A name that begins with `>` is a column of
    /// numbers, one with `!` a column that is useless when cut.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut table = Table::new();
        let terminal = table.width().and_then(usable);
        table.load_preset(presets::NOTHING);
        let names = columns.iter().map(|name| name.trim_start_matches(['>', '!']));
        table.set_header(names.map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        for (column, name) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, PADDING));
            if name.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if name.starts_with(['>', '!']) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
            table.force_no_tty();
        } else {
            table.enforce_styling();
        }
        match terminal {
            Some(width) => {
                table.set_width(width);
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.set_truncation_indicator("…");
            }
            // Lines are not cut or broken for a program that reads them.
            None => {
                table.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        Self { table, terminal, one_line: false }
    }

    /// On a terminal, cuts what does not fit on one line of it.
    #[must_use]
    pub(crate) fn one_line(mut self) -> Self {
        self.one_line = true;
        self
    }

    /// Whether people read this table.
    pub(crate) fn on_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row = Row::from(cells.into_iter().collect::<Vec<_>>());
        if self.one_line && self.terminal.is_some() {
            row.max_height(1);
        }
        self.table.add_row(row);
    }

    fn render(&self) -> String {
        let mut table = self.table.clone();
        let widths = table.column_max_content_widths();
        // Where a terminal has no room for all columns, lines are too long rather than a
        // column one character wide.
        for (column, width) in table.column_iter_mut().zip(widths) {
            if self.terminal.is_some() && column.constraint().is_none() {
                let least = width.min(SLIMMEST) + PADDING;
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        table.trim_fmt()
    }
}

/// The width of a terminal, if it can be one.
fn usable(width: u16) -> Option<u16> {
    (width >= NARROWEST).then_some(width)
}

/// A cell with a text on one line.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(one_line(text.as_ref()))
}

/// A cell that stands out.
pub(crate) fn strong(text: impl AsRef<str>) -> Cell {
    cell(text).add_attribute(Attribute::Bold)
}

/// A cell that says how a call ended.
pub(crate) fn status(status: windlass::Status) -> Cell {
    use windlass::Status;
    cell(status.name()).fg(match status {
        Status::Succeeded => Color::Green,
        Status::Failed | Status::Interrupted => Color::Red,
        Status::Refused | Status::TimedOut | Status::Cancelled => Color::Yellow,
    })
}

/// The text with its control characters made visible; lines stay lines.
pub(crate) fn visible(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if harmless(c) { shown.push(c) } else { shown.extend(c.escape_default()) }
    }
    shown
}

/// The text on one line.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    visible(&words)
}

/// The beginning of a text, of at most so many characters.
pub(crate) fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().nth(most).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(most.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

/// A time as the clock on the wall shows it.
pub(crate) fn local_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The date of a time as the clock on the wall shows it.
pub(crate) fn local_date(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string()
}

/// The known name that is most like this one, if one is.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness > 0.8)
        .map(|(_, known)| known)
}

/// `1 tool`, `2 tools`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Writes items as they come, like the list of them.
fn write_list(
    out: &mut impl Write,
    items: impl IntoIterator<Item = impl Serialize>,
) -> io::Result<()> {
    let mut json = serde_json::Serializer::pretty(out);
    json.collect_seq(items).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_long_list_is_written_item_by_item() {
        struct Item<'c>(&'c Cell<usize>, usize);
        impl Serialize for Item<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                [self.1].serialize(to)
            }
        }
        impl Drop for Item<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        let (alive, most) = (Cell::new(0), Cell::new(0));
        let items = (0..1_000).map(|number| {
            alive.set(alive.get() + 1);
            most.set(most.get().max(alive.get()));
            Item(&alive, number)
        });
        let mut written = Vec::new();
        write_list(&mut written, items).unwrap();
        assert_eq!(most.get(), 1);
        let whole: Vec<[usize; 1]> = (0..1_000).map(|number| [number]).collect();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            serde_json::to_string_pretty(&whole).unwrap()
        );
        let mut none = Vec::new();
        write_list(&mut none, Vec::<u8>::new()).unwrap();
        assert_eq!(none, b"[]");
    }

    #[test]
    fn a_terminal_is_not_taken_over() {
        assert_eq!(visible("a\tb\nc"), "a\tb\nc");
        assert_eq!(visible("\u{1b}[2Jhi\r"), "\\u{1b}[2Jhi\\r");
        assert_eq!(one_line(" a\n  b\tc "), "a b c");
    }

    #[test]
    fn a_terminal_without_a_width_is_none() {
        for (width, usable_width) in [(0, None), (1, None), (39, None), (40, Some(40))] {
            assert_eq!(usable(width), usable_width);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(beginning("中文字", 3), "中文字");
        assert_eq!(beginning("中文字符", 3), "中文…");
        assert_eq!(beginning("", 0), "");
    }
}
