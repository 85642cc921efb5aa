//! The table `costs`: what was needed, and what was spent.

use super::row::row;

row! {
    table "costs" at "runs/RUN/final/costs.parquet" with 4096 rows in a group;
    /// What each configuration needed by itself (attributed), and what the run spent (incurred), by service and kind of request.
    pub struct CostRow {
        /// The configuration whose requests these are, as if nothing were shared; null for the whole run, where equal requests count once.
        pub configuration: Option<String>,
        /// The service.
        pub service: String,
        /// The kind of request.
        pub kind: String,
        /// Requests.
        pub requests: u64,
        /// Different requests; null for a configuration.
        pub unique: Option<u64>,
        /// Requests that were computed and not found in the journal; null for a configuration.
        pub computed: Option<u64>,
        /// Tokens of prompts; for the whole run, of those that were computed. The next three alike.
        pub prompt_tokens: u64,
        /// Tokens that were generated.
        pub completion_tokens: u64,
        /// Tokens that were scored.
        pub scored_tokens: u64,
        /// Operations, as the service counts them.
        pub operations: u64,
        /// Time of the service in seconds, of a model its device's; null where it was not measured.
        pub service_s: Option<f64>,
        /// Time of the device in seconds, of a CPU the time that its threads ran, over how many of them can run at once; null where it was not measured.
        pub device_s: Option<f64>,
        /// Money, in the currency of the job's prices; null where no price is known.
        pub money: Option<f64>,
        /// Energy in joule; null where that of any part was not measured, for a configuration where nothing was.
        pub energy_j: Option<f64>,
        /// Tokens that went through a model, fewer than those of the prompts where work was shared; null for a configuration, and where no model computed.
        pub computed_tokens: Option<u64>,
        /// Of the requests those whose texts were cut, or left out in part, to fit, to a limit of their own or to what the model takes; for the whole run, of those that were computed; null in files of earlier versions.
        pub cut: Option<u64>,
    }
}
