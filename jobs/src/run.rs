//! The life of a run: made once, opened by every process, worked on by every worker, finished by one.
//!
//! ```text
//!   make        corpus, sparse indexes, questions --> the run's record
//!   open        the same corpus and sparse indexes, methods, evaluator, the log  every process of every generation
//!   generation  missing dense indexes; then feed and dataflow (render) until
//!               all cohorts are committed, or the run drains                     every worker
//!   crate::report::tables   final tables from the committed outcomes             process 0
//! ```
//!
//! | file | does |
//! | --- | --- |
//! | [`settings`], [`make`], [`open`], [`generation`] | a run's settings; it is made, opened, begun again |
//! | [`making`], [`ordered`] | the order to make a run, for the case that its maker is killed |
//! | `new_run` | id, settings and record of a new run |
//! | [`judging`] | makes a run of judges over the outcomes of a finished run |
//! | [`feed`], [`machines`], [`render`] | questions and machines in the dataflow |
//! | [`journal_writer`], [`outcome_writer`], [`writes`] | records and outcomes become durable |
//! | `segment_merging` | small segments of the journal become larger ones |
//! | [`commits`], [`live_table`] | cohorts are committed; the live table |
//! | [`demand`], [`rehearsal`] | requests of machines by round: real ones, and guesses |
//! | [`progress`], [`forecast`] | a run's progress, and the estimate of the time left |
//! | [`evaluator`], [`evaluation`], [`outcome`], [`gold_reader`] | outcomes are evaluated by gold, all in final order |
//! | [`passages`] | ids, titles and texts of passages, without the corpus if the run is finished |
//! | [`leftovers`] | staging files of earlier writers are cleared |
//! | [`garbage`] | what of the journal and of the cache no run needs |
//! | [`edits`], [`gold`], [`corrections`] | edits of gold, of finished runs and of running ones |
//! | [`transcript`], [`replay`] | one question again, with the answers of the journal |

mod commit_queue;
pub mod commits;
pub mod corrections;
pub mod demand;
pub mod edits;
pub mod evaluation;
pub mod evaluator;
pub mod feed;
pub mod forecast;
pub mod garbage;
pub mod generation;
pub mod gold;
pub mod gold_reader;
pub mod journal_writer;
pub mod judging;
pub mod leftovers;
pub mod live_table;
pub mod machines;
pub mod make;
pub mod making;
mod new_run;
pub mod open;
pub mod ordered;
pub mod outcome;
pub mod outcome_counters;
pub mod outcome_writer;
pub mod passages;
pub mod progress;
pub mod rehearsal;
pub mod render;
pub mod replay;
mod segment_merging;
pub mod settings;
pub mod transcript;
pub mod writes;
