//! The life of a process of `hopeval` among others: its mesh, its pulse, its signals, its end.
//!
//! Knows no dataset, method, service or table; `main` and the command line bring those together. Only the supervisor
//! and the signal handlers know that processes have a terminal above them.

pub mod doctor;
pub mod exit;
pub mod mesh;
pub mod metrics;
pub mod panics;
pub mod progress;
pub mod pulse;
pub mod signals;
pub mod supervise;
