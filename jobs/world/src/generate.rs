//! Writes a world to files, and returns its passages and questions one by one.

use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::entities::Entities;
use crate::passage::{plan_passage, write_passage};
use crate::question::{IdPrefixes, draw_question};
use crate::random_stream::{Permutation, StreamPurpose};
use crate::record::{Passage, Question};
use crate::settings::{WorldError, WorldSettings};

/// The progress of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationProgress {
    /// `corpus` or `questions`.
    pub stage: &'static str,
    /// Lines written.
    pub done: u64,
    /// Lines in total.
    pub total: u64,
}

/// The files written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldReport {
    /// The questions, one `Question` per line.
    pub questions: PathBuf,
    /// The corpus, one `PassageRecord` per line.
    pub corpus: PathBuf,
    /// Lines of the questions file.
    pub question_count: u64,
    /// Lines of the corpus file.
    pub passage_count: u64,
    /// Bytes of both files.
    pub bytes: u64,
    /// BLAKE3 of the corpus file and then the questions file, in hexadecimal. Equal settings give equal digests
    /// everywhere.
    pub digest: String,
}

/// A world with random access to its passages and questions. It takes a few kilobytes at any size.
#[derive(Debug, Clone)]
pub struct World {
    settings: WorldSettings,
    entities: Entities,
    order: Permutation,
    ids: IdPrefixes,
}

impl World {
    /// The world of these settings.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(settings: WorldSettings) -> Result<Self, WorldError> {
        settings.check()?;
        let entities = Entities::new(&settings);
        let order = Permutation::new(entities.key, StreamPurpose::CorpusOrder, entities.len());
        Ok(Self { settings, entities, order, ids: IdPrefixes::new(&settings) })
    }

    /// The passage at a position of the corpus; `position` is below the number of passages.
    pub fn passage(&self, position: u64) -> Passage {
        let entity = self.entities.entity_at(self.order.apply(position));
        let difficulty = &self.settings.difficulty;
        let plan = plan_passage(&self.entities, difficulty, entity);
        write_passage(&self.entities, difficulty, &self.ids.passage, entity, &plan)
    }

    /// The passage with an id, if it belongs to this world.
    pub fn passage_by_id(&self, id: &str) -> Option<Passage> {
        let number: u64 = id.strip_prefix(&self.ids.passage)?.parse().ok()?;
        (number < self.entities.len()).then(|| self.passage(self.order.invert(number)))
    }

    /// Question `index`. Any index is valid; those of the file are below the number of questions.
    ///
    /// # Errors
    /// If no question of the drawn kind was found. This happens if the world is too small for its mix.
    pub fn question(&self, index: u64) -> Result<Question, WorldError> {
        draw_question(&self.entities, &self.settings, &self.ids, index)
            .ok_or(WorldError::NoQuestion { index, passages: self.settings.passages })
    }

    /// The passages in corpus order.
    pub fn passages(&self) -> impl Iterator<Item = Passage> {
        (0..self.settings.passages).map(|position| self.passage(position))
    }

    /// The questions in file order.
    pub fn questions(&self) -> impl Iterator<Item = Result<Question, WorldError>> {
        (0..self.settings.questions).map(|index| self.question(index))
    }
}

/// Lines between two progress reports.
const REPORT_EVERY: u64 = 1000;

/// Writes `corpus.jsonl` and `questions.jsonl` into a folder. Creates the folder if it is missing.
///
/// # Errors
/// If a setting is out of range, a question cannot be drawn, or a file cannot be written.
pub fn generate_world(
    settings: &WorldSettings,
    out: &Path,
    mut progress: impl FnMut(GenerationProgress),
) -> Result<WorldReport, WorldError> {
    settings.check_writable()?;
    let world = World::new(*settings)?;
    create_dir_all(out).map_err(|source| WorldError::Write { path: out.to_owned(), source })?;
    let mut digest = blake3::Hasher::new();

    let mut corpus = JsonLinesWriter::create(out.join("corpus.jsonl"), &mut digest)?;
    for (done, passage) in (1..).zip(world.passages()) {
        corpus.write_line(&passage)?;
        if done % REPORT_EVERY == 0 || done == settings.passages {
            progress(GenerationProgress { stage: "corpus", done, total: settings.passages });
        }
    }
    let (corpus, corpus_bytes) = corpus.finish_file()?;

    let mut questions = JsonLinesWriter::create(out.join("questions.jsonl"), &mut digest)?;
    for (done, question) in (1..).zip(world.questions()) {
        questions.write_line(&question?)?;
        if done % REPORT_EVERY == 0 || done == settings.questions {
            progress(GenerationProgress { stage: "questions", done, total: settings.questions });
        }
    }
    let (questions, question_bytes) = questions.finish_file()?;
    Ok(WorldReport {
        questions,
        corpus,
        question_count: settings.questions,
        passage_count: settings.passages,
        bytes: corpus_bytes + question_bytes,
        digest: digest.finalize().to_hex().to_string(),
    })
}

/// A file of JSON Lines, hashed as it is written.
struct JsonLinesWriter<'a> {
    path: PathBuf,
    file: BufWriter<File>,
    line: Vec<u8>,
    digest: &'a mut blake3::Hasher,
    bytes: u64,
}

impl<'a> JsonLinesWriter<'a> {
    fn create(path: PathBuf, digest: &'a mut blake3::Hasher) -> Result<Self, WorldError> {
        match File::create(&path) {
            Ok(file) => {
                Ok(Self { path, file: BufWriter::with_capacity(1 << 18, file), line: vec![], digest, bytes: 0 })
            }
            Err(source) => Err(WorldError::Write { path, source }),
        }
    }

    fn write_line(&mut self, record: &impl Serialize) -> Result<(), WorldError> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, record)
            .map_err(|e| WorldError::Write { path: self.path.clone(), source: e.into() })?;
        self.line.push(b'\n');
        self.digest.update(&self.line);
        self.bytes += self.line.len() as u64;
        self.file.write_all(&self.line).map_err(|source| WorldError::Write { path: self.path.clone(), source })
    }

    fn finish_file(mut self) -> Result<(PathBuf, u64), WorldError> {
        match self.file.flush() {
            Ok(()) => Ok((self.path, self.bytes)),
            Err(source) => Err(WorldError::Write { path: self.path, source }),
        }
    }
}
