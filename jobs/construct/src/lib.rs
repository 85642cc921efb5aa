//! Training data of the small models, made from gold annotations or from those of a language model.
//!
//! EfficientRAG (section 3.2) has a large language model decompose questions, label words, and rewrite queries. Some
//! datasets annotate the hops of their questions: MuSiQue's decompositions, 2WikiMultihopQA's evidences, generated
//! worlds. From these, [`construct()`] derives the rows: a pure function of each question. For other datasets, the
//! method `efficientrag_data` asks a language model, in a run like any other, and [`annotated_rows`] makes rows of its
//! outcomes. This crate asks no model and knows no run and no dataflow.
//!
//! ```text
//! question --steps--> sub-questions, answers, passages, depths            steps
//!          --clauses-> the hop that answers each word of the question     clauses, cues
//!          --spans---> the words of a passage that answer a step          spans
//!          --hops----> rows of labeler, filter and encoder                hops     (negatives: library)
//!          --paths---> rows of scorer and reader                          paths
//! outcome  --align---> rows of labeler, filter and encoder                annotations
//!                                  all of them --> Parquet files          tables
//! ```
//!
//! # The rule for gold annotations
//! A *step* is one sub-question with its answer and its passage. Its depth is 1 if it needs no other's answer, else one
//! more than the deepest it needs. Hop n answers all steps of depth n at once: both branches of a comparison are
//! followed side by side, as in the data. Words are [`words::split_words`].
//!
//! 1. *Query.* The query of hop 1 is the question. Each hop gets the words of the question that ask for it (rule: at
//!    the head of `clauses.rs`). Closing punctuation belongs to no hop.
//! 2. *Labeler.* The passage of a step, written `Title: text`, beside the hop's query. Its kept words are the step's
//!    answer in the sentence that states it (rule: at `ChunkWords::answer_words`). With
//!    [`KeptWords::SubjectAndAnswer`], the first occurrence of the step's subject is kept, too. The tag is `<CONTINUE>`
//!    if another step needs the answer, else `<FINISH>`; a trainer of two tags takes both for index 0. A passage with
//!    the answers of two steps of one hop is one row. The best passages that BM25 finds for the query, without the
//!    question's gold ones, are `<TERMINATE>`. They have no kept word, and there are as many of them as the hop has
//!    gold ones. If the corpus lacks a gold passage, or has it in other words, all passages of its title are left out
//!    of them.
//! 3. *Filter.* The words of `Query: {query} Info: {kept words}; Info: …`, one `Info` for each continuing passage in
//!    the order of steps. Kept are: the query's words for later hops, closing punctuation, and answers needed by later
//!    steps, those of earlier hops included. The template's words and the subject's are never kept.
//! 4. *Next query.* The kept words, with spaces between them: `When was founded ? Houston Baptist University`. Then hop
//!    2, and so on. If a needed answer is missing from its passage, the question ends there, even if the passage has
//!    the answer of another step.
//!
//! [`ConstructReport`] counts every question with no rows or with fewer rows, by reason.

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

pub use annotations::{AnnotationOutcome, annotated_rows};
pub use construct::{construct, question_rows};
pub use error::ConstructError;
pub use library::CorpusLibrary;
pub use report::ConstructReport;
pub use rows::{EncoderRow, FilterRow, LabelerRow, QuestionRows, ReaderRow, ScorerRow};
pub use settings::{ConstructSettings, KeptWords};
pub use skip::SkipReason;
pub use tables::TrainingTables;
