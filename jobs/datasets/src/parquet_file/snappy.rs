//! Decompresses Snappy's raw format, the usual compression of Parquet files.
//!
//! The format is that of Google's `format_description.txt`: the length as a varint, then literals and copies of what
//! was written before.

/// The bytes of `compressed`, at most `most`; an error says what is wrong.
pub(super) fn decompress(compressed: &[u8], most: usize) -> Result<Vec<u8>, &'static str> {
    let mut input = compressed;
    let length = take_length(&mut input)?;
    if length > most {
        return Err("its Snappy data is longer than its column's footer says");
    }
    let mut output = Vec::with_capacity(length);
    while let Some(tag) = take_number(&mut input, 1) {
        let tag = tag as usize;
        if tag & 3 == 0 {
            let short = (tag >> 2) + 1;
            let size = match short.checked_sub(60) {
                None | Some(0) => Some(short),
                Some(bytes) => take_number(&mut input, bytes).map(|size| size as usize + 1),
            };
            let literal = size.and_then(|size| input.split_at_checked(size));
            let (literal, rest) = literal.ok_or("its Snappy data ends within a literal")?;
            output.extend_from_slice(literal);
            input = rest;
        } else {
            let (size, offset) = match tag & 3 {
                1 => ((tag >> 2 & 7) + 4, take_number(&mut input, 1).map(|low| (tag >> 5 << 8) | low as usize)),
                2 => ((tag >> 2) + 1, take_number(&mut input, 2).map(|offset| offset as usize)),
                _ => ((tag >> 2) + 1, take_number(&mut input, 4).map(|offset| offset as usize)),
            };
            let offset = offset.ok_or("its Snappy data ends within a copy")?;
            copy_back(&mut output, offset, size)?;
        }
        if output.len() > length {
            return Err("its Snappy data is longer than it says");
        }
    }
    if output.len() == length { Ok(output) } else { Err("its Snappy data is shorter than it says") }
}

/// Appends `size` bytes that stand `offset` before the end. The two may overlap: then the bytes repeat.
fn copy_back(output: &mut Vec<u8>, offset: usize, size: usize) -> Result<(), &'static str> {
    let from = output.len().checked_sub(offset).filter(|_| offset > 0);
    let from = from.ok_or("its Snappy data copies from before its beginning")?;
    for at in from..from + size {
        output.push(output[at]);
    }
    Ok(())
}

/// The next `bytes` bytes as a number, the lowest first.
fn take_number(input: &mut &[u8], bytes: usize) -> Option<u32> {
    let (number, rest) = input.split_at_checked(bytes)?;
    *input = rest;
    Some(number.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)))
}

fn take_length(input: &mut &[u8]) -> Result<usize, &'static str> {
    let mut length = 0_u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = take_number(input, 1).ok_or("its Snappy data has no length")?;
        length |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u32::try_from(length).map(|length| length as usize).map_err(|_| "its Snappy data has no length");
        }
    }
    Err("its Snappy data has no length")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of element, by hand from the description of the format.
    #[test]
    fn literals_and_copies() {
        let text = |bytes: &[u8]| decompress(bytes, 1000).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text(&[0]).unwrap(), "");
        assert_eq!(text(b"\x03\x08abc").unwrap(), "abc");
        // A copy of one byte's offset that overlaps itself: 4 + 4 bytes from 3 before.
        assert_eq!(text(b"\x0b\x08abc\x11\x03").unwrap(), "abcabcabcab");
        // The same with two and with four bytes of offset.
        assert_eq!(text(b"\x0b\x08abc\x1e\x03\x00").unwrap(), "abcabcabcab");
        assert_eq!(text(b"\x0b\x08abc\x1f\x03\x00\x00\x00").unwrap(), "abcabcabcab");
        // A literal whose length takes a byte, and two bytes.
        let long = "x".repeat(300);
        assert_eq!(text(&[b"\x46\xf0\x45".as_slice(), &long.as_bytes()[..70]].concat()).unwrap(), &long[..70]);
        assert_eq!(text(&[b"\xac\x02\xf4\x2b\x01".as_slice(), long.as_bytes()].concat()).unwrap(), long);
    }

    #[test]
    fn wrong_data_is_an_error() {
        for (bytes, expected) in [
            (b"".as_slice(), "no length"),
            (b"\xff\xff\xff\xff\xff", "no length"),
            (b"\xff\xff\xff\xff\x7f", "no length"),
            (b"\x04\x08abc", "shorter"),
            (b"\x02\x08abc", "longer than it says"),
            (b"\xff\x7f\x08abc", "footer"),
            (b"\x04\x0cabc", "within a literal"),
            (b"\x40\xf0", "within a literal"),
            (b"\x0b\x08abc\x11", "within a copy"),
            (b"\x0b\x08abc\x11\x00", "before its beginning"),
            (b"\x0b\x08abc\x11\x04", "before its beginning"),
        ] {
            let error = decompress(bytes, 1000).unwrap_err();
            assert!(error.contains(expected), "{bytes:?}: {error}");
        }
    }
}
