//! Real files: every available dataset and corpus is read whole, without a bad row, and has its known size.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is the report of a test, and a skip is loud")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hopeval_datasets::records::RecordReader;
use hopeval_datasets::{
    DatasetSpec, Format, PassageFormat, PassageRecord, PassageSpec, Passages, Question, Questions, RowPolicy,
    detect_format,
};

/// The folder of real data beside the repository. Prints a note if it is absent.
fn data() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !folder.is_dir() {
        eprintln!("SKIPPED: no real data at {}", folder.display());
        return None;
    }
    Some(folder)
}

/// All questions of a file. The format must be detected from its content.
fn read(path: &Path, format: Format) -> Vec<Question> {
    assert_eq!(detect_format(path).unwrap(), format, "{}", path.display());
    let mut questions = Questions::open(&DatasetSpec::file(path), RowPolicy::Strict).unwrap();
    let all: Vec<Question> = questions.by_ref().map(|question| question.unwrap()).collect();
    assert_eq!(questions.quarantined(), 0);
    let ids: BTreeSet<&str> = all.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(ids.len(), all.len());
    all
}

fn tally<'q, K: Ord>(questions: &'q [Question], key: impl Fn(&'q Question) -> K) -> Vec<(K, usize)> {
    let mut counts = BTreeMap::new();
    for question in questions {
        *counts.entry(key(question)).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn hotpotqa() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("hotpotqa/dev_1267.json.gz"), Format::HotpotQa);
    assert_eq!(questions.len(), 1267);
    assert_eq!(tally(&questions, |q| q.kind.as_deref()), [(Some("bridge"), 971), (Some("comparison"), 296)]);
    assert_eq!(tally(&questions, |q| q.level.as_deref()), [(Some("hard"), 1267)]);
    assert_eq!(tally(&questions, |q| q.hops), [(Some(2), 1267)]);
    assert_eq!(questions.iter().map(|q| q.candidates.len()).sum::<usize>(), 12629);
    assert_eq!(questions.iter().map(|q| q.supporting_facts.len()).sum::<usize>(), 3099);
    assert!(questions.iter().all(|q| q.gold.len() == 2 && q.gold.iter().all(|gold| gold.text.is_some())));
    let first = &questions[0];
    assert_eq!(first.answers, ["October 1922"]);
    assert_eq!(first.gold[0].title.as_deref(), Some("Socialist Revolutionary Party"));
    assert!(first.candidates[0].sentence(1).unwrap().starts_with(" Its general ideology"));
}

#[test]
fn hotpotqa_with_gold_titles_only() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("hotpotqa_first500/questions.json.gz"), Format::HotpotQa);
    assert_eq!(questions.len(), 500);
    assert!(questions.iter().all(|q| q.gold.len() == 2 && q.answers.len() == 1 && q.candidates.is_empty()));
    assert_eq!(questions[0].gold[0].title.as_deref(), Some("Ed Wood"));
}

#[test]
fn two_wiki() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("2wikimultihopqa/train_500.json.gz"), Format::TwoWiki);
    assert_eq!(
        tally(&questions, |q| q.kind.as_deref().unwrap()),
        [("bridge_comparison", 92), ("comparison", 162), ("compositional", 227), ("inference", 19)]
    );
    assert_eq!(tally(&questions, |q| q.hops), [(Some(2), 408), (Some(4), 92)]);
    assert_eq!(questions.iter().filter(|q| q.answer_id.is_some()).count(), 253);
    assert_eq!(questions.iter().map(|q| q.evidences.len()).sum::<usize>(), 1184);
    assert_eq!(questions.iter().map(|q| q.evidences_id.len()).sum::<usize>(), 918);
    assert_eq!(questions[0].entity_ids, ["Q18160687", "Q5276931"]);
    // Sentences bring no space, so the text does.
    assert!(questions[0].candidates[1].text.starts_with("Theodred II was a medieval Bishop of Elmham. The date of"));
}

#[test]
fn musique() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("musique/train_299.jsonl.gz"), Format::Musique);
    assert_eq!(questions.len(), 299);
    assert_eq!(tally(&questions, |q| q.hops), [(Some(2), 267), (Some(3), 27), (Some(4), 5)]);
    assert_eq!(questions.iter().map(|q| q.candidates.len()).sum::<usize>(), 5966);
    assert!(questions.iter().all(|q| q.answerable == Some(true)));
    // The supporting paragraphs are those of the steps, in their order.
    for question in &questions {
        let steps: Vec<&str> = question
            .decomposition
            .iter()
            .map(|step| question.candidates[step.support.unwrap() as usize].title.as_str())
            .collect();
        let gold: Vec<&str> = question.gold.iter().map(|gold| gold.title.as_deref().unwrap()).collect();
        assert_eq!(gold, steps, "{}", question.id);
    }
    assert_eq!(questions[0].answers, ["G. Stanley Hall", "Stanley Hall"]);
    assert_eq!(questions[0].kind.as_deref(), Some("2hop"));
}

#[test]
fn strategyqa() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("strategyqa/dev.json.gz"), Format::StrategyQa);
    assert_eq!(questions.len(), 229);
    assert!(questions.iter().all(|q| matches!(q.answers.as_slice(), [a] if a == "yes" || a == "no")));
    let first = &questions[0];
    let ids: Vec<&str> = first.gold.iter().map(|gold| gold.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["Albany, Georgia-1", "Albany, New York-2", "Albany, Georgia-35"]);
    assert_eq!(first.gold_sets, [vec![0, 1], vec![2, 1], vec![0, 1]]);
    assert_eq!(first.decomposition[0].evidence, ["Albany, Georgia-1", "Albany, Georgia-35"]);
    let all: BTreeSet<_> = questions.iter().flat_map(|q| &q.gold).filter_map(|gold| gold.id.as_deref()).collect();
    assert_eq!(all.len(), 998);
}

#[test]
fn iirc() {
    let Some(data) = data() else { return };
    let questions = read(&data.join("iirc/dev_300_with_predictions.jsonl.gz"), Format::Iirc);
    assert_eq!(
        tally(&questions, |q| q.answer_kind.as_deref().unwrap()),
        [("binary", 26), ("none", 82), ("number", 55), ("spans", 137)]
    );
    assert_eq!(questions.iter().filter(|q| q.answerable == Some(false)).count(), 82);
    // Answers of several spans, as the measure of DROP's script reads them.
    let several: Vec<&Question> = questions.iter().filter(|q| !q.answer_spans.is_empty()).collect();
    assert_eq!((several.len(), several[0].answers[0].as_str()), (10, r#"["Blackjack ", "Worlds Apart"]"#));
    for question in several {
        assert_eq!(serde_json::from_str::<Vec<String>>(&question.answers[0]).unwrap(), question.answer_spans);
    }
    assert_eq!(questions[0].answers, ["Switzerland"]);
    assert_eq!(questions[0].links, ["university of geneva"]);
    assert_eq!(questions[0].gold[0].title.as_deref(), Some("university of geneva"));
    assert!(questions[0].context.as_ref().unwrap().text.starts_with("Bain was born"));
}

#[test]
fn open_domain() {
    let Some(data) = data() else { return };
    let nq = read(&data.join("nq/dev_500.jsonl.gz"), Format::Nq);
    assert_eq!((nq.len(), nq.iter().map(|q| q.answers.len()).sum::<usize>()), (500, 636));
    let trivia = read(&data.join("triviaqa/dev_500.jsonl.gz"), Format::TriviaQa);
    assert_eq!((trivia.len(), trivia.iter().map(|q| q.answers.len()).sum::<usize>()), (500, 6575));
}

#[test]
fn every_json_file_is_cut_into_its_records() {
    let Some(data) = data() else { return };
    for (name, expected) in [
        ("efficientrag_labels/labeler_musique.jsonl.gz", 422),
        ("efficientrag_labels/filter_musique_train.jsonl.gz", 557),
        ("recorded/search_trajectories_hotpotqa.jsonl.gz", 200),
        ("recorded/decomposition_trees_hotpotqa.jsonl.gz", 200),
        ("recorded/decomposition_trees_musique.jsonl.gz", 200),
        ("hotpotqa_first500/bm25_okapi_top50.jsonl.gz", 500),
        ("hotpotqa_first500/minilm_dense_top50.jsonl.gz", 500),
    ] {
        let mut records = RecordReader::open(&data.join(name)).unwrap();
        let mut count = 0;
        while let Some(record) = records.next().unwrap() {
            serde_json::from_slice::<serde_json::Value>(record.bytes).unwrap();
            count += 1;
        }
        assert_eq!(count, expected, "{name}");
    }
}

#[test]
fn corpora() {
    let Some(data) = data() else { return };
    for (name, expected) in [
        ("hotpotqa/corpus.jsonl.gz", 12_392),
        ("hotpotqa_first500/corpus.jsonl.gz", 4_937),
        ("musique/corpus.jsonl.gz", 4_773),
        ("2wikimultihopqa/corpus.jsonl.gz", 3_112),
        ("strategyqa/corpus.jsonl.gz", 998),
    ] {
        let mut passages = Passages::open(&PassageSpec::file(data.join(name)), RowPolicy::Strict).unwrap();
        assert_eq!(passages.format(), PassageFormat::Titled);
        let all: Vec<PassageRecord> = passages.by_ref().map(|passage| passage.unwrap()).collect();
        assert_eq!(all.len(), expected, "{name}");
        assert!(all.iter().all(|passage| !passage.title.is_empty() && !passage.text.is_empty()));
        assert_eq!(all.iter().all(|passage| passage.id.is_some()), name.starts_with("strategyqa"));
    }
}

/// A split's contexts are the passages of its pooled corpus.
#[test]
fn contexts_are_the_pooled_corpora() {
    let Some(data) = data() else { return };
    for (questions, corpus) in [
        ("hotpotqa/dev_1267.json.gz", "hotpotqa/corpus.jsonl.gz"),
        ("2wikimultihopqa/train_500.json.gz", "2wikimultihopqa/corpus.jsonl.gz"),
        ("musique/train_299.jsonl.gz", "musique/corpus.jsonl.gz"),
    ] {
        let pool = |name: &str, format| {
            let passages = Passages::open(&PassageSpec::file(data.join(name)), RowPolicy::Strict).unwrap();
            assert_eq!(passages.format(), format);
            passages.map(|passage| passage.map(|p| (p.title, p.text)).unwrap()).collect::<BTreeSet<_>>()
        };
        let contexts = pool(questions, PassageFormat::Contexts);
        let corpus = pool(corpus, PassageFormat::Titled);
        let (ours, theirs) = (contexts.difference(&corpus).count(), corpus.difference(&contexts).count());
        assert_eq!((ours, theirs), (0, 0), "{questions}");
    }
}
