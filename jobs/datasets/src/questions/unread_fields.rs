//! Counts the fields of rows that the format's reader does not look at.

use std::collections::BTreeMap;

/// Names kept. Files whose keys are ids have more of them than anyone reads.
const NAMES_KEPT: usize = 64;

/// Rows by unread field.
#[derive(Debug, Default)]
pub(super) struct UnreadFields(BTreeMap<String, u64>);

impl UnreadFields {
    /// Counts the unread fields of a row.
    pub(super) fn count_fields<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            if let Some(rows) = self.0.get_mut(name) {
                *rows += 1;
            } else if self.0.len() < NAMES_KEPT {
                self.0.insert(name.to_owned(), 1);
            }
        }
    }

    /// Rows by unread field.
    pub(super) fn by_name(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}
