//! Tests of the store, the journal, the commit log, the run record and the tables, through their public face.

mod journal;
mod log;
mod outcomes;
mod run;
mod store;
mod tables;
