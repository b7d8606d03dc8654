//! Detects the end of streamed arguments without parsing them.

/// Tracks the nesting of a JSON object while it is streamed.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether the text is an object; `None` before anything arrived.
    began: Option<bool>,
    closed: bool,
}

impl Scan {
    pub(super) fn read(&mut self, more: &str) {
        for c in more.bytes() {
            match c {
                _ if self.closed || self.began == Some(false) => return,
                b'{' if self.began.is_none() => {
                    self.began = Some(true);
                    self.depth = 1;
                }
                c if self.began.is_none() && c.is_ascii_whitespace() => {}
                _ if self.began.is_none() => self.began = Some(false),
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    self.closed = self.depth == 0;
                }
                _ => {}
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether an object was started but not completed.
    pub(super) fn is_cut(&self) -> bool {
        self.began == Some(true) && !self.closed
    }
}
