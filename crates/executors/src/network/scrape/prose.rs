//! Text builder that normalises white space.

/// Text whose pending line breaks are written only when more text follows.
#[derive(Default)]
pub(super) struct Prose {
    text: String,
    /// Pending line breaks.
    breaks: usize,
    space: bool,
}

impl Prose {
    /// Adds text; white space collapses to one space.
    pub(super) fn push(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_whitespace() || c.is_control() {
                self.space = true;
            } else {
                self.flush();
                self.text.push(c);
            }
        }
    }

    /// Adds preformatted text, with its white space.
    pub(super) fn push_verbatim(&mut self, text: &str) {
        if !text.is_empty() {
            self.flush();
            self.text.push_str(text);
        }
    }

    /// Ends a line (1) or a paragraph (2).
    pub(super) fn end_line(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
        self.space = false;
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn finish(self) -> String {
        self.text.trim().to_owned()
    }

    fn flush(&mut self) {
        if self.text.is_empty() {
            self.breaks = 0;
        }
        for _ in 0..std::mem::take(&mut self.breaks) {
            self.text.push('\n');
            self.space = false;
        }
        if std::mem::take(&mut self.space) && !self.text.is_empty() {
            self.text.push(' ');
        }
    }
}
