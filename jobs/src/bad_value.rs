//! A setting whose value makes no sense.

/// A setting whose value makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    /// The key, relative to the table that is checked.
    pub key: String,
    /// Its value, as the job has it.
    pub found: String,
    /// The values that are allowed, in words.
    pub allowed: &'static str,
}

impl BadValue {
    /// The value `found` of `key`, where only `allowed` makes sense.
    pub fn new(key: impl Into<String>, found: impl Into<String>, allowed: &'static str) -> Self {
        Self { key: key.into(), found: found.into(), allowed }
    }

    /// The same, seen from the table that holds the checked one as `table`.
    #[must_use]
    pub fn within(self, table: &str) -> Self {
        Self { key: format!("{table}.{}", self.key), ..self }
    }
}

/// Refuses the value unless it is good.
///
/// # Errors
/// The [`BadValue`] that `otherwise` makes.
pub fn ensure(good: bool, otherwise: impl FnOnce() -> BadValue) -> Result<(), BadValue> {
    if good { Ok(()) } else { Err(otherwise()) }
}
