//! The generated world: people, films, companies, cities, the relations between them, passages that link to each other,
//! and multi-hop questions with gold paths, sub-questions, evidences and chains of thought.
//!
//! Everything is a function of (seed, split, number). Names, facts, passages and questions are computed when they are
//! written and never stored. So a world of any size streams in constant memory, and question 700,000 can be made alone.
//! The two splits share no names. A third of the relations, question templates and paraphrases occurs in `eval` only,
//! and each question's strata say whether it needs any of those.
//!
//! This crate knows nothing of datasets, corpora or indexes. It writes JSON Lines for them.

pub mod calibrate;
mod draft;
mod entities;
mod generate;
mod kinds;
mod names;
mod passage;
mod question;
mod random_stream;
pub mod record;
mod schema;
mod settings;
mod verify;
pub mod wordings;
mod wordlists;

pub use generate::{GenerationProgress, World, WorldReport, generate_world};
pub use settings::{Difficulty, QuestionMix, WorldError, WorldSettings, WorldSplit};
pub use verify::{QuestionFlaw, order_value, verify_question};
