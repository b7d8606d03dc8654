//! Finds the end of arguments while they are being written, without reading
//! them.

/// Follows a JSON object as it is written, to know where it ends.
#[derive(Debug, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// Whether there was anything; if it was no object, nothing is known.
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

    /// Whether an object was begun and not ended.
    pub(super) fn is_cut(&self) -> bool {
        self.began == Some(true) && !self.closed
    }
}
