//! The profile for scoring answers. Only this file knows both the datasets' scripts and the measures' profiles.

use hopeval_datasets::{Format, ScoringScript};
use hopeval_measures::{Profile, Settings};

/// Sets the measures that a format needs: its questions name no gold passages, so rankings are measured by answers.
pub fn complete_measures(measures: &mut Settings, format: Format) {
    if matches!(format, Format::Nq | Format::TriviaQa) {
        measures.ensure_answer_hits();
    }
}

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

    #[test]
    fn open_questions_have_a_default_measure() {
        let names = |format: Format, measures: &str| {
            let mut measures: Settings = serde_json::from_str(measures).unwrap();
            complete_measures(&mut measures, format);
            let set = hopeval_measures::MeasureSet::new(&measures, profile_of(format)).unwrap();
            let hits = set.names().iter().filter(|name| name.starts_with("answer_hit@"));
            hits.cloned().collect::<Vec<_>>().join(" ")
        };
        for format in Format::ALL {
            let expected = match format {
                Format::Nq | Format::TriviaQa => "answer_hit@2 answer_hit@5 answer_hit@10 answer_hit@20",
                _ => "",
            };
            assert_eq!(names(format, "{}"), expected, "{format}");
        }
        assert_eq!(names(Format::Nq, r#"{"answer_hit_at": [7]}"#), "answer_hit@7");
        assert_eq!(names(Format::Nq, r#"{"recall_at": [3]}"#), "answer_hit@3");
        assert_eq!(names(Format::Nq, r#"{"recall_at": []}"#), "answer_hit@2 answer_hit@5 answer_hit@10 answer_hit@20");
    }

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
