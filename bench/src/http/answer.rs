//! Minimal HTTP/1.1 response parser, for known responses.

/// A response: its status, and where it ends in the buffer.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: usize,
    pub(crate) end: usize,
}

impl Answer {
    /// The first response in these bytes, if it is complete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let body = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..body]).ok()?;
        let status = head.get(9..12)?.parse().ok()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        // Without a length it is a stream, of which only the head is awaited.
        let end = body + length.unwrap_or_default();
        (bytes.len() >= end).then_some(Self { status, body, end })
    }
}
