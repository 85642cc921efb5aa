//! The tests of the whole: what the binary does, seen from outside. One file a subject, one program for all of them.
//!
//! `cargo test --test suite kill::` runs the tests of one file.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "support/batch_runner.rs"]
mod batch_runner;
#[path = "support/faults.rs"]
mod faults;
#[path = "support/faulty_s3.rs"]
mod faulty_s3;
#[path = "support/file_server.rs"]
mod file_server;
#[path = "support/harness.rs"]
mod harness;
#[path = "support/ranking_server.rs"]
mod ranking_server;
#[path = "support/requests.rs"]
mod requests;
#[path = "support/rules_file.rs"]
mod rules_file;
#[path = "support/stand_ins.rs"]
mod stand_ins;
#[path = "support/tiny.rs"]
mod tiny;

mod bad_input;
mod cap;
mod cli;
mod compare;
mod compare_runs;
mod costs;
mod cut_offs;
mod damage;
mod dense_vectors;
mod drain;
mod endpoint;
mod exports;
mod given;
mod gold;
mod http_retriever;
mod identity;
mod judging;
mod kill;
mod listings;
mod lm_commands;
mod models;
mod notes;
mod offline;
mod own_data;
mod paper_jobs;
mod public_files;
mod rankings;
mod reading_methods;
mod report;
mod reproduce;
mod retrieval;
mod s3;
mod score;
mod secrets;
mod simulate_llm;
mod simulated_cuda;
mod smoke;
mod storage;
mod sweep_race;
mod sweeps;
mod tables;
mod taken_questions;
mod train;
mod train_data;
mod tune;
mod tune_race;
mod tutorial;
mod upkeep;
mod versions;
mod views;
mod word_rules;
