//! The table `configurations`: methods with their parameters.

use super::row::row;

row! {
    table "configurations" at "runs/RUN/final/configurations.parquet" with 4096 rows in a group;
    /// The evaluated configurations: methods with fixed parameters.
    pub struct ConfigurationRow {
        /// Position in the job, from 0; outcome parts call the configuration by it.
        pub position: u32,
        /// Its name, as in every other table: the method's name in the job, and its sweep point.
        pub configuration: String,
        /// The method's kind.
        pub method: String,
        /// The method's version: it rises with every change of a transition or of a prompt.
        pub method_version: u32,
        /// The method's parameters, as JSON with sorted keys.
        pub parameters: String,
        /// Source of the passages: `given`, `oracle`, `mixed`, `open` or `closed`. Figures of different modes are never
        /// ranked together.
        pub context_mode: String,
        /// Whether its outcomes hold answers.
        pub answers: bool,
        /// Services used by the method, each as its parameter, `=` and the service's name.
        pub services: Vec<String>,
        /// Origin of its prompt templates: `hopeval`, or the name of an imported set; null where it has no prompt.
        pub prompt_origin: Option<String>,
        /// Digest of its prompt templates; null where it has no prompt.
        pub prompt_digest: Option<String>,
        /// The difference between replicates of one configuration (seed, demonstration set); null if there is only one.
        pub replicate: Option<String>,
        /// The job's words for its purpose as a control; null if it is not a control.
        pub control: Option<String>,
    }
}
