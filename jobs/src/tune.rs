//! `[tune]`: chooses values of parameters on a sample of questions apart from the evaluated ones.
//!
//! ```text
//!   for each [[tune.select]], in order:
//!   candidates, given or filled in by a T5 (`infill`) --> a job of them over the sample (`search`)
//!                                                     --> an ordinary run --> the best: selections/NAME.json
//!
//!   with a race: --> a run of all over a part of the sample --> stop the weakest (`race.rs`) --> the rest over a
//!                larger part, which contains the smaller one --> ... --> the last ones over the sample --> the best
//! ```
//!
//! A search is an ordinary run: its requests are journalled, and shared by its candidates and with every other run of
//! the store. A killed search begins again without computing anything twice. Its choice is a record, never replaced by
//! another ([`crate::choices`]); a method names it as `parameter = { selection = "NAME" }`. While a parameter is
//! searched, selections of earlier searches hold, and parameters of later searches keep the method's defaults.
//!
//! Ties go to the earlier candidate. All random draws use seeds from the job.

mod asking;
pub mod infill;
pub mod search;
