//! The scripts for scoring a dataset's answers. They are only named here: measures are in another crate.

/// The official script of a dataset, or the customary one.
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
