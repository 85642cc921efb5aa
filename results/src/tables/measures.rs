//! The table `measures`: means over questions.

use super::row::row;

row! {
    table "measures" at "runs/RUN/final/measures.parquet" with 16384 rows in a group;
    /// Means over questions, for all of them and for each stratum.
    pub struct MeasureRow {
        /// The configuration's name.
        pub configuration: String,
        /// The measured questions: `all`, or a stratum as `name=value`.
        pub stratum: String,
        /// The measure's name.
        pub measure: String,
        /// The measure's version.
        pub version: String,
        /// The measure's profile.
        pub profile: String,
        /// Source of the passages: `given`, `oracle`, `mixed`, `open` or `closed`. Figures of different modes are never
        /// ranked together.
        pub context_mode: String,
        /// The mean; null where no question defines it.
        pub value: Option<f64>,
        /// Standard error of the mean; null where fewer than two questions define it.
        pub stderr: Option<f64>,
        /// Lower end of the 95 % interval; null where there is none.
        pub low: Option<f64>,
        /// Upper end of the 95 % interval; null where there is none.
        pub high: Option<f64>,
        /// Questions where the measure is defined; failed ones are among them.
        pub n: u64,
        /// Share of these questions with an outcome of status `ok`; null if `n` is 0.
        pub coverage: Option<f64>,
        /// The most passages that an outcome of the configuration ranks, where the measure's cut-off is beyond: the
        /// value is that of so many passages; null where the measure is taken at its own cut-off.
        pub ranked: Option<u32>,
    }
}
