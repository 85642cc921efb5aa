//! Refuses repeated ids, by a 128-bit hash of each.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::error::{FieldError, LineNumber, RecordPosition};
use crate::formats::beir::Qrels;
use crate::question::Question;
use crate::value::{FieldResult, quoted};

/// The ids seen so far and their positions. At most 48 bytes per id.
#[derive(Debug, Default)]
pub(super) struct SeenIds {
    ids: FxHashMap<(u64, u64), (u32, RecordPosition)>,
    files: Vec<PathBuf>,
}

impl SeenIds {
    pub(super) fn next_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    /// Moves a row's questions to `accepted` if they were read and have new ids. With judgements, only questions named
    /// by them are moved. Returns the error otherwise.
    pub(super) fn accept_row(
        &mut self,
        read: FieldResult<Vec<Question>>,
        mut qrels: Option<&mut Qrels>,
        position: RecordPosition,
        accepted: &mut VecDeque<Question>,
    ) -> Option<FieldError> {
        let mut questions = match read {
            Ok(questions) => questions,
            Err(error) => return Some(error),
        };
        for (index, question) in questions.iter().enumerate() {
            if questions[..index].iter().any(|earlier| earlier.id == question.id) {
                let found = format!("{} twice", quoted(&question.id));
                return Some(FieldError::new(found, "an id that no other question of the row has").under_key("id"));
            }
            if let Some(&(file, first)) = self.ids.get(&hash_id(&question.id)) {
                let (path, line) = (self.files[file as usize].display(), LineNumber(first.line));
                let place = format!("{path}{line} (record {})", first.record);
                let found = format!("{}, which {place} has too", quoted(&question.id));
                return Some(FieldError::new(found, "an id that no other row has").under_key("id"));
            }
        }
        let file = self.files.len().saturating_sub(1) as u32;
        self.ids.extend(questions.iter().map(|question| (hash_id(&question.id), (file, position))));
        if let Some(qrels) = &mut qrels {
            questions.retain_mut(|question| qrels.add_gold(question));
        }
        accepted.extend(questions);
        None
    }
}

/// Two SipHashes with different salts. A collision in both does not occur in practice.
pub(super) fn hash_id(id: &str) -> (u64, u64) {
    let with = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(id.as_bytes());
        hasher.finish()
    };
    (with(0), with(1))
}
