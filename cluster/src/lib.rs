//! The life of a process of `hopeval` among others: its mesh, its heartbeats, its signals, its end.
//!
//! Knows nothing of datasets, methods, services and tables; `main` and the command line bring those together. Only the
//! supervisor and the signal handlers know about the terminal above the processes.

pub mod doctor;
pub mod exit;
pub mod heap;
pub mod heartbeat;
pub mod mesh;
pub mod metrics;
pub mod panics;
pub mod progress;
pub mod progress_log;
pub mod signals;
pub mod supervise;
