//! Python's `float(text)` and `str(number)`.

use hopeval_pytext::is_space;

use crate::has_answer::categories::DECIMAL_ZEROS;

/// `float(text)`, or `None` if Python raises `ValueError`.
///
/// Surrounding whitespace, a sign, single underscores between digits, any script's decimal digits, `inf`, `infinity`
/// and `nan` are allowed.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    // C's isspace for ASCII (so not U+001C..U+001F), `str.isspace` beyond.
    let text = text.trim_matches(|c: char| is_space(c) && !('\x1c'..='\x1f').contains(&c));
    let mut ascii = String::with_capacity(text.len());
    let mut previous = '\0';
    for c in text.chars() {
        let c = if c.is_ascii() { c } else { decimal_digit(c)? };
        if previous == '_' && !c.is_ascii_digit() || c == '_' && !previous.is_ascii_digit() {
            return None;
        }
        if c != '_' {
            ascii.push(c);
        }
        previous = c;
    }
    if previous == '_' {
        return None;
    }
    let unsigned = ascii.strip_prefix(['+', '-']).unwrap_or(&ascii);
    // Rust's grammar for the rest equals Python's: digits, point, exponent, and the three words without case.
    if unsigned.starts_with(['+', '-']) {
        return None;
    }
    ascii.parse().ok()
}

fn decimal_digit(c: char) -> Option<char> {
    let code = c as u32;
    let after = DECIMAL_ZEROS.partition_point(|&zero| zero <= code);
    let zero = DECIMAL_ZEROS[after.checked_sub(1)?];
    char::from_digit(code - zero, 10)
}

/// `str(number)`: the shortest digits with the same value, with an exponent from 1e16 up and below 1e-4.
pub(crate) fn python_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{number:?}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let mantissa = mantissa.strip_suffix(".0").unwrap_or(mantissa);
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_python_reads() {
        for (text, number) in [
            ("5", 5.0),
            (" +1_000.5\n", 1000.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("٣.٥", 3.5),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_float(text), Some(number), "{text:?}");
        }
        assert!(parse_float("NaN").is_some_and(f64::is_nan));
        for text in ["", ".", "_1", "1_", "1__0", "1_.5", "1,000", "0x10", "e5", "+-5", "½", "in f", "5\x1c"] {
            assert_eq!(parse_float(text), None, "{text:?}");
        }
    }

    #[test]
    fn writes_what_python_writes() {
        for (number, text) in [
            (5.0, "5.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (1.25e300, "1.25e+300"),
            (f64::INFINITY, "inf"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(python_repr(number), text);
        }
    }
}
