//! The rows of small questions, word for word.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "support/indexed_corpus.rs"]
mod indexed_corpus;

use hopeval_construct::{
    ConstructReport, ConstructSettings, FilterRow, KeptWords, LabelerRow, QuestionRows, question_rows,
};
use hopeval_datasets::{GoldPassage, PassageRecord, Question, SubQuestion};
use indexed_corpus::IndexedCorpus;
use std::collections::BTreeSet;

fn passage(id: &str, title: &str, sentences: &[&str]) -> PassageRecord {
    PassageRecord { id: Some(id.to_owned()), ..PassageRecord::from_sentences(title.to_owned(), sentences, " ") }
}

fn passages() -> Vec<PassageRecord> {
    vec![
        passage(
            "film",
            "The Shining",
            &["The Shining is a 1980 film.", "It was directed by Stanley Kubrick, in England."],
        ),
        passage("man", "Stanley Kubrick", &["Stanley Kubrick was born in New York.", "He died in 1999."]),
        passage("other", "The Shining (novel)", &["The Shining is a novel by Stephen King."]),
        passage("far", "Ironville", &["Ironville was born of iron."]),
    ]
}

fn step(question: &str, answer: &str, support: u32) -> SubQuestion {
    SubQuestion {
        question: question.to_owned(),
        answer: Some(answer.to_owned()),
        support: Some(support),
        ..SubQuestion::default()
    }
}

fn two_hops() -> Question {
    Question {
        id: "q".to_owned(),
        text: "Where was the director of the film The Shining, known for mazes, born?".to_owned(),
        answers: vec!["New York".to_owned()],
        candidates: passages(),
        decomposition: vec![
            step("Who directed The Shining?", "Stanley Kubrick", 0),
            step("Where was #1 born?", "New York", 1),
        ],
        ..Question::default()
    }
}

const ANSWER: ConstructSettings =
    ConstructSettings { seed: 1, k: 10, negatives: 1, random_negatives: 0, keep: KeptWords::Answer };

fn made(question: &Question, settings: &ConstructSettings) -> (QuestionRows, ConstructReport) {
    made_on(passages(), question, settings)
}

fn made_on(
    corpus: Vec<PassageRecord>,
    question: &Question,
    settings: &ConstructSettings,
) -> (QuestionRows, ConstructReport) {
    let indexed = IndexedCorpus::from_passages(corpus);
    let mut report = ConstructReport::default();
    (question_rows(question, &mut indexed.library(), settings, &mut report), report)
}

fn labelled(row: &LabelerRow) -> (i32, &str, &str, &str, &str) {
    (row.hop, row.question.as_str(), row.passage.as_str(), row.matched.as_str(), row.tag)
}

/// The words with those kept in brackets.
fn shown(row: &FilterRow) -> String {
    let words = row.query_info_tokens.iter().zip(&row.query_info_labels);
    words.map(|(word, kept)| if *kept { format!("[{word}]") } else { word.clone() }).collect::<Vec<_>>().join(" ")
}

#[test]
fn two_hops_make_two_queries() {
    let (rows, report) = made(&two_hops(), &ANSWER);
    let question = "Where was the director of the film The Shining, known for mazes, born?";
    let labels: Vec<_> = rows.labeler.iter().map(labelled).collect();
    assert_eq!(
        labels,
        [
            (0, question, "film", "Stanley Kubrick", "<CONTINUE>"),
            (0, question, "other", "", "<TERMINATE>"),
            (1, "Where was born ? Stanley Kubrick", "man", "New York", "<FINISH>"),
            (1, "Where was born ? Stanley Kubrick", "far", "", "<TERMINATE>"),
        ]
    );
    assert_eq!(
        rows.labeler[0].chunk,
        "The Shining: The Shining is a 1980 film. It was directed by Stanley Kubrick, in England."
    );
    let kept: Vec<usize> = (0..rows.labeler[0].labels.len()).filter(|&at| rows.labeler[0].labels[at]).collect();
    assert_eq!(kept, [14, 15]);
    assert_eq!(rows.labeler[0].chunk_tokens.len(), rows.labeler[0].labels.len());
    let filters: Vec<String> = rows.filter.iter().map(shown).collect();
    let filter = "Query : [Where] [was] the director of the film The Shining known for mazes [born] [?] Info : \
                  [Stanley] [Kubrick]";
    assert_eq!(filters, [filter]);
    assert_eq!(report.tags.values().sum::<u64>(), 4);
    assert_eq!((report.questions, report.skipped.len(), report.cut_short.len()), (1, 0, 0));
    let words = rows.labeler[0].labels.len() + rows.labeler[2].labels.len();
    assert_eq!((report.gold_words, report.kept_words), (words as u64, 4));
    let encoder: Vec<(&str, &str)> = rows.encoder.iter().map(|row| (row.query.as_str(), &row.positive[..7])).collect();
    assert_eq!(encoder, [(question, "The Shi"), ("Where was born ? Stanley Kubrick", "Stanley")]);
}

#[test]
fn subjects_are_kept_but_not_in_the_next_query() {
    let (rows, _) = made(&two_hops(), &ConstructSettings::default());
    assert_eq!(rows.labeler[0].matched, "The Shining Stanley Kubrick", "the title's name, which the sub-question has");
    assert_eq!(rows.labeler[2].matched, "Stanley Kubrick New York", "the answer that the second hop needs");
    assert_eq!(rows.labeler[0].labels[..2], [true, true], "where it first stands: in the title");
    assert!(shown(&rows.filter[0]).ends_with("Info : The Shining [Stanley] [Kubrick]"), "{}", shown(&rows.filter[0]));
    let mut question = two_hops();
    question.decomposition[0].question = "The Shining >> director".to_owned();
    assert_eq!(made(&question, &ConstructSettings::default()).0.labeler[0].matched, "The Shining Stanley Kubrick");
}

#[test]
fn triples_of_two_branches_go_on_side_by_side() {
    let question = Question {
        id: "q".to_owned(),
        text: "Which film has the director who died first, The Shining or The Shining (novel)?".to_owned(),
        answers: vec!["The Shining".to_owned()],
        candidates: passages(),
        gold: ["The Shining", "The Shining (novel)", "Stanley Kubrick", "Ironville"]
            .map(|title| GoldPassage { title: Some(title.to_owned()), ..GoldPassage::default() })
            .to_vec(),
        evidences: [
            ["The Shining", "director", "Stanley Kubrick"],
            ["The Shining (novel)", "author", "Stephen King"],
            ["Stanley Kubrick", "date of death", "1999"],
            ["Ironville", "date of death", "unknown"],
        ]
        .map(|triple| triple.map(str::to_owned))
        .to_vec(),
        kind: Some("bridge_comparison".to_owned()),
        ..Question::default()
    };
    let (rows, report) = made(&question, &ANSWER);
    let first: Vec<(&str, &str)> =
        rows.labeler.iter().filter(|row| row.hop == 0).map(|row| (row.matched.as_str(), row.tag)).collect();
    assert_eq!(first, [("Stanley Kubrick", "<CONTINUE>"), ("Stephen King", "<CONTINUE>")], "all passages are gold");
    assert_eq!(rows.filter.len(), 1);
    assert!(shown(&rows.filter[0]).ends_with("Info : [Stanley] [Kubrick] ; Info : [Stephen] [King]"));
    let second: Vec<&LabelerRow> = rows.labeler.iter().filter(|row| row.hop == 1).collect();
    assert!(second[0].question.ends_with("? Stanley Kubrick Stephen King"), "{}", second[0].question);
    assert_eq!((second[0].matched.as_str(), second[0].tag), ("1999", "<FINISH>"));
    assert_eq!((second[1].matched.as_str(), second[1].labels.contains(&true)), ("", false));
    assert_eq!((report.gold_without_span, report.hops_without_negative), (1, 2));
}

#[test]
fn what_cannot_be_used_is_counted() {
    let reason = |question: &Question| {
        let (rows, report) = made(question, &ConstructSettings::default());
        assert_eq!(rows, QuestionRows::default());
        assert_eq!((report.questions, report.skipped.values().sum::<u64>()), (1, 1));
        report.skipped.into_keys().next().unwrap()
    };
    let bare = Question { answers: vec!["x".to_owned()], ..Question::default() };
    assert!(reason(&bare).starts_with("no decomposition and no evidences"));
    assert_eq!(reason(&Question { answers: Vec::new(), ..two_hops() }), "no answer");
    let with = |change: &dyn Fn(&mut SubQuestion)| {
        let mut question = two_hops();
        change(&mut question.decomposition[0]);
        question
    };
    assert_eq!(reason(&with(&|step| step.answer = None)), "a step without an answer");
    assert_eq!(reason(&with(&|step| step.support = None)), "a step without a passage");
    assert_eq!(reason(&with(&|step| step.support = Some(9))), "a step without a passage");
    assert_eq!(reason(&with(&|step| step.question = "Who is #2?".to_owned())), "a step that refers to none before it");
    assert_eq!(reason(&with(&|step| step.question = "Who is #0?".to_owned())), "a step that refers to none before it");
    let elsewhere = with(&|step| (step.support, step.evidence) = (None, vec!["nowhere".to_owned()]));
    assert_eq!(reason(&elsewhere), "a gold passage without text");

    let lost = with(&|step| step.answer = Some("Ridley Scott".to_owned()));
    let (rows, report) = made(&lost, &ConstructSettings::default());
    assert_eq!(report.cut_short.into_iter().next(), Some(("an answer that its passage does not have", 1)));
    assert!(rows.filter.is_empty() && rows.labeler.iter().all(|row| row.hop == 0));
    assert_eq!(rows.reader[0].answer, "New York", "the last answer is still there to be read");
}

/// One passage for two steps of a hop has only one of the answers: the next query would lack the other.
#[test]
fn an_answer_that_is_lost_beside_another_is_counted() {
    let both = |second: &str| Question {
        text: "Were the director and the place of The Shining older than Stephen King?".to_owned(),
        decomposition: vec![
            step("Who directed The Shining?", "Stanley Kubrick", 0),
            step("Where was The Shining made?", second, 0),
            step("Is #1 of #2 older?", "New York", 1),
        ],
        ..two_hops()
    };
    let hops = |rows: &QuestionRows| rows.labeler.iter().map(|row| row.hop).max();
    let (rows, report) = made(&both("England"), &ANSWER);
    assert_eq!((hops(&rows), rows.filter.len(), report.cut_short.len()), (Some(1), 1, 0));
    assert_eq!(rows.labeler[0].matched, "Stanley Kubrick England");
    let (rows, report) = made(&both("Oregon"), &ANSWER);
    assert_eq!((hops(&rows), rows.filter.len()), (Some(0), 0));
    assert_eq!(rows.labeler[0].matched, "Stanley Kubrick");
    assert_eq!(report.cut_short.into_iter().next(), Some(("an answer that its passage does not have", 1)));
}

/// Another dump of the same encyclopaedia has the article in other words, and in two pieces: both may be gold.
#[test]
fn a_gold_passage_in_other_words_is_no_negative() {
    let mut corpus = passages();
    corpus.retain(|record| record.title != "The Shining");
    corpus.push(passage("1", "The Shining", &["The Shining (1980) is a film, known for mazes."]));
    corpus.push(passage("2", "The Shining", &["Its director was Stanley Kubrick, born in New York."]));
    let settings = ConstructSettings { negatives: 9, ..ANSWER };
    let (rows, report) = made_on(corpus, &two_hops(), &settings);
    let wrong: BTreeSet<&str> =
        rows.labeler.iter().filter(|row| row.tag == "<TERMINATE>").map(|row| row.passage.as_str()).collect();
    assert_eq!(wrong, BTreeSet::from(["other", "far"]));
    assert_eq!(report.negatives_with_answer, Some(0));
    let listed = rows.encoder.iter().flat_map(|row| &row.negatives);
    assert!(listed.filter(|negative| negative.starts_with("The Shining: ")).count() == 0);
}

#[test]
fn paths_and_contexts() {
    let (rows, report) = made(&two_hops(), &ConstructSettings::default());
    let first = |text: &String| text.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let paths: Vec<(Vec<String>, i8)> =
        rows.scorer.iter().map(|row| (row.path.iter().map(first).collect(), row.relevance)).collect();
    let path = |texts: &[&str], relevance: i8| (texts.iter().map(|text| (*text).to_owned()).collect(), relevance);
    let (film, man, novel, far) = ("The Shining is", "Stanley Kubrick was", "The Shining is", "Ironville was born");
    assert_eq!(
        paths,
        [
            path(&[film], 1),
            path(&[man], 1),
            path(&[film, man], 2),
            path(&[novel], 0),
            path(&[far], 0),
            path(&[film, far], 0),
        ],
        "the first passage links to gold alone, so paths end wrong in what the second hop's query finds"
    );
    assert_eq!(rows.reader[0].passages.len(), 2);
    assert_eq!((rows.reader[0].answer.as_str(), rows.reader[0].relevance), ("New York", 1));
    assert_eq!((rows.reader[1].answer.as_str(), rows.reader[1].relevance), ("", 0));
    assert_eq!(report.answers_not_found, Some(0));
    let answered = |answer: &str| {
        let question = Question { answers: vec![answer.to_owned()], ..two_hops() };
        let (rows, report) = made(&question, &ConstructSettings::default());
        let right = rows.reader.iter().find(|row| row.relevance == 1);
        (right.map(|row| row.answer.clone()), report.answers_not_found)
    };
    assert_eq!(answered("No"), (Some("no".to_owned()), Some(0)));
    assert_eq!(answered("Boston"), (None, Some(1)));
}

#[test]
fn chance_is_the_seeds() {
    let with = |seed| ConstructSettings { seed, negatives: 0, random_negatives: 1, ..ConstructSettings::default() };
    let names = |seed| {
        let question = Question { text: "Zzz?".to_owned(), ..two_hops() };
        let (rows, _) = made(&question, &with(seed));
        rows.labeler.into_iter().map(|row| row.passage).collect::<Vec<_>>()
    };
    assert_eq!(names(1), names(1));
    assert!((2..12).any(|seed| names(seed) != names(1)));
    // Each of the two hops finds gold alone. Two passages are left to draw.
    let missing = |random_negatives: usize| {
        let settings = ConstructSettings { random_negatives, ..with(1) };
        made(&Question { text: "Zzz?".to_owned(), ..two_hops() }, &settings).1.random_negatives_missing
    };
    assert_eq!((missing(0), missing(1), missing(3)), (None, Some(0), Some(2)));
}
