//! The table `outcomes`: how each question ended under each configuration. It has two forms: the parts that workers
//! write as they go, and the final table, one writer's, in final order.

mod order;
mod part;

pub use order::{InFinalOrder, in_final_order, of_question};
pub use part::write_part;

use super::row::row;

row! {
    /// Requests of one kind to one service, as the outcome needed them, shared or not.
    pub struct CallRow {
        /// The service.
        pub service: String,
        /// The kind of request.
        pub kind: String,
        /// Requests.
        pub calls: u64,
        /// Tokens of their prompts.
        pub prompt_tokens: u64,
        /// Tokens that were generated.
        pub completion_tokens: u64,
        /// Tokens that were scored.
        pub scored_tokens: u64,
        /// Operations, as the service counts them.
        pub operations: u64,
        /// Of these requests those whose texts were cut, or left out in part, to fit: to a limit of their own or to what the model takes; null in files of earlier versions.
        pub cut: Option<u64>,
    }
}

row! {
    /// How long an outcome took.
    pub struct Timing {
        /// Critical path in seconds: for each round the longest of its requests' service times.
        pub service_s: f64,
        /// Time in seconds that the requests of the critical path waited.
        pub queue_s: f64,
        /// From the first request to the outcome, in seconds.
        pub wall_s: f64,
    }
}

row! {
    table "outcome_parts" at "runs/RUN/outcomes/GENERATION-WORKER-N.parquet" with 8192 rows in a group;
    /// Outcomes as workers write them, sorted by configuration and index. Which rows count is in the commit log; most readers want the table `outcomes`.
    pub struct OutcomeRow {
        /// The configuration, as its position in the job.
        pub configuration: u32,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: String,
        /// `ok`, or the kind of failure.
        pub status: String,
        /// What went wrong; null where nothing did.
        pub message: Option<String>,
        /// The answer; null where the method gave none.
        pub answer: Option<String>,
        /// Passages, best first, as their numbers in the corpus.
        pub ranked: Vec<u32>,
        /// Their scores, higher is better.
        pub scores: Vec<f64>,
        /// Reasoning paths, best first.
        pub paths: Vec<(Vec<u32>, f64)>,
        /// Sentences given as support.
        pub supporting: Vec<(u32, u32)>,
        /// Evidence triples.
        pub evidences: Vec<[String; 3]>,
        /// Rounds of the method's own loop (hops, iterations), as its paper counts them.
        pub iterations: u32,
        /// Rounds of requests.
        pub rounds: u32,
        /// What was asked, by service and kind.
        pub calls: Vec<CallRow>,
        /// How long it took; null where it was not measured.
        pub timing: Option<Timing>,
        /// Passages that retrievers gave, repeats included; null in files of earlier versions.
        pub retrieved: Option<u64>,
        /// Time of devices in seconds that the outcome took by itself; null where no device was used, and where others shared it.
        pub device_s: Option<f64>,
    }
}

row! {
    table "outcomes" at "runs/RUN/final/outcomes.parquet" with 4096 rows in a group;
    /// How each question ended under each configuration, sorted by configuration (in the job's order) and question (in the dataset's). No question is missing and none is there twice.
    pub struct FinalOutcomeRow {
        /// The configuration's name.
        pub configuration: String,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: String,
        /// `ok`, or the kind of failure.
        pub status: String,
        /// What went wrong; null where nothing did.
        pub message: Option<String>,
        /// The answer; null where the method gave none.
        pub answer: Option<String>,
        /// Passages, best first, as their numbers in the corpus.
        pub ranked: Vec<u32>,
        /// The same passages, as their ids in the corpus.
        pub ranked_ids: Vec<String>,
        /// Their scores, higher is better.
        pub scores: Vec<f64>,
        /// Reasoning paths, best first.
        pub paths: Vec<(Vec<u32>, f64)>,
        /// Sentences given as support.
        pub supporting: Vec<(u32, u32)>,
        /// Evidence triples.
        pub evidences: Vec<[String; 3]>,
        /// Rounds of the method's own loop (hops, iterations), as its paper counts them.
        pub iterations: u32,
        /// Rounds of requests.
        pub rounds: u32,
        /// What was asked, by service and kind, as if nothing were shared.
        pub calls: Vec<CallRow>,
        /// Passages that retrievers gave, repeats included; null in files of earlier versions.
        pub retrieved: Option<u64>,
    }
}

impl OutcomeRow {
    /// The row of the final table. `configuration` is the name, `id` gives a passage's id. Timing is left out.
    pub fn into_final(self, configuration: &str, mut id: impl FnMut(u32) -> String) -> FinalOutcomeRow {
        FinalOutcomeRow {
            configuration: configuration.to_owned(),
            index: self.index,
            question: self.question,
            status: self.status,
            message: self.message,
            answer: self.answer,
            ranked_ids: self.ranked.iter().map(|&passage| id(passage)).collect(),
            ranked: self.ranked,
            scores: self.scores,
            paths: self.paths,
            supporting: self.supporting,
            evidences: self.evidences,
            iterations: self.iterations,
            rounds: self.rounds,
            calls: self.calls,
            retrieved: self.retrieved,
        }
    }
}
