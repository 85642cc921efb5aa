//! BEIR (Thakur et al., 2021): `queries.jsonl` (`{_id, text, metadata}`) and `qrels/<split>.tsv`.
//!
//! As in BEIR's own loader, only queries named by the judgements are questions, in the order of `queries.jsonl`. Of a
//! folder with several splits, `test` is read. Gold passages are those judged above 0, best grade first, then in the
//! order of the file. Judgements are held in memory. `metadata.answer`, if a set has it, is the answer. TREC's four
//! columns (query, iteration, passage, grade) are read too.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::{FormatEntry, answer_list};
use crate::dataset_error::DatasetError;
use crate::error::{FieldError, RecordPosition, RowError};
use crate::format::FormatError;
use crate::gold::GoldMatch;
use crate::input::InputError;
use crate::question::{GoldPassage, Question};
use crate::scoring::ScoringScript;
use crate::table::{DelimitedReader, TableRow};
use crate::value::{FieldResult, JsonValue, quoted};

/// The allowed shapes of a BEIR dataset.
pub(crate) const ALLOWED: &str =
    "a folder with queries.jsonl and qrels/test.tsv (or one other split), or the files queries.jsonl and SPLIT.tsv";

pub(super) const ENTRY: FormatEntry = FormatEntry {
    gold: GoldMatch::Id,
    scoring: ScoringScript::Squad,
    asked: 100,
    recognises: |row, _| row.has("_id") && row.has("text") && !row.has("title"),
    read: |row, _| Ok(vec![read_question(row)?]),
    read_table: None,
};

pub(super) fn read_question(row: &JsonValue<'_>) -> FieldResult<Question> {
    let mut question = Question {
        id: row.required("_id", JsonValue::id)?,
        text: row.required("text", JsonValue::text)?,
        ..Question::default()
    };
    row.optional("metadata", |metadata| {
        question.answers = metadata.optional("answer", answer_list)?.unwrap_or_default();
        for (key, value) in metadata.entries()? {
            match (key.as_ref(), value) {
                ("answer", _) => {}
                ("type", JsonValue::String(kind)) => question.kind = Some(kind.clone().into_owned()),
                ("level", JsonValue::String(level)) => question.level = Some(level.clone().into_owned()),
                _ => drop(question.notes.insert(key.clone().into_owned(), value.note_text())),
            }
        }
        Ok(())
    })?;
    Ok(question)
}

/// The file of queries in a BEIR folder.
pub(crate) fn queries_in(folder: &Path) -> Result<PathBuf, FormatError> {
    let names = ["queries.jsonl", "queries.jsonl.gz", "queries.jsonl.zst", "queries.jsonl.bz2"];
    names.into_iter().map(|name| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| FormatError::Beir {
        path: folder.to_owned(),
        found: "a folder without queries.jsonl".to_owned(),
    })
}

/// The queries and the judgements named by a specification's paths.
pub(crate) fn locate_files(paths: &[PathBuf]) -> Result<(PathBuf, Option<PathBuf>), DatasetError> {
    match paths {
        [folder] if folder.is_dir() => Ok((queries_in(folder)?, Some(qrels_in(folder)?))),
        [queries] => Ok((queries.clone(), None)),
        [folder, qrels] if folder.is_dir() => Ok((queries_in(folder)?, Some(qrels.clone()))),
        [queries, qrels] => Ok((queries.clone(), Some(qrels.clone()))),
        [first, ..] => {
            Err(FormatError::Beir { path: first.clone(), found: format!("one of {} files", paths.len()) }.into())
        }
        [] => Err(FormatError::NoFiles.into()),
    }
}

fn qrels_in(folder: &Path) -> Result<PathBuf, DatasetError> {
    let inside = folder.join("qrels");
    let listed = match fs::read_dir(&inside).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(InputError::Open { path: inside, source }.into()),
    };
    let is_table = |name: &str| name.ends_with(".tsv") || name.contains(".tsv.");
    let mut names: Vec<String> = listed.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| is_table(name));
    names.sort();
    let test = names.iter().find(|name| name.starts_with("test.tsv"));
    match (test, names.as_slice()) {
        (Some(name), _) | (None, [name]) => Ok(inside.join(name)),
        (None, []) => Err(FormatError::Beir { path: inside, found: "no judgements (*.tsv)".to_owned() }.into()),
        (None, names) => {
            let found = format!("several splits ({}) and none is test.tsv", names.join(", "));
            Err(FormatError::Beir { path: inside, found }.into())
        }
    }
}

/// The questions of a file of judgements alone, without texts, in the order of their first judgements.
///
/// # Errors
/// The file cannot be read; a wrong row.
pub fn read_judged_questions(path: &Path) -> Result<Vec<Question>, DatasetError> {
    let mut qrels = Qrels::read(path, &mut |error, _| Err(error.into()))?;
    let mut ids: Vec<(RecordPosition, String)> =
        qrels.judged.iter().map(|(id, judged)| (judged.position, id.clone())).collect();
    ids.sort();
    let mut questions = Vec::with_capacity(ids.len());
    for (_, id) in ids {
        let mut question = Question { id, ..Question::default() };
        qrels.add_gold(&mut question);
        questions.push(question);
    }
    Ok(questions)
}

/// Whether a table's first row has the names of its columns: no judgement ends with a word.
fn is_header(row: &TableRow) -> bool {
    let word = |cell: &String| cell.chars().any(char::is_alphabetic) && cell.parse::<f64>().is_err();
    row.fields.len() > 1 && row.fields.last().is_some_and(word)
}

/// A split's judgements.
pub(crate) struct Qrels {
    path: PathBuf,
    /// By query: the position of its first judgement, and its passages.
    judged: FxHashMap<String, QueryJudgements>,
}

struct QueryJudgements {
    position: RecordPosition,
    passages: Vec<(String, u32)>,
    used: bool,
}

impl Qrels {
    /// Reads `path`. A bad row goes to `refuse`, which decides whether to return an error.
    pub(crate) fn read(
        path: &Path,
        refuse: &mut dyn FnMut(RowError, String) -> Result<(), DatasetError>,
    ) -> Result<Self, DatasetError> {
        let mut table = DelimitedReader::open(path)?;
        let mut judged: FxHashMap<String, QueryJudgements> = FxHashMap::default();
        while let Some(row) = table.next()? {
            if row.position.record == 1 && is_header(&row) {
                continue;
            }
            match read_judgement(&row) {
                Ok((query, passage, grade)) => {
                    let position = row.position;
                    let entry = judged.entry(query).or_insert_with(|| QueryJudgements {
                        position,
                        passages: Vec::new(),
                        used: false,
                    });
                    // Of a passage that is judged twice the last judgement counts, as in BEIR's own loader.
                    entry.passages.retain(|(judged, _)| *judged != passage);
                    if let Ok(grade @ 1..) = u32::try_from(grade) {
                        entry.passages.push((passage, grade));
                    }
                }
                Err(error) => refuse(error.in_row(path, row.position), table.raw_text(&row))?,
            }
        }
        if judged.is_empty() {
            return Err(InputError::Empty { path: path.to_owned() }.into());
        }
        Ok(Self { path: path.to_owned(), judged })
    }

    /// Gives `question` its gold passages. False if no judgement names it.
    pub(crate) fn add_gold(&mut self, question: &mut Question) -> bool {
        let Some(judged) = self.judged.get_mut(&question.id) else { return false };
        judged.used = true;
        let mut passages = judged.passages.clone();
        passages.sort_by_key(|&(_, grade)| std::cmp::Reverse(grade));
        question.gold = passages
            .into_iter()
            .map(|(id, grade)| GoldPassage { id: Some(id), grade, ..GoldPassage::default() })
            .collect();
        true
    }

    /// Judgements of queries that are not in the file of queries, in the order of the file.
    pub(crate) fn unused_judgements(&self) -> Vec<RowError> {
        let mut unused: Vec<_> = self.judged.iter().filter(|(_, judged)| !judged.used).collect();
        unused.sort_by_key(|(_, judged)| judged.position);
        unused
            .into_iter()
            .map(|(query, judged)| {
                let error =
                    FieldError::new(quoted(query), "the `_id` of a query in the queries file").under_key("query-id");
                error.in_row(&self.path, judged.position)
            })
            .collect()
    }
}

fn read_judgement(row: &TableRow) -> FieldResult<(String, String, i64)> {
    let split: Vec<&str>;
    let fields: Vec<&str> = match row.fields.as_slice() {
        [one] => {
            split = one.split_whitespace().collect();
            split
        }
        fields => fields.iter().map(String::as_str).collect(),
    };
    let (query, passage, grade) = match fields.as_slice() {
        [query, passage, grade] | [query, _, passage, grade] => (*query, *passage, *grade),
        _ => return Err(FieldError::new(format!("{} columns", fields.len()), "3 columns: query-id, corpus-id, score")),
    };
    if query.is_empty() {
        return Err(FieldError::new("an empty column", "the id of a query").under_key("query-id"));
    }
    if passage.is_empty() {
        return Err(FieldError::new("an empty column", "the id of a passage").under_key("corpus-id"));
    }
    match grade.trim().parse() {
        Ok(grade) => Ok((query.to_owned(), passage.to_owned(), grade)),
        Err(_) => Err(FieldError::new(quoted(grade), "a whole number").under_key("score")),
    }
}
