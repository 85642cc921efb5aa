//! The table `configurations`: what was evaluated.

use super::row::row;

row! {
    table "configurations" at "runs/RUN/final/configurations.parquet" with 4096 rows in a group;
    /// What was evaluated: methods with their parameters, fixed.
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
        /// Where passages come from: `given`, `oracle`, `mixed` or `open`. Figures of different modes are never ranked together.
        pub context_mode: String,
        /// Whether its outcomes hold answers.
        pub answers: bool,
        /// The services that it asks, each as its parameter, `=` and the service's name.
        pub services: Vec<String>,
        /// Origin of its prompt templates: `hopeval`, or the name of an imported set; null where it has no prompt.
        pub prompt_origin: Option<String>,
        /// Digest of its prompt templates; null where it has no prompt.
        pub prompt_digest: Option<String>,
        /// What tells replicates of one configuration apart (seed, demonstration set); null where there is one only.
        pub replicate: Option<String>,
        /// What it is a control of; null where it is none.
        pub control: Option<String>,
    }
}
