//! Compares keys and stored bytes with the golden files of a crate, `tests/golden/NAME.txt`.
//!
//! # To bless
//! A golden file that changes means one of two things, and both cost users:
//! * a key or a fingerprint differs: all results under the old one are computed, and billed, again;
//! * stored bytes differ: older programs cannot read the files of this one, or the reverse.
//!
//! So a line of a golden file is never changed or removed; lines are only added, for a new kind, variant or setting.
//! The exception is an intended change of keys or bytes: raise the version beside it, and record it in the changelog.
//!
//! `HOPEVAL_BLESS_STORED=1 cargo test -p CRATE` writes the files from the current program. The variable differs from
//! that of the scenario files, so nobody blesses keys while blessing a machine.
//!
//! The file is shared by the tests of several crates, each with its own golden files.

use std::fs;
use std::path::Path;

/// The first lines of every golden file.
const HEADER: &str = "\
# Keys or stored bytes. A line that changes means that what was computed before is computed, and billed, again, or that
# what was stored before is not read any more. Lines are added, never changed; see `tests/support/golden.rs`.
";

/// Compares `lines` with the golden file `name` of the crate under test, or writes them when blessing.
#[track_caller]
pub(crate) fn check<L: AsRef<str>>(name: &str, lines: impl IntoIterator<Item = L>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    let mut found = HEADER.to_owned();
    for line in lines {
        found.push_str(line.as_ref());
        found.push('\n');
    }
    if std::env::var_os("HOPEVAL_BLESS_STORED").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if found != expected {
        let place = path.display();
        let (line, expected, found) = difference(&expected, &found);
        panic!(
            "{place}:{line}: a key or stored bytes differ; read `tests/support/golden.rs` before you bless\n  \
             expected: {expected}\n  found:    {found}"
        );
    }
}

/// The first different line, with its number.
fn difference(expected: &str, found: &str) -> (usize, String, String) {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    for line in 1.. {
        match (expected.next(), found.next()) {
            (None, None) => return (line, "no more".to_owned(), "no more".to_owned()),
            (expected, found) if expected != found => {
                let text = |line: Option<&str>| line.unwrap_or("no line").to_owned();
                return (line, text(expected), text(found));
            }
            _ => {}
        }
    }
    unreachable!("lines end")
}
