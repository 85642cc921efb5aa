//! The heading of a NumPy file (format versions 1 to 3): magic, version, length, and a Python dictionary of `descr`,
//! `fortran_order` and `shape`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{VectorError, file_error};
use super::tensor::{NumberType, TensorPlace, TensorRows};
use crate::input::InputError;
use crate::value::quoted;

/// The first bytes of a file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";
/// The most bytes of a dictionary: that of a plain array has about a hundred.
const LONGEST: u64 = 1 << 16;

/// Opens the array of the file.
pub(super) fn open(path: &Path) -> Result<TensorRows, VectorError> {
    let failed = |source| InputError::Open { path: path.to_owned(), source };
    let wrong = |field: &str, found: String, allowed: &str| file_error(path, field, found, allowed);
    let mut file = File::open(path).map_err(failed)?;
    let end = file.metadata().map_err(failed)?.len();
    let mut head = Vec::new();
    file.by_ref().take(12).read_to_end(&mut head).map_err(failed)?;
    let (start, length) = match &head[..] {
        [.., 1, _, a, b, _, _] if head.len() == 12 => (10, u64::from(u16::from_le_bytes([*a, *b]))),
        [.., 2 | 3, _, a, b, c, d] if head.len() == 12 => (12, u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
        [_, _, _, _, _, _, major, minor, _, _, _, _] => {
            return Err(wrong("version", format!("{major}.{minor}"), "1.0, 2.0 and 3.0"));
        }
        _ => return Err(wrong("", format!("{end} bytes"), "a whole heading")),
    };
    if length > LONGEST || start + length > end {
        let found = format!("a heading of {length} bytes in a file of {end}");
        return Err(wrong("", found, "at most 65536 bytes, all of them in the file"));
    }
    let mut text = head.split_off(start as usize);
    file.take(length - text.len().min(length as usize) as u64).read_to_end(&mut text).map_err(failed)?;
    text.truncate(length as usize);
    let text = std::str::from_utf8(&text).map_err(|_| {
        wrong("", "a heading that is not text".to_owned(), "a dictionary of `descr`, `fortran_order` and `shape`")
    })?;
    let heading = parse_heading(text).map_err(|WrongField { field, found, allowed }| wrong(field, found, allowed))?;
    let place = TensorPlace {
        numbers: heading.numbers,
        shape: heading.shape,
        shape_field: "shape".to_owned(),
        start: start + length,
        end,
    };
    TensorRows::new(path, File::open(path).map_err(failed)?, &place)
}

/// A field of the dictionary with a wrong value.
#[derive(Debug, PartialEq, Eq)]
struct WrongField {
    field: &'static str,
    found: String,
    allowed: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
struct ArrayHeading {
    numbers: NumberType,
    shape: Vec<u64>,
}

fn parse_heading(text: &str) -> Result<ArrayHeading, WrongField> {
    let mut rest = HeadingText(text);
    let (mut numbers, mut fortran, mut shape) = (None, None, None);
    rest.expect('{')?;
    while !rest.take('}') {
        match rest.text()? {
            "descr" if numbers.is_none() => {
                rest.expect(':')?;
                numbers = Some(rest.number_type()?);
            }
            "fortran_order" if fortran.is_none() => {
                rest.expect(':')?;
                fortran = Some(rest.flag()?);
            }
            "shape" if shape.is_none() => {
                rest.expect(':')?;
                shape = Some(rest.sizes()?);
            }
            key => {
                let allowed = "`descr`, `fortran_order` and `shape`, each once";
                return Err(WrongField { field: "", found: format!("the key {}", quoted(key)), allowed });
            }
        }
        if !rest.take(',') {
            rest.expect('}')?;
            break;
        }
    }
    if !rest.0.trim().is_empty() {
        return Err(rest.damaged());
    }
    if fortran == Some(true) {
        let allowed = "False: rows one after the other, as `numpy.ascontiguousarray` makes them";
        return Err(WrongField { field: "fortran_order", found: "True".to_owned(), allowed });
    }
    let missing = |field| WrongField { field, found: "nothing".to_owned(), allowed: "this field is required" };
    fortran.ok_or_else(|| missing("fortran_order"))?;
    let numbers = numbers.ok_or_else(|| missing("descr"))?;
    Ok(ArrayHeading { numbers, shape: shape.ok_or_else(|| missing("shape"))? })
}

/// The text of the dictionary that is still to be read.
struct HeadingText<'t>(&'t str);

impl<'t> HeadingText<'t> {
    fn damaged(&self) -> WrongField {
        let found = if self.0.is_empty() { "its end".to_owned() } else { quoted(self.0.trim_end()) };
        let allowed = "a dictionary as `numpy.save` writes it";
        WrongField { field: "", found: format!("a damaged heading at {found}"), allowed }
    }

    /// Skips white space, and `mark` if it is next.
    fn take(&mut self, mark: char) -> bool {
        self.0 = self.0.trim_start();
        let rest = self.0.strip_prefix(mark);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, mark: char) -> Result<(), WrongField> {
        if self.take(mark) { Ok(()) } else { Err(self.damaged()) }
    }

    /// A string in quotes, without escapes.
    fn text(&mut self) -> Result<&'t str, WrongField> {
        let mark = if self.take('\'') {
            '\''
        } else if self.take('"') {
            '"'
        } else {
            return Err(self.damaged());
        };
        let (text, rest) = self.0.split_once(mark).ok_or_else(|| self.damaged())?;
        self.0 = rest;
        Ok(text)
    }

    fn flag(&mut self) -> Result<bool, WrongField> {
        self.0 = self.0.trim_start();
        for (word, value) in [("False", false), ("True", true)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(WrongField { field: "fortran_order", found: quoted(self.0.trim_end()), allowed: "False" })
    }

    fn number_type(&mut self) -> Result<NumberType, WrongField> {
        let allowed = "'<f2', '<f4' and '<f8': floating-point numbers, little-endian";
        let wrong = |found: String| WrongField { field: "descr", found, allowed };
        self.0 = self.0.trim_start();
        if self.0.starts_with('[') {
            return Err(wrong("a type of several fields".to_owned()));
        }
        match self.text()? {
            "<f2" => Ok(NumberType::F16),
            "<f4" => Ok(NumberType::F32),
            "<f8" => Ok(NumberType::F64),
            other => Err(wrong(quoted(other))),
        }
    }

    /// A tuple of whole numbers.
    fn sizes(&mut self) -> Result<Vec<u64>, WrongField> {
        let mut sizes = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
            let size = self.0[..digits].parse().map_err(|_| {
                let found = quoted(self.0.trim_end());
                WrongField { field: "shape", found, allowed: "two sizes, (rows, numbers of a vector)" }
            })?;
            sizes.push(size);
            // Python 2 marks long numbers.
            self.0 = self.0[digits..].trim_start_matches('L');
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_numpy_are_read() {
        let heading = |numbers, shape: &[u64]| Ok(ArrayHeading { numbers, shape: shape.to_vec() });
        for (text, expected) in [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n", heading(NumberType::F32, &[3, 4])),
            ("{\"shape\": (3L, 4L), \"fortran_order\":False,'descr':'<f2'}", heading(NumberType::F16, &[3, 4])),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", heading(NumberType::F64, &[3])),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", heading(NumberType::F64, &[])),
        ] {
            assert_eq!(parse_heading(text), expected, "{text}");
        }
    }

    #[test]
    fn wrong_headings_are_named_by_their_field() {
        for (text, field, says) in [
            ("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4)}", "descr", "\">f4\""),
            ("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4)}", "descr", "\"<i8\""),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3, 4)}", "descr", "\"|O\""),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "descr", "several fields"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4)}", "fortran_order", "True"),
            ("{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}", "fortran_order", "0"),
            ("{'descr': '<f4', 'shape': (3, 4)}", "fortran_order", "nothing"),
            ("{'descr': '<f4', 'fortran_order': False}", "shape", "nothing"),
            ("{'fortran_order': False, 'shape': (3, 4)}", "descr", "nothing"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4)}", "shape", "-4"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 4)}", "shape", "9999"),
            ("{'descr': '<f4', 'descr': '<f4'}", "", "the key \"descr\""),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)", "", "its end"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x", "", "damaged"),
            ("{'descr: '<f4'}", "", "the key"),
            ("", "", "its end"),
        ] {
            let wrong = parse_heading(text).unwrap_err();
            assert!(wrong.field == field && wrong.found.contains(says), "{text}: {wrong:?}");
        }
    }
}
