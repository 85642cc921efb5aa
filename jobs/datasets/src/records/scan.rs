//! Finds the end of a JSON value, over any number of buffers, without parsing it.

/// Follows strings and brackets. Kinds of brackets are not distinguished: that is the parser's work.
#[derive(Debug)]
pub(super) struct ValueScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the value is an array's item. Then a comma or an unmatched bracket ends it.
    in_array: bool,
}

impl ValueScanner {
    /// For an item of an array. It ends before `,` or `]`.
    pub(super) fn in_array() -> Self {
        Self { depth: 0, in_string: false, escaped: false, in_array: true }
    }

    /// For a single object or array. It ends after its last bracket.
    pub(super) fn alone() -> Self {
        Self { in_array: false, ..Self::in_array() }
    }

    /// The number of `bytes` up to the value's end, or `None` if it is not in them. Then the next call continues behind
    /// them.
    pub(super) fn end_of_value(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                let stop = bytes[at..].iter().position(|&byte| byte == b'"' || byte == b'\\')?;
                at += stop + 1;
                match bytes[at - 1] {
                    b'"' => self.in_string = false,
                    _ => self.escaped = true,
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' | b',' if self.in_array && self.depth == 0 => return Some(at),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 && !self.in_array {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end, for every way to cut the bytes into buffers.
    fn end(new: fn() -> ValueScanner, text: &str) -> Option<usize> {
        let whole = new().end_of_value(text.as_bytes());
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            let mut scanner = new();
            let cut_end = scanner.end_of_value(head).or_else(|| scanner.end_of_value(tail).map(|end| cut + end));
            assert_eq!(cut_end, whole, "{text} cut at {cut}");
        }
        whole
    }

    #[test]
    fn brackets_and_quotes_inside_strings_are_text() {
        assert_eq!(end(ValueScanner::alone, r#"{"a": "}\"]{"} rest"#), Some(14));
        assert_eq!(end(ValueScanner::alone, r#"{"a\\": [1, {}]},"#), Some(16));
        assert_eq!(end(ValueScanner::alone, r#"{"a": 1"#), None);
    }

    #[test]
    fn an_item_ends_before_its_separator() {
        assert_eq!(end(ValueScanner::in_array, r#"{"a": [1, 2]} , 3"#), Some(14));
        assert_eq!(end(ValueScanner::in_array, "12]"), Some(2));
        assert_eq!(end(ValueScanner::in_array, r#""x,y",1"#), Some(5));
    }
}
