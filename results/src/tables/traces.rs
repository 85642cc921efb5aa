//! The table `traces`: what outcomes hold beyond results. Only outcomes with something to say have a row, and a run
//! without any has no such table.

use super::row::row;

row! {
    /// A sentence that a method gave as support by a name, because no passage has it.
    pub struct NamedSentenceRow {
        /// The title in the model's words.
        pub title: String,
        /// The index or text of the sentence in the model's words.
        pub sentence: String,
    }
}

row! {
    /// A piece of a method's trace.
    pub struct NoteRow {
        /// Its kind, in the method's vocabulary.
        pub name: String,
        /// Its text.
        pub text: String,
    }
}

row! {
    /// Requests of one kind to one service from one step of a method.
    pub struct StepCallRow {
        /// The step; empty for requests without one.
        pub step: String,
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
        /// Requests with texts cut, or partly left out, to fit a limit; null if unknown for one of them.
        pub cut: Option<u64>,
    }
}

row! {
    table "traces" at "runs/RUN/final/traces.parquet" with 4096 rows in a group;
    /// The traces of outcomes: the method's notes, the form of the model's texts, support that is in no passage, and
    /// requests by step. Sorted like `outcomes`. Outcomes without any of these have no row; a run of methods without
    /// traces has no such table.
    pub struct TraceRow {
        /// The configuration's name.
        pub configuration: String,
        /// The question's position in the dataset, from 0.
        pub index: u64,
        /// The question's id.
        pub question: String,
        /// The method's trace in its order: thoughts, sub-questions with their answers, explanations.
        pub notes: Vec<NoteRow>,
        /// Whether the model kept to the required form without repairs; null for methods without such a form.
        pub format: Option<bool>,
        /// Repairs of the model's texts, as the method's paper counts them.
        pub repairs: u32,
        /// Sentences given as support that are in no passage. The support measures count each as wrong.
        pub named_support: Vec<NamedSentenceRow>,
        /// Requests by step of the method, as if nothing were shared; empty for methods with one step.
        pub steps: Vec<StepCallRow>,
    }
}
