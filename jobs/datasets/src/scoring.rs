//! The scripts by whose rules a dataset's answers are scored. They are only named here: measures are another crate's.

/// The official script of a dataset, or the one that is customary for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoringScript {
    /// HotpotQA's.
    HotpotQa,
    /// 2WikiMultihopQA's.
    TwoWiki,
    /// MuSiQue's.
    Musique,
    /// SQuAD 2.0's, for datasets without a script of their own.
    Squad,
    /// TriviaQA's.
    TriviaQa,
    /// DROP's, also for IIRC.
    Drop,
    /// StrategyQA's accuracy.
    StrategyQa,
}
