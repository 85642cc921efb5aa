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
    use hopeval_datasets::records::RecordReader;
    use hopeval_datasets::{DatasetSpec, GoldMatch, Questions, RowPolicy};
    use hopeval_measures::score_answer;
    use serde_json::Value;
    use std::path::Path;

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

    /// A published IIRC pipeline's rows: gold as it is read has the EM and F1 of its evaluator, DROP's script, for each
    /// of them. Its predictions are texts and lists.
    #[test]
    fn iirc_s_gold_is_that_of_its_script() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/iirc/dev_300_with_predictions.jsonl.gz");
        if !path.exists() {
            eprintln!("SKIPPED: {} is not there", path.display());
            return;
        }
        let mut rows = RecordReader::open(&path).unwrap();
        let mut questions = Questions::open(&DatasetSpec::file(&path), RowPolicy::Strict).unwrap();
        let (mut em, mut f1, mut count) = (0.0, 0.0, 0);
        while let (Some(row), Some(question)) = (rows.next().unwrap(), questions.next().transpose().unwrap()) {
            let row: Value = serde_json::from_slice(row.bytes).unwrap();
            let qa = &row["qa"];
            let prediction = match &qa["predicted_answer"] {
                Value::String(text) => text.clone(),
                list => list.to_string(),
            };
            let score = score_answer(profile_of(questions.format()), &prediction, &question.answers);
            assert_eq!(score.em, qa["em"].as_f64().unwrap(), "{qa}");
            assert!((score.f1 - qa["f1"].as_f64().unwrap()).abs() < 1e-12, "{qa}");
            (em, f1, count) = (em + score.em, f1 + score.f1, count + 1);
        }
        // The script's figures for the file: 38.00 and 44.64.
        assert_eq!(
            (count, format!("{:.2}", em / 3.0), format!("{:.2}", f1 / 3.0)),
            (300, "38.00".into(), "44.64".into())
        );
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
