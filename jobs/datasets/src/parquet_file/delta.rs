//! Checks the lengths in delta-encoded pages, for which the decoder takes memory before it reads a value.
//!
//! Parquet's `DELTA_BINARY_PACKED` is a heading of four varints (values of a block, miniblocks of a block, values,
//! first value), then blocks: the least delta, a bit width for each miniblock, and the packed miniblocks. The two other
//! encodings begin with one or two such lists, of the lengths of texts.

use parquet::basic::Encoding;

/// Checks the beginning of the values of a page with `most` values at most.
pub(super) fn check_lengths(encoding: Encoding, values: &[u8], most: u64) -> Result<(), &'static str> {
    match encoding {
        _ if values.is_empty() => Ok(()),
        Encoding::DELTA_BINARY_PACKED | Encoding::DELTA_LENGTH_BYTE_ARRAY => after_list(values, most).map(|_| ()),
        Encoding::DELTA_BYTE_ARRAY => after_list(after_list(values, most)?, most).map(|_| ()),
        _ => Ok(()),
    }
}

/// The bytes after a list of at most `most` numbers.
fn after_list(mut data: &[u8], most: u64) -> Result<&[u8], &'static str> {
    const WRONG: &str = "the heading of its delta-encoded numbers is damaged";
    const SHORT: &str = "its delta-encoded numbers end too early";
    let input = &mut data;
    let [block, miniblocks, count] = [take_varint(input), take_varint(input), take_varint(input)];
    let (block, miniblocks, count) = (block.ok_or(WRONG)?, miniblocks.ok_or(WRONG)?, count.ok_or(WRONG)?);
    take_varint(input).ok_or(WRONG)?;
    if count > most {
        return Err("it has more delta-encoded numbers than values");
    }
    let size = block.checked_div(miniblocks).filter(|_| block <= i32::MAX as u64);
    let size = size.filter(|size| size * miniblocks == block && size % 32 == 0 && *size > 0);
    let size = size.ok_or(WRONG)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        take_varint(input).ok_or(SHORT)?;
        let (widths, rest) = input.split_at_checked(miniblocks as usize).ok_or(SHORT)?;
        *input = rest;
        for &width in widths {
            // Miniblocks behind the last value are not stored.
            if left == 0 {
                break;
            }
            if width > 64 {
                return Err(WRONG);
            }
            let bytes = size / 8 * u64::from(width);
            *input = input.get(bytes as usize..).ok_or(SHORT)?;
            left = left.saturating_sub(size);
        }
    }
    Ok(data)
}

/// The next number of seven bits to a byte, the lowest first.
fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    // A tenth byte has the highest bit alone: of the first and the least value, which may be negative.
    let (&byte, rest) = input.split_first()?;
    *input = rest;
    (byte <= 1).then_some(number | u64::from(byte) << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_lengths_are_walked_over() {
        let check = |encoding, values: &[u8], most| check_lengths(encoding, values, most);
        // Five numbers in a block of 128 with 4 miniblocks: 32 numbers of 2 bits are 8 bytes; the rest is not stored.
        let five = [&[0x80, 0x01, 0x04, 0x05, 0x0e, 0x03, 2, 0, 0, 0][..], &[0b1110_0100; 8]].concat();
        assert_eq!(check(Encoding::DELTA_BINARY_PACKED, &five, 5), Ok(()));
        assert_eq!(after_list(&[&five[..], b"text"].concat(), 9), Ok(&b"text"[..]));
        // One number has no block.
        let one = [0x80, 0x01, 0x04, 0x01, 0x0e];
        assert_eq!(check(Encoding::DELTA_BYTE_ARRAY, &[&one[..], &five, b"text"].concat(), 5), Ok(()));
        assert_eq!(check(Encoding::DELTA_LENGTH_BYTE_ARRAY, &[], 5), Ok(()));
        assert_eq!(check(Encoding::PLAIN, &[0xff; 3], 5), Ok(()));
        let error = |values: &[u8], most| check(Encoding::DELTA_BYTE_ARRAY, values, most).unwrap_err();
        assert!(error(&five, 4).contains("more delta-encoded numbers"));
        assert!(error(&five[..12], 5).contains("end too early"));
        assert!(error(&five, 5).contains("heading"), "the second list is missing");
        assert!(error(&[0x80, 0x01, 0x03, 0x05, 0x0e], 5).contains("heading"), "128 by 3");
        assert!(error(&[0xff; 12], 5).contains("heading"));
    }
}
