//! Dataflow operators: admit, drive, serve, scatter, tally, correct, persist, commit; produce, collect. A flush makes
//! persist write early.
//!
//! This crate knows timely and differential dataflow; it knows no method, no model, no dataset and no storage. What
//! the operators host comes in through small traits: [`drive::Hosted`] machines, a [`serve::Backend`] that answers, a
//! [`scatter::Shard`] that knows its part of an answer, a [`produce::Production`], a [`collect::Collector`], a
//! [`persist::Writer`] that makes things durable, a [`commit::Committer`].
//!
//! ```text
//!            credits                        loop: Product<chunk, round>
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
//! What a service answers from parts that lie on all workers goes to them by [`scatter`] and back, beside this graph: a
//! query's end answers the ticket that `serve` waits for. What must be there before a run can begin, such as an index of
//! vectors, is [`produce`]d and [`collect`]ed by a dataflow of its own. Gold that is edited during a run lets
//! [`correct`]ions into what is tallied.
//!
//! # Time
//! A timestamp outside the loop is a *chunk*: a slice of the dataset, fixed in the run's record. Inside the loop it is
//! `Product<chunk, round>` as timely requires; machines count their rounds themselves, so `drive` emits everything at
//! the chunk's own capability and the number of open timestamps is the number of open chunks, not chunks times rounds.
//!
//! # Durability
//! A capability says "results at this time may still come". `persist` holds one for everything that it has not made
//! durable, so when the frontier at `commit` has passed a chunk, its outcomes and *all* journal entries that any of
//! them can have seen are durable, wherever they were computed. A run that ends early completes no chunk any more: a
//! [`flush`] has `persist` write what it holds, so that the next run finds everything that was computed.

pub mod admit;
mod bell;
pub mod collect;
pub mod commit;
pub mod correct;
pub mod counters;
pub mod drive;
pub mod flush;
pub mod message;
pub mod persist;
pub mod produce;
pub mod scatter;
pub mod serve;
pub mod tally;
pub mod ticket;

pub use counters::Counters;
pub use message::{BUCKETS, Envelope, Key, Reply, worker_of};
