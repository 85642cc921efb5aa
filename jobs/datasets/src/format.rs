//! The datasets' formats: their names, and how one is told from a file's first row.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::DatasetError;
use crate::formats::beir;
use crate::input::InputError;
use crate::records::Records;
use crate::table::Table;
use crate::value::Value;

/// Rows that are looked at for one that parses, when the format is to be told from the content.
const ROWS_TRIED: usize = 100;

/// How a dataset writes its questions down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Format {
    /// HotpotQA, distractor and fullwiki, official JSON and Hugging Face's columnar dumps. Sentences after a passage's
    /// first begin with a space, so they are joined by nothing. Also rows with `gold_titles` in place of contexts.
    #[serde(rename = "hotpotqa")]
    HotpotQa,
    /// 2WikiMultihopQA: HotpotQA's schema with evidences. Sentences do not begin with a space: they are joined by one.
    #[serde(rename = "2wikimultihopqa")]
    TwoWiki,
    /// MuSiQue, Answerable and Full; paragraphs and decomposition as lists or columns.
    #[serde(rename = "musique")]
    Musique,
    /// StrategyQA, official JSON.
    #[serde(rename = "strategyqa")]
    StrategyQa,
    /// IIRC: the official nested JSON (a row has several questions), and rows of a published pipeline.
    #[serde(rename = "iirc")]
    Iirc,
    /// Natural Questions, open: JSON with answer lists, DPR's TSV (`question`, list) and DPR's retriever JSON.
    #[serde(rename = "nq")]
    Nq,
    /// TriviaQA, open: as [`Format::Nq`], and the official JSON.
    #[serde(rename = "triviaqa")]
    TriviaQa,
    /// FlashRAG's `{id, question, golden_answers, metadata}`.
    #[serde(rename = "flashrag")]
    FlashRag,
    /// BEIR: a folder with `queries.jsonl` and `qrels/*.tsv`, or those two files.
    #[serde(rename = "beir")]
    Beir,
    /// [`crate::Question`] itself, one JSON object per line.
    #[serde(rename = "world")]
    World,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 10] = [
        Self::HotpotQa,
        Self::TwoWiki,
        Self::Musique,
        Self::StrategyQa,
        Self::Iirc,
        Self::Nq,
        Self::TriviaQa,
        Self::FlashRag,
        Self::Beir,
        Self::World,
    ];

    /// The name that jobs and the command line use.
    pub fn name(self) -> &'static str {
        match self {
            Self::HotpotQa => "hotpotqa",
            Self::TwoWiki => "2wikimultihopqa",
            Self::Musique => "musique",
            Self::StrategyQa => "strategyqa",
            Self::Iirc => "iirc",
            Self::Nq => "nq",
            Self::TriviaQa => "triviaqa",
            Self::FlashRag => "flashrag",
            Self::Beir => "beir",
            Self::World => "world",
        }
    }

    /// The format of a file whose first row this is, if it is one of ours. NQ and TriviaQA are written alike: the name
    /// of the file and the row's id decide between them.
    pub(crate) fn of_row(row: &Value<'_>, path: &Path) -> Option<Self> {
        let has = |key| row.has(key);
        let question = has("question") || has("Question");
        if has("question") && has("context") && (has("evidences") || has("entity_ids") || has("evidences_id")) {
            Some(Self::TwoWiki)
        } else if has("question") && (has("gold_titles") || has("context") && (has("_id") || has("supporting_facts"))) {
            Some(Self::HotpotQa)
        } else if has("question") && has("paragraphs") {
            Some(Self::Musique)
        } else if has("original_paragraph") || has("questions") && (has("links") || has("text")) {
            Some(Self::Iirc)
        } else if has("golden_answers") {
            Some(Self::FlashRag)
        } else if has("qid") && has("question") && !has("answers") {
            Some(Self::StrategyQa)
        } else if question && (has("answer") || has("answers") || has("Answer")) {
            let trivia = has("QuestionId")
                || row.get("answer").is_some_and(|answer| answer.has("value"))
                || row.get("id").and_then(|id| id.str().ok()).is_some_and(|id| id.contains("trivia"))
                || path.to_string_lossy().to_lowercase().contains("trivia");
            Some(if trivia { Self::TriviaQa } else { Self::Nq })
        } else if has("text") && has("answers") && has("gold") {
            Some(Self::World)
        } else if has("_id") && has("text") && !has("title") {
            Some(Self::Beir)
        } else {
            None
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| FormatError::Name { found: name.to_owned() })
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// Why it is not known how to read a dataset.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// There is no format of that name.
    #[error("unknown dataset format {found:?}; allowed: {}", names())]
    Name {
        /// The name.
        found: String,
    },
    /// The first row is none that we know.
    #[error("{}: cannot tell the dataset's format from {found}; allowed: rows of {}", path.display(), names())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What its first row looks like.
        found: String,
    },
    /// A dataset without files.
    #[error("a dataset needs at least one file; allowed: a list of files, or a BEIR folder")]
    NoFiles,
    /// A folder or a list of files that is not BEIR's.
    #[error("{}: {found}; allowed: {}", path.display(), beir::ALLOWED)]
    Beir {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
}

/// Tells a dataset's format from the first row of `path` (or from the names in a BEIR folder).
///
/// # Errors
/// The file cannot be read, or holds nothing that we know.
pub fn detect(path: &Path) -> Result<Format, DatasetError> {
    if path.is_dir() {
        beir::queries_in(path)?;
        return Ok(Format::Beir);
    }
    let mut records = match Records::open(path) {
        Ok(records) => records,
        Err(foreign @ InputError::Foreign { .. }) => return detect_table(path, foreign),
        Err(error) => return Err(error.into()),
    };
    let mut broken = None;
    for _ in 0..ROWS_TRIED {
        let Some(record) = records.next()? else { break };
        match Value::parse(record.bytes) {
            Ok(row) => {
                return Format::of_row(&row, path).ok_or_else(|| {
                    let found = match row.entries() {
                        Ok(entries) => {
                            let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_ref()).collect();
                            format!("a row with the fields {}", keys.join(", "))
                        }
                        Err(_) => row.describe(),
                    };
                    FormatError::Unknown { path: path.to_owned(), found }.into()
                });
            }
            Err(error) => broken = broken.or(Some(error.in_row(path, record.position))),
        }
    }
    match broken {
        Some(row) => Err(row.into()),
        None => Err(InputError::Empty { path: path.to_owned() }.into()),
    }
}

/// A table is a dataset's if it has two columns, the second of which is a list of answers.
fn detect_table(path: &Path, foreign: InputError) -> Result<Format, DatasetError> {
    let mut table = Table::open(path)?;
    let Some(row) = table.next()? else { return Err(foreign.into()) };
    if !crate::formats::open::is_table_row(&row) {
        return Err(foreign.into());
    }
    let trivia = path.to_string_lossy().to_lowercase().contains("trivia");
    Ok(if trivia { Format::TriviaQa } else { Format::Nq })
}
