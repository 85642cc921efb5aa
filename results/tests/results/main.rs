//! Tests of the store, the journal, the commit log, the run record and the tables, through their public interface.

#![expect(clippy::unwrap_used, reason = "tests may unwrap, and so may what they share: a panic is the report")]

mod checks;
#[path = "../../../tests/support/golden.rs"]
mod golden;
mod journal;
mod log;
mod merging;
mod outcomes;
mod run;
mod store;
mod stored;
mod tables;
