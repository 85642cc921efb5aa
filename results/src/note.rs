//! A person's note on a run. It lies beside the run's record, and no figure, table or digest depends on it. The last
//! note holds.

use crate::check::FileRemedy;
use crate::store::{Store, StoreError};
use crate::{layout, seal};
use serde::{Deserialize, Serialize};

/// The most characters of a note.
pub const MOST_CHARACTERS: usize = 2_000;

/// The version of notes.
const VERSION: u32 = 1;

/// A note on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNote {
    /// The version of the note's format.
    schema_version: u32,
    /// One line of text; never empty.
    pub text: String,
    /// The time of writing, in milliseconds since 1970.
    pub written_ms: u64,
}

/// A failed operation on a note.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The store failed, or the note is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A text that cannot be a note.
    #[error("a note with {found}; allowed: a text of at most {MOST_CHARACTERS} characters without control characters")]
    Text {
        /// The offence.
        found: String,
    },
    /// The note has another format.
    #[error("{path}: a note that this version of hopeval cannot read")]
    Malformed {
        /// The note.
        path: String,
        /// The parser's reason; `None` for another version of the format.
        #[source]
        source: Option<serde_json::Error>,
    },
}

impl RunNote {
    /// A note of this text, its white space as single spaces; `None` if the text is empty.
    ///
    /// # Errors
    /// A text that is too long, or has control characters.
    pub fn new(text: &str, written_ms: u64) -> Result<Option<Self>, NoteError> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = text.chars().count();
        if count > MOST_CHARACTERS {
            return Err(NoteError::Text { found: format!("{count} characters") });
        }
        if let Some(control) = text.chars().find(|character| character.is_control()) {
            return Err(NoteError::Text { found: format!("the control character {}", control.escape_unicode()) });
        }
        Ok((!text.is_empty()).then_some(Self { schema_version: VERSION, text, written_ms }))
    }

    /// The note on `run`, if it has one.
    ///
    /// # Errors
    /// An error of the store; a note that is damaged, or of another version.
    pub fn load(store: &Store, run: &str) -> Result<Option<Self>, NoteError> {
        match store.get(&layout::run_note(run)) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            bytes => Self::from_bytes(store, run, &bytes?).map(Some),
        }
    }

    /// The notes on `runs`, read together.
    ///
    /// # Errors
    /// An error of the store. A note that is damaged, or of another version, is an error of its own.
    pub fn load_many(store: &Store, runs: &[String]) -> Result<Vec<Option<Result<Self, NoteError>>>, StoreError> {
        let names: Vec<String> = runs.iter().map(|run| layout::run_note(run)).collect();
        let read = store.get_many(&names)?.into_iter().zip(runs);
        Ok(read.map(|(bytes, run)| Some(Self::from_bytes(store, run, &bytes?))).collect())
    }

    /// Writes the note in place of the one before.
    ///
    /// # Errors
    /// An error of the store.
    pub fn store(&self, store: &Store, run: &str) -> Result<(), NoteError> {
        let json = serde_json::to_vec(self).map_err(|source| Self::malformed(store, run, Some(source)))?;
        Ok(store.put(&layout::run_note(run), seal::add_seal(&json).into())?)
    }

    /// Removes the note on `run`, if it has one.
    ///
    /// # Errors
    /// An error of the store.
    pub fn remove(store: &Store, run: &str) -> Result<(), StoreError> {
        store.delete(&layout::run_note(run))
    }

    fn from_bytes(store: &Store, run: &str, bytes: &[u8]) -> Result<Self, NoteError> {
        let json = seal::remove_seal(store, &layout::run_note(run), bytes, FileRemedy::Restore)?.json;
        let note: Self = serde_json::from_slice(&json).map_err(|source| Self::malformed(store, run, Some(source)))?;
        match note.schema_version {
            VERSION => Ok(note),
            _ => Err(Self::malformed(store, run, None)),
        }
    }

    fn malformed(store: &Store, run: &str, source: Option<serde_json::Error>) -> NoteError {
        NoteError::Malformed { path: store.full_name(&layout::run_note(run)), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> RunNote {
        RunNote::new(text, 1_764_000_000_000).unwrap().unwrap()
    }

    #[test]
    fn the_last_note_holds_and_an_empty_text_is_none() {
        let store = Store::open("memory:").unwrap();
        assert_eq!(RunNote::load(&store, "r").unwrap(), None);
        note("  first\n try ").store(&store, "r").unwrap();
        note("second").store(&store, "r").unwrap();
        assert_eq!(RunNote::load(&store, "r").unwrap(), Some(note("second")));
        let many = RunNote::load_many(&store, &["q".to_owned(), "r".to_owned()]).unwrap();
        assert!(many[0].is_none() && many[1].as_ref().unwrap().as_ref().unwrap().text == "second");
        RunNote::remove(&store, "r").unwrap();
        RunNote::remove(&store, "r").unwrap();
        assert_eq!(RunNote::load(&store, "r").unwrap(), None);
        assert_eq!(note("  first\n try ").text, "first try");
        assert_eq!(RunNote::new(" \n", 0).unwrap(), None);
    }

    #[test]
    fn texts_are_bounded_and_plain() {
        let said = |text: &str| RunNote::new(text, 0).unwrap_err().to_string();
        assert!(said("a\u{1b}[31m").contains("the control character \\u{1b}; allowed"), "{}", said("a\u{1b}"));
        assert!(said(&"x".repeat(2_001)).contains("2001 characters; allowed: a text of at most 2000"));
        assert!(RunNote::new(&"ä".repeat(2_000), 0).is_ok());
    }

    #[test]
    fn the_stored_form_stays_and_damage_is_found() {
        let store = Store::open("memory:").unwrap();
        note("second").store(&store, "r").unwrap();
        let name = layout::run_note("r");
        let bytes = store.get(&name).unwrap();
        let sealed = String::from_utf8(bytes.to_vec()).unwrap();
        let begin = r#"{"schema_version":1,"text":"second","written_ms":1764000000000,"#;
        assert!(sealed.starts_with(begin) && sealed.contains("\"blake3\": \""), "{sealed}");
        store.put(&name, sealed.replace("second", "sexond").into_bytes().into()).unwrap();
        assert!(matches!(RunNote::load(&store, "r"), Err(NoteError::Store(StoreError::Damaged { .. }))));
        store.put(&name, br#"{"schema_version":2,"text":"x","written_ms":0}"#.to_vec().into()).unwrap();
        assert!(matches!(RunNote::load(&store, "r"), Err(NoteError::Malformed { source: None, .. })));
    }
}
