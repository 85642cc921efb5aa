//! The formats, one per file: how each is told, how its rows are read, and what a job assumes of it by default.
//!
//! A line of the table below declares the file and names the format, so a new format is a file and a line. The file has a
//! [`FormatEntry`] named `ENTRY`. Only BEIR, which is a folder, is known elsewhere (`questions.rs`, `format.rs`).
//!
//! `cargo fmt` does not see modules that a macro declares; `ops/format.sh` formats them, too.

pub(crate) mod open;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::gold::GoldBy;
use crate::question::Question;
use crate::scoring::ScoringScript;
use crate::table::TableRow;
use crate::value::{Field, Value};

/// Everything that is known of a format.
pub(crate) struct FormatEntry {
    /// What makes a passage gold, unless the job says.
    pub(crate) gold: GoldBy,
    /// The script whose rules score answers, unless the job says.
    pub(crate) scoring: ScoringScript,
    /// When the format is asked whether a row is its own: those with lower numbers are asked before, and the first one
    /// that says yes has it. A format whose rows have marks of their own comes before those that claim more.
    pub(crate) asked: u32,
    /// Whether the first row of a file is of this format.
    pub(crate) recognises: fn(row: &Value<'_>, path: &Path) -> bool,
    /// Reads the questions of one row. `n` is its position in the dataset, for datasets without ids.
    pub(crate) read: fn(row: &Value<'_>, n: u64) -> Field<Vec<Question>>,
    /// Reads the question of a table's row, if the format comes as tables, too.
    pub(crate) read_table: Option<fn(row: &TableRow, n: u64) -> Field<Question>>,
}

macro_rules! formats {
    ($($Variant:ident = $name:literal in $file:ident,)*) => {
        $(pub(crate) mod $file;)*

        /// How a dataset writes its questions down.
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

// In the order in which errors list them; a new one comes last.
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
}

/// An answer: a string as it is, a boolean as `yes` or `no`, a number as its digits.
fn answer(value: &Value<'_>) -> Field<String> {
    match value {
        Value::Bool(true) => Ok("yes".to_owned()),
        Value::Bool(false) => Ok("no".to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        value => value.string(),
    }
}

/// The answers of a dataset with one; the empty answer of a test set is none.
fn single_answer(row: &Value<'_>) -> Field<Vec<String>> {
    let answer = row.optional("answer", Value::string)?;
    Ok(answer.filter(|answer| !answer.is_empty()).into_iter().collect())
}

/// The answers of a dataset with lists: a list, or a string that holds one answer or a list's literal.
fn answer_list(value: &Value<'_>) -> Field<Vec<String>> {
    match value {
        Value::String(text) => Ok(crate::literal::strings(text).unwrap_or_else(|| vec![text.clone().into_owned()])),
        Value::List(_) => value.each(answer),
        Value::Bool(_) | Value::Number(_) => Ok(vec![answer(value)?]),
        _ => Err(crate::error::FieldError::new(value.describe(), "a string, or a list of strings")),
    }
}

/// Appends what `items` has and `list` has not, in order.
fn extend_distinct<T: PartialEq>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
