//! The methods, one per file. Each file opens with its transition table and cites its source.
//!
//! A line of the table below declares the file and enters the method, so a new method is a file and a line. Tests
//! derive from the table: each method in it is checked for its documentation, its scenario file and its end.
//!
//! `cargo fmt` does not see modules declared by a macro; `ops/format.sh` formats them, too.

use crate::registry::{self, ConfigurableMethod, ConfigureMethod, MethodInfo};

macro_rules! methods {
    ($($file:ident::$Method:ident,)*) => {
        $(pub(crate) mod $file;)*

        /// The documentation of each method, in the table's order.
        pub(crate) const INFOS: &[MethodInfo] = &[$($file::$Method::INFO),*];

        /// The parameters in which the authors' code of a method differs from its paper, in the table's order.
        pub(crate) const AS_CODES: &[&[(&str, &str)]] = &[$(<$file::$Method as ConfigurableMethod>::AS_CODE),*];

        /// The function to configure each method, in the table's order.
        pub(crate) const CONFIGURES: &[ConfigureMethod] = &[$(registry::configure::<$file::$Method>),*];
    };
}

// In alphabetical order.
methods! {
    alce::Alce,
    decompose::Decompose,
    efficientrag::EfficientRag,
    efficientrag_data::EfficientRagData,
    fsm::Fsm,
    fsm_baseline::FsmBaseline,
    given::GivenPassages,
    ircot::Ircot,
    iter_retgen::IterRetGen,
    iterative_title::IterativeTitle,
    migres::Migres,
    no_retrieval::NoRetrieval,
    one_step::OneStep,
    one_step_qa::OneStepQa,
    oracle::Oracle,
    promptrank::PromptRank,
    random::Random,
    rankings::Rankings,
    react::React,
    self_ask::SelfAsk,
    tfidf_bm25::TfidfBm25,
}
