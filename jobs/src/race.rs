//! Races: weak candidates of a search, or weak points of a sweep, are stopped after a part of the questions.
//!
//! ```text
//!   a rung: an ordinary run of those that stand, over a part of the questions --> its means (`figures`)
//!       --> the decision (`decision`) --> the next rung, over a larger part that contains the smaller one
//!   after the last rung: an ordinary run of the rest, over all questions
//! ```
//!
//! Searches ([`crate::tune`]) and sweeps ([`sweeps`]) have the same rule. A killed race begins again with its first
//! rung and computes nothing twice, since the journal has the answers; so it decides alike.

pub(crate) mod decision;
pub(crate) mod figures;
pub(crate) mod rung_draws;
pub mod sweeps;
