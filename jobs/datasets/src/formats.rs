//! The formats, one per file: how to recognise each, how to read its rows, and its defaults for a job.
//!
//! A line of the table below declares the file and names the format, so a new format is a file and a line. The file
//! defines a [`FormatEntry`] named `ENTRY`. Only BEIR, which is a folder, and `fields`, which a job's mapping
//! describes, are known elsewhere (`questions.rs`, `format.rs`).
//!
//! `cargo fmt` does not see modules declared by a macro. `ops/format.sh` formats them, too.

pub(crate) mod open;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::gold::GoldMatch;
use crate::question::Question;
use crate::scoring::ScoringScript;
use crate::table::TableRow;
use crate::value::{FieldResult, JsonValue};

/// The properties of a format.
pub(crate) struct FormatEntry {
    /// The rule that makes a passage gold, unless the job sets another.
    pub(crate) gold: GoldMatch,
    /// The script whose rules score answers, unless the job sets another.
    pub(crate) scoring: ScoringScript,
    /// The order of detection. Formats with lower numbers are tried first, and the first to recognise a row gets it. A
    /// format whose rows have distinctive fields comes before the formats that accept more rows.
    pub(crate) asked: u32,
    /// Whether the first row of a file is of this format.
    pub(crate) recognises: fn(row: &JsonValue<'_>, path: &Path) -> bool,
    /// Reads the questions of one row. `n` is its position in the dataset, for datasets without ids.
    pub(crate) read: fn(row: &JsonValue<'_>, n: u64) -> FieldResult<Vec<Question>>,
    /// Reads the question of a table's row, if the format also comes as tables.
    pub(crate) read_table: Option<fn(row: &TableRow, n: u64) -> FieldResult<Question>>,
}

macro_rules! formats {
    ($($Variant:ident = $name:literal in $file:ident,)*) => {
        $(pub(crate) mod $file;)*

        /// The schema of a dataset's questions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Format {
            $(
                #[doc = concat!("`", $name, "`, described in `formats/", stringify!($file), ".rs`.")]
                #[serde(rename = $name)]
                $Variant,
            )*
        }

        impl Format {
            /// All formats.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Variant),*];

            /// The name that jobs and the command line use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)*
                }
            }

            pub(crate) fn entry(self) -> &'static FormatEntry {
                match self {
                    $(Self::$Variant => &$file::ENTRY,)*
                }
            }
        }
    };
}

// In the order of error messages. A new format comes last.
formats! {
    HotpotQa = "hotpotqa" in hotpotqa,
    TwoWiki = "2wikimultihopqa" in two_wiki,
    Musique = "musique" in musique,
    StrategyQa = "strategyqa" in strategyqa,
    Iirc = "iirc" in iirc,
    Nq = "nq" in nq,
    TriviaQa = "triviaqa" in triviaqa,
    FlashRag = "flashrag" in flashrag,
    Beir = "beir" in beir,
    World = "world" in world,
    Fields = "fields" in fields,
}

/// An answer: a string as it is, a boolean as `yes` or `no`, a number as its digits.
pub(crate) fn answer_text(value: &JsonValue<'_>) -> FieldResult<String> {
    match value {
        JsonValue::Bool(true) => Ok("yes".to_owned()),
        JsonValue::Bool(false) => Ok("no".to_owned()),
        JsonValue::Number(number) => Ok(number.to_string()),
        value => value.string(),
    }
}

/// The answers of a dataset with one answer per question. The empty answer of a test set counts as no answer.
fn single_answer(row: &JsonValue<'_>) -> FieldResult<Vec<String>> {
    let answer = row.optional("answer", JsonValue::string)?;
    Ok(answer.filter(|answer| !answer.is_empty()).into_iter().collect())
}

/// The answers of a dataset with lists: a list, or a string with one answer or with a list's literal.
fn answer_list(value: &JsonValue<'_>) -> FieldResult<Vec<String>> {
    match value {
        JsonValue::String(text) => {
            Ok(crate::literal::parse_strings(text).unwrap_or_else(|| vec![text.clone().into_owned()]))
        }
        JsonValue::List(_) => value.read_each(answer_text),
        JsonValue::Bool(_) | JsonValue::Number(_) => Ok(vec![answer_text(value)?]),
        _ => Err(crate::error::FieldError::new(value.describe(), "a string, or a list of strings")),
    }
}

/// Appends the items that `list` lacks, in order.
pub(crate) fn extend_distinct<T: PartialEq>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
