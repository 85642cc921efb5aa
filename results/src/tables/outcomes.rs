//! The table `outcomes`: how each question ended under each configuration. It has two forms: parts, written
//! by the workers during the run, and the final table, written by one writer in final order.

mod order;
mod part;

pub use order::{FinalOrderOutcomes, in_final_order, of_question};
pub use part::write_part;

use super::row::row;
use super::traces::{NamedSentenceRow, NoteRow, StepCallRow, TraceRow};

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
        /// Generated tokens.
        pub completion_tokens: u64,
        /// Scored tokens.
        pub scored_tokens: u64,
        /// Operations, as the service counts them.
        pub operations: u64,
        /// Requests with texts cut, or partly left out, to fit a limit of the request or of the model; null in files of
        /// earlier versions.
        pub cut: Option<u64>,
    }
}

row! {
    /// What an outcome holds beyond its results.
    pub struct OutcomeTrace {
        /// The method's notes, in its order.
        pub notes: Vec<NoteRow>,
        /// Whether the model kept to the required form; null for methods without such a form.
        pub format: Option<bool>,
        /// Repairs of the model's texts.
        pub repairs: u32,
        /// Sentences given as support that are in no passage.
        pub named_support: Vec<NamedSentenceRow>,
        /// Requests by step; empty for methods with one step.
        pub steps: Vec<StepCallRow>,
    }
}

row! {
    /// Measured facts about requests of one kind to one service from one step of a method.
    pub struct MeasuredCallRow {
        /// The step; empty for requests without one.
        pub step: String,
        /// The service.
        pub service: String,
        /// The kind of request.
        pub kind: String,
        /// Attempts that were sent.
        pub attempts: u64,
        /// Prompt tokens in the endpoint's cache; null if it does not say.
        pub cached_prompt_tokens: Option<u64>,
        /// Written tokens that were reasoning; null if it does not say.
        pub reasoning_tokens: Option<u64>,
        /// Billionths of the currency's unit; null unless every answer has a price, in one currency.
        pub money_nanos: Option<u64>,
        /// The currency, several with `+` between them; null without a price.
        pub currency: Option<String>,
        /// Answers without a price; null in files of earlier versions, whose money leaves such answers out.
        pub unpriced: Option<u64>,
    }
}

row! {
    /// How long an outcome took.
    pub struct Timing {
        /// Critical path in seconds: for each round the longest of its requests' service times.
        pub service_s: f64,
        /// Waiting time in seconds of the requests on the critical path.
        pub queue_s: f64,
        /// From the first request to the outcome, in seconds.
        pub wall_s: f64,
    }
}

row! {
    table "outcome_parts" at "runs/RUN/outcomes/GENERATION-WORKER-N.parquet" with 8192 rows in a group;
    /// Outcomes as written by the workers, sorted by configuration and index. The commit log determines the valid rows;
    /// most readers want the table `outcomes`.
    pub struct OutcomeRow {
        /// The configuration, as its position in the job.
        pub configuration: u32,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: String,
        /// `ok`, the kind of failure, or `not_in_file` for a question that a file of rankings lacks.
        pub status: String,
        /// The error message; null if nothing went wrong.
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
        /// Requests of the outcome, by service and kind.
        pub calls: Vec<CallRow>,
        /// How long it took; null where it was not measured.
        pub timing: Option<Timing>,
        /// Number of retrieved passages, repeats included; null in files of earlier versions.
        pub retrieved: Option<u64>,
        /// Device time in seconds used by the outcome alone; null if no device was used, or if others shared it.
        pub device_s: Option<f64>,
        /// The outcome's trace; null if it has none.
        pub trace: Option<OutcomeTrace>,
        /// Measured facts about its calls to endpoints; null if there were none.
        pub measured: Option<Vec<MeasuredCallRow>>,
    }
}

row! {
    table "outcomes" at "runs/RUN/final/outcomes.parquet" with 4096 rows in a group;
    /// How each question ended under each configuration, sorted by configuration (in the job's order) and question (in
    /// the dataset's). Every question appears exactly once under each configuration.
    pub struct FinalOutcomeRow {
        /// The configuration's name.
        pub configuration: String,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: String,
        /// `ok`, the kind of failure, or `not_in_file` for a question that a file of rankings lacks.
        pub status: String,
        /// The error message; null if nothing went wrong.
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
        /// Requests of the outcome, by service and kind, as if nothing were shared.
        pub calls: Vec<CallRow>,
        /// Number of retrieved passages, repeats included; null in files of earlier versions.
        pub retrieved: Option<u64>,
    }
}

impl OutcomeRow {
    /// Takes the trace, if the outcome has one, as the row of the table `traces`. `configuration` is the name.
    pub fn take_trace_row(&mut self, configuration: &str) -> Option<TraceRow> {
        let OutcomeTrace { notes, format, repairs, named_support, steps } = self.trace.take()?;
        let (configuration, question) = (configuration.to_owned(), self.question.clone());
        Some(TraceRow { configuration, index: self.index, question, notes, format, repairs, named_support, steps })
    }

    /// Sentences given as support that are in no passage.
    pub fn named_support(&self) -> &[NamedSentenceRow] {
        self.trace.as_ref().map_or(&[], |trace| &trace.named_support)
    }

    /// The row of the final table, without timing. `configuration` is the name, `id` gives a passage's id.
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
