//! Server-sent events (WHATWG HTML, section 9.2.6), of a body that is whole.

/// The data of a stream's events, until `[DONE]`.
pub(super) struct StreamEvents<'a> {
    rest: &'a [u8],
    done: bool,
}

impl<'a> StreamEvents<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body, done: false }
    }

    /// Whether the stream said that it is complete.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// The next line, without its end.
    fn next_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = &self.rest[(end + 1).min(self.rest.len())..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl Iterator for StreamEvents<'_> {
    type Item = Vec<u8>;

    /// The data of the next event; lines of data are joined, comments and other fields are passed over.
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.done {
            return None;
        }
        let mut data: Vec<u8> = Vec::new();
        loop {
            match self.next_line() {
                Some(line) if line.starts_with(b"data:") => {
                    if !data.is_empty() {
                        data.push(b'\n');
                    }
                    data.extend_from_slice(line[5..].strip_prefix(b" ").unwrap_or(&line[5..]));
                }
                Some(line) if !line.is_empty() => {}
                None if data.is_empty() => return None,
                Some(_) if data.is_empty() => {}
                _ => break,
            }
        }
        if data == b"[DONE]" {
            self.done = true;
            return None;
        }
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_data_between_empty_lines() {
        let body = b": ping\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:2\ndata: 3\n\n\n\ndata: [DONE]\n\ndata: 4\n\n";
        let mut events = StreamEvents::new(body);
        let found: Vec<String> = events.by_ref().map(|event| String::from_utf8(event).unwrap()).collect();
        assert_eq!(found, ["{\"a\":1}", "2\n3"]);
        assert!(events.is_done());
        let mut cut = StreamEvents::new(b"data: 1\n\ndata: 2");
        assert_eq!(cut.by_ref().count(), 2);
        assert!(!cut.is_done());
    }
}
