//! Dataflow operators: admit, drive, serve, scatter, tally, correct, persist, commit; produce, collect. A flush makes
//! persist write early.
//!
//! This crate knows timely and differential dataflow. It is independent of methods, models, datasets and storage. The
//! operators host their work through small traits: a [`drive::DrivenMachine`], a [`serve::Backend`] for answers, a
//! [`scatter::QueryShard`] for one worker's part of an answer, a [`produce::Production`], a [`collect::Collector`], a
//! [`persist::DurableWriter`], a [`commit::Committer`].
//!
//! ```text
//!            credits                        loop: Product<cohort, round>
//!   admit <------------+   +-----------------------------------------------------------+
//!     | questions      |   |                                                           |
//!     +------------> drive +--requests--> exchange by bucket --> serve --replies--+    |
//!                      |   ^                                       |              |    |
//!                      |   +------------- exchange by asker <------|--------------+    |
//!                      | outcomes                                  | records           |
//!                      +-------------------------------------------|-------------------+
//!                      v                                           v
//!              tally (differential)      persist(outcomes)   persist(journal)
//!                      |                          \             /
//!                      +-------- live ------------> commit (worker 0)
//! ```
//!
//! Some services need the data of all workers for an answer. Their queries go to all workers and back by [`scatter`],
//! beside this graph: the end of a query answers the ticket of `serve`. A run's prerequisites, such as an index of
//! vectors, are made by a dataflow of their own, with [`produce`] and [`collect`]. When gold is edited during a run,
//! corrections enter the tally by [`correct`].
//!
//! # Time
//! A timestamp outside the loop is a *cohort*: a slice of the dataset, fixed in the run's record. Inside the loop it is
//! `Product<cohort, round>` as timely requires. Machines count their rounds themselves, so `drive` emits everything at
//! the cohort's own capability. The number of open timestamps is the number of open cohorts, not cohorts times rounds.
//!
//! # Durability
//! A capability says "results at this time may still come". `persist` holds one until all its items are durable. When
//! the frontier at `commit` has passed a cohort, its outcomes are durable, and so are *all* journal entries they can
//! depend on, on every worker. A run ending early completes no more cohorts: a closed [`gate`] lets no work begin, and
//! a [`flush`] makes `persist` write all it holds, so the next run finds every computed result.

pub mod admit;
pub mod collect;
pub mod commit;
pub mod correct;
pub mod counters;
pub mod drive;
pub mod flush;
pub mod gate;
pub mod message;
mod notifier;
mod own_looks;
pub mod persist;
pub mod produce;
pub mod scatter;
pub mod serve;
pub mod tally;
pub mod ticket;

pub use counters::OperatorCounters;
pub use message::{BUCKETS, Envelope, Reply, RequestKey, worker_of};
