//! `[tune]`: choosing values of parameters on questions that are not evaluated.
//!
//! ```text
//!   for each [[tune.select]], in order:
//!   candidates, given or filled in by a T5 --> a job of them over the sample --> an ordinary run --> the best: selections/NAME.json
//!                                      (`infill`)               (`search`)
//! ```
//!
//! A search is an ordinary run: its requests are journalled, shared by its candidates and with every other run of the
//! store, and a search that was killed begins again without computing anything twice. What it chose is a record that no
//! other replaces ([`crate::choices`]); a method names it as `parameter = { selection = "NAME" }`. While a parameter is
//! searched, selections of earlier searches hold, and those of later ones are left at the method's defaults.
//!
//! Ties go to the candidate that stands earlier. Nothing here draws at random but by seeds that are in the job.

mod asking;
pub mod infill;
pub mod search;
