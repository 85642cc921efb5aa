//! Guards the reading of a Parquet file: a panic of the library that decodes it becomes an error of the file.
//!
//! The decoder trusts some lengths and offsets of a file, and panics where they are damaged. Nothing of it is used
//! again after a panic, so no broken state is read. A program whose panic hook ends the process asks
//! [`catches_panics`] first.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::errors::ParquetError;

use crate::input::InputError;

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught and reported as an error of a file. A panic hook that ends the
/// process must return without a word then.
pub fn catches_panics() -> bool {
    // A panic while the thread ends finds no value any more: it is not caught.
    CATCHING.try_with(Cell::get).unwrap_or(false)
}

/// Runs `read`, a part of the reading of `path`. After an error the reader must not be used again.
pub(super) fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, InputError> {
    let before = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read));
    CATCHING.set(before);
    let source = match result {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(source)) => source,
        Err(panic) => ParquetError::General(format!("its decoder stopped: {}", panic_message(&*panic))),
    };
    Err(InputError::Parquet { path: path.to_owned(), source: Box::new(source) })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_errors_of_the_file() {
        let path = Path::new("f.parquet");
        assert!(!catches_panics());
        assert!(guarded(path, || Ok(catches_panics())).unwrap());
        let empty: [u8; 0] = [];
        let error = guarded(path, || Ok(empty[path.components().count()])).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("its decoder stopped: index out of bounds"), "{cause}");
        assert_eq!(error.to_string(), "f.parquet: cannot be read as Parquet: the file is damaged, or of another kind");
        assert!(!catches_panics());
    }
}
