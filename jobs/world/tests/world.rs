//! The promises of a world: always the same bytes, disjoint splits, nothing held out in `train`, links that resolve,
//! questions answered by their gold passages.

use std::collections::{BTreeMap, BTreeSet};

use hopeval_world::record::{Passage, Question};
use hopeval_world::{World, WorldError, WorldSettings, WorldSplit, generate_world, verify_question};

#[expect(clippy::unwrap_used, reason = "a panic here is the test's report")]
fn world(questions: u64, passages: u64, split: WorldSplit) -> World {
    World::new(WorldSettings { candidate_texts: false, ..WorldSettings::new(questions, passages, 7, split) }).unwrap()
}

/// These digests freeze the generator (`train`, `eval`). A change of either is a new generator, and models trained on
/// worlds of the old one are void.
const DIGESTS: [&str; 2] = [
    "2f99818dfeafe7223f94965244e5906a0f6c6b57ebcc80cdd12ac191b6cf92f1",
    "32a3fbd62a345da98b066dfeab31984bfb15b6dacb2b1f7eca79b0ce5773c176",
];

#[test]
fn the_generator_is_frozen() {
    let digests = [WorldSplit::Train, WorldSplit::Eval].map(|split| {
        let folder = tempfile::tempdir().unwrap();
        let mut last = None;
        let settings = WorldSettings::new(50, 400, 3, split);
        let report = generate_world(&settings, folder.path(), |progress| last = Some(progress)).unwrap();
        assert_eq!(last.map(|p| (p.stage, p.done, p.total)), Some(("questions", 50, 50)));
        let questions = std::fs::read_to_string(&report.questions).unwrap();
        let corpus = std::fs::read_to_string(&report.corpus).unwrap();
        assert_eq!((questions.len() + corpus.len()) as u64, report.bytes);
        let questions: Vec<Question> = questions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let corpus: Vec<Passage> = corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((questions.len(), corpus.len()), (50, 400));
        // Any question and any passage can be made alone: there is no state between them.
        let world = World::new(settings).unwrap();
        assert_eq!(world.question(41).unwrap(), questions[41]);
        assert_eq!(world.passage(399), corpus[399]);
        assert_eq!(world.passage_by_id(&corpus[17].id).as_ref(), Some(&corpus[17]));
        report.digest
    });
    assert_eq!(digests, DIGESTS);
}

#[test]
fn questions_are_answerable_and_annotated_truly() {
    for split in [WorldSplit::Train, WorldSplit::Eval] {
        let world = world(2000, 5000, split);
        let mut kinds: BTreeMap<(String, u32), u32> = BTreeMap::new();
        let mut yes_and_no = [0, 0];
        for question in world.questions() {
            let question = question.unwrap();
            let gold: Vec<Passage> = question.gold.iter().map(|g| world.passage_by_id(&g.id).unwrap()).collect();
            if let Err(flaw) = verify_question(&question, &gold) {
                panic!("{flaw}\n{question:#?}\n{gold:#?}");
            }
            assert_eq!(question.hops as usize, gold.len());
            assert!(gold.iter().zip(&question.gold).all(|(p, g)| p.title == g.title));
            let candidates: BTreeSet<&str> = question.candidates.iter().map(|c| c.id()).collect();
            assert_eq!(candidates.len(), 10, "distinct candidates");
            let answer = question.answers[0].as_str();
            assert!(question.rationale.ends_with(&format!("So the answer is: {answer}.")));
            match answer {
                "yes" => yes_and_no[0] += 1,
                "no" => yes_and_no[1] += 1,
                _ => {}
            }
            *kinds.entry((question.kind, question.hops)).or_default() += 1;
        }
        let names: Vec<_> = kinds.keys().map(|(kind, hops)| (kind.as_str(), *hops)).collect();
        assert_eq!(names, [("bridge", 2), ("bridge", 3), ("bridge", 4), ("bridge_comparison", 4), ("comparison", 2)]);
        assert!(yes_and_no.iter().all(|&n| n > 50), "{yes_and_no:?}");
    }
}

#[test]
fn titles_and_ids_are_unique_and_links_resolve() {
    for split in [WorldSplit::Train, WorldSplit::Eval] {
        let world = world(0, 6000, split);
        let passages: Vec<Passage> = world.passages().collect();
        let titles: BTreeSet<&str> = passages.iter().map(|p| p.title.as_str()).collect();
        let ids: BTreeSet<&str> = passages.iter().map(|p| p.id.as_str()).collect();
        assert_eq!((titles.len(), ids.len()), (6000, 6000));
        let mut links = 0;
        for passage in &passages {
            assert_eq!(passage.sentences.last().copied(), Some(passage.text.len() as u32));
            assert!(passage.sentences.is_sorted());
            for n in 0..passage.sentences.len() {
                let sentence = passage.sentence(n).unwrap();
                assert!(
                    sentence.ends_with('.') && !sentence.starts_with(|c: char| c.is_ascii_lowercase()),
                    "{sentence}"
                );
                assert!(!sentence.contains(['{', '}']), "{sentence}");
            }
            for link in &passage.links {
                assert!(titles.contains(link.title.as_str()), "{} links to {}", passage.title, link.title);
                let anchor = &passage.text[link.start as usize..link.end as usize];
                let bare = link.title.split([',', '(']).next().unwrap().trim();
                // A person's given names may be an initial.
                let short = bare.rsplit(' ').next().map(|surname| format!("{}. {surname}", &bare[..1]));
                assert!(anchor.starts_with(bare) || Some(anchor) == short.as_deref(), "{anchor} for {}", link.title);
                links += 1;
            }
        }
        assert!(links > 6000, "{links}");
        let bare: BTreeSet<&str> = titles.iter().map(|t| t.split([',', '(']).next().unwrap_or(t).trim()).collect();
        assert!(bare.len() < 5700, "names collide: {} of 6000 are distinct", bare.len());
    }
}

#[test]
fn the_splits_share_no_title_and_no_bare_name() {
    let names = |split| -> BTreeSet<String> {
        world(0, 8000, split)
            .passages()
            .map(|p| p.title.split([',', '(']).next().unwrap_or_default().trim().to_owned())
            .collect()
    };
    let (train, eval) = (names(WorldSplit::Train), names(WorldSplit::Eval));
    assert!(train.is_disjoint(&eval), "{:?}", train.intersection(&eval).collect::<Vec<_>>());
}

#[test]
fn what_is_held_out_occurs_in_eval_only() {
    let strata = |split| {
        let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
        for question in world(1500, 4000, split).questions() {
            for (stratum, value) in question.unwrap().strata {
                *counts.entry((stratum, value)).or_default() += 1;
            }
        }
        counts
    };
    let (train, eval) = (strata(WorldSplit::Train), strata(WorldSplit::Eval));
    for stratum in ["relations", "templates", "paraphrases"] {
        let share = |counts: &BTreeMap<(String, String), u32>, value: &str| {
            counts.get(&(stratum.to_owned(), value.to_owned())).copied().unwrap_or(0)
        };
        assert_eq!((share(&train, "held_out"), share(&train, "seen")), (0, 1500), "{stratum}");
        assert!(share(&eval, "held_out") > 400 && share(&eval, "seen") > 400, "{stratum}: {eval:?}");
    }
    // The words do not occur in `train` either: one held-out relation, paraphrase and template each, with unique words.
    let train = world(1500, 4000, WorldSplit::Train);
    let passages: String = train.passages().map(|p| p.text).collect();
    for words in ["mayor", "kilometres long", "publisher", "had its premiere", "came from the pen", "took a degree"] {
        assert!(!passages.contains(words), "{words}");
    }
    for question in train.questions() {
        let text = question.unwrap().text;
        for words in ["mayor", "came into the world", "come into the world", "see the light", "filmmaker"] {
            assert!(!text.contains(words), "{text}");
        }
    }
}

#[test]
fn settings_out_of_range_name_the_field_and_what_is_allowed() {
    let message = |settings: WorldSettings| World::new(settings).unwrap_err().to_string();
    let base = WorldSettings::new(10, 400, 1, WorldSplit::Train);
    assert_eq!(
        message(WorldSettings { passages: 399, ..base }),
        "world setting `passages` is 399, but must be at least 400 and at most 3000000"
    );
    assert!(message(WorldSettings { candidates: 3, ..base }).contains("`candidates`"));
    let mix = hopeval_world::QuestionMix { two_hop: 0, three_hop: 0, four_hop: 0, comparison: 0, bridge_comparison: 0 };
    assert!(message(WorldSettings { mix, ..base }).contains("mix"));
    assert!(matches!("dev".parse::<WorldSplit>(), Err(WorldError::UnknownSplit { .. })));
}

#[test]
fn the_largest_world_still_makes_any_passage_and_question() {
    let world = world(u64::MAX, WorldSettings::MOST_PASSAGES, WorldSplit::Eval);
    let titles: BTreeSet<String> =
        (0..300).map(|n| world.passage(n * (WorldSettings::MOST_PASSAGES / 300)).title).collect();
    assert_eq!(titles.len(), 300);
    let question = world.question(123_456_789_012).unwrap();
    let gold: Vec<Passage> = question.gold.iter().map(|g| world.passage_by_id(&g.id).unwrap()).collect();
    assert_eq!(verify_question(&question, &gold), Ok(()));
}
