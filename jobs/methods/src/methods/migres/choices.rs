//! The choices of `migres`: parameters that are one of a few words.

use serde::{Deserialize, Serialize};

/// Declares enums of words, as jobs write them.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(rename_all = "snake_case")]
            pub(super) enum $name {
                $($(#[$variant_doc])* $variant,)*
            }
        )*
    };
}

choices! {
    /// The form in which the leaf module reads a passage.
    KnowledgeForm {
        /// Its relevant sentences.
        Sentences,
        /// The whole passage.
        Whole,
        /// A summary by the generator.
        Summ,
        /// Copied parts, by the generator.
        Snippet,
    }

    /// The moment of knowledge prompting.
    ForwardMoment {
        /// No passage is left to show.
        NothingLeft,
        /// No passage is relevant enough; passages that were shown before do not count as missing.
        NothingRelevant,
    }

    /// The queries of knowledge prompting.
    ForwardQueries {
        /// The first of the round.
        First,
        /// Each of the round.
        Each,
    }

    /// The title of a text that the generator wrote.
    ForwardTitle {
        /// None is shown.
        Omitted,
        /// The word `None`.
        None,
    }

    /// The question of the leaf module.
    LeafQuestion {
        /// The queries for which the passages were found.
        Shown,
        /// All queries of the round.
        All,
    }

    /// The list that a citation's number counts in.
    CitationList {
        /// The passages in the prompt.
        Shown,
        /// The passages before those that the memory takes out.
        Unfiltered,
    }

    /// The queries that the query module is told of, and does not ask again.
    QueryHistory {
        /// All that were written.
        All,
        /// Those for which passages were shown.
        Shown,
    }

    /// The end of a question whose last round found nothing new.
    BarrenEnd {
        /// The final prompt answers it.
        Final,
        /// It has no answer.
        Lose,
    }

    /// The wording of answers.
    AnswerTask {
        /// A short answer.
        Open,
        /// `yes` or `no`.
        YesNo,
    }

    /// The reading of replies.
    ReplyParser {
        /// Whatever can be made out.
        Tolerant,
        /// As the authors' code reads.
        Code,
    }

    /// The choice of tokens.
    SamplingChoice {
        /// The likeliest.
        Greedy,
        /// Whatever the server does by itself.
        Server,
        /// Drawn with `temperature`, `top_p` and the two penalties.
        Sample,
        /// With one draw as `server`; with more, drawn at temperature 1 with top_p 0.9 and both penalties 1.
        Code,
    }

    /// A built-in set of demonstrations.
    DemonstrationSet {
        /// None: zero-shot.
        None,
        /// Two of multi-hop questions for each module.
        MultiHop,
        /// Two of open-domain questions for each module.
        OpenDomain,
        /// Two of questions to be answered with yes or no for each module.
        YesNo,
    }
}
