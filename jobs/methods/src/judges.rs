//! The judges, one per file: methods that judge the answers of others. Each file opens with its transition table and
//! cites its source.
//!
//! A judge's question has the outcome to be judged ([`crate::Question::prediction`]) and the gold answers. Its answer
//! is `yes` or `no`; measures make accuracies of it ([`crate::JudgeTarget`]). It names the configuration that it judges
//! in a parameter, which its host fills in. A line of the table below declares the file and enters the judge.

use crate::registry::{self, ConfigurableMethod, ConfigureMethod, MethodInfo};

macro_rules! judges {
    ($($file:ident::$Judge:ident,)*) => {
        $(pub(crate) mod $file;)*

        /// The documentation of each judge, in the table's order.
        pub(crate) const INFOS: &[MethodInfo] = &[$($file::$Judge::INFO),*];

        /// The function to configure each judge, in the table's order.
        pub(crate) const CONFIGURES: &[ConfigureMethod] = &[$(registry::configure::<$file::$Judge>),*];
    };
}

// In alphabetical order. No method has the same name.
judges! {
    yes_no::YesNoJudge,
}
