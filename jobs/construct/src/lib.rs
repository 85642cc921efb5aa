//! Training data of the small models, made from gold annotations or from those of a language model.
//!
//! EfficientRAG (section 3.2) has a large language model decompose questions, label words, and rewrite queries. Where a dataset
//! says what the hops of a question are (MuSiQue's decompositions, 2WikiMultihopQA's evidences, generated worlds), that
//! is known already, and [`construct()`] derives the rows from it: a pure function of each question. Where it does not, the
//! method `efficientrag_data` asks a language model, in a run like any other, and [`annotated_rows`] makes rows of its outcomes.
//! Nothing here asks a model, or knows a run or a dataflow.
//!
//! ```text
//! question --steps--> sub-questions, answers, passages, depths            steps
//!          --clauses-> which hop answers which words of the question      clauses, cues
//!          --spans---> the words of a passage that answer a step          spans
//!          --hops----> rows of labeler, filter and encoder                hops     (negatives: library)
//!          --paths---> rows of scorer and reader                          paths
//! outcome  --align---> rows of labeler, filter and encoder                annotations
//!                                  all of them --> Parquet files          tables
//! ```
//!
//! # The rule for gold annotations
//! A *step* is one sub-question with its answer and its passage. Its depth is 1 if it needs no other's answer, else one
//! more than the deepest it needs; hop n answers the steps of depth n, all of them at once: both branches of a comparison
//! go on side by side, as the data says. Words are [`words::words`].
//!
//! 1. *Query.* The query of hop 1 is the question. The words of the question are divided among the hops by what they ask
//!    for (the rule stands at the head of `clauses.rs`); closing punctuation belongs to none.
//! 2. *Labeler.* The passage of a step, written `Title: text`, beside the hop's query: its kept words are the step's
//!    answer where it stands in the sentence that states it (the rule stands at `ChunkWords::answer`), and, with
//!    [`Keep::SubjectAndAnswer`], the name of what the step asks about where it first stands. The tag is `<CONTINUE>` if another
//!    step needs the answer, else `<FINISH>`; a trainer of two tags takes both for index 0. A passage that answers two steps of one
//!    hop is one row. The best passages that BM25 finds for the query and that are not gold of the question are
//!    `<TERMINATE>`, without a kept word, as many as the hop has gold ones. Where the corpus lacks a gold passage, or has it in other
//!    words, no passage of its title is one of them.
//! 3. *Filter.* The words of `Query: {query} Info: {kept words}; Info: …`, one `Info` for each continuing passage in the
//!    order of steps. Kept are the words of the query that a later hop answers, closing punctuation, answers that a later
//!    step needs (earlier hops' among them); never the template's words, nor the subject's.
//! 4. *Next query.* The kept words, with spaces between them: `When was founded ? Houston Baptist University`. Then hop 2, and
//!    so on. Where an answer that is needed does not stand in its passage, the question ends there, also if the passage has
//!    another step's.
//!
//! [`Report`] counts every question that gives nothing, or less, and why.

mod align;
mod annotations;
mod clauses;
mod construct;
mod cues;
mod error;
mod hops;
mod library;
mod paths;
mod report;
mod rows;
mod settings;
mod skip;
mod spans;
mod steps;
mod tables;
pub mod words;

pub use annotations::{Ended, annotated_rows};
pub use construct::{construct, rows};
pub use error::ConstructError;
pub use library::Library;
pub use report::Report;
pub use rows::{EncoderRow, FilterRow, LabelerRow, ReaderRow, Rows, ScorerRow};
pub use settings::{Keep, Settings};
pub use skip::Skip;
pub use tables::Tables;
