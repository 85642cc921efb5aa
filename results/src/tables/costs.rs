//! The table `costs`: requests, tokens, time, money and energy.

use super::row::row;

row! {
    table "costs" at "runs/RUN/final/costs.parquet" with 4096 rows in a group;
    /// Usage of each configuration by itself (attributed) and of the whole run (incurred), by service and kind of
    /// request, and for a configuration by step of its method.
    pub struct CostRow {
        /// The configuration whose work it is, as if nothing were shared; null for the whole run, which answers equal
        /// requests once.
        pub configuration: Option<String>,
        /// The service.
        pub service: String,
        /// The kind of request; `brought` for costs that a file of rankings gives: none of them was measured.
        pub kind: String,
        /// Requests of the machines of the configuration, equal ones of several questions included; for the whole run,
        /// those of all configurations together.
        pub requests: u64,
        /// Different requests that reached the service, counted anew after each restart; null for a configuration.
        pub unique: Option<u64>,
        /// Requests computed, not found in the journal; null for a configuration.
        pub computed: Option<u64>,
        /// Tokens of prompts; for the whole run, of the computed requests. The same holds for the next three columns.
        pub prompt_tokens: u64,
        /// Generated tokens.
        pub completion_tokens: u64,
        /// Scored tokens.
        pub scored_tokens: u64,
        /// Operations, as the service counts them.
        pub operations: u64,
        /// Time of the service in seconds, for a model the time of its device; null if it was not measured.
        pub service_s: Option<f64>,
        /// Time of the device in seconds; for a CPU, the running time of its threads divided by the number of threads
        /// that can run at once; null if it was not measured.
        pub device_s: Option<f64>,
        /// Money, in the currency of the job's prices; null where the price of an answer is not known, and where prices
        /// are in several currencies. For the whole run and an endpoint, what its journalled answers cost.
        pub money: Option<f64>,
        /// Energy in joules; null if any part was not measured, for a configuration if nothing was measured.
        pub energy_j: Option<f64>,
        /// Tokens processed by a model, fewer than those of the prompts if work was shared; null for a configuration,
        /// and if no model computed.
        pub computed_tokens: Option<u64>,
        /// Requests with texts cut, or partly left out, to fit a limit of the request or of the model; for the whole
        /// run, of the computed requests; null in files of earlier versions.
        pub cut: Option<u64>,
        /// The step of the method; null for requests without a named step, and for the whole run.
        pub step: Option<String>,
        /// Attempts sent to endpoints; null where none was sent.
        pub attempts: Option<u64>,
        /// Prompt tokens in an endpoint's cache; null if no endpoint says it.
        pub cached_prompt_tokens: Option<u64>,
        /// Written tokens that were reasoning; null if no endpoint says it.
        pub reasoning_tokens: Option<u64>,
        /// The currency of an endpoint's prices, several with `+` between them; null where it has no price.
        pub currency: Option<String>,
        /// Money that an endpoint may have been paid beyond its journalled answers, at most: for calls under way at a
        /// kill, and for lost answers; null for a configuration, and where no endpoint has a price.
        pub unanswered_money: Option<f64>,
        /// The models that answered, each with its system's fingerprint and its answers, by the endpoint's own account,
        /// separated by semicolons. Several are drift; null for a configuration, and if no endpoint names one.
        pub models: Option<String>,
        /// Answers of an endpoint without a price, as those that a job without one has journalled; for the whole run,
        /// of the computed requests. `money` is null where there are any. Itself null for other services, and in files
        /// of earlier versions, whose money leaves such answers out.
        pub unpriced: Option<u64>,
    }
}
