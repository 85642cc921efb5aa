//! The profile for scoring answers. Only this file knows both the datasets' scripts and the measures' profiles.

use hopeval_datasets::{Format, ScoringScript};
use hopeval_measures::Profile;

/// The profile of a dataset format, for jobs without an explicit profile.
pub fn profile_of(format: Format) -> Profile {
    match format.default_scoring() {
        ScoringScript::HotpotQa => Profile::HotpotQa,
        ScoringScript::TwoWiki => Profile::TwoWiki,
        ScoringScript::Musique => Profile::Musique,
        ScoringScript::Squad => Profile::Squad,
        ScoringScript::TriviaQa => Profile::TriviaQa,
        ScoringScript::Drop => Profile::Drop,
        ScoringScript::StrategyQa => Profile::StrategyQa,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_datasets::GoldMatch;

    /// Figures of earlier runs depend on these.
    #[test]
    fn custom_of_each_format_stays() {
        let customs = [
            ("hotpotqa", GoldMatch::Title, "hotpotqa"),
            ("2wikimultihopqa", GoldMatch::Title, "2wikimultihopqa"),
            ("musique", GoldMatch::TitleAndText, "musique"),
            ("strategyqa", GoldMatch::Id, "strategyqa"),
            ("iirc", GoldMatch::Id, "drop"),
            ("nq", GoldMatch::Id, "squad"),
            ("triviaqa", GoldMatch::Id, "triviaqa"),
            ("flashrag", GoldMatch::Id, "squad"),
            ("beir", GoldMatch::Id, "squad"),
            ("world", GoldMatch::Id, "hotpotqa"),
        ];
        for (name, gold, profile) in customs {
            let format: Format = name.parse().unwrap();
            assert_eq!((format.default_gold(), profile_of(format).name()), (gold, profile), "{name}");
        }
    }
}
